"""Background predictions of stored datasets."""

import io
import json

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from sqlalchemy import update

from app.services.predictions import stored
from app.services.predictions.options import PredictionOptions
from app.services.predictions.predict_rows import work_of_row
from app.store import datasets
from app.store import predictions as store
from app.store.engine import session_scope
from app.store.queue import claims, units
from app.store.queue.workers import register
from app.store.tables import BatchPrediction, Dataset, PredictionBlock, Worker
from tests.support.api_calls import of_file, places, post_csv, problem, table
from tests.support.databases import only
from tests.support.models.fitted_models import fitted, run_units
from tests.support.models.single_tree_models import KINDS, kinds

ARROW, CSV = "application/vnd.apache.arrow.stream", "text/csv"
WORK_OF_ROW = 80 * 250  # draws, and trees in each, with the cost of a mixture's quantiles
NEW = "size,colour\n3,red\n17.5,blue\n,green\n99,mauve\n"


@pytest.fixture
def dataset_id(client) -> str:
    return post_csv(client, NEW).json()["id"]


def start(client, model, dataset_id, **more):
    ref = model["id"] if isinstance(model, dict) else model
    return client.post(f"/models/{ref}/predictions", json={"dataset_id": dataset_id} | more)


def result(client, prediction, accept="application/json"):
    return client.get(f"/predictions/{prediction['id']}/result", headers={"Accept": accept})


ASKED = {"level": [0.5, 0.9], "interval": "predictive", "quantiles": [0.1], "mcse": True, "rhat": True}


def test_a_dataset_is_predicted_in_the_background(client, settings, model, dataset_id):
    """A background result equals `predict` for the same rows, in every format."""
    response = start(client, model, dataset_id, **ASKED)

    assert response.status_code == 202, response.text
    prediction = response.json()
    path = f"/predictions/{prediction['id']}"
    assert response.headers["location"] == path
    assert (prediction["state"], prediction["draws"], prediction["level"]) == ("queued", 40, [0.5, 0.9])
    assert prediction["progress"] == {"fraction": 0, "rows_done": 0, "rows": 4}
    problem(client.get(f"{path}/result"), 409, "prediction-not-finished")
    run_units(settings)
    done = client.get(path).json()
    assert (done["state"], done["error"]) == ("succeeded", None)
    assert done["progress"] == {"fraction": 1, "rows_done": 4, "rows": 4}
    assert done["flags"] == {
        "size": {"outside_range": 1, "missing": 1},
        "colour": {"unseen_level": 1},
    }
    assert done["finished_at"] >= done["started_at"] >= done["created_at"]
    assert client.get("/predictions").json()["items"] == [done]

    path = f"/models/{model['id']}/predict"
    headers = {"Content-Type": CSV}
    reply = client.post(path, content=NEW, headers=headers, params=ASKED)
    expected = reply.json()
    document = result(client, prediction).json()
    same = ("mean", "sd", "intervals", "quantiles", "mcse", "rhat", "flags", "draws", "verdict", "model_id")
    assert {name: document[name] for name in same} == {name: expected[name] for name in same}
    for accept in (ARROW, CSV):
        answer = result(client, prediction, accept)
        direct = client.post(path, content=NEW, headers=headers | {"Accept": accept}, params=ASKED)
        assert read(answer).equals(read(direct))
    problem(result(client, prediction, "image/png"), 406)


def read(response) -> pa.Table:
    assert response.status_code == 200, response.text
    if response.headers["content-type"].startswith(CSV):
        return pacsv.read_csv(io.BytesIO(response.content))
    return pa.ipc.open_stream(response.content).read_all().replace_schema_metadata()


@pytest.mark.parametrize(("work", "units_made"), [(None, 4), (3, 15)])
def test_units_follow_each_other(client, settings, model, monkeypatch, work, units_made):
    """Blocks of eight rows, processed singly or two per unit, give each row once and in order."""
    monkeypatch.setattr("app.store.datasets.BLOCK_ROWS", 8)
    monkeypatch.setattr("app.store.predictions.BLOCK_ROWS", 8)
    monkeypatch.setattr(stored, "BLOCK_ROWS", 8)
    if work:  # of so many rows
        monkeypatch.setattr(
            stored, "UNIT_WORK", work * work_of_row(of_file(client, model), PredictionOptions())
        )
    dataset_id = post_csv(client, table(30)).json()["id"]
    prediction = start(client, "mine", dataset_id).json()

    assert run_units(settings) == units_made

    assert client.get(f"/predictions/{prediction['id']}").json()["state"] == "succeeded"
    content = table(30)
    direct = client.post(
        f"/models/{model['id']}/predict", content=content, headers={"Content-Type": CSV, "Accept": ARROW}
    )
    for accept in (ARROW, CSV):
        predicted = read(result(client, prediction, accept))
        assert predicted["mean"].to_pylist() == read(direct)["mean"].to_pylist()
    assert json.loads(result(client, prediction).content)["mean"] == read(direct)["mean"].to_pylist()
    assert prediction["warnings"] == ["not used by the model: y, note"]


def test_warnings_name_levels_that_training_had_not(client, settings, model, monkeypatch):
    """The first of them over all units, as `predict` names them; also in the result and its tables."""
    monkeypatch.setattr("app.store.datasets.BLOCK_ROWS", 8)
    monkeypatch.setattr("app.store.predictions.BLOCK_ROWS", 8)
    monkeypatch.setattr(stored, "BLOCK_ROWS", 8)
    for colours, named in (
        (["mauve", "red", "pink"] * 4, "'mauve', 'pink' (8 rows)"),
        ([f"c{9 - row}" for row in range(10)], "'c0', 'c1', 'c2', 'c3', 'c4' and more (10 rows)"),
    ):
        text = "size,colour\n" + "".join(f"3,{colour}\n" for colour in colours)
        prediction = start(client, model, post_csv(client, text).json()["id"]).json()
        assert prediction["warnings"] == []
        assert run_units(settings) == 2
        expected = [f"colour: levels never seen in training: {named}"]
        assert client.get(f"/predictions/{prediction['id']}").json()["warnings"] == expected
        assert result(client, prediction).json()["warnings"] == expected
        facts = pa.ipc.open_stream(result(client, prediction, ARROW).content).schema.metadata
        assert any(expected[0].encode() in value for value in facts.values())


@pytest.mark.parametrize("num_rows", [1, 65_536, 3_000_000, 10**9])
@pytest.mark.parametrize("work", [1, WORK_OF_ROW, 10**6, 10**9])
def test_a_unit_takes_seconds(num_rows, work):
    """A unit is a whole part of a block within its share of work, unless that makes thousands of units."""
    rows = stored.unit_rows(work, num_rows)
    would_be_many = 2 * num_rows > rows * stored.MAX_UNITS

    assert stored.BLOCK_ROWS % rows == 0
    assert rows * work <= stored.UNIT_WORK or would_be_many
    assert rows == stored.BLOCK_ROWS or 2 * rows * work > stored.UNIT_WORK


def test_what_cannot_be_predicted_is_refused_or_fails_with_its_place(client, settings, model, monkeypatch):
    """Wrong names and options are refused; wrong cells fail the prediction with the row in the dataset."""
    strange = post_csv(client, "size,hue\n1,red\n2,red\n").json()["id"]
    body = problem(start(client, model, strange), 422, "unusable-data")
    assert places(body) == [("colour", None), ("hue", None)]
    problem(start(client, model, "ds_unknown"), 404)
    monkeypatch.setattr("app.store.datasets.BLOCK_ROWS", 8)
    monkeypatch.setattr("app.store.predictions.BLOCK_ROWS", 8)
    monkeypatch.setattr(stored, "BLOCK_ROWS", 8)
    monkeypatch.setattr(stored, "UNIT_WORK", WORK_OF_ROW)
    wrong = post_csv(client, "size,colour\n" + "1,red\n" * 9 + "big,red\n").json()["id"]
    problem(start(client, "nobody", wrong), 404)
    assert places(problem(start(client, model, wrong, draws=41), 422)) == [("draws", None)]
    for field, value in [("level", 2), ("interval", "wide"), ("mcse", 1), ("require", "converged")]:
        body = problem(start(client, model, wrong, **{field: value}), 422)
        assert body["errors"][0]["column"].startswith(field)

    text = "y,flag\n" + "".join(f"{row % 5},{'true' if row % 2 else 'false'}\n" for row in range(40))
    of_flags = fitted(client, settings, text=text)
    wrong = post_csv(client, "x,flag\n" + "1,1\n" * 9 + "1,2\n").json()["id"]
    problem(start(client, of_flags, wrong), 422)  # x was not a training column
    wrong = post_csv(client, "y,flag\n" + "1,1\n" * 9 + "1,2\n").json()["id"]
    prediction = start(client, of_flags, wrong).json()
    run_units(settings)

    failed = client.get(f"/predictions/{prediction['id']}").json()
    assert (failed["state"], failed["error"]["type"]) == ("failed", "data")
    assert "'flag', row 10" in failed["error"]["detail"]
    problem(result(client, prediction), 409, "prediction-not-finished")
    assert client.get(f"/models/{of_flags['id']}").json()["state"] == "succeeded"


def test_cancelling(client, settings, model, dataset_id):
    """Cancelling ends a queued prediction at once; a second time, or once finished, it changes nothing."""
    prediction = start(client, model, dataset_id).json()
    path = f"/predictions/{prediction['id']}"

    first, again = client.post(f"{path}/cancel"), client.post(f"{path}/cancel")

    assert (first.status_code, first.json()["state"]) == (200, "cancelled")
    assert first.json() == again.json()
    assert run_units(settings) == 0
    problem(result(client, prediction), 409)
    other = start(client, model, dataset_id).json()
    run_units(settings)
    problem(client.post(f"/predictions/{other['id']}/cancel"), 409, "conflict")
    problem(client.post("/predictions/prd_x/cancel"), 404)


@pytest.mark.parametrize("kind", ["predictions", "studies", "webhooks"])
def test_what_is_not_there_is_refused_alike(client, kind):
    """Every kind of resource is looked up by one rule: the refusal names the list."""
    for ask in (client.get, client.delete):
        for of in ("x_1", "x.1"):
            assert f"GET /{kind} lists yours" in problem(ask(f"/{kind}/{of}"), 404)["detail"]


def test_a_running_one_learns_of_its_end(client, database, model, dataset_id):
    """A worker learns of a cancel or deletion at its next heartbeat or by losing its lease."""
    with session_scope(database.engine) as session:
        register(session, Worker(id="w", host="h", pid=1, slots=2, beat_at=0, phase="working"))
    for method, path in [("POST", "/cancel"), ("DELETE", "")]:
        prediction = start(client, model, dataset_id).json()
        with session_scope(database.engine) as session:
            claim = claims.claim(session, "w", 60)
        assert claim.prediction_id == prediction["id"]
        assert client.get(f"/predictions/{prediction['id']}").json()["state"] == "running"
        assert client.request(method, f"/predictions/{prediction['id']}{path}").is_success
        if method == "POST":
            with session_scope(database.engine) as session:
                assert units.heartbeat(session, claim) is units.Directive.CANCEL
            with session_scope(database.engine) as session:
                units.stop(session, claim)
            assert client.get(f"/predictions/{prediction['id']}").json()["state"] == "cancelled"
        else:
            with pytest.raises(units.LeaseLostError), session_scope(database.engine) as session:
                units.heartbeat(session, claim)
            problem(client.get(f"/predictions/{prediction['id']}"), 404)


def test_the_dataset_stays_while_it_is_predicted(client, settings, model, dataset_id):
    """Deleting a dataset in use is a 409 that names the prediction; afterwards the result outlives it."""
    prediction = start(client, model, dataset_id).json()

    body = problem(client.delete(f"/datasets/{dataset_id}"), 409, "in-use")
    assert prediction["id"] in body["detail"]
    run_units(settings)
    before = result(client, prediction, CSV).content
    assert client.delete(f"/datasets/{dataset_id}").status_code == 204
    assert result(client, prediction, CSV).content == before
    assert client.get(f"/predictions/{prediction['id']}").json()["dataset_id"] is None


def test_a_deleted_model_takes_its_predictions_along(client, settings, model, dataset_id):
    """Predictions of a deleted model are removed, finished or not, and never continued."""
    done = start(client, model, dataset_id).json()
    run_units(settings)
    waiting = start(client, model, dataset_id).json()

    assert client.delete(f"/models/{model['id']}").status_code == 204

    for prediction in (done, waiting):
        problem(client.get(f"/predictions/{prediction['id']}"), 404)
        problem(result(client, prediction), 404)
    assert run_units(settings) == 0
    assert client.delete(f"/datasets/{dataset_id}").status_code == 204


def test_a_damaged_result_is_not_given(client, settings, database, model, dataset_id):
    """A changed byte of a stored result is detected before the response begins."""
    prediction = start(client, model, dataset_id).json()
    run_units(settings)
    with session_scope(database.engine) as session:
        assert store.num_blocks(session, prediction["id"]) == 1
        session.execute(update(PredictionBlock).values(data=b"changed"))

    assert "damaged" in problem(result(client, prediction), 500, "damaged")["detail"]


@only("sqlite")
def test_predictions_come_before_fits(client, settings, model, dataset_id, database):
    """Units of predictions are claimed before chains that were queued earlier."""
    body = {"dataset_id": model["dataset_id"], "target": "y", "num_chains": 1}
    assert client.post("/models", json=body).status_code == 202
    prediction = start(client, model, dataset_id).json()

    with session_scope(database.engine) as session:
        assert claims.claim(session, "w", 60).prediction_id == prediction["id"]
        assert claims.claim(session, "w", 60).prediction_id is None


def test_predictions_of_other_owners_are_404(client, database, model, dataset_id):
    """Other owners' predictions are 404 on every route, in no list, and their datasets can't be predicted."""
    with session_scope(database.engine) as session:
        dataset = session.get_one(Dataset, dataset_id)
        mine = {"owner": dataset.owner, "model_id": model["id"], "dataset": dataset}
        others = store.create(session, **mine, request={})
    with session_scope(database.engine) as session:
        session.get_one(BatchPrediction, others.id).owner = "somebody else"
        theirs = datasets.save(
            session,
            datasets.encode(pa.table({"size": [1.0], "colour": ["red"]})),
            owner="somebody else",
            name="x",
            columns=[{"name": "size"}, {"name": "colour"}],
            warnings=[],
        )
    for method, path in [("GET", ""), ("GET", "/result"), ("POST", "/cancel"), ("DELETE", "")]:
        problem(client.request(method, f"/predictions/{others.id}{path}"), 404, "not-found")
    assert client.get("/predictions").json()["items"] == []
    problem(start(client, model, theirs.id), 404, "not-found")


@only("sqlite")
def test_two_classes_are_predicted_as_probabilities(client, settings):
    """Direct and background predictions give the second label's probability, its interval, and the labels."""
    text = "size,colour,bought\n" + "".join(
        f"{row % 19},{'red' if row % 3 else 'blue'},{'yes' if row % 19 > 9 else 'no'}\n" for row in range(80)
    )
    model = fitted(client, settings, text=text, target="bought", family="probit")
    new = "size,colour\n1,red\n17,blue\n"
    path = f"/models/{model['id']}/predict"

    response = client.post(
        path, content=new, headers={"Content-Type": CSV}, params={"mcse": True, "rhat": True}
    )
    refused = client.post(path, json={"columns": {"size": [1], "colour": ["red"]}, "interval": "predictive"})
    dataset_id = post_csv(client, new).json()["id"]
    prediction = start(client, model, dataset_id).json()
    run_units(settings)

    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["classes"] == ["no", "yes"] == prediction["classes"]
    assert 0 <= answer["mean"][0] < 0.5 < answer["mean"][1] <= 1
    assert 0 <= answer["intervals"][0]["lower"][0] <= answer["intervals"][0]["upper"][1] <= 1
    problem(refused, 422, "invalid-request")
    problem(start(client, model, dataset_id, interval="predictive"), 422, "invalid-request")
    assert result(client, prediction).json()["mean"] == answer["mean"]


def test_each_of_several_classes_has_its_rhat(client, settings):
    """R-hat is [row][class] in JSON and a column by class in tables, now and in the background."""
    model = fitted(client, settings, text=kinds(), family="categorical")
    prediction = start(client, model, model["dataset_id"], rhat=True).json()
    run_units(settings)
    path, query = f"/models/{model['id']}/predict", {"rhat": True}
    answer = client.post(path, content=kinds(), headers={"Content-Type": CSV}, params=query).json()
    assert [len(row) for row in answer["rhat"]] == [len(KINDS)] * 120
    assert result(client, prediction).json()["rhat"] == answer["rhat"]
    for accept in (ARROW, CSV):
        headers = {"Content-Type": CSV, "Accept": accept}
        direct = read(client.post(path, content=kinds(), headers=headers, params=query))
        assert direct["rhat_c"].to_pylist() == [row[2] for row in answer["rhat"]]
        assert read(result(client, prediction, accept)).equals(direct)


def test_it_says_when_intervals_are_of_another_weight(client, settings):
    """A background prediction warns as `predict` does where rows had weights far from 1."""
    text = table(60).replace("\n", ",100\n").replace("note,100", "note,w", 1)
    model = fitted(client, settings, text=text, weights="w")
    batch = start(client, model, model["dataset_id"]).json()
    answer = client.post(
        f"/models/{model['id']}/predict", json={"rows": [{"size": 3, "colour": "red"}]}
    ).json()
    assert "of an outcome of weight 1" in answer["warnings"][0]
    assert answer["warnings"][0] in batch["warnings"]


ID = 2**53 + 1  # float64 would round it


def test_a_result_repeats_columns_of_its_dataset(client, settings, model):
    """Kept columns come before the figures in every table, also those that the model doesn't know."""
    dataset = post_csv(client, f"id,size,when,colour\n{ID},3,2024-01-31,red\n8,17.5,2024-02-29,blue\n").json()
    problem(start(client, model, dataset["id"]), 422)
    problem(start(client, model, dataset["id"], keep=["nr"]), 422)
    prediction = start(client, model, dataset["id"], keep=["*"]).json()
    assert prediction["keep"] == ["id", "size", "when", "colour"]
    run_units(settings)

    plain = result(client, prediction).json()
    arrow = pa.ipc.open_stream(result(client, prediction, ARROW).content).read_all()
    parquet = pq.read_table(io.BytesIO(result(client, prediction, "application/vnd.apache.parquet").content))
    csv = result(client, prediction, CSV).text.replace('"', "").splitlines()

    assert arrow.column_names[:5] == [*prediction["keep"], "mean"]
    assert arrow["mean"].to_pylist() == plain["mean"]
    assert parquet.equals(arrow)
    assert csv[1].startswith(f"{ID},3,2024-01-31,red,")
    assert arrow["id"].to_pylist() == [ID, 8]
    client.delete(f"/datasets/{dataset['id']}")
    problem(result(client, prediction, CSV), 409, "conflict")
    assert result(client, prediction).json() == plain
