"""Outcomes over HTTP: reports by row, key and prediction, the watch, recalibration, refit, refusals."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.services.outcomes import reports
from sampler import holdout_rows
from sampler.posterior.assessment import outcome_watch
from tests.support.api_calls import bearer, make_key, of_file, places, post_csv, problem, table
from tests.support.models.fitted_models import extended, fitted, run_units

CSV = {"Content-Type": "text/csv"}


def rows_of(count, seed=1, shift=0.0, **more):
    """New rows of the process that `table` makes, with outcomes; `more` are columns."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        size, colour = int(rng.integers(0, 19)), ("red", "green", "blue")[rng.integers(3)]
        y = size / 2 + 3 * (colour == "red") + rng.uniform(-0.25, 0.25) + shift
        rows.append({"size": size, "colour": colour, "y": y} | {name: f(i) for name, f in more.items()})
    return rows


def features_and_outcomes(rows):
    """Features and outcomes of rows."""
    return [{k: v for k, v in row.items() if k != "y"} for row in rows], [row["y"] for row in rows]


def report(client, rows, model="mine", headers=None, **options):
    return client.post(f"/models/{model}/outcomes", json={"rows": rows} | options, headers=headers or {})


def summary_of(client, model="mine"):
    response = client.get(f"/models/{model}/outcomes")
    assert response.status_code == 200, response.text
    return response.json()


def weeks_ago(number):
    return (datetime.now(UTC) - timedelta(weeks=number)).isoformat()


def test_outcomes_are_scored_as_the_library_scores_them(client, model):
    """The figures are those of `Posterior.score`; a report in every format gives the same."""
    rows = rows_of(40)
    empty = summary_of(client)
    assert (empty["verdict"], empty["rows"], empty["total"], empty["weeks"]) == ("too_few", 0, None, [])
    response = report(client, rows)
    assert response.status_code == 201, response.text
    assert response.headers["location"] == f"/models/{model['id']}/outcomes"
    document = response.json()
    assert (document["rows"], document["replaced"], document["skipped"], document["model_id"]) == (
        40,
        0,
        0,
        model["id"],
    )
    posterior = of_file(client, model)
    expected = posterior.score(*features_and_outcomes(rows))
    summary = summary_of(client)
    assert (summary["rows"], summary["intervals"], summary["target"]) == (40, "predictive", "y")
    assert summary["total"]["log_score"]["observed"] == pytest.approx(expected["log_score"])
    assert summary["total"]["rmse"] == pytest.approx(expected["rmse"])
    share = {each["level"]: each["observed"] for each in summary["total"]["coverage"]}
    assert share == {c["level"]: c["coverage"] for c in expected["coverage"] if c["level"] in share}
    assert summary["weeks"][0]["figures"] == summary["total"]
    assert sum(each["observed"] for each in summary["histogram"]) == pytest.approx(1)
    assert (document["verdict"], document["text"]) == (summary["verdict"], summary["text"])

    columns = pa.Table.from_pylist(rows)
    parquet, arrow = io.BytesIO(), io.BytesIO()
    pq.write_table(columns, parquet)
    with pa.ipc.new_stream(arrow, columns.schema) as writer:
        writer.write_table(columns)
    text = "size,colour,y\n" + "".join(f"{r['size']},{r['colour']},{r['y']!r}\n" for r in rows)
    bodies = {
        "text/csv": text.encode(),
        "application/vnd.apache.parquet": parquet.getvalue(),
        "application/vnd.apache.arrow.stream": arrow.getvalue(),
        "application/json": json.dumps({"columns": columns.to_pydict()}).encode(),
    }
    for kind, body in bodies.items():
        assert client.delete("/models/mine/outcomes").status_code == 204
        response = client.post("/models/mine/outcomes", content=body, headers={"Content-Type": kind})
        assert response.status_code == 201, response.text
        close(summary_of(client)["total"], summary["total"])


def close(a, b):
    assert a["rows"] == b["rows"]
    assert a["rmse"] == pytest.approx(b["rmse"])
    assert a["log_score"] == pytest.approx(b["log_score"])
    assert a["coverage"] == b["coverage"]


def test_keys_are_refused_replaced_or_skipped(client, model):
    """A row known by its key counts once: repeated it is refused by name, replaced, or skipped."""
    first = rows_of(5, id=lambda i: f"k{i}")
    assert report(client, first, key="id").status_code == 201
    again = [first[4] | {"y": first[4]["y"] + 1}, rows_of(1, seed=9, id=lambda i: "new")[0]]
    refused = problem(report(client, again, key="id"), 409, "outcome-repeated")
    assert places(refused) == [("id", 1)]
    assert summary_of(client)["rows"] == 5
    skipped = report(client, again, key="id", repeated="skip").json()
    assert (skipped["rows"], skipped["skipped"], summary_of(client)["rows"]) == (1, 1, 6)
    none_left = report(client, again, key="id", repeated="skip").json()
    assert (none_left["id"], none_left["rows"], none_left["skipped"]) == (None, 0, 2)
    before = summary_of(client)["total"]["rmse"]
    replaced = report(client, again, key="id", repeated="replace").json()
    assert (replaced["rows"], replaced["replaced"], summary_of(client)["rows"]) == (2, 2, 6)
    assert summary_of(client)["total"]["rmse"] > before
    report(client, [first[4], again[1]], key="id", repeated="replace")
    assert summary_of(client)["total"]["rmse"] == pytest.approx(before)
    doubled = problem(report(client, [first[0], first[1], first[0]], key="id", repeated="skip"), 422)
    assert places(doubled) == [("id", 3)]
    numbers = [each | {"id": i} for i, each in enumerate(first)]
    assert report(client, numbers, key="id").status_code == 201
    text = "size,colour,y,id\n1,red,3.5,0\n"
    as_file = client.post("/models/mine/outcomes?key=id", content=text, headers=CSV)
    assert places(problem(as_file, 409)) == [("id", 1)]


def test_reports_at_the_same_time_count_each_row_once(client, model):
    """One of four equal simultaneous reports is stored, and the sums agree with the rows."""
    rows = rows_of(20, id=lambda i: i)

    def send(_):
        return report(client, rows, key="id", repeated="skip").json()["rows"]

    with ThreadPoolExecutor(4) as pool:
        stored = sorted(pool.map(send, range(4)))
    assert stored == [0, 0, 0, 20]
    summary = summary_of(client)
    assert (summary["rows"], summary["total"]["rows"]) == (20, 20)


def test_outcomes_of_a_background_prediction(client, settings, model):
    """Rows are found by number or by key; their features come from the predicted dataset."""
    new = rows_of(30, seed=5, note=lambda i: f"{i}.50")
    lines = "".join(f"{r['size']},{r['colour']}, {r['note']} \n" for r in new)  # blanks are no part of a key
    dataset = post_csv(client, f"size,colour,note\n{lines}").json()
    prediction = client.post("/models/mine/predictions", json={"dataset_id": dataset["id"]}).json()
    run_units(settings)
    of = {"prediction_id": prediction["id"]}
    by_number = [{"n": i + 1, "y": new[i]["y"]} for i in (20, 3, 11)]
    assert report(client, by_number, row="n", **of).status_code == 201
    by_number_total = summary_of(client)["total"]
    assert places(problem(report(client, by_number, row="n", **of), 409)) == [("n", i) for i in (1, 2, 3)]
    client.delete("/models/mine/outcomes")
    by_key = [{"note": new[i]["note"], "y": new[i]["y"]} for i in (20, 3, 11)]
    assert report(client, by_key, key="note", **of).status_code == 201
    close(summary_of(client)["total"], by_number_total)
    client.delete("/models/mine/outcomes")
    assert report(client, [new[i] for i in (20, 3, 11)], key="note").status_code == 201
    close(summary_of(client)["total"], by_number_total)

    bad = [{"n": 0, "y": 1.0}, {"n": 31, "y": 1.0}, {"n": 2.5, "y": 1.0}, {"n": 2, "y": 1.0}]
    assert places(problem(report(client, bad, row="n", **of), 422)) == [("n", 1), ("n", 2), ("n", 3)]
    unknown = [{"note": "nobody", "y": 1.0}]
    assert places(problem(report(client, unknown, key="note", **of), 422)) == [("note", 1)]
    assert places(problem(report(client, [{"z": 1, "y": 1.0}], key="z", **of), 422)) == [("key", None)]
    assert places(problem(report(client, bad, **of), 422)) == [("prediction_id", None)]
    assert places(problem(report(client, bad, row="n"), 422)) == [("row", None)]
    problem(report(client, bad, row="n", prediction_id="prd_1"), 404)
    other = fitted(client, settings, seed=4)
    wrong = problem(report(client, by_number, model=other["id"], row="n", **of), 422)
    assert places(wrong) == [("prediction_id", None)]
    client.delete(f"/datasets/{dataset['id']}")
    assert "dataset" in problem(report(client, by_number, row="n", **of), 409)["detail"]


def test_weeks_and_an_alarm(client, model):
    """Good weeks hold; shifted ones raise the alarm with its week, an event, and a figure in the metrics."""
    for week in range(6, 2, -1):
        at = weeks_ago(week)
        answer = report(client, rows_of(20, seed=week, when=lambda _, at=at: at), at="when").json()
    assert answer["verdict"] == "holds", answer["text"]
    assert len(summary_of(client)["weeks"]) == 4
    metrics = client.get("/metrics").text
    assert 'bart_watched_models{verdict="holds"} 1.0' in metrics
    for week in (2, 1):
        at = weeks_ago(week)
        answer = report(client, rows_of(30, seed=week, shift=2.0, when=lambda _, at=at: at), at="when").json()
    assert answer["verdict"] == "no_longer_hold"
    summary = summary_of(client)
    assert summary["alerted_at"] is not None
    assert summary["since"] == summary["weeks"][-2]["week"]
    assert {each["code"] for each in summary["reasons"]} >= {"above"}
    assert summary["since"] in summary["text"]
    low = summary["weeks"][-1]["figures"]["coverage"][1]
    assert low["observed"] < low["lower"]
    events = client.get(f"/models/{model['id']}/events").json()["items"]
    assert [event["kind"] for event in events].count(reports.ALERT) == 1
    metrics = client.get("/metrics").text
    assert 'bart_watched_models{verdict="no_longer_hold"} 1.0' in metrics
    assert "bart_outcomes_total" in metrics


def test_recalibration_by_outcomes(client, model):
    """By default the outcomes since the change calibrate; the library's table from them is the same."""
    report(client, rows_of(40, seed=1, when=lambda _: weeks_ago(3)), at="when")
    later = rows_of(60, seed=2, shift=1.0)
    assert report(client, later).json()["verdict"] == "no_longer_hold"
    response = client.post("/models/mine/outcomes/recalibrate", json={})
    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["rows"] == 60
    assert "Of new rows like the 60 outcomes since the change, about 0.5" in answer["claims"][0]["text"]
    assert answer["claims"][0]["at_least"] is None
    now = client.get("/models/mine").json()
    assert now["calibration"]["kind"] == "outcomes"
    assert now["id"] == model["id"]
    downloaded = of_file(client, model)
    again = downloaded.calibrate(*features_and_outcomes(later))
    assert again.conformal_table.checksum == now["calibration"]["checksum"]
    summary = summary_of(client)
    assert (summary["verdict"], summary["era"], summary["alerted_at"]) == ("too_few", 1, None)
    assert (summary["intervals"], summary["rows"], summary["total"]) == ("calibrated", 100, None)
    assert [week["era"] for week in summary["weeks"]] == [0, 0]
    report(client, rows_of(60, seed=3, shift=1.0))
    assert summary_of(client)["verdict"] == "holds"
    refusal = client.post("/models/mine/outcomes/recalibrate", json={"since": weeks_ago(8)[:10]}).json()
    assert refusal["rows"] == 160
    assert "160 outcomes reported after the fit, at least 0.5" in refusal["claims"][0]["text"]
    assert refusal["claims"][0]["at_least"] == 0.5
    future = (datetime.now(UTC) + timedelta(weeks=2)).date().isoformat()
    none = client.post("/models/mine/outcomes/recalibrate", json={"since": future})
    assert "9 are needed" in problem(none, 409)["detail"]


def test_each_calibration_begins_an_era(client, settings, model):
    """By folds, and its loss in an extension: outcomes of other intervals aren't judged together."""
    report(client, rows_of(30, seed=1, shift=2.0))
    assert summary_of(client)["verdict"] == "no_longer_hold"
    assert client.post("/models/mine/studies", json={"kind": "calibration"}).status_code == 202
    run_units(settings)
    summary = summary_of(client)
    assert (summary["era"], summary["verdict"], summary["intervals"]) == (1, "too_few", "calibrated")
    report(client, rows_of(40, seed=2))
    assert summary_of(client)["verdict"] == "holds"
    extended(client, settings, f"/models/{model['id']}")
    summary = summary_of(client)
    assert (summary["era"], summary["verdict"], summary["intervals"]) == (2, "too_few", "predictive")


def test_refit_with_outcomes(client, settings):
    """One call makes a dataset with the outcomes appended and fits to it with the same settings."""
    model = fitted(client, settings, name="mine", seed=3, holdout=0.25)
    problem(client.post("/models/mine/outcomes/refit", json={}), 409)
    rows = rows_of(30, seed=1, id=lambda i: i)
    report(client, rows, key="id")
    report(client, [rows[0] | {"y": 99.5}], key="id", repeated="replace")
    response = client.post("/models/mine/outcomes/refit", json={}, headers={"Idempotency-Key": "once"})
    assert response.status_code == 202, response.text
    fresh = response.json()
    assert fresh["name"] == "mine"
    assert fresh["id"] != model["id"]
    assert {**fresh["settings"]} == {**model["settings"]}
    again = client.post("/models/mine/outcomes/refit", json={}, headers={"Idempotency-Key": "once"})
    assert again.json()["id"] == fresh["id"]
    dataset = client.get(f"/datasets/{fresh['dataset_id']}?rows=100").json()
    assert dataset["num_rows"] == 90
    old = client.get(f"/datasets/{model['dataset_id']}").json()
    assert [c["name"] for c in dataset["columns"]] == [c["name"] for c in old["columns"]]
    assert [c["kind"] for c in dataset["columns"]] == [c["kind"] for c in old["columns"]]
    run_units(settings)
    done = client.get(f"/models/{fresh['id']}").json()
    assert done["state"] == "succeeded", done["error"]
    assert done["holdout"]["rows"] == len(holdout_rows(90, 0.25, 3))
    assert summary_of(client, fresh["id"])["rows"] == 0


def test_refit_refuses_outcomes_that_their_column_cannot_hold(client, settings):
    """A value that isn't of its column's kind is named, and nothing is stored; it never becomes missing."""
    head, *lines = table(60).splitlines()
    values = (f",{('true', 'false')[i % 2]},2026-03-{i % 28 + 1:02}" for i in range(60))
    text = "\n".join([f"{head},paid,due", *map("".join, zip(lines, values, strict=True))])
    fitted(client, settings, text=text, name="mine", features=["size", "colour"])
    num_datasets = len(client.get("/datasets").json()["items"])
    cases = [
        (
            {"paid": "perhaps"},
            ("paid", "in the outcomes, the text 'perhaps' is not true or false (nor yes or no, 1 or 0)"),
        ),
        ({"paid": 2}, ("paid", "in the outcomes, a boolean must be true or false, or 1 or 0")),
        ({"due": "soon"}, ("due", "in the outcomes, the text 'soon' is not a date such as 2026-01-31")),
        ({"due": 7}, ("due", "in the outcomes, it holds numbers where a date (2026-01-31) belongs")),
    ]
    for more, expected in cases:
        assert report(client, [rows_of(1)[0] | more]).status_code == 201
        refused = problem(client.post("/models/mine/outcomes/refit", json={}), 422)
        assert [(each["column"], each["detail"]) for each in refused["errors"]] == [expected]
        assert len(client.get("/datasets").json()["items"]) == num_datasets
        assert client.delete("/models/mine/outcomes").status_code == 204
    values = ({"paid": "TRUE", "due": "2026-04-01"}, {"paid": 0}, {"paid": None, "due": None}, {"paid": "1"})
    for more in values:
        assert report(client, [rows_of(1)[0] | more]).status_code == 201
    refit = client.post("/models/mine/outcomes/refit", json={}).json()
    stored = client.get(f"/datasets/{refit['dataset_id']}/preview?rows=100").json()["rows"][60:]
    assert [row["paid"] for row in stored] == [True, False, None, True]
    assert [row["due"] and row["due"][:10] for row in stored] == ["2026-04-01", None, None, None]


def test_classes_and_counts(client, settings, monkeypatch):
    """Classes have sets and Brier scores, counts are randomised; one by one as together."""
    text = table(60).replace("y,", "was,", 1)
    lines = [line.split(",") for line in text.splitlines()]
    head, body = lines[0], lines[1:]
    of_classes = "\n".join([",".join(["y", *head[1:]]), *(",".join([row[2], *row[1:]]) for row in body)])
    of_classes = of_classes.replace(",colour,", ",was,")
    fitted(client, settings, text=of_classes, name="classes", family="categorical", features=["size"])
    rows = [{"size": i % 19, "y": ("red", "green", "blue")[i % 3]} for i in range(12)]
    refused = report(client, [*rows, {"size": 1, "y": "Greens"}, {"size": 2, "y": "RED"}], model="classes")
    assert (refused.status_code, places(refused.json())) == (422, [("y", 13), ("y", 14)])
    assert "did you mean green?" in refused.text
    assert report(client, rows, model="classes").status_code == 201
    summary = summary_of(client, "classes")
    assert (summary["intervals"], summary["total"]["rmse"]) == ("sets", None)
    assert summary["total"]["brier"] > 0
    counts = "\n".join(["y,size", *(f"{round(float(row[0]))},{row[1]}" for row in body)])
    fitted(client, settings, text=counts, name="counts", family="poisson")
    # A report's identifier is its seed: each is given, so that chance puts no eight shares in one bin.
    identifiers = iter(f"out_{number:032x}" for number in range(8))
    monkeypatch.setattr(reports, "new_id", lambda _: next(identifiers))
    for _ in range(8):
        assert report(client, [{"size": 4, "y": 2}], model="counts").status_code == 201
    bins = [each["observed"] for each in summary_of(client, "counts")["histogram"]]
    assert max(bins) < 1, "each lone outcome is randomised by its own share"


@pytest.mark.parametrize("role", ["weights", "event"])
def test_columns_that_scores_use_are_not_called_unused(client, settings, role):
    """Weights and events are no features, but a report is scored by them and so doesn't warn of them."""
    text = table(60).replace("\n", ",1\n").replace("note,1", "note,w", 1)
    model = fitted(client, settings, text=text, features=["size"], transform="none", **{role: "w"})
    row = {"size": 3, "y": 2.0, "w": 1}
    assert report(client, [row], model["id"]).json()["warnings"] == []
    asked = client.post(f"/models/{model['id']}/predict", json={"rows": [{"size": 3, "w": 1}]})
    assert "not used by the model: w" in asked.json()["warnings"]
    assert client.delete(f"/models/{model['id']}/outcomes").status_code == 204


def test_odd_input_is_refused_by_name(client, model):
    """Each fault names its column or row, and nothing is stored."""
    good = rows_of(2, id=lambda i: f"k{i}", when=lambda _: weeks_ago(1))
    future = (datetime.now(UTC) + timedelta(days=3)).isoformat()
    cases = [
        ([{"size": 1, "colour": "red"}], {}, [("y", None)]),
        ([good[0] | {"y": None}], {"key": "id", "at": "when"}, [("y", 1)]),
        ([good[0] | {"y": "many"}], {"key": "id", "at": "when"}, [("y", None)]),
        ([{"size": 1, "y": 1.0}], {}, [("colour", None)]),
        ([good[0]], {}, [("id", None), ("when", None)]),
        ([good[0], good[1] | {"id": None}], {"key": "id", "at": "when"}, [("id", 2)]),
        ([good[0] | {"id": "k" * 201}], {"key": "id", "at": "when"}, [("id", 1)]),
        ([good[0] | {"when": "soon"}], {"key": "id", "at": "when"}, [("when", 1)]),
        ([good[0] | {"when": future}], {"key": "id", "at": "when"}, [("when", 1)]),
        ([good[0] | {"when": None}], {"key": "id", "at": "when"}, [("when", 1)]),
        ([good[0]], {"key": "absent", "at": "when"}, [("key", None)]),
        ([good[0]], {"key": "y", "at": "when"}, [("key", None)]),
    ]
    for rows, options, expected in cases:
        assert places(problem(report(client, rows, **options), 422)) == expected
    problem(report(client, []), 422)
    problem(report(client, good, repeated="maybe"), 422)
    problem(client.post("/models/mine/outcomes?key=id", json={"rows": good}), 422)
    problem(report(client, rows_of(1001)), 413)
    problem(report(client, good, model="nobody"), 404)
    assert summary_of(client)["rows"] == 0
    twice = {"Idempotency-Key": "a report"}
    first = report(client, rows_of(3), headers=twice)
    again = report(client, rows_of(3), headers=twice)
    assert (again.json(), summary_of(client)["rows"]) == (first.json(), 3)
    path, once = "/models/mine/outcomes", {"Idempotency-Key": "a file"} | CSV
    lines = [b"y,size,colour\n1.5,3,red\n", b"y,size,colour\n1.5,4,red\n"]
    first, again, other = (client.post(path, content=each, headers=once) for each in (*lines[:1], *lines))
    assert (again.json(), summary_of(client)["rows"]) == (first.json(), 4)
    problem(other, 422, "idempotency-key-reused")


def test_owners_and_scopes_are_apart(team, database, settings):
    """Another owner sees no model; a key that reads can't report, one that predicts can't calibrate."""
    ann, bob = bearer(make_key(database, "ann")), bearer(make_key(database, "bob"))
    body = {"rows": rows_of(1)}
    dataset = team.post("/datasets", content=table().encode(), headers=CSV | ann).json()
    model = team.post("/models", json={"dataset_id": dataset["id"], "target": "y"}, headers=ann).json()
    path = f"/models/{model['id']}/outcomes"
    for method, where in (("POST", path), ("GET", path), ("DELETE", path), ("POST", f"{path}/recalibrate")):
        problem(team.request(method, where, json=body if where == path else {}, headers=bob), 404)
    reader = bearer(make_key(database, "eve", owner="ann", scopes=["read"]))
    problem(team.post(path, json=body, headers=reader), 403)
    assert team.get(path, headers=reader).status_code == 200
    caller = bearer(make_key(database, "pat", owner="ann", scopes=["predict"]))
    problem(team.post(path, json=body, headers=caller), 409, "model-not-finished")
    problem(team.post(f"{path}/recalibrate", json={}, headers=caller), 403)


def test_a_model_has_a_limit_of_outcomes(client, model, monkeypatch):
    """Beyond the limit a report is refused, with what to do; replacing is still possible."""
    rows = rows_of(5, id=lambda i: i)
    report(client, rows[:4], key="id")
    monkeypatch.setattr(reports, "MAX_OUTCOMES", 4)
    refused = problem(report(client, rows[4:], key="id"), 409)
    assert "4 are the most" in refused["detail"]
    assert report(client, rows[:4], key="id", repeated="replace").status_code == 201


def subjects(client, settings, **declared):
    """Fit a model whose rows come by subject and day."""
    rows = [
        f"{line},s{i // 5},2026-{1 + i // 28:02}-{1 + i % 28:02}"
        for i, line in enumerate(table(200).split()[1:])
    ]
    text = "\n".join(["y,size,colour,note,subject,day", *rows]) + "\n"
    columns = {"day": "date"}
    asked = {"holdout": 0.3, "columns": columns, "name": "mine", "new_rows": declared}
    asked["features"] = ["size", "colour"]
    return fitted(client, settings, text=text, **asked)


def test_new_groups_count_once(client, settings):
    """Outcomes of three subjects are too few; of forty that are off, an alarm; open weeks wait."""
    subjects(client, settings, groups="subject")
    at = weeks_ago(3)
    answer = report(
        client, rows_of(90, shift=9.0, subject=lambda i: f"new{i % 3}", when=lambda _: at), at="when"
    ).json()
    assert (answer["verdict"], answer["warnings"]) == ("too_few", [])
    assert (
        "Outcomes of 3 groups of subject are too few to check the intervals: 30 are needed." in answer["text"]
    )
    answer = report(client, rows_of(80, shift=9.0, subject=lambda i: f"now{i % 40}")).json()
    assert answer["verdict"] == "too_few"
    assert "80 outcomes are not counted yet" in answer["text"]
    answer = report(
        client, rows_of(80, shift=9.0, subject=lambda i: f"other{i % 40}", when=lambda _: at), at="when"
    ).json()
    assert answer["verdict"] == "no_longer_hold"
    assert "Each of 43 groups of subject counts once." in answer["text"]
    assert summary_of(client)["verdict"] == "no_longer_hold"


def test_outcomes_without_their_group_do_not_count(client, settings):
    """They are shown, and a warning says that the column is needed."""
    subjects(client, settings, groups="subject")
    answer = report(client, rows_of(90, when=lambda _: weeks_ago(2)), at="when").json()
    assert answer["verdict"] == "too_few"
    assert [each for each in answer["warnings"] if each.startswith("subject: without this column")]
    assert summary_of(client)["rows"] == 90


def test_rows_count_where_later_days_do_not_resemble(client, settings):
    """Held-out rows of days unlike each other let outcomes count one by one, at once."""
    model = subjects(client, settings, later="day")
    assert model["holdout"]["weeks_once"] == 0
    answer = report(client, rows_of(40)).json()
    assert answer["verdict"] != "too_few"
    assert "counts once" not in answer["text"]


def test_weeks_count_once_where_new_rows_are_later(client, settings, monkeypatch):
    """Weeks that don't resemble each other count once each, when they have ended; eight are needed."""
    monkeypatch.setattr(outcome_watch, "ALIKE_DAYS", -1.0)  # as if days resembled each other
    model = subjects(client, settings, later="day")
    assert model["holdout"]["weeks_once"] == 1
    for week in range(9, -1, -1):
        at = weeks_ago(week)
        sent = rows_of(9, seed=week, when=lambda _, at=at: at)
        answer = report(client, sent, at="when").json()
        if week == 5:
            assert "Outcomes of 5 weeks are too few to check the intervals: 8 are needed." in answer["text"]
    assert answer["text"].endswith("Each of 9 weeks counts once. 9 outcomes are not counted yet.")
