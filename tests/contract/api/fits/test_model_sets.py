"""Sets of models: one for each group of a dataset's rows, listed, predicted and deleted together."""

import csv
import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import func, select, update

from app.services.model_sets import making
from app.store import deletion
from app.store.access import quotas as quota_store
from app.store.engine import session_scope
from app.store.queue import claims, lifecycle
from app.store.sets import model_sets as store
from app.store.tables import Dataset, DatasetBlock, Model, ModelSet, Unit
from sampler import pack
from tests.support.api_calls import of_file, places, post_csv, problem
from tests.support.models.fitted_models import SMALL, run_units

ROWS = {"size": [1, 7, 19], "colour": ["red", "blue", "green"]}
FEW = 4  # rows of the last group, too few for a fit


def shops(rows_of_each=(30, 24, 27, FEW)):
    """Make rows of four shops, mixed; the last has too few for a fit."""
    rng = np.random.default_rng(5)
    lines = ["sales,shop,size,colour"]
    for row in range(max(rows_of_each)):
        for shop, rows in enumerate(rows_of_each, start=1):
            size, colour = row * 7 % 19, ("red", "green", "blue")[row % 3]
            sales = shop + size / 2 + 3 * (colour == "red") + rng.normal() / 4
            if row < rows:
                lines.append(f"{sales:.3f},{shop},{size},{colour}")
    return "\n".join(lines) + "\n"


def of_shop(text, shop):
    """Keep the rows of a shop, without the column that tells it."""
    cells = [line.split(",") for line in text.splitlines()]
    return "\n".join(",".join(each[:1] + each[2:]) for each in cells if each[1] in {"shop", shop}) + "\n"


def created(client, text=None, **more):
    """Upload the shops and ask for a set."""
    dataset = post_csv(client, text or shops()).json()
    body = {"dataset_id": dataset["id"], "target": "sales", "by": "shop"} | SMALL | more
    response = client.post("/model-sets", json=body)
    assert response.status_code == 202, response.text
    return client.get(response.headers["location"]).json()


def single_fit(client, settings, text, **more):
    """Fit a model to a table in the service."""
    dataset = post_csv(client, text).json()
    body = {"dataset_id": dataset["id"], "target": "sales"} | SMALL | more
    model = client.post("/models", json=body).json()
    run_units(settings)
    return model


def completed(client, settings, database, **more):
    """Make the models of a set and fit them all."""
    made = created(client, **more)
    while making.run_due(database.engine, settings):
        run_units(settings)
    return client.get(f"/model-sets/{made['id']}").json()


def models_of(client, made, **query):
    return client.get(f"/model-sets/{made['id']}/models", params=query).json()["items"]


def test_each_group_has_the_model_of_its_rows_alone(client, settings, database):
    """A set's models equal single fits of the groups' rows, in the service and in the library."""
    made = completed(client, settings, database, seed=3)

    assert (made["state"], made["by"], made["groups"]) == ("succeeded", ["shop"], 4)
    assert made["progress"] == {
        "fraction": 1.0, "waiting": 0, "queued": 0, "running": 0, "succeeded": 3, "failed": 1, "cancelled": 0
    }  # fmt: skip
    listed = models_of(client, made)
    assert [(each["group"], each["rows"]) for each in listed] == [
        (["1"], 30), (["2"], 24), (["3"], 27), (["4"], None)
    ]  # fmt: skip
    assert [each["state"] for each in listed] == ["succeeded"] * 3 + ["failed"]
    assert f"has {FEW} rows" in listed[3]["error"]["detail"]

    single = single_fit(client, settings, of_shop(shops(), "2"), seed=3)
    of_set, alone = (of_file(client, {"id": each}) for each in (listed[1]["model_id"], single["id"]))
    for chains in zip(of_set.chains(), alone.chains(), strict=True):
        assert pack(chains[0]) == pack(chains[1])
    assert of_set.predict(ROWS).mean.tolist() == alone.predict(ROWS).mean.tolist()


def test_rows_are_predicted_by_the_model_of_their_group(client, settings, database):
    """Any spelling of a group finds its model; rows without one are refused and named, or flagged."""
    made = completed(client, settings, database, text=shops((20, 20, FEW)))
    ids = [each["model_id"] for each in models_of(client, made)]
    path = f"/model-sets/{made['id']}/predict"
    rows = {"shop": [2, "1", 2.0], "size": [1, 7, 19], "colour": ["red", "blue", "green"]}
    answer = client.post(path, json={"columns": rows, "level": [0.5, 0.9], "quantiles": [0.1]}).json()

    assert (answer["set_id"], answer["model_ids"]) == (made["id"], [ids[1], ids[0], ids[1]])
    for shop, places_of in ((0, [1]), (1, [0, 2])):
        own = {name: [rows[name][row] for row in places_of] for name in ("size", "colour")}
        body = {"columns": own, "level": [0.5, 0.9], "quantiles": [0.1]}
        single = client.post(f"/models/{ids[shop]}/predict", json=body).json()
        for name in ("mean", "sd"):
            assert [answer[name][row] for row in places_of] == single[name]
        for mine, other in zip(answer["intervals"], single["intervals"], strict=True):
            assert [mine["upper"][row] for row in places_of] == other["upper"]
        assert [answer["quantiles"][0]["values"][row] for row in places_of] == single["quantiles"][0][
            "values"
        ]

    strange = [
        {"shop": shop, "size": 1, "colour": "red"} for shop in (1, 3, "Leeds")
    ]  # 3 has a model that failed
    refused = problem(client.post(path, json={"rows": strange}), 422, "unusable-data")
    assert places(refused) == [("shop", 2)]
    assert "no model for shop '3'; shop 'Leeds' (2 rows)" in refused["detail"]
    flagged = client.post(path, json={"rows": strange, "unknown": "flag"}).json()
    assert (flagged["mean"][1:], flagged["model_ids"]) == ([None, None], [ids[0], None, None])
    assert flagged["flags"][2] == [{"column": "shop", "flag": "unknown_group"}]
    bad = {"rows": [strange[0], {"shop": 2, "size": "many", "colour": "red"}]}
    refused = problem(client.post(path, json=bad), 422, "unusable-data")
    assert places(refused) == [("size", 2)]
    assert "(shop '2')" in refused["detail"]
    problem(client.post(path, json={"rows": [{"size": 1, "colour": "red"}]}), 422)
    problem(client.post(path, json={"rows": [{"shop": None, "size": 1, "colour": "red"}]}), 422)


def test_files_are_predicted_by_group(client, settings, database):
    """CSV, Parquet and JSON of one table have the same answer, and a table keeps the columns of the file."""
    made = completed(client, settings, database, text=shops((20, 20, FEW)))
    path = f"/model-sets/{made['id']}/predict?level=0.5&quantiles=0.1"
    rows = {"shop": ["2", "1", "2"], "size": [1, 7, 19], "colour": ["red", "blue", "green"]}
    text = "id;shop;size;colour\n" + "".join(
        f"a{k};{shop};{size};{colour}\n"
        for k, (shop, size, colour) in enumerate(zip(*rows.values(), strict=True))
    )
    body = {"columns": rows, "level": [0.5], "quantiles": [0.1]}
    expected = client.post(f"/model-sets/{made['id']}/predict", json=body).json()

    answer = client.post(
        f"{path}&keep=id", content=text, headers={"content-type": "text/csv", "accept": "text/csv"}
    )
    assert answer.status_code == 200, answer.text
    header, *lines = csv.reader(answer.text.splitlines())
    assert header[:2] == ["id", "mean"]
    assert [line[0] for line in lines] == ["a0", "a1", "a2"]
    assert [float(line[1]) for line in lines] == expected["mean"]
    parquet = io.BytesIO()
    pq.write_table(
        pa.table({"shop": [2, 1, 2], **{name: rows[name] for name in ("size", "colour")}}), parquet
    )
    of_parquet = client.post(
        path, content=parquet.getvalue(), headers={"content-type": "application/vnd.apache.parquet"}
    ).json()
    assert {name: of_parquet[name] for name in ("mean", "model_ids", "intervals", "quantiles")} == {
        name: expected[name] for name in ("mean", "model_ids", "intervals", "quantiles")
    }
    assert of_parquet["read_as"]["format"] == "parquet"
    of_csv = {"content-type": "text/csv"}
    bad = client.post(path, content="shop,size,colour\n1,many,red\n", headers=of_csv)
    assert places(problem(bad, 422)) == [("size", 1)]
    problem(client.post(path, content="size,colour\n1,red\n", headers=of_csv), 422)
    problem(client.post(f"{path}&unknown=lose", content=text, headers=of_csv), 422)
    waiting = created(client, text=shops((20, 20)))
    problem(client.post(f"/model-sets/{waiting['id']}/predict", content=text, headers=of_csv), 409)


def test_models_of_a_set_are_listed_there_alone(client, settings, database):
    """They are paged in the order of the data, found by a part of the group or a state, and not elsewhere."""
    towns = {"shop": "town", "1": "Leeds", "2": "York", "3": "Leeds", "4": "Bath"}
    cells = [line.split(",") for line in shops((12, 12, 12, FEW)).splitlines()]
    text = "\n".join(",".join([*each, towns[each[1]]]) for each in cells)
    made = created(client, text=text, by=["town", "shop"])
    assert (made["state"], made["progress"]["waiting"]) == ("queued", 4)
    making.run_due(database.engine, settings)

    page = client.get(f"/model-sets/{made['id']}/models?limit=3").json()
    assert [each["group"] for each in page["items"]] == [["Leeds", "1"], ["York", "2"], ["Leeds", "3"]]
    rest = models_of(client, made, cursor=page["next_cursor"])
    assert [(each["group"], each["state"]) for each in rest] == [(["Bath", "4"], "failed")]
    assert [each["group"][1] for each in models_of(client, made, search="leeds")] == ["1", "3"]
    assert [each["group"][1] for each in models_of(client, made, state="failed")] == ["4"]
    assert models_of(client, made, search="%") == []
    assert client.get("/models").json()["items"] == []
    assert len(client.get("/datasets").json()["items"]) == 1
    model = client.get(f"/models/{page['items'][0]['model_id']}").json()
    assert model["label"] == "sales, Leeds, 1"
    assert [each["id"] for each in client.get("/model-sets").json()["items"]] == [made["id"]]
    problem(client.get("/model-sets/set_0"), 404)


def test_a_set_is_deleted_with_all_of_its_models(client, settings, database):
    """Nothing of a set is left, models that are being fitted stop, and no further ones are made."""
    made = created(client)
    dataset = f"/datasets/{made['dataset_id']}"
    assert made["id"] in problem(client.delete(dataset), 409, "in-use")["detail"]
    making.run_due(database.engine, settings)
    model = models_of(client, made)[0]["model_id"]
    assert client.delete(dataset).status_code == 204  # each group has its own rows by now
    assert client.get(f"/model-sets/{made['id']}").json()["dataset_id"] is None

    assert client.delete(f"/model-sets/{made['id']}").status_code == 204
    problem(client.get(f"/model-sets/{made['id']}"), 404)
    problem(client.get(f"/models/{model}"), 404)
    assert run_units(settings) == 0
    assert making.run_due(database.engine, settings) == 0
    while True:
        with session_scope(database.engine) as session:
            if not deletion.delete_next_batch(session):
                break
    with session_scope(database.engine, read_only=True) as session:
        for table in (ModelSet, Model, Dataset, Unit, DatasetBlock):
            assert session.scalar(select(func.count()).select_from(table)) == 0, table


def test_a_cancelled_set_keeps_what_it_has(client, settings, database, monkeypatch):
    """Queued models end, no further ones are made, and the succeeded ones answer; later it is a 409."""
    monkeypatch.setattr(store, "AHEAD", 2)
    made = created(client, text=shops((12,) * 6))
    path = f"/model-sets/{made['id']}"
    assert making.run_due(database.engine, settings) == 2
    run_units(settings)
    assert making.run_due(database.engine, settings) == 2

    cancelled = client.post(f"{path}/cancel").json()
    assert (cancelled["state"], cancelled["progress"]["succeeded"]) == ("succeeded", 2)
    assert (cancelled["progress"]["cancelled"], cancelled["progress"]["fraction"]) == (4, 1.0)
    assert client.post(f"{path}/cancel").json() == cancelled
    assert (run_units(settings), making.run_due(database.engine, settings)) == (0, 0)
    assert [each["state"] for each in models_of(client, made)] == ["succeeded"] * 2 + ["cancelled"] * 2
    rows = [{"shop": 2, "size": 1, "colour": "red"}]
    assert client.post(f"{path}/predict", json={"rows": rows}).status_code == 200
    assert client.delete(f"/datasets/{made['dataset_id']}").status_code == 204

    monkeypatch.setattr(store, "AHEAD", 100)
    whole = completed(client, settings, database, text=shops((12, 12)))
    problem(client.post(f"/model-sets/{whole['id']}/cancel"), 409)


def test_running_models_of_a_cancelled_set_stop(client, settings, database):
    """A chain that runs ends at its next slice; the set is cancelled when all have ended."""
    made = created(client, text=shops((12, 12)))
    making.run_due(database.engine, settings)
    with session_scope(database.engine) as session:
        claim = claims.claim(session, "tests", 60.0)
    assert claim is not None
    assert client.post(f"/model-sets/{made['id']}/cancel").json()["state"] == "running"
    with session_scope(database.engine) as session:
        session.execute(update(Unit).where(Unit.state == "running").values(lease_until=0.0))
    with session_scope(database.engine) as session:
        assert lifecycle.sweep(session) == 1
    assert client.get(f"/model-sets/{made['id']}").json()["state"] == "cancelled"


def test_a_set_is_one_of_the_queued_and_makes_few_models_at_once(client, settings, database, monkeypatch):
    """Models are made while few of the set are open; all of them count as stored, made or not."""
    monkeypatch.setattr(store, "AHEAD", 2)
    made = created(client, text=shops((12, 12, 12, 12)))
    assert making.run_due(database.engine, settings) == 2
    assert making.run_due(database.engine, settings) == 0
    view = client.get(f"/model-sets/{made['id']}").json()
    assert (view["progress"]["waiting"], view["progress"]["queued"]) == (2, 2)
    with session_scope(database.engine, read_only=True) as session:
        owner = session.scalar(select(ModelSet.owner))
    with session_scope(database.engine) as session:
        assert quota_store.count_open_fits(session, owner) == 1
        assert [count for _, count, _ in quota_store.unmade(session, owner)] == [2]
    run_units(settings)
    assert making.run_due(database.engine, settings) == 2
    run_units(settings)
    assert client.get(f"/model-sets/{made['id']}").json()["state"] == "succeeded"
    with session_scope(database.engine) as session:
        assert quota_store.count_open_fits(session, owner) == 0


def test_two_makers_make_each_model_once(client, settings, database):
    """Processes on several machines may make models of a set at once."""
    made = created(client, text=shops((12,) * 6))
    with ThreadPoolExecutor(3) as threads:
        turns = [threads.submit(making.run_due, database.engine, settings) for _ in range(3)]
    assert sum(turn.result() for turn in turns) == 6
    assert [each["group"] for each in models_of(client, made)] == [[str(shop)] for shop in range(1, 7)]


@pytest.mark.parametrize(
    ("fields", "column"),
    [
        ({"by": "town"}, "by"),
        ({"by": []}, "by"),
        ({"by": "sales"}, "by"),
        ({"by": ["shop", "shop"]}, "by"),
        ({"target": "profit"}, "profit"),
        ({"num_trees": 0}, "num_trees"),
        ({"features": ["shop"]}, "shop"),
    ],
)
def test_a_request_is_refused_at_once(client, fields, column):
    """A request that no group could be fitted with is a 422 that names the field or the column."""
    dataset = post_csv(client, shops()).json()
    body = {"dataset_id": dataset["id"], "target": "sales", "by": "shop"} | SMALL | fields
    assert places(problem(client.post("/model-sets", json=body), 422))[0][0] == column


def test_a_row_without_a_group_is_refused(client):
    """The answer names the row."""
    dataset = post_csv(client, shops().replace(",3,", ",,", 1)).json()
    body = {"dataset_id": dataset["id"], "target": "sales", "by": "shop"}
    refused = problem(client.post("/model-sets", json=body), 422)
    assert places(refused)[0][0] == "shop"
    assert "belongs to no group" in refused["detail"]


def test_a_name_means_one_set(client, settings, database):
    """A name means the newest set with a model; until one has, the newest; and no name deletes two."""
    older = completed(client, settings, database, text=shops((20, 20)), name="shops")
    newer = created(client, text=shops((20, 20)), name="shops")
    row = {"rows": [{"shop": 1, "size": 1, "colour": "red"}]}

    assert client.get("/model-sets/shops").json()["id"] == older["id"]
    asked = client.post("/model-sets/shops/predict", json=row).json()
    assert asked["set_id"] == older["id"]
    other = {"rows": [row["rows"][0] | {"shop": " 1.0"}, row["rows"][0]]}  # as a category may be spelled
    assert client.post("/model-sets/shops/predict", json=other).json()["mean"] == 2 * asked["mean"]
    refused = problem(client.delete("/model-sets/shops"), 409, "conflict")
    assert older["id"] in refused["detail"]
    assert client.delete(f"/model-sets/{older['id']}").status_code == 204
    assert client.get("/model-sets/shops").json()["id"] == newer["id"]
    assert client.delete("/model-sets/shops").status_code == 204
    problem(client.get("/model-sets/shops"), 404, "not-found")
