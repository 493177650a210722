"""Quotas per owner, and the audit entry of every change."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import httpx
import pytest

from app.services.access import keys
from app.services.model_sets import making
from app.settings import QUOTAS, Settings
from app.store.access import quotas
from app.store.access.quotas import stored_bytes
from app.store.engine import session_scope
from app.store.tables import ApiKey, AuditEntry, Base
from sampler.storage.model_file import MEDIA_TYPE
from tests.support.api_calls import CSV, bearer, make_key, post_csv, problem, table
from tests.support.databases import only
from tests.support.fuzzing.model_files import taken_apart
from tests.support.models.fitted_models import SMALL, run_units
from tests.support.models.random_posteriors import make_posterior
from tests.support.processes import plain_http
from tests.support.processes.api_server import serving
from tests.support.routes import guarded_routes


@contextmanager
def limited(settings, database, **quotas):
    """Return a team service with those quotas, and clients of two owners."""
    changed = settings.model_copy(update={"host": "0.0.0.0"} | quotas)
    ann, bob = (bearer(make_key(database, name)) for name in ("ann", "bob"))
    with (
        serving(changed) as address,
        plain_http.Client(base_url=address, timeout=60, headers=ann) as anns,
        plain_http.Client(base_url=address, timeout=60, headers=bob) as bobs,
    ):
        yield anns, bobs


def refused(response: httpx.Response, slug: str = "quota") -> str:
    """Return the detail of a 429 after checking its Retry-After."""
    body = problem(response, 429, slug)
    assert 1 <= int(response.headers["retry-after"]) <= 3600
    return body["detail"]


def fit(client: httpx.Client, dataset_id: str, **more) -> httpx.Response:
    return client.post("/models", json={"dataset_id": dataset_id, "target": "y"} | SMALL | more)


def test_stored_bytes(settings, database):
    """An upload or fit beyond the quota is refused; deleting makes room; other owners are unaffected."""
    with limited(settings, database, quota_stored_bytes=40_000) as (ann, bob):
        first = post_csv(ann, table(300)).json()
        outcome = ""
        for _ in range(20):
            if (response := post_csv(ann, table(300))).status_code != 201:
                outcome = refused(response)
                break
        assert "delete what you don't need" in outcome
        assert "39.1 KiB" in outcome
        assert post_csv(bob, table(300)).status_code == 201
        refused(fit(ann, first["id"], num_trees=200, num_draws=1000))
        for item in ann.get("/datasets").json()["items"][1:]:
            ann.delete(f"/datasets/{item['id']}")
        left = ann.get("/datasets").json()["items"][0]["id"]
        assert fit(ann, left).status_code == 202
        assert len(ann.get("/models").json()["items"]) == 1  # the refused request left nothing


@only("sqlite")
@pytest.mark.slow
def test_answers_kept_for_repetitions_count_as_stored(settings, database):
    """Idempotency keys beyond the quota are refused, as other storage is."""
    with limited(settings, database, quota_stored_bytes=40_000) as (ann, _):
        dataset = post_csv(ann, table(20)).json()["id"]
        body = {"dataset_id": dataset, "target": "y"} | SMALL
        model = ann.post("/models", json=body).json()["id"]
        ann.post(f"/models/{model}/cancel")
        answers = []
        for number in range(30):
            answers.append(ann.post("/models", json=body, headers={"Idempotency-Key": f"{number}"}))
            if answers[-1].status_code != 202:
                break
            ann.delete(f"/models/{answers[-1].json()['id']}")
        assert 1 < len(answers) < 30
        refused(answers[-1])


def test_draws_count_as_stored(settings, database):
    """The draws of a finished model count as stored bytes until it is deleted."""
    with limited(settings, database, quota_stored_bytes=26_000) as (ann, _):
        model = fit(ann, post_csv(ann, table()).json()["id"], num_trees=5).json()
        run_units(settings)
        assert ann.get(f"/models/{model['id']}").json()["state"] == "succeeded"
        statuses = [post_csv(ann, table(60)).status_code for _ in range(8)]
        assert statuses[-1] == 429
        assert ann.delete(f"/models/{model['id']}").status_code == 204
        assert post_csv(ann, table(60)).status_code == 201


@pytest.mark.slow
def test_the_header_of_a_model_file_counts_as_stored(settings, database):
    """All of an imported file counts as stored, including a header larger than its draws."""
    file = taken_apart(make_posterior()[0].to_bytes())
    file.text["warnings"] = ["x" * 60_000]
    with limited(settings, database, quota_stored_bytes=100_000) as (ann, _):
        send = partial(ann.post, "/models", content=file.to_bytes(), headers={"Content-Type": MEDIA_TYPE})
        first = send()
        assert first.status_code == 201
        refused(send())
        assert ann.delete(first.headers["location"]).status_code == 204
        assert send().status_code == 201


# What no quota counts, and why.
UNCOUNTED = {
    "dataset_blocks": "counted as the size of their dataset",
    "outcomes": "counted as the rows of their report",
    "sessions": "a few of each key, for a time",
    "api_keys": "made by whoever runs the service",
    "audit_entries": "a line for each change, for whoever runs the service; requests have a rate",
    "workers": "of the service itself",
}


def test_every_table_counts_as_stored():
    """A new table is counted as its owner's, or named above with the reason why not."""
    counted = {table.__tablename__ for table in quotas.OWNED}
    counted |= {part.__tablename__ for part, _, _ in quotas.PARTS}
    assert counted | set(UNCOUNTED) == set(Base.metadata.tables)
    assert not counted & set(UNCOUNTED)


@pytest.mark.both_databases
@pytest.mark.sampled(quick=1)
def test_sets_of_models_store_no_more_than_was_promised(settings, database):
    """Sets are accepted as long as the rows and models of all of their groups fit, and then they do."""
    most = 400_000
    kinds = [f"{row},{row % 4},{row % 3 == 0},town {row % 3},2026-01-{row % 28 + 1:02}" for row in range(48)]
    with limited(settings, database, quota_stored_bytes=most) as (ann, _):
        dataset = post_csv(ann, "\n".join(["y,shop,open,town,day", *kinds])).json()["id"]
        body = {"dataset_id": dataset, "target": "y", "by": "shop", "holdout": 0.2} | SMALL
        answers = [ann.post("/model-sets", json=body | {"seed": seed}) for seed in range(6)]
        assert [answer.status_code for answer in answers] == [202] + [429] * 5, answers[-1].text
        with session_scope(database.engine, read_only=True) as session:
            before = stored_bytes(session, "ann")
        while making.run_due(database.engine, settings):
            run_units(settings)
        made = ann.get(answers[0].headers["location"]).json()
        assert made["progress"]["succeeded"] == 4
        with session_scope(database.engine, read_only=True) as session:
            assert before < stored_bytes(session, "ann") < most


@pytest.mark.slow
def test_deliveries_count_as_stored(settings, database):
    """Tests of a webhook end at the quota, and deleting it makes room."""
    with limited(settings, database, quota_stored_bytes=10_000) as (ann, _):
        hook = ann.post("/webhooks", json={"url": "https://example.org"}).json()["id"]
        answers = [ann.post(f"/webhooks/{hook}/test") for _ in range(60)]
        assert answers[0].status_code == 202
        refused(answers[-1])
        assert ann.delete(f"/webhooks/{hook}").status_code == 204
        hook = ann.post("/webhooks", json={"url": "https://example.org"}).json()["id"]
        assert ann.post(f"/webhooks/{hook}/test").status_code == 202


def test_queued_fits(settings, database):
    """Exactly the allowed number of fits, predictions and studies is accepted, even concurrently."""
    with limited(settings, database, quota_queued=3) as (ann, bob):
        dataset = post_csv(ann, table()).json()["id"]
        model = fit(ann, dataset).json()["id"]
        run_units(settings)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: fit(ann, dataset), range(8)))
        assert sorted(answer.status_code for answer in answers) == [202] * 3 + [429] * 5
        assert "wait for one to end" in refused(next(a for a in answers if a.status_code == 429))
        refused(ann.post(f"/models/{model}/predictions", json={"dataset_id": dataset}))
        refused(ann.post(f"/models/{model}/studies", json={}))
        refused(ann.post(f"/models/{model}/extend", json={"num_draws": 5}))
        assert fit(bob, post_csv(bob, table()).json()["id"]).status_code == 202
        open_one = next(a.json()["id"] for a in answers if a.status_code == 202)
        assert ann.post(f"/models/{open_one}/cancel").status_code == 200
        prediction = ann.post(f"/models/{model}/predictions", json={"dataset_id": dataset})
        assert prediction.status_code == 202
        assert ann.post(f"/predictions/{prediction.json()['id']}/cancel").status_code == 200
        study = ann.post(f"/models/{model}/studies", json={})
        assert study.status_code == 202
        refused(ann.post(f"/models/{model}/predictions", json={"dataset_id": dataset}))


@pytest.mark.slow
def test_studies_count_as_stored(settings, database):
    """A study counts as stored until it is deleted; one that would exceed the quota is refused."""
    with limited(settings, database, quota_stored_bytes=60_000) as (ann, _):
        model = fit(
            ann, post_csv(ann, table()).json()["id"], num_trees=5, features=["size", "colour", "note"]
        ).json()["id"]
        run_units(settings)
        refused(ann.post(f"/models/{model}/studies", json={"permutations": 1000}))
        with session_scope(database.engine, read_only=True) as session:
            before = stored_bytes(session, "ann")
        study = ann.post(f"/models/{model}/studies", json={"permutations": 20}).json()["id"]
        run_units(settings)
        assert ann.get(f"/studies/{study}").json()["state"] == "succeeded"
        with session_scope(database.engine, read_only=True) as session:
            assert stored_bytes(session, "ann") > before + 20 * 2 * 8
        ann.delete(f"/studies/{study}")
        with session_scope(database.engine, read_only=True) as session:
            assert stored_bytes(session, "ann") == before


@only("sqlite")
def test_predictions_at_once(settings, database):
    """An owner's concurrent computations up to its quota are served, further ones get a 429."""
    with limited(settings, database, quota_predictions=1) as (ann, bob):
        model = fit(ann, post_csv(ann, table(60)).json()["id"]).json()["id"]
        run_units(settings)
        rows = [{"size": row % 19, "colour": "red"} for row in range(1000)]

        def ask(_: int) -> httpx.Response:
            return ann.post(f"/models/{model}/predict", json={"rows": rows, "mcse": True})

        dataset = post_csv(ann, table(2000)).json()["id"]
        stored = ann.post(f"/models/{model}/predictions", json={"dataset_id": dataset}).json()["id"]
        run_units(settings)

        def ask_workbook(_: int) -> httpx.Response:
            return ann.get(f"/predictions/{stored}/result", params={"format": "xlsx"})

        for each in (ask, ask_workbook):
            with ThreadPoolExecutor(6) as pool:
                answers = list(pool.map(each, range(12)))
            assert {answer.status_code for answer in answers} == {200, 429}
            for answer in answers:
                if answer.status_code == 429:
                    refused(answer)
            assert each(0).status_code == 200
        problem(bob.post(f"/models/{model}/predict", json={"rows": rows}), 404)


@only("sqlite")
def test_requests_come_too_fast(settings, database):
    """The rate limit counts an owner's requests with any of its keys, and affects no other owner."""
    with limited(settings, database, quota_requests_per_second=2) as (ann, bob):
        again = bearer(make_key(database, "second", owner="ann"))
        statuses = [ann.get("/datasets").status_code for _ in range(45)]
        assert statuses.count(200) in range(20, 41)  # a window may end in between
        for headers in ({}, again):
            response = ann.get("/datasets", headers=headers)
            if response.status_code == 429:
                assert int(response.headers["retry-after"]) <= 10
                refused(response, "too-many-requests")
        assert 429 in statuses
        assert bob.get("/datasets").status_code == 200
        assert ann.get("/health/live").status_code == 200


@only("sqlite")
def test_requests_without_a_key_come_too_fast(settings, database):
    """Requests without a valid key are limited by address and don't count against an owner."""
    slow = limited(settings, database, quota_requests_per_second=2)
    with slow as (ann, _), plain_http.Client() as stranger:
        address = f"{ann.base_url}/datasets"
        statuses = {stranger.get(address).status_code for _ in range(25)}
        statuses |= {stranger.get(address, headers={"Authorization": "Bearer x"}).status_code}
        assert statuses == {401, 429}
        assert ann.get("/datasets").status_code == 200


def test_defaults_depend_on_who_can_reach_the_service(tmp_path):
    """On loopback quotas are off by default, otherwise on; 0 turns one off."""
    here = Settings(data_dir=tmp_path)
    beyond = Settings(data_dir=tmp_path, host="0.0.0.0")
    chosen = Settings(data_dir=tmp_path, host="0.0.0.0", quota_queued=0, quota_predictions=3)

    assert {getattr(here, name) for name in QUOTAS} == {None}
    assert {name: getattr(beyond, name) for name in QUOTAS} == QUOTAS
    assert (chosen.quota_queued, chosen.quota_predictions) == (None, 3)


@only("sqlite")
def test_an_owner_reads_its_own_audit_and_an_operator_all(team, database):
    """Admins read their owner's audit log only; an operator reads all of it and nothing else."""
    headers = {
        name: bearer(make_key(database, name, scopes=[scope]))
        for name, scope in (("ann", "admin"), ("bob", "admin"), ("ops", "operator"))
    }
    for name in ("ann", "bob"):
        assert team.post("/datasets", content=table(), headers=CSV | headers[name]).status_code == 201

    def owners(name: str) -> set[str]:
        items, cursor = [], None
        while True:
            query = {"limit": 1} | ({"cursor": cursor} if cursor else {})
            page = team.get("/audit", params=query, headers=headers[name]).json()
            items += page["items"]
            if (cursor := page["next_cursor"]) is None:
                return {item["owner"] for item in items}

    assert owners("ann") == {"ann"}
    assert owners("bob") == {"bob"}
    assert owners("ops") == {"ann", "bob", "ops"}
    problem(team.get("/datasets", headers=headers["ops"]), 403, "scope-missing")


# or only sends a message, and changes nothing
COMPUTES = {
    "/models/estimate",
    "/models/{model_id}/predict",
    "/model-sets/{set_id}/predict",
    "/model-sets/{set_id}/forecast",
    "/models/{model_id}/invocations",
    "/v2/models/{model_id}/infer",
    "/v2/models/{model_id}/versions/{version}/infer",
    "/models/{model_id}/partial-dependence",
    "/models/{model_id}/shap",
    "/models/{model_id}/survival",
    "/models/{model_id}/accumulated-effects",
    "/models/{model_id}/contrast",
    "/models/{model_id}/effects",
    "/models/{model_id}/aggregate",
    "/models/{model_id}/forecast",
    "/models/{model_id}/distribution",
    "/models/{model_id}/joint",
    "/models/{model_id}/extend/estimate",
    "/webhooks/{webhook_id}/test",
    "/webhooks/{webhook_id}/deliveries/{delivery_id}/retry",
}


@pytest.mark.slow
def test_every_change_leaves_a_line(settings, database, caplog):
    """Each change is stored with actor, action, time and id, and written as an equal log line."""
    caplog.set_level(logging.INFO, "bartserve.audit")
    done: set[tuple[str, str]] = set()
    admin = make_key(database, "boss", owner="ann", scopes=["admin"])

    with limited(settings, database) as (ann, bob):

        def lines() -> list[dict]:
            items = ann.get("/audit", params={"limit": 200}, headers=bearer(admin)).json()["items"]
            return [item for item in items if not item["action"].startswith("key.")]

        def change(
            method: str,
            path: str,
            action: str,
            subject: str | None = None,
            others: tuple = (),
            of: str | None = None,
            **sent,
        ) -> dict:
            before = lines()
            ids = {
                "dataset_id": dataset,
                "model_id": of or model,
                "prediction_id": prediction,
                "study_id": study,
                "webhook_id": webhook,
                "set_id": model_set,
            }
            response = ann.request(method, path.format(**ids), **sent)
            assert response.is_success, response.text
            line, *more = lines()[: len(lines()) - len(before)]
            assert [each["action"] for each in more] == list(others)
            assert line["action"] == action
            assert (line["who"], line["owner"]) == (ann_id, "ann")
            assert line["request_id"] == response.headers["x-request-id"]
            created = response.json() if response.content else {}
            assert line["subject"] == (subject or (created.get("predictions") or [created])[-1]["id"])
            assert json.loads(caplog.records[-1].getMessage()) == line
            done.add((method, path))
            return created

        dataset = model = prediction = study = webhook = model_set = ""
        with session_scope(database.engine) as session:
            ann_id = session.query(ApiKey).filter_by(name="ann").one().id
        dataset = change("POST", "/datasets", "dataset.created", content=table(60), headers=CSV)["id"]
        amended = {"columns": {"size": {"missing": ["3"]}}}
        change("POST", "/datasets/{dataset_id}/amend", "dataset.created", json=amended)
        body = {"dataset_id": dataset, "target": "y", "name": "cars"} | SMALL
        model = change("POST", "/models", "model.created", json=body)["id"]
        change("POST", "/models/{model_id}/cancel", "model.cancelled")
        assert ann.post(f"/models/{model}/cancel").status_code == 200
        run_units(settings)
        change("POST", "/models/{model_id}/retry", "model.retried")
        run_units(settings)
        change("POST", "/models/{model_id}/extend", "model.extended", json={"num_draws": 5})
        run_units(settings)
        again = {"holdout": 0.2}
        newer = change("POST", "/models/{model_id}/refit", "model.created", json=again)
        run_units(settings)
        change("POST", "/models/{model_id}/rollback", "model.rolled_back", newer["id"], of=newer["id"])
        change("POST", "/models/{model_id}/promote", "model.promoted", model)
        every = {"every": "7d", "promote": "never"}
        change("PUT", "/models/{model_id}/schedule", "schedule.set", model, json=every)
        change("DELETE", "/models/{model_id}/schedule", "schedule.deleted", model)
        path = "/models/{model_id}/predictions"
        prediction = change("POST", path, "prediction.created", json={"dataset_id": dataset})["id"]
        change("POST", "/predictions/{prediction_id}/cancel", "prediction.cancelled")
        change("DELETE", "/predictions/{prediction_id}", "prediction.deleted", prediction)
        study = change("POST", "/models/{model_id}/studies", "study.created", json={})["id"]
        change("POST", "/studies/{study_id}/cancel", "study.cancelled")
        change("DELETE", "/studies/{study_id}", "study.deleted", study)
        path = "/models/{model_id}/outcomes"
        rows = [{"size": row, "colour": "red", "y": row / 2 + 3} for row in range(12)]
        change("POST", path, "outcomes.reported", model, json={"rows": rows})
        change("POST", f"{path}/recalibrate", "model.recalibrated", model, json={})
        change("POST", f"{path}/policy", "model.policy", model, json={"recalibrate": "off"})
        change("POST", f"{path}/refit", "model.created", json={}, others=("dataset.created",))
        change("DELETE", path, "outcomes.deleted", model)
        file = ann.get(f"/models/{model}/file").content
        kind = {"Content-Type": "application/vnd.bartserve.model"}
        change("POST", "/models", "model.imported", content=file, headers=kind)
        change("DELETE", "/models/{model_id}", "model.deleted", model)
        grouped = {"dataset_id": dataset, "target": "y", "by": "colour"}
        model_set = change("POST", "/model-sets", "model_set.created", json=grouped)["id"]
        change("POST", "/model-sets/{set_id}/cancel", "model_set.cancelled", model_set)
        shops = "".join(
            f"{2020 + m // 12}-{m % 12 + 1:02d}-01,{shop},{m % 7}\n" for shop in "ab" for m in range(36)
        )
        steps = post_csv(ann, f"month,shop,y\n{shops}").json()["id"]
        ahead = {"dataset_id": steps, "target": "y", "by": "shop", "time": "month", "horizon": 2}
        model_set = change("POST", "/model-sets", "model_set.created", json=ahead | SMALL)["id"]
        while making.run_due(database.engine, settings) or run_units(settings):
            pass
        path, each = "/model-sets/{set_id}/predictions", "prediction.created"
        change("POST", path, each, others=(each,), json={"forecast": {}})
        change("DELETE", "/model-sets/{set_id}", "model_set.deleted", model_set)
        told = {"url": "https://example.org/told"}
        webhook = change("POST", "/webhooks", "webhook.created", json=told)["id"]
        change("POST", "/webhooks/{webhook_id}/rotate", "webhook.rotated", webhook)
        change("DELETE", "/webhooks/{webhook_id}", "webhook.deleted", webhook)
        other = dataset
        dataset = change("POST", "/datasets", "dataset.created", content=table(20), headers=CSV)["id"]
        change("DELETE", "/datasets/{dataset_id}", "dataset.deleted", dataset)
        count = len(lines())
        for path in ("/datasets/nothing", "/models/nothing", f"/datasets/{other}"):
            assert bob.delete(path).status_code == 404
        assert len(lines()) == count  # refused requests changed nothing
        problem(bob.get("/audit"), 403, "scope-missing")

    # The dashboard's forms call the same services.
    routes = [route for route in guarded_routes() if not route[1].startswith("/ui")]
    changing = {route for route in routes if route[0] not in {"GET", "HEAD"} and route[1] not in COMPUTES}
    assert changing == done, "routes that change something leave a line: show it here"
    with session_scope(database.engine) as session:
        entries = session.query(AuditEntry).filter_by(action="key.created").all()
    assert {(line.owner, line.who) for line in entries} == {(n, "command line") for n in ("ann", "bob")}


@only("sqlite")
def test_a_rolled_back_change_is_not_audited(database, caplog):
    """A change that fails leaves neither an audit row nor a log line."""
    caplog.set_level(logging.INFO, "bartserve.audit")

    def fail() -> None:
        with session_scope(database.engine) as session:
            keys.create(session, name="ann")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with session_scope(database.engine) as session:
        assert session.query(AuditEntry).count() == 0
    assert caplog.records == []
