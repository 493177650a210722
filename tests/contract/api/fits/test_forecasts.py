"""Forecasters over HTTP: fitted by workers, asked, refused; the same bits as the library's."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from app.assistants import words
from app.assistants.tools import Tools
from app.client import Client
from app.dashboard.formatting import number
from app.services.model_sets import making
from app.services.outcomes import schedules
from app.services.predictions import forecasts
from bartserve.scoring import Scorer
from sampler import Forecaster, SettingsError, fit
from sampler.forecasts import in_parts
from tests.contract.api.predictions.test_schedules import make_due
from tests.support.api_calls import post_csv, post_model
from tests.support.command_line import bartserve
from tests.support.databases import only
from tests.support.forecasts import SHORT, rows_of, shops
from tests.support.html_page import ACCEPT, page_of
from tests.support.models.fitted_models import CONTEXTS, run_one, run_units
from tests.support.routes import address, body_for, every_route

ASKED = {"time": "month", "series": "shop", "horizon": 4, "known": ["promo"]}
ASKED_WRONGLY = (  # questions that are refused, by the field that is named
    ({"series": []}, "series"),
    ({"series": [1e400]}, "series.0"),
    ({"series": [True]}, "series"),
    ({"series": [["s1", "s2"]]}, "series"),
    ({"at": 5}, "at"),
    ({"at": "soon"}, "at"),
    ({"level": 0.995}, "level"),
    ({"totals": [{"steps": [3, 2]}]}, "steps"),
    ({"totals": [{"by": "city"}]}, "by"),
)
SMALL = {name: value for name, value in SHORT.items() if name != "progress"}


def csv_of(columns: dict) -> str:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    return "\n".join(lines) + "\n"


@pytest.fixture
def sales():
    """Months of two shops, as numbers that a CSV file has exactly."""
    table, y = shops(2)
    days = [f"{month}-01" for month in table["month"]]
    return table | {"month": days, "sales": np.round(y, 3).tolist()}


@pytest.fixture
def dataset_id(client, sales) -> str:
    return post_csv(client, csv_of(sales)).json()["id"]


def ask(client, dataset_id, **more):
    return client.post("/models", json={"dataset_id": dataset_id, "target": "sales"} | ASKED | SMALL | more)


def planned(client, path) -> list[dict]:
    columns = client.get(f"{path}/forecast/template").json()
    columns["promo"] = [row % 4 == 1 for row in range(len(columns["month"]))]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@only("sqlite")
def test_a_forecaster_over_http(client, settings, database, sales, dataset_id, tmp_path):
    """Estimated, fitted in units, asked and downloaded, it is the library's, bit for bit."""
    _check_all(client, settings, database, sales, dataset_id, tmp_path)


@pytest.mark.slow
@only("postgres")
def test_a_forecaster_on_postgres(client, settings, database, sales, dataset_id, tmp_path):
    """Answers from Postgres are equal, and no route of a model fails for a forecaster."""
    _check_all(client, settings, database, sales, dataset_id, tmp_path)
    model_id = client.get("/models").json()["items"][0]["id"]
    run_units(settings)  # of a refit
    assert _broken(client, model_id, dataset_id) == []


def _check_all(client, settings, database, sales, dataset_id, tmp_path) -> None:
    body = {"dataset_id": dataset_id, "target": "sales"} | ASKED | SMALL
    estimate = client.post("/models/estimate", json=body)
    assert estimate.status_code == 200, estimate.text
    assert estimate.json()["fits"]
    assert estimate.json()["history"] == "steps of a month, 2 series, no gaps"
    response = ask(client, dataset_id, name="sales")
    assert response.status_code == 202, response.text
    assert len(response.json()["progress"]["chains"]) == 6
    run_units(settings)
    path = response.headers["location"]
    model = client.get(path).json()
    assert model["state"] == "succeeded", model["error"]
    assert model["settings"]["horizon"] == 4
    assert "Estimated in 10 rehearsals" in model["diagnostics"]["claim"]

    own = fit({name: sales[name] for name in sales if name != "sales"}, sales["sales"], **ASKED, **SHORT)
    plan = planned(client, path)
    totals = [{"steps": [2, 3], "by": "region"}, {"steps": [4]}]
    answer = client.post("/models/sales/forecast", json={"known": plan, "totals": totals, "paths": 7})
    assert answer.status_code == 200, answer.text
    said = answer.json()
    expected = own.forecast({name: [row[name] for row in plan] for name in plan[0]})
    for name in ("median", "lower", "upper", "series", "time", "claim", "flags"):
        assert said[name] == _plain(getattr(expected, name)), name
    each = np.linspace(0, len(expected.paths) - 1, 7).round().astype(int)  # of every member
    assert said["paths"] == expected.paths[each].tolist()
    total = expected.total((2, 3), "region")
    assert said["totals"][0]["upper"] == total.upper.tolist()
    assert said["totals"][0]["sets"] == {"region": ["north"]}
    assert said["totals"][0]["claim"] == total.claim

    stream = client.post(
        f"{path}/forecast",
        json={"known": plan, "series": ["s1"]},
        headers={"Accept": "application/vnd.apache.arrow.stream"},
    )
    with pa.ipc.open_stream(io.BytesIO(stream.content)) as reader:
        table = reader.read_all()
    assert table.column("upper").to_pylist() == said["upper"][1]
    assert stream.headers["bartserve-claims"] == said["claim"]

    file = Forecaster.from_bytes(client.get(f"{path}/file").content)
    assert np.array_equal(
        file.forecast({name: [r[name] for r in plan] for name in plan[0]}).paths, expected.paths
    )
    card = client.get(f"{path}/card", params={"format": "markdown"})
    assert card.headers["bartserve-model-id"] == model["id"]
    of_library = file.model_card({"Name": "sales"}).to_markdown()
    sections = card.text.split("## ")
    assert sections[2:] == of_library.split("## ")[2:]
    assert "| Name | sales |" in sections[1]
    assert model["diagnostics"]["agreement"] in card.text
    assert "<svg" in client.get("/models/sales/card").text
    data = client.get(f"{path}/file").content
    imported = post_model(client, data, name="again")
    assert imported.status_code == 201, imported.text
    assert imported.json()["diagnostics"] == model["diagnostics"]
    assert imported.json()["verdict"] == model["verdict"]
    again = client.post("/models/again/forecast", json={"known": plan, "totals": totals, "paths": 7}).json()
    assert again | {"model_id": said["model_id"]} == said
    damaged = post_model(client, data[:-9] + b"forgeries")
    assert (damaged.status_code, "checksum" in damaged.json()["detail"]) == (422, True)
    assert client.get("/models/again").status_code == 200
    rehearsed = client.get(f"{path}/forecast/rehearsals").json()
    assert rehearsed["inside"] == own.rehearsals().inside.tolist()
    highest = client.get(f"{path}/forecast/rehearsals", params={"level": 0.98}).json()
    assert (highest["level"], "95% intervals" in highest["claim"]) == (0.95, True)

    short = client.post(f"{path}/forecast", json={"known": plan[1:]})
    assert short.status_code == 422
    assert "2023-01-01 of shop s0" in short.json()["detail"]
    assert "template" in client.post(f"{path}/forecast", json={}).json()["detail"]
    assert client.post(f"{path}/forecast").status_code == 422
    for asked, column in ASKED_WRONGLY:
        sent = json.dumps({"known": plan} | asked).replace("Infinity", "1e400")
        refused = client.post(f"{path}/forecast", content=sent, headers={"content-type": "application/json"})
        assert refused.status_code == 422, refused.text
        assert refused.json()["errors"][0]["column"] == column, refused.text
    _check_client(client, tmp_path, plan, expected)
    _check_pages(client, model["id"], plan, expected)
    _check_outcomes(client, path, plan)
    again = {"every": "7d", "promote": "always", "dataset": "none newer"}
    assert client.put("/models/sales/schedule", json=again).status_code == 200
    make_due(database)
    assert schedules.run_due(database.engine, settings) == 1
    assert "again with 4 reported" in client.get("/models/sales/schedule").json()["text"]
    refused = client.post(f"{path}/predict", json={"rows": [{"promo": True}]})
    assert refused.status_code == 409, refused.text
    assert "ask forecast" in refused.json()["detail"]
    again = client.post(f"{path}/refit", json={"promote": "always"})
    assert again.status_code == 202, again.text
    assert again.json()["settings"]["known"] == ["promo"]
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404


@only("sqlite")
def test_a_forecaster_is_extended(client, settings, sales, dataset_id):
    """It answers by its draws until all have changed at once, and ends with the bits of a longer fit."""
    path = ask(client, dataset_id, name="sales").headers["location"]
    run_units(settings)
    plan = planned(client, path)
    newer = [row | {"region": "north", "sales": 20.0} for row in plan if row["month"] == plan[0]["month"]]
    assert client.post(f"{path}/outcomes", json={"rows": newer}).status_code == 201
    observed = client.get(f"{path}/file").content
    plan = planned(client, path)
    before = client.post(f"{path}/forecast", json={"known": plan}).json()
    refused = client.post(f"{path}/extend", json={"stop": {"verdict": "converged"}})
    assert (refused.status_code, refused.json()["errors"][0]["column"]) == (422, "stop")
    assert client.post(f"{path}/extend/estimate", json={"num_draws": 15}).json()["seconds"] > 0
    page = client.get(f"/ui{path}", headers=ACCEPT)
    assert "More draws per chain" in page_of(page).words
    extended = client.post(f"{path}/extend", json={"num_draws": 15})
    assert extended.status_code == 202, extended.text
    assert [run_one(CONTEXTS[settings]) for _ in range(4)] == [True] * 4
    assert client.get(path).json()["state"] == "running"
    assert client.post(f"{path}/forecast", json={"known": plan}).json() == before
    assert client.get(f"/ui{path}/forecast", headers=ACCEPT).status_code == 200
    run_units(settings)
    model = client.get(path).json()
    assert model["diagnostics"]["weeks_once"], "as reported outcomes left it"
    assert (model["state"], model["settings"]["num_draws"]) == ("succeeded", 40), model["error"]
    own = Forecaster.from_bytes(observed).extend(15)
    assert client.get(f"{path}/file").content == own.to_bytes()
    after = client.post(f"{path}/forecast", json={"known": plan}).json()
    assert after["median"] == _plain(own.forecast({n: [r[n] for r in plan] for n in plan[0]}).median)
    assert after["median"] != before["median"]
    longer = fit(
        {n: sales[n] for n in sales if n != "sales"}, sales["sales"], **ASKED, **SHORT | {"num_draws": 40}
    )
    assert own.calibration.steps.quantiles.tolist() == longer.calibration.steps.quantiles.tolist()

    with Client(str(client.base_url)) as bart:
        bart.extend("sales", 5)
    imported = post_model(client, observed).headers["location"]
    refused = client.post(f"{imported}/extend", json={"num_draws": 15})
    assert (refused.status_code, "in Python" in refused.json()["detail"]) == (409, True)
    run_units(settings)
    assert client.get(path).json()["settings"]["num_draws"] == 45


def _check_client(client, tmp_path, plan, expected) -> None:
    """Ask by the Python client and the command line, whose plans are rows, columns and files."""
    url = str(client.base_url)
    columns = {name: [row[name] for row in plan] for name in plan[0]}
    with Client(url) as bart:
        assert [*bart.plan_template("sales")] == ["shop", "month", "promo"]
        forecast = bart.forecast("sales", columns)
        assert np.array_equal(forecast.upper, expected.upper)
        assert forecast.total((2, 3), "region")["upper"] == expected.total((2, 3), "region").upper.tolist()
        said = {name: _plain(values) for name, values in forecast.to_dict().items()}
        assert said == {name: _plain(values) for name, values in expected.columns().items()}
        assert bart.forecast("sales", columns, series="s1").series == {"shop": ["s1"]}
        assert bart.rehearsals("sales")["step"][:4] == [1, 2, 3, 4]
        tools, context = Tools(lambda _: bart, None), SimpleNamespace(headers=None)
        told = tools.forecast(context, "sales", plan, steps=3, by="region")
        assert f"- north: {words.line(expected.total(3).median[0])} (" in told
        assert expected.claim in told
        assert "Call forecast; known ahead must be promo" in tools.verdict(context, "sales")
        bart.download("sales", tmp_path / "sales.file")
        with pytest.raises(SettingsError, match="ask forecast"):
            Scorer(tmp_path / "sales.file")
    (tmp_path / "plan.csv").write_text(csv_of(columns))
    asked = ("--known", "plan.csv", "--total", "2-3", "--by", "region", "--output", "f.csv")
    ran = bartserve("forecast", "sales", *asked, cwd=tmp_path, BARTSERVE_URL=url)
    assert ran.returncode == 0, ran.stderr
    assert expected.total((2, 3), "region").claim in ran.stderr
    header, line = (tmp_path / "f.csv").read_text().splitlines()
    assert header == "first_step,last_step,region,number_of_series,median,lower,upper"
    assert float(line.split(",")[-1]) == expected.total((2, 3), "region").upper[0]


def _check_pages(client, model_id: str, plan, expected) -> None:
    """Show the claim, then a series by a plan that was uploaded: charts, total and steps."""
    address = f"/ui/models/{model_id}"
    assert expected.claim in page_of(client.get(address, headers=ACCEPT)).words
    assert client.get(f"{address}/plan.csv").text.startswith('"shop","month","promo"\n')
    columns = {name: [row[name] for row in plan] for name in plan[0]}
    known = post_csv(client, csv_of(columns)).json()["id"]
    assert "Total over" not in page_of(client.get(f"{address}/forecast", headers=ACCEPT)).words
    asked = {"known": known, "of": 1, "lead": 3}
    page = page_of(client.get(f"{address}/forecast", params=asked, headers=ACCEPT))
    assert "Total over the first 3 steps" in page.words
    assert number(expected.total(3).upper[0], 4) in page.words
    assert number(expected.median[1, 0], 4) in page.words
    assert len(page.images) == 2
    for image in page.images:
        drawn = client.get(image["src"])
        assert (drawn.status_code, drawn.headers["content-type"]) == (200, "image/svg+xml"), drawn.text


@pytest.mark.slow
@only("sqlite")
def test_a_name_moves_to_a_forecaster_that_is_no_worse(client, settings, database):
    """By windows after the first fit; one whose past is in a wrong order is refused, by a schedule too."""
    table, y = shops(3, 60)
    columns = {"month": [f"{month}-01" for month in table["month"]], "shop": table["shop"]}
    kept = np.tile(np.arange(60) < 48, 3)
    spoiled = y.reshape(3, 60).copy()
    spoiled[:, :40] = np.random.default_rng(1).permuted(spoiled[:, :40], axis=1)
    old, new, wrong = (
        post_csv(client, csv_of(each), name="months").json()["id"]
        for each in (
            rows_of(columns | {"sales": y}, kept),
            columns | {"sales": y},
            columns | {"sales": spoiled.ravel()},
        )
    )
    asked = {"time": "month", "series": "shop", "horizon": 4, "difference": "last"} | SMALL
    body = {"dataset_id": old, "target": "sales", "name": "sales"} | asked
    first = client.post("/models", json=body).json()["id"]
    run_units(settings)
    held = client.put("/models/sales/schedule", json={"every": "7d", "holdout": 0.2})
    assert (held.status_code, held.json()["errors"][0]["column"]) == (422, "holdout")
    assert client.put("/models/sales/schedule", json={"every": "7d"}).status_code == 200
    make_due(database)
    assert schedules.run_due(database.engine, settings) == 1  # takes the newest
    run_units(settings)
    scheduled = client.get("/models/sales/schedule").json()["last_model_id"]
    refused = client.get(f"/models/{scheduled}").json()
    assert refused["dataset_id"] == wrong
    assert (refused["refit"]["decision"], refused["withheld"]) == ("refused", True)
    assert refused["refit"]["loss"]["lower"] > 0
    assert "its quantile loss is higher by" in refused["refit"]["text"]
    assert client.get("/models/sales").json()["id"] == first

    made = client.post("/models/sales/refit", json={"dataset_id": new})
    assert made.status_code == 202, made.text
    run_units(settings)
    moved = client.get(made.headers["location"]).json()
    told = moved["refit"]
    assert (told["decision"], told["champion"], told["loss"]["origins"]) == ("promoted", first, 9)
    assert told["loss"]["lower"] <= 0
    assert client.get("/models/sales").json()["id"] == moved["id"]
    page = f"/ui/models/{moved['id']}"
    assert "Improve" in page_of(client.get(page, headers=ACCEPT)).words
    assert "Quantile loss of 108 forecasts" in page_of(client.get(f"{page}/improve", headers=ACCEPT)).words


@pytest.mark.slow
@only("sqlite")
def test_each_value_of_a_column_has_its_forecaster(
    client, settings, database, sales, dataset_id, tmp_path, monkeypatch
):
    """A set's forecasts are those of its models, as JSON, table, by client and command; others are led on."""
    body = {"dataset_id": dataset_id, "target": "sales", "by": "shop"} | ASKED | SMALL | {"series": None}
    body |= {"name": "shops", "difference": "last"}
    refused = client.post("/model-sets", json=body | {"by": "month"})
    assert (refused.status_code, refused.json()["errors"][0]["column"]) == (422, "by")
    made = client.post("/model-sets", json=body)
    assert made.status_code == 202, made.text
    path = made.headers["location"]
    while client.get(path).json()["state"] in ("queued", "running"):
        making.run_due(database.engine, settings)
        run_units(settings)
    models = client.get(f"{path}/models").json()["items"]
    assert [(each["group"], each["state"]) for each in models] == [
        (["s0"], "succeeded"),
        (["s1"], "succeeded"),
    ]
    for tab in ("", "/forecast", "/outcomes", "/improve", "/settings"):
        page_of(client.get(f"/ui/models/{models[0]['model_id']}{tab}", headers=ACCEPT))
    columns = client.get(f"{path}/forecast/template").json()
    assert columns["shop"] == ["s0"] * 4 + ["s1"] * 4
    columns["promo"] = [row % 4 == 1 for row in range(8)]
    plan = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    asked = {"known": plan, "totals": [{"steps": [1, 3]}]}
    answer = client.post("/model-sets/shops/forecast", json=asked)
    assert answer.status_code == 200, answer.text
    for each, model in zip(answer.json()["forecasts"], models, strict=True):
        own = [row for row in plan if row["shop"] == each["group"][0]]
        alone = client.post(f"/models/{model['model_id']}/forecast", json=asked | {"known": own}).json()
        assert each == alone | {"group": model["group"]}
    table = client.post(f"{path}/forecast", json={"known": plan}, headers={"Accept": "text/csv"})
    assert table.text.splitlines()[0] == '"shop","month","step","median","lower","upper","flags"'
    assert len(table.text.splitlines()) == 9
    for wrong, field in (
        ({"known": [{"month": row["month"], "promo": True} for row in plan]}, "shop"),
        ({"known": plan, "groups": ["s7"]}, "groups"),
        ({"known": plan[:5]}, "promo"),
        ({}, "known"),
    ):
        told = client.post(f"{path}/forecast", json=wrong)
        assert (told.status_code, told.json()["errors"][0]["column"]) == (422, field), told.text
    led = client.post(f"{path}/predict", json={"rows": [{"shop": "s1", "promo": True}]})
    assert (led.status_code, "/model-sets/{set_id}/forecast" in led.json()["detail"]) == (409, True)

    url = str(client.base_url)
    with Client(url) as bart:
        assert bart.plan_template(bart.model_set("shops")) == client.get(f"{path}/forecast/template").json()
        one = bart.forecast_many("shops", columns, groups=["s1"])[0]
        assert (one.group, one.total((1, 3))) == ({"shop": "s1"}, answer.json()["forecasts"][1]["totals"][0])
    (tmp_path / "plan.csv").write_text(csv_of(columns))
    asked_by = ("--known", "plan.csv", "--total", "1-3", "--output", "f.csv")
    ran = bartserve("forecast", "shops", *asked_by, cwd=tmp_path, BARTSERVE_URL=url)
    assert ran.returncode == 0, ran.stderr
    header, _, line = (tmp_path / "f.csv").read_text().splitlines()
    assert header == "shop,first_step,last_step,number_of_series,median,lower,upper"
    assert float(line.split(",")[-1]) == answer.json()["forecasts"][1]["totals"][0]["upper"][0]
    assert "s1: Estimated in 10 rehearsals" in ran.stderr

    known = post_csv(client, csv_of(columns)).json()["id"]
    for wrong, field in (
        ({"known": known, "groups": ["s7"]}, "groups"),
        ({"known": post_csv(client, "month,promo\n2024-01-01,1\n").json()["id"]}, "shop"),
        ({}, "known"),
    ):
        told = client.post(f"{path}/predictions", json={"forecast": wrong})
        assert (told.status_code, told.json()["errors"][0]["column"]) == (422, field), told.text
    body = {"forecast": {"known": known, "totals": [{"steps": [1, 3]}]}}
    started = client.post(f"{path}/predictions", json=body, headers={"Idempotency-Key": "k"})
    assert started.status_code == 202, started.text
    assert (
        client.post(f"{path}/predictions", json=body, headers={"Idempotency-Key": "k"}).json()
        == started.json()
    )
    assert run_units(settings) == 2
    for job, each in zip(started.json()["predictions"], answer.json()["forecasts"], strict=True):
        assert job["group"] == {"shop": each["group"][0]}
        lines = client.get(f"/predictions/{job['id']}/result").json()["columns"]
        assert lines["upper"] == each["totals"][0]["upper"]
    monkeypatch.setattr(forecasts, "CELL_WORK", 10**12)  # more than one answer has
    few = client.post(f"{path}/forecast", json={"known": plan})
    assert (few.status_code, "in the background" in few.json()["detail"]) == (413, True)
    (tmp_path / "f.csv").unlink()
    with ThreadPoolExecutor(1) as pool:
        command = pool.submit(bartserve, "forecast", "shops", *asked_by, cwd=tmp_path, BARTSERVE_URL=url)
        while not command.done():
            run_units(settings)
    assert command.result().returncode == 0, command.result().stderr
    assert "s1: Estimated in 10 rehearsals" in command.result().stderr
    assert (tmp_path / "f.csv").read_text().splitlines() == [header, _, line]


@pytest.mark.slow
@only("sqlite")
def test_many_series_are_forecast_in_the_background(client, settings, monkeypatch, tmp_path):
    """Lines of all units are those of one answer, in every form; the command goes on there by itself."""
    table, y = shops(3, 40)
    known = {"time": "month", "series": "shop", "horizon": 3, "known": ["promo"], "difference": "last"}
    sales = fit({name: table[name] for name in ("month", "shop", "promo")}, y, **known, **SHORT)
    made = post_model(client, sales.to_bytes(), name="sales")
    path, predictions = f"/models/{made.json()['id']}", f"/models/{made.json()['id']}/predictions"
    plan = sales.plan_template() | {"promo": [row % 4 == 1 for row in range(9)]}
    plan_id = post_csv(client, csv_of(plan)).json()["id"]
    asked = {"known": plan_id, "level": 0.8, "series": ["s2", "s0"]}
    whole = client.post(f"{path}/forecast", json=asked, headers={"Accept": "text/csv"}).text
    monkeypatch.setattr(forecasts, "CELL_WORK", 10**12)
    few = client.post(f"{path}/forecast", json={"known": plan_id})
    assert (few.status_code, "in the background" in few.json()["detail"]) == (413, True)

    started = client.post(predictions, json={"forecast": asked})
    assert started.status_code == 202, started.text
    job = started.json()
    assert (job["progress"]["rows"], job["forecast"]["level"], job["dataset_id"]) == (6, 0.8, plan_id)
    assert run_units(settings) == 2  # one a series
    result = f"/predictions/{job['id']}/result"
    answer = client.get(result).json()
    assert "Estimated in 10 rehearsals" in answer["claim"]
    text = client.get(result, headers={"Accept": "text/csv"}).text
    assert text.replace(',"interval"', "").replace(',"calibrated"', "") == whole
    assert client.get(result, headers={"Accept": "text/csv"}, params={"dialect": "file"}).text
    stream = client.get(result, headers={"Accept": "application/vnd.apache.arrow.stream"})
    with pa.ipc.open_stream(io.BytesIO(stream.content)) as reader:
        assert reader.read_all().to_pydict() == answer["columns"]
    for form in ("parquet", "xlsx"):
        assert client.get(result, params={"format": form}).status_code == 200
    _check_sums(client, settings, monkeypatch, path, asked)

    for body, field in (
        ({"forecast": {}}, "known"),
        ({"forecast": asked | {"series": ["s7"]}}, "series"),
        ({"forecast": asked, "level": 0.5}, "level"),
        ({"forecast": asked | {"totals": [{"by": "city"}]}}, "by"),
        ({"forecast": asked | {"totals": [{"steps": [9]}]}}, "steps"),
        ({"forecast": asked | {"totals": [{}], "paths": 3}}, "paths"),
        (
            {"forecast": asked | {"known": post_csv(client, "month,promo\n2024-01-01,1\n").json()["id"]}},
            "shop",
        ),
        ({}, "dataset_id"),
    ):
        refused = client.post(predictions, json=body)
        assert (refused.status_code, refused.json()["errors"][0]["column"]) == (422, field), refused.text
    cancelled = client.post(predictions, json={"forecast": asked}).json()["id"]
    assert client.post(f"/predictions/{cancelled}/cancel").json()["state"] == "cancelled"
    (tmp_path / "plan.csv").write_text(csv_of(plan))
    with ThreadPoolExecutor(1) as pool:
        words_of = ("forecast", "sales", "--known", "plan.csv", "--output", "f.csv")
        command = pool.submit(bartserve, *words_of, cwd=tmp_path, BARTSERVE_URL=str(client.base_url))
        while not command.done():
            run_units(settings)
    assert command.result().returncode == 0, command.result().stderr
    assert "in the background" in command.result().stderr
    assert len((tmp_path / "f.csv").read_text().splitlines()) == 10
    with ThreadPoolExecutor(1) as pool:
        command = pool.submit(
            bartserve,
            *words_of,
            "--total",
            "1-2",
            "--by",
            "shop",
            cwd=tmp_path,
            BARTSERVE_URL=str(client.base_url),
        )
        while not command.done():
            run_units(settings)
    assert command.result().returncode == 0, command.result().stderr
    assert (tmp_path / "f.csv").read_text().startswith("first_step,last_step,shop,number_of_series,median")

    alone = fit({"month": table["month"][:40]}, y[:40], time="month", horizon=3, difference="last", **SHORT)
    other = post_model(client, alone.to_bytes()).headers["location"]
    lone = client.post(f"{other}/predictions", json={"forecast": {}}).json()
    run_units(settings)
    columns = client.get(f"/predictions/{lone['id']}/result").json()["columns"]
    assert (lone["dataset_id"], columns["median"]) == (None, alone.forecast().median[0].tolist())
    refused = client.post(f"{other}/predictions", json={"forecast": {"known": plan_id}})
    assert (refused.status_code, "leave it out" in refused.json()["detail"]) == (422, True)

    late = client.post(predictions, json={"forecast": asked}).json()["id"]
    rows = [{"month": plan["month"][0], "shop": "s0", "promo": False, "y": 9.0}]
    assert client.post(f"{path}/outcomes", json={"rows": rows}).status_code == 201
    run_units(settings)
    ended = client.get(f"/predictions/{late}").json()
    assert (ended["state"], "ask again" in ended["error"]["detail"]) == ("failed", True)


def _check_sums(client, settings, monkeypatch, path, asked) -> None:
    """Totals are one table, sampled in parts with the bits of one answer, and paths are columns."""
    usual = forecasts.CELL_WORK
    totals = asked | {"totals": [{"steps": [1, 2], "by": "shop"}, {"steps": [3]}]}
    monkeypatch.setattr(in_parts, "PART", 3)
    monkeypatch.setattr(forecasts, "CELL_WORK", 1)
    whole = client.post(f"{path}/forecast", json=totals, headers={"Accept": "text/csv"})
    paths = client.post(f"{path}/forecast", json=asked | {"paths": 4}).json()["paths"]
    monkeypatch.setattr(forecasts, "CELL_WORK", usual)
    started = client.post(f"{path}/predictions", json={"forecast": totals}).json()
    assert started["progress"]["rows"] == 3
    assert run_units(settings) == 1
    result = f"/predictions/{started['id']}/result"
    text = client.get(result, headers={"Accept": "text/csv"}).text
    assert text.replace(',"interval"', "").replace(',"calibrated"', "") == whole.text
    assert client.get(result).json()["claim"] == whole.headers["bartserve-claims"]
    for form in ("arrow", "parquet", "xlsx"):
        assert client.get(result, params={"format": form}).status_code == 200, form
    started = client.post(f"{path}/predictions", json={"forecast": asked | {"paths": 4}}).json()
    run_units(settings)
    columns = client.get(f"/predictions/{started['id']}/result").json()["columns"]
    assert columns["path_2"] == [step for series in paths[1] for step in series]


def test_the_form_asks_for_a_forecast(client, dataset_id):
    """A column of times, series, horizon and known columns are asked for, and faults are said beside them."""
    asked = page_of(client.get(f"/ui/models/new?dataset={dataset_id}&target=sales", headers=ACCEPT))
    assert "Forecast the next steps, by month" in asked.words
    ahead = [each["value"] for each in asked.controls if each["name"] == "known"]
    assert ahead == ["shop", "promo", "region"]
    clicked = asked.hidden | {"target": "sales", "time": "month", "known": "promo"}
    step = page_of(client.post("/ui/models/settings", data=clicked, headers=ACCEPT))
    assert {"time", "series", "horizon", "known"} <= {each["name"] for each in step.controls}
    assert step.text.count('<option value="promo" selected>') == 1
    assert '<option value="shop" selected>' in step.text  # of the columns that tell rows of a month apart
    ticked = {"all": "1", "features": ["month", "shop"]}
    bare = asked.hidden | clicked | ticked | {"series": "shop", "horizon": "4"}
    told = page_of(client.post("/ui/models/estimate", data=bare, headers=ACCEPT))
    assert "month: steps of a month, 2 series, no gaps. About" in " ".join(told.words.split())
    form = asked.hidden | {"target": "sales"} | ASKED | {name: str(value) for name, value in SMALL.items()}
    wrong = page_of(client.post("/ui/models", data=form | {"horizon": "40"}, headers=ACCEPT), 422)
    assert "no rehearsal could judge it" in wrong.words
    made = client.post("/ui/models", data=form, headers=ACCEPT)
    assert made.status_code == 303, made.text
    model = client.get(made.headers["location"].removeprefix("/ui")).json()
    assert model["settings"] == model["settings"] | {**ASKED, "series": ["shop"], "holdout": 0.0}
    page = page_of(client.get(made.headers["location"], headers=ACCEPT))
    assert "Member 1" in page.words
    assert "Forecast" in page.words


def _periods() -> dict[str, list]:
    """Write 60 times in each form that planners' files have."""
    months, days = np.datetime64("2019-01") + np.arange(60), np.datetime64("2024-01-01") + np.arange(60)
    names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    return {
        "2014 Q1": [f"{2014 + k // 4} Q{k % 4 + 1}" for k in range(61)],
        "1987 Jan": [f"{1987 + k // 12} {names[k % 12]}" for k in range(61)],
        "2024-W05": [(np.datetime64("2023-01-30") + 7 * k).item().strftime("%G-W%V") for k in range(61)],
        "2024M01": [f"{month}".replace("-", "M") for month in [*months, np.datetime64("2024-01")]],
        "20240101": [f"{day}".replace("-", "") for day in [*days, np.datetime64("2024-03-01")]],
    }


@only("sqlite")
@pytest.mark.parametrize("form", _periods())
def test_periods_are_times_from_upload_to_forecast(client, settings, form):
    """Times of each form, with three gaps: the form offers them, and forecasts go on in the same form."""
    times = _periods()[form]
    kept = [k for k in range(60) if k not in (7, 20, 21)]
    rng = np.random.default_rng(2)
    table = {"when": [times[k] for k in kept], "y": rng.normal(size=len(kept)).round(3).tolist()}
    dataset_id = post_csv(client, csv_of(table)).json()["id"]
    asked = page_of(client.get(f"/ui/models/new?dataset={dataset_id}&target=y", headers=ACCEPT))
    assert "Forecast the next steps, by when" in asked.words
    body = {"dataset_id": dataset_id, "target": "y", "time": "when", "horizon": 2, "season": 1}
    fitted = client.post("/models", json=body | {"difference": "last"} | SMALL)
    assert fitted.status_code == 202, fitted.text
    run_units(settings)
    answer = client.post(f"{fitted.headers['location']}/forecast", json={})
    assert answer.status_code == 200, answer.text
    assert [str(each) for each in answer.json()["time"][0]][:1] == times[60:]
    file = Forecaster.from_bytes(client.get(f"{fitted.headers['location']}/file").content)
    assert np.flatnonzero(np.isnan(file.history.y[0])).tolist() == [7, 20, 21]


def _check_outcomes(client, path, plan) -> None:
    """Report the first month: it becomes history once, from whose end the next forecast starts."""
    newest = [row | {"sales": 30.0 + k, "region": "north"} for k, row in enumerate(plan[::4])]
    first, again = (client.post(f"{path}/outcomes", json={"rows": newest}) for _ in range(2))
    assert first.status_code == 201, first.text
    assert (first.json()["rows"], again.json()["rows"], again.json()["skipped"]) == (2, 0, 2)
    assert "2023-01-01" in first.json()["text"]
    assert client.get(f"{path}/forecast/template").json()["month"][0] == "2023-02-01"
    other = client.post(f"{path}/outcomes", json={"rows": [newest[0] | {"sales": 1.0}]})
    assert (other.status_code, other.json()["errors"][0]["row"]) == (422, 1)
    file = Forecaster.from_bytes(client.get(f"{path}/file").content)
    assert file.history.y[:, -1].tolist() == [30.0, 31.0]
    second = [row | {"sales": 30.0, "region": "north"} for row in plan[1::4]]
    assert "too few to check" in client.post(f"{path}/outcomes", json={"rows": second}).json()["text"]
    told = client.get(f"{path}/outcomes").json()
    assert (told["rows"], told["intervals"]) == (4, "calibrated")
    assert [(each["step"], each["rows"]) for each in told["by_step"]] == [(1, 4), (2, 2)]
    shown = page_of(client.get(f"/ui{path}/outcomes", headers=ACCEPT))
    assert "By step ahead" in shown.words
    refused = client.post(f"{path}/outcomes/recalibrate", json={})
    assert (refused.status_code, "rest on rehearsals" in refused.text) == (409, True)
    since = client.post(f"{path}/outcomes/refit", json={"since": "2023-01-01"})
    assert (since.status_code, since.json()["errors"][0]["column"]) == (422, "since")
    again = client.post(f"{path}/outcomes/refit", json={"name": "grown"})
    assert again.status_code == 202, again.text
    fits = (client.get(path).json(), again.json())
    old, grown = (client.get(f"/datasets/{each['dataset_id']}").json() for each in fits)
    assert grown["num_rows"] == old["num_rows"] + 4
    assert [each["kind"] for each in grown["columns"]] == [each["kind"] for each in old["columns"]]
    asked = {name: fits[1]["settings"][name] for name in ASKED}
    assert asked == ASKED | {"series": ["shop"]}
    shown = client.get(f"/datasets/{grown['id']}/preview", params={"rows": 1000}).json()
    names = [each["name"] for each in grown["columns"]]
    rows = [row if isinstance(row, dict) else dict(zip(names, row, strict=True)) for row in shown["rows"]]
    known = {(row["month"][:10], row["shop"]): row for row in rows}
    assert [known["2023-01-01", shop]["sales"] for shop in ("s0", "s1")] == [30.0, 31.0]
    assert known["2023-02-01", "s1"]["promo"] == plan[5]["promo"]


def _broken(client, model_id: str, dataset_id: str) -> list[str]:
    """Ask every route of a model but those that delete it; return those that fail with 500."""
    failed = []
    for method, route in every_route():
        if "{model_id}" in route and method != "DELETE" and not route.endswith(("/delete", "/events")):
            where = address(route, model_id=model_id, name="trace-sigma")
            reply = client.request(method, where, **body_for(route, dataset_id))
            failed += [f"{method} {where}"] if reply.status_code >= 500 else []
    return failed


def _plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ({"horizon": 30}, "horizon", "horizon="),
        ({"horizon": None}, "horizon", "number of steps"),
        ({"known": ["promos"]}, "known", "promo"),
        ({"known": []}, "known", "promo"),
        ({"series": None}, "month", "series"),
        ({"treatment": "promo"}, "treatment", "treatment"),
        ({"method": "bcart"}, "method", "method"),
        ({"stop": {"verdict": "converged"}}, "stop", "leave stop out"),
        ({"calibrate": "holdout", "holdout": 0.2}, "calibrate", "rehearsals"),
        ({"num_trees": 0}, "num_trees", "1"),
        ({"season": [12, 4, 2]}, "season", "two"),
    ],
)
def test_refusals_before_the_202(client, dataset_id, more, field, words):
    """A problem document names the field, and what to do, where no forecaster can be made."""
    refused = ask(client, dataset_id, **more)
    assert refused.status_code == 422, refused.text
    problem = refused.json()
    assert problem["errors"][0]["column"] == field, problem
    assert words in problem["detail"]
