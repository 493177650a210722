"""POST /models/{id}/predict on fitted models."""

import json
import re

import numpy as np
from sqlalchemy import Engine, event, text, update
from sqlalchemy.pool import QueuePool

from app.api.predict import _Route
from app.services.predictions.options import PredictionOptions
from app.services.predictions.predict_rows import Predictor, work_of_row
from app.store import draws, models
from app.store.engine import make_engine, session_scope
from app.store.tables import DrawBlock
from sampler import Posterior
from tests.support.api_calls import of_file, places, post_csv, post_json, problem, table
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, fitted
from tests.support.processes.api_server import serving

ROWS = [{"size": 3, "colour": "red"}, {"size": 17.5, "colour": "blue"}, {"size": None, "colour": "green"}]


def predict(client, model, **body):
    path = f"/models/{model['id'] if isinstance(model, dict) else model}/predict"
    return client.post(path, json=body)


def test_a_fitted_model_answers_with_intervals(client, model, database):
    """Figures equal the stored posterior's at every requested level, with the model's verdict."""
    response = predict(client, model, rows=ROWS, level=[0.5, 0.9], quantiles=[0.1, 0.5])

    assert response.status_code == 200, response.text
    answer = response.json()
    with session_scope(database.engine, read_only=True) as session:
        posterior = Posterior.from_blocks(
            models.header(session, model["id"]), draws.read(session, model["id"])
        )
    columns = {"size": [3, 17.5, None], "colour": ["red", "blue", "green"]}
    expected = posterior.predict(columns, level=[0.5, 0.9], quantiles=[0.1, 0.5])
    assert (answer["model_id"], answer["draws"], answer["verdict"]) == (model["id"], 40, model["verdict"])
    assert answer["mean"] == expected.mean.tolist()
    assert answer["sd"] == expected.sd.tolist()
    assert [(i["level"], i["lower"], i["upper"]) for i in answer["intervals"]] == [
        (level, lower.tolist(), upper.tolist()) for level, lower, upper in expected.intervals
    ]
    assert [(q["q"], q["values"]) for q in answer["quantiles"]] == [
        (q, values.tolist()) for q, values in expected.quantiles
    ]
    assert any("size" in warning and "missing" in warning for warning in answer["warnings"])


def test_a_row_of_a_model_in_memory_is_answered_without_a_thread(client, model, database, monkeypatch):
    """With the same figures. More rows, other draws, a name, and a model that is gone take a thread."""
    threads, cached_model = [], Predictor.cached_model

    def watched(*arguments):
        threads.append(cached_model(*arguments))
        return threads[-1]

    monkeypatch.setattr(Predictor, "cached_model", watched)
    first, again = (predict(client, model, rows=ROWS[:1]) for _ in range(2))
    assert first.status_code == 200
    assert first.json() == again.json()
    for body in ({"rows": ROWS * 2}, {"rows": ROWS[:1], "draws": 20}):
        assert predict(client, model, **body).status_code == 200
    with monkeypatch.context() as busy:
        busy.setattr(QueuePool, "checkedout", lambda pool: pool.size())
        assert predict(client, model, rows=ROWS[:1]).json() == again.json()
    assert predict(client, "mine", rows=ROWS[:1]).json() == again.json()
    assert client.delete(f"/models/{model['id']}").status_code == 204
    assert predict(client, model, rows=ROWS[:1]).status_code == 404
    at_once = database.engine.dialect.name == "sqlite"
    assert [each is not None for each in threads] == [False, at_once, *[False] * 5]


def test_a_model_is_read_again_only_after_a_commit(client, model, database):
    """A row takes no query on SQLite unless something was committed; other processes' commits are seen."""
    once = database.engine.dialect.name == "sqlite"
    statements: list[str] = []

    def note(_connection, _cursor, statement, *_others) -> None:
        statements.append(statement)

    def queries() -> int:
        statements.clear()
        assert predict(client, model, rows=ROWS[:1]).status_code == 200
        return sum(statement.startswith("SELECT") for statement in statements)

    def from_outside(statement: str) -> None:
        other = make_engine(database.engine.url.render_as_string(hide_password=False))
        with session_scope(other) as session:
            session.execute(text(statement))
        other.dispose()

    event.listen(Engine, "before_cursor_execute", note)
    try:
        queries()
        assert [queries() > 0 for _ in range(3)] == [True, not once, not once]
        from_outside("UPDATE models SET verdict = 'not_converged'")
        assert predict(client, model, rows=ROWS[:1]).json()["verdict"] == "not_converged"
        assert (queries() == 0) is once
        from_outside("UPDATE models SET owner = ''")
        assert predict(client, model, rows=ROWS[:1]).status_code == 404
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@only("sqlite")
def test_rows_and_columns_in_any_order_are_the_same_question(client, model):
    """Columns are matched by name in any order; the default is one 90% predictive interval."""
    by_row = predict(client, model, rows=ROWS).json()
    turned = predict(client, model, rows=[dict(reversed(row.items())) for row in ROWS]).json()
    by_column = predict(
        client, model, columns={"colour": ["red", "blue", "green"], "size": [3, 17.5, None]}
    ).json()

    assert by_row == turned == by_column
    assert [interval["level"] for interval in by_row["intervals"]] == [0.9]
    assert by_row["interval"] == "predictive"


@only("sqlite")
def test_predictive_intervals_are_wider(client, model):
    """Predictive intervals are wider than credible ones, and higher levels than lower ones."""
    credible, predictive = (
        predict(client, model, rows=ROWS, level=[0.5, 0.9], interval=kind).json()
        for kind in ("credible", "predictive")
    )

    def width(answer, level: int) -> np.ndarray:
        interval = answer["intervals"][level]
        return np.array(interval["upper"]) - interval["lower"]

    assert credible["mean"] == predictive["mean"]
    assert np.all(np.array(credible["sd"]) < predictive["sd"])
    assert np.all(width(credible, 1) < width(predictive, 1))
    assert np.all(width(credible, 0) < width(credible, 1))
    assert np.all(width(predictive, 0) < width(predictive, 1))


def test_pinned_draws_are_the_first_ones(client, model):
    """`draws` selects the first draws of each chain, is reported, and can't exceed the available number."""
    some, all_ = predict(client, model, rows=ROWS, draws=7).json(), predict(client, model, rows=ROWS).json()

    assert (some["draws"], all_["draws"]) == (7, 40)
    assert some["mean"] != all_["mean"]
    assert predict(client, model, rows=ROWS, draws=40).json() == all_
    body = problem(predict(client, model, rows=ROWS, draws=41), 422, "invalid-request")
    assert places(body) == [("draws", None)]


def test_a_name_means_its_newest_succeeded_model(client, model, settings):
    """A name means its newest succeeded model, whose id the response contains."""
    assert predict(client, "mine", rows=ROWS).json()["model_id"] == model["id"]
    newer = fitted(client, settings, name="mine", seed=4)
    waiting = {"dataset_id": model["dataset_id"], "target": "y", "name": "mine", **SMALL}
    assert client.post("/models", json=waiting).status_code == 202

    assert predict(client, "mine", rows=ROWS).json()["model_id"] == newer["id"]
    for unknown in ("yours", "mdl_0", "%00", "%ed%a0%80", "a%0Ab"):
        problem(predict(client, unknown, rows=ROWS), 404, "not-found")


def test_a_model_that_has_not_finished_says_its_state(client):
    """A queued or cancelled model without draws is a 409 with its state, by id and by name."""
    dataset_id = post_csv(client, table()).json()["id"]
    body = {"dataset_id": dataset_id, "target": "y", "name": "soon", **SMALL}
    model = client.post("/models", json=body).json()

    for ref in (model["id"], "soon"):
        answer = problem(predict(client, ref, rows=ROWS), 409, "model-not-finished")
        assert "queued" in answer["detail"]
    client.post(f"/models/{model['id']}/cancel")
    answer = problem(predict(client, model["id"], rows=ROWS), 409, "model-not-finished")
    assert "cancelled" in answer["detail"]


def test_a_verdict_can_be_required(client, settings):
    """A verdict worse than required is a 409 with the reasons."""
    tiny = fitted(client, settings, num_draws=3, num_chains=1)
    assert tiny["verdict"] == "not_converged"

    body = problem(predict(client, tiny, rows=ROWS, require="approximate"), 409, "not-converged")

    assert [entry["code"] for entry in body["errors"]] == ["too_few_draws"]
    assert "not_converged" in body["detail"]
    assert predict(client, tiny, rows=ROWS).json()["verdict"] == "not_converged"


@only("sqlite")
def test_what_the_model_does_not_use_is_ignored_with_a_word(client, model):
    """Unused columns are ignored with a warning, and unseen levels are named."""
    rows = [row | {"y": 1, "note": "x"} for row in ROWS] + [
        {"size": 1, "colour": "mauve", "y": 0, "note": ""}
    ]

    answer = predict(client, model, rows=rows).json()

    assert answer["mean"][:3] == predict(client, model, rows=ROWS).json()["mean"]
    warnings = " ".join(answer["warnings"])
    assert all(word in warnings for word in ("note", "y", "mauve"))
    long = predict(client, model, rows=[{"size": 1, "colour": "m" * 100_000}]).json()
    assert len(long["warnings"][0]) < 200


BAD_ROWS = {
    "an unknown column": ([{"size": 1, "colour": "red", "hue": 2}], [("hue", None)]),
    "an absent column": ([{"size": 1}], [("colour", None)]),
    "absent in one row": ([{"size": 1, "colour": "red"}, {"size": 1}], [("colour", 2)]),
    "text where a number belongs": ([ROWS[0], {"size": "big", "colour": "red"}], [("size", 2)]),
    "a number as text": ([{"size": "3", "colour": "red"}], [("size", 1)]),
    "a list as a value": ([ROWS[0], {"size": [1], "colour": "red"}], [("size", 2)]),
    "an object as a value": ([{"size": 1, "colour": {}}], [("colour", 1)]),
    "a row that is none": ([ROWS[0], 5, None], [(None, 2), (None, 3)]),
}


@only("sqlite")
def test_rows_that_do_not_fit_are_refused_with_their_place(client, model, subtests):
    """Invalid rows are refused with row and column, in both JSON layouts."""
    for case, (rows, where) in BAD_ROWS.items():
        with subtests.test(case):
            body = problem(predict(client, model, rows=rows), 422, "unusable-data")
            assert where == places(body), body


@only("sqlite")
def test_json_that_is_no_row_is_refused_with_its_place(client, model):
    """Duplicate keys, NaN and overflowing numbers are refused with column and row."""
    path = f"/models/{model['id']}/predict"
    good = json.dumps(ROWS[0])
    for bad, message in [
        ('{"size": 1, "colour": "red", "size": 2}', "twice"),
        ('{"size": NaN, "colour": "red"}', "NaN"),
        ('{"size": -Infinity, "colour": "red"}', "Infinity"),
        ('{"size": 1e999, "colour": "red"}', "infinite"),
        ('{"size": ' + "9" * 400 + ', "colour": "red"}', "large"),
        ('{"size": "\\ud800", "colour": "red"}', "surrogate"),
    ]:
        body = problem(post_json(client, path, f'{{"rows": [{good}, {bad}]}}'), 422, "invalid-request")
        assert places(body) == [("size", 2)]
        assert message in body["errors"][0]["detail"]
    for bad, where in [('{"size": [1, 1e999]}', ("size", 2)), ('{"a": [1], "a": [2]}', ("a", None))]:
        body = problem(post_json(client, path, f'{{"columns": {bad}}}'), 422)
        assert [where] == places(body)


@only("sqlite")
def test_requests_that_make_no_sense_are_refused_by_name(client, model):
    """Rows and columns both given or both absent, and bad counts, levels and fields are refused by name."""
    for body in (
        {},
        {"rows": ROWS, "columns": {"size": [1]}},
        {"rows": []},
        {"columns": {}},
        {"columns": {"size": [], "colour": []}},
    ):
        assert "row" in problem(predict(client, model, **body), 422)["detail"]
    too_many = {"size": [1] * 1001, "colour": ["red"] * 1001}
    assert "1000" in problem(predict(client, model, columns=too_many), 413, "too-large")["detail"]
    uneven = problem(predict(client, model, columns={"size": [1, 2], "colour": ["red"]}), 422)
    assert places(uneven) == [("size", None), ("colour", None)]
    for field, values in {
        "level": [0, 1, 1.5, -0.1, "0.9", [0.5, 2], [[0.5]], None, [0.5] * 21],
        "interval": ["wide", 1],
        "quantiles": [[0], [1], 0.5, ["x"], [0.5] * 101],
        "draws": [0, -1, 1.5, "3", 10**30],
        "require": ["not_converged", "yes", 1],
        "rows": [5, "x", {"a": 1}],
        "mcse": [1, "yes"],
        "rhat": [1, "yes"],
        "samples": [0, -1, 1.5, 10**30],
        "target": ["median", None],
        "seed": [-1, 0.5],
        "samples_of": ["median"],
        "seeds": [1],
    }.items():
        for value in values:
            body = problem(predict(client, model, **{"rows": ROWS, field: value}), 422, "invalid-request")
            assert body["errors"][0]["column"].startswith(field), (field, value, body)
    many = problem(predict(client, model, rows=ROWS, level=[0.5] * 21), 422)
    assert "at most 20 items" in many["detail"]
    elsewhere = problem(predict(client, model, rows=ROWS, keep=["size"]), 422)  # a parameter of files
    assert "did you mean" not in elsewhere["detail"]


@only("sqlite")
def test_extreme_numbers_are_answered_or_refused(client, model):
    """The largest and smallest float64 and integers beyond 2^53 never give a 5xx."""
    for value in (1.7e308, -1.7e308, 5e-324, 2**63, -(2**80), 0.1 + 0.2, True):
        response = predict(client, model, rows=[{"size": value, "colour": "red"}])
        assert response.status_code == 200, response.text
        assert np.isfinite(response.json()["mean"][0])


def test_a_deleted_model_answers_no_more(client, model):
    """A deleted model is a 404 even if its posterior is cached."""
    for _ in range(2):  # the second time, what is remembered of the model is used
        assert predict(client, model, rows=ROWS).status_code == 200
    assert client.delete(f"/models/{model['id']}").status_code == 204

    problem(predict(client, model, rows=ROWS), 404)
    problem(predict(client, "mine", rows=ROWS), 404)
    assert client.delete(f"/datasets/{model['dataset_id']}").status_code == 204


def test_damaged_draws_are_not_answered_from(client, model, database):
    """A changed byte in stored draws gives a problem document."""
    with session_scope(database.engine) as session:
        session.execute(update(DrawBlock).where(DrawBlock.chain == 1).values(data=b"changed"))

    body = problem(predict(client, model, rows=ROWS), 500, "damaged")

    assert "damaged" in body["detail"]


def test_held_out_scores_come_with_the_model(client, settings):
    """A model has held-out scores beside a linear model's, with interval coverage."""
    model = fitted(client, settings, holdout=0.25)

    assert model["holdout"]["rows"] == 15
    assert {"rmse", "linear_rmse", "coverage"} <= set(model["holdout"])
    assert model["holdout"]["intervals_verdict"]["verdict"] == "unknown"  # 15 rows are too few for it
    assert model["diagnostics"]["sigma"].keys() >= {"rhat", "ess_bulk", "ess_tail"}
    assert model["progress"]["fraction"] == 1
    assert model["draws"] == 40
    assert model["finished_at"] >= model["started_at"] >= model["created_at"]


@only("sqlite")
def test_the_work_of_an_answer_is_bounded(client, model, settings):
    """Too much work (rows x draws x trees) is a 413 with the limit and the background route."""
    each = work_of_row(of_file(client, model), PredictionOptions(interval="credible"))
    with serving(settings.model_copy(update={"max_predict_work": 5 * each})) as address:
        path = f"{address}/models/{model['id']}/predict"
        six, five = ({"rows": ROWS[:1] * count, "interval": "credible"} for count in (6, 5))
        detail = problem(client.post(path, json=six), 413)["detail"]
        assert client.post(path, json=five).status_code == 200
        assert client.post(path, json=six | {"draws": 20}).status_code == 200
        assert client.post(path, json={"rows": ROWS[:1] * 8, "target": "mean"}).status_code == 200
        predictive = {"rows": ROWS[:1] * 5, "interval": "predictive"}
        assert client.post(path, json=predictive).status_code == 413

    assert "6 rows x 80 draws x 10 trees" in detail
    assert "at most 5 " in detail
    assert "BARTSERVE_MAX_PREDICT_WORK" in detail
    assert "/predictions" in detail


@only("sqlite")
def test_bodies_answered_directly_are_answered_as_by_the_framework(client, model, monkeypatch):
    """The short way answers as FastAPI's handler does, and leaves refusals to it."""
    bodies = [
        {"rows": ROWS},
        {"columns": {"size": [3], "colour": ["red"]}, "target": "mean"},
        {"rows": ROWS, "level": 2},
        {"rows": ROWS, "mcse": "yes", "nonsense": 1},
        {"rows": [{"size": "x", "colour": "red"}]},
        {"rows": []},
        [],
        "rows",
    ]
    path, direct = f"/models/{model['id']}/predict", _Route.answer_directly
    answered = []

    async def watched(self, request, value):
        answered.append(await direct(self, request, value))
        return answered[-1]

    async def never(self, request, value):
        return None

    def ask(way):
        monkeypatch.setattr(_Route, "answer_directly", way)
        for accept in ("*/*", "text/csv", "image/png"):
            for body in bodies:
                for query in ("", "?level=0.5"):
                    response = client.post(path + query, json=body, headers={"Accept": accept})
                    yield response.status_code, re.sub(r'"request_id": ?"\w+"', "", response.text)

    assert list(ask(watched)) == list(ask(never))
    assert sum(response is not None for response in answered) == 4
