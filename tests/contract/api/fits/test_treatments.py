"""Fits with a treatment over HTTP: estimates, effects, predictions by arm, files, pages and refusals."""

import re

import numpy as np
import pytest

from app.assistants.words import verdict_words
from tests.support.api_calls import of_file, post_csv, problem
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, extended, fitted


def weights(rows: int = 160) -> str:
    """Make outcomes that treatment raises by 2, of rows that are treated more often where a is large."""
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, rows))
    z = (rng.uniform(size=rows) < 1 / (1 + np.exp(-a))).astype(int)
    site = np.where(rng.uniform(size=rows) < 0.5, "n", "s")
    y = a + 2 * z + 0.2 * rng.normal(size=rows)
    return "a,b,site,z,y\n" + "".join(
        f"{r:.3f},{s:.3f},{t},{u},{v:.3f}\n" for r, s, t, u, v in zip(a, b, site, z, y, strict=True)
    )


@only("sqlite")
def test_a_treatment_goes_all_the_way(client, settings):
    """A fit with a treatment: its effects by group, those of the file, predictions, pages and more draws."""
    model = fitted(client, settings, text=weights(), treatment="z")
    path = f"/models/{model['id']}"
    assert (model["settings"]["treatment"], model["settings"]["features"]) == ("z", ["a", "b", "site"])
    effects = client.post(f"{path}/effects", json={"by": "site"}).json()
    assert effects["average"]["rows"] == 160 == len(effects["mean"]) == len(effects["propensity"])
    assert 1 < effects["average"]["lower"] < 2.5
    assert set(effects["groups"]) == {"n", "s"} == set(effects["larger"])
    assert effects["ratio"] is None
    assert effects["balance"][0]["feature"] == "a"
    assert abs(effects["balance"][0]["after"]) < abs(effects["balance"][0]["before"])
    assert effects["overlap"]["supported"]["rows"] > 100
    assert effects["sensitivity"]["curve"][0][1] == effects["average"]["mean"]
    assert "no data can show that" in effects["holds"]
    assert model["use"]["effects"]["text"] in model["use"]["text"]
    said = effects["use"]["text"]
    posterior = of_file(client, model)
    columns = {"a": [0.5, -1.0], "b": [0.0, 1.0], "site": ["n", "s"], "z": [1, 0]}
    answer = client.post(f"{path}/effects", json={"columns": columns, "of": "treated", "draws": 7}).json()
    own = posterior.effects(columns, of="treated", num_draws=7)
    assert (answer["mean"], answer["is_treated"]) == (own.mean.tolist(), [True])
    arms = [
        client.post(f"{path}/predict", json={"columns": columns | {"z": [arm] * 2}}).json()["mean"]
        for arm in (1, 0)
    ]
    every = client.post(f"{path}/effects", json={"columns": columns}).json()
    cut = client.post(f"{path}/effects", json={"by": {"a": [0.0], "site": None}, "columns": columns}).json()
    assert {*cut["groups"]} == {"a above 0, site n", "a up to 0, site s"}
    problem(client.post(f"{path}/effects", json={"by": {"site": [1]}, "columns": columns}), 422)
    beside = columns | {"region": ["e", None]}
    assert {*client.post(f"{path}/effects", json={"by": "region", "columns": beside}).json()["groups"]} == {
        "e",
        "missing",
    }
    refused = problem(client.post(f"{path}/effects", json={"by": "region"}), 422)
    assert "give rows with it" in refused["errors"][0]["detail"]
    assert answer["use"] == own.use
    assert answer["unsupported"] == own.unsupported.tolist()
    assert answer["average"]["mcse"] == own.average.mcse
    assert every["mean"] == pytest.approx([one - other for one, other in zip(*arms, strict=True)])
    curve = client.post(f"{path}/partial-dependence", json={"features": ["a"], "of": "effect"}).json()
    assert min(curve["mean"]) > 0.5
    for tab in ("", "/chains", "/effects", "/features", "/predict", "/what-if"):
        assert client.get(f"/ui{path}{tab}").status_code == 200, tab
    page = client.get(f"/ui{path}/treatment", params={"by": "site"})
    assert page.status_code == 200, page.text
    assert "no data can show that" in page.text
    assert said in page.text
    charts = set(re.findall(r'src="(/ui/models/[^"]*treatment.svg[^"]*)"', page.text))
    parts = {re.search(r"part=(\w+)", address)[1] for address in charts}
    checks = {"balance", "propensities", "sensitivity"}
    assert parts == {"groups", "rows"} | checks, "a category's averages say all of it"
    report = client.get(f"/ui{path}/treatment/report", params={"by": "site"})
    assert report.status_code == 200, report.text
    assert {"The question", "The design", "Estimates", "Checks", "What must hold"} <= {
        *re.findall(r"<h2>(.*?)</h2>", report.text)
    }
    assert all(
        words in report.text for words in (said, "no data can show that", "a, b, site", "causal forest")
    )
    assert "lazy" not in report.text
    assert "part=along" in client.get(f"/ui{path}/treatment", params={"by": "a"}).text
    for address in charts:
        drawn = client.get(address.replace("&amp;", "&"))
        assert (drawn.status_code, drawn.headers["content-type"]) == (200, "image/svg+xml"), drawn.text
    for part in ("diagnostics", "variable-importance", "draws", "card"):
        assert client.get(f"{path}/{part}").status_code == 200, part
    assert client.get(f"{path}/diagnostics").json()["effects"] == model["use"]["effects"]
    assert said in client.get(f"{path}/card").text
    assert said in verdict_words(model["verdict"], model["use"])
    assert "What does the treatment do?" in client.get(f"{path}/card").text
    extended(client, settings, path)


@only("sqlite")
def test_counts(client, settings):
    """Effects on counts have the ratio of average counts beside their difference, on the page as well.

    A row without an outcome is left out of the fit, and has an effect.
    """
    rows = (line.split(",") for line in weights().splitlines()[1:])
    text = "".join(f"{a},{b},{site},{z},{max(0, round(float(y) + 3))}\n" for a, b, site, z, y in rows)
    text = f"a,b,site,z,y\n{text}0.1,0.2,n,1,\n"
    asked = {"treatment": "z", "family": "poisson", "missing_target": "leave_out"}
    model = fitted(client, settings, text=text, **asked)
    effects = client.post(f"/models/{model['id']}/effects", json={"by": "site"}).json()
    assert 1 < effects["ratio"]["lower"] < effects["ratio"]["upper"] < 3
    assert effects["average"]["lower"] > 0
    assert effects["average"]["rows"] == 161
    page = client.get(f"/ui/models/{model['id']}/treatment").text
    assert "times" in page


@only("sqlite")
def test_several_arms(client, settings):
    """A treatment with three arms: two of them are compared by name, in answers, predictions and pages."""
    names = {"0": "off", "1": "high"}
    lines = [line.split(",") for line in weights().splitlines()]
    for number, line in enumerate(lines[1:]):
        line[3] = "low" if number % 3 == 0 else names[line[3]]
    model = fitted(client, settings, text="".join(",".join(line) + "\n" for line in lines), treatment="z")
    path, asked = f"/models/{model['id']}", {"by": "site", "arm": "high", "against": "off"}
    effects = client.post(f"{path}/effects", json=asked).json()
    assert (effects["arm"], effects["against"]) == ("high", "off")
    assert set(effects["arms"]) == {"high", "low"}
    assert effects["arms"]["high"] == effects["average"]
    assert 1 < effects["average"]["lower"] < 2.5
    rows = {"a": [0.5, -1.0], "b": [0.0, 1.0], "site": ["n", "s"]}
    arms = [
        client.post(f"{path}/predict", json={"columns": rows | {"z": [arm] * 2}}).json()["mean"]
        for arm in ("high", "off")
    ]
    sent = client.post(f"{path}/effects", json=asked | {"columns": rows | {"z": ["low", "off"]}}).json()
    assert sent["mean"] == pytest.approx([one - other for one, other in zip(*arms, strict=True)])
    for more, message in (
        ({"arm": "huge"}, "one of high, low, off"),
        ({"columns": rows | {"z": ["low", "huge"]}}, "one of high, low, off"),
    ):
        assert message in str(problem(client.post(f"{path}/effects", json=asked | more), 422))
    text, kind = "a,b,site,z\n1,2,n,low\n", {"Content-Type": "text/csv"}
    sent = client.post(f"{path}/predict", content=text, headers=kind)
    assert sent.status_code == 200, sent.text
    for tab in ("", "/predict", "/what-if", "/treatment"):
        assert client.get(f"/ui{path}{tab}").status_code == 200, tab
    page = client.get(f"/ui{path}/treatment", params=asked)
    assert "low against off" in page.text
    for address in set(re.findall(r'src="(/ui/models/[^"]*treatment.svg[^"]*)"', page.text)):
        assert client.get(address.replace("&amp;", "&")).status_code == 200, address
    assert "off against high" in client.get(f"{path}/card").text


@only("sqlite")
def test_a_dose(client, settings):
    """A treatment of other numbers: effects by unit and between two of them, in answers, files and pages."""
    lines = [line.split(",") for line in weights().splitlines()]
    for number, line in enumerate(lines[1:]):
        line[3] = str(10 + int(line[3]) + number % 3)
        line[4] = str(float(line[0]) + 2 * float(line[3]))
    model = fitted(client, settings, text="".join(",".join(line) + "\n" for line in lines), treatment="z")
    path = f"/models/{model['id']}"
    effects = client.post(f"{path}/effects", json={"by": "site"}).json()
    assert 1.5 < effects["average"]["lower"] < 2 < effects["average"]["upper"] < 2.5
    assert (effects["dose"]["lowest"], effects["dose"]["highest"]) == (10, 13)
    assert effects["dose"]["by_unit"] is True is effects["dose"]["linear"]
    both = client.post(f"{path}/effects", json={"arm": 13, "against": "11"}).json()
    assert both["average"]["mean"] == pytest.approx(2 * effects["average"]["mean"])
    refused = problem(client.post(f"{path}/effects", json={"arm": 14, "against": 11}), 422)
    assert "a dose from 10 to 13" in str(refused)
    along = client.post(
        f"{path}/partial-dependence", json={"features": ["a"], "of": "effect", "arm": 13, "against": 11}
    )
    assert min(along.json()["mean"]) > 2
    for tab in ("", "/predict", "/what-if", "/treatment"):
        assert client.get(f"/ui{path}{tab}").status_code == 200, tab
    for asked in ({"by": "site"}, {"by": "site", "arm": "13", "against": "11"}):
        page = client.get(f"/ui{path}/treatment", params=asked)
        assert ("each unit adds" in page.text) == ("arm" not in asked)
        for address in set(re.findall(r'src="(/ui/models/[^"]*treatment.svg[^"]*)"', page.text)):
            assert client.get(address.replace("&amp;", "&")).status_code == 200, address
    assert "per unit of z" in client.get(f"{path}/card").text
    extended(client, settings, path)


@only("sqlite")
def test_counts_with_a_treatment_are_explained(client, settings):
    """Counts with a treatment have no SHAP values and interactions; all else is answered."""
    head, *lines = [line.split(",") for line in weights(80).splitlines()]
    counts = [[*cells, str(round(abs(float(y))))] for *cells, y in lines]
    text = "".join(",".join(cells) + "\n" for cells in [head, *counts])
    path = f"/models/{fitted(client, settings, text=text, treatment='z', family='poisson')['id']}"
    for refused in (client.post(f"{path}/shap", json={}), client.get(f"{path}/interactions")):
        (error,) = problem(refused, 422)["errors"]
        assert error["code"] == "not_applicable"
        assert "has a treatment" in error["detail"], error
    for by in ("rows", "rules"):
        shares = client.get(f"{path}/variable-importance", params={"by": by}).json()["features"]
        assert {each["name"] for each in shares} == {"a", "b", "site"}
        assert sum(each["mean"] for each in shares) == pytest.approx(1)
    assert client.post(f"{path}/effects", json={}).status_code == 200


@only("sqlite")
def test_what_is_refused(client, settings):
    """Treatments that can't be compared are refused before the fit; other models have no effects."""
    dataset = post_csv(client, weights()).json()["id"]
    fit = {"dataset_id": dataset, "target": "y", **SMALL}
    for more, field in (
        ({"treatment": "site"}, "site"),
        ({"treatment": "z", "propensity": "site"}, "propensity"),
    ):
        refused = problem(client.post("/models", json=fit | more), 422)
        assert field in str(refused["errors"]), refused
    assert client.post("/models/estimate", json=fit | {"treatment": "z"}).status_code == 200
    model = fitted(client, settings)
    refused = problem(client.post(f"/models/{model['id']}/effects", json={}), 422)
    assert "no treatment" in str(refused)
    words = {"0": "none", "1": "some"}
    lines = [line.split(",") for line in weights().splitlines()[1:]]
    text = "".join(f"{a},{b},{c},{words[z]},{y}\n" for a, b, c, z, y in lines)
    fit["dataset_id"] = post_csv(client, f"a,b,site,z,y\n{text}").json()["id"]
    refused = problem(client.post("/models", json=fit | {"treatment": "z"}), 422)
    assert "a word such as none or NA in a file was read as missing" in str(refused["errors"])


@only("sqlite")
def test_times_with_events_have_measures_on_every_face(client, settings):
    """Means up to a time, probabilities, ratios and curves: those of the file, on the page and the card."""
    rng = np.random.default_rng(4)
    a, z = rng.normal(size=160), rng.integers(0, 2, 160)
    time, until = np.exp(a / 2 + z * 0.7 + 0.3 * rng.normal(size=160)), np.exp(rng.normal(size=160) + 1.5)
    lines = zip(a, z, np.minimum(time, until), time <= until, strict=True)
    text = "a,z,time,seen\n" + "".join(f"{x:.3f},{t},{y:.4f},{int(e)}\n" for x, t, y, e in lines)
    roles = {"target": "time", "event": "seen", "treatment": "z", "features": ["a"]}
    model = fitted(client, settings, text=text, **roles)
    path = f"/models/{model['id']}"
    posterior = of_file(client, model)
    for asked in ({}, {"measure": "survival", "until": 2.0}, {"measure": "ratio"}):
        answer = client.post(f"{path}/effects", json=asked | {"by": "a"}).json()
        own = posterior.effects(by="a", **asked)
        assert answer["average"]["mean"] == pytest.approx(own.average.mean)
        assert answer["curves"]["times"] == own.curves.times
        assert answer["average"]["lower"] > answer["neutral"]
        assert (answer["until"], answer["followed"]["1"]["rows"]) == (own.until, int(z.sum()))
        query = "&".join(f"{name}={value}" for name, value in asked.items())
        page = client.get(f"/ui{path}/treatment?{query}")
        assert page.status_code == 200, page.text
        assert "Curves of both arms" in page.text
        report = client.get(f"/ui{path}/treatment/report?{query}").text
        assert "Curves of both arms" in report
        for part in ("groups", "rows", "curves", "sensitivity", *([] if asked else ["along"])):
            chart = client.get(f"/ui{path}/treatment.svg?by=a&part={part}&{query}")
            assert chart.text.startswith("<?xml"), chart.text
    for wrong in ({"until": 1e6}, {"measure": "ratio", "until": 1}, {"measure": "hazard"}, {"until": -1}):
        problem(client.post(f"{path}/effects", json=wrong), 422)
        query = "&".join(f"{name}={value}" for name, value in wrong.items())
        assert client.get(f"/ui{path}/treatment?{query}").status_code == 422
    card = client.get(f"{path}/card").text
    assert "mean of time up to" in card
