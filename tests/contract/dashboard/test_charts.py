"""Charts: SVG at URLs of their own, in two themes and two shapes, cached by clients."""

import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from html import unescape

import numpy as np
import pytest

from app.client import Client
from app.dashboard import formatting
from app.dashboard.charts import CHARTS
from app.dashboard.studio import Picture
from app.web.read_options import ReadingQuery
from sampler.posterior.explanations.work import rows_to_average
from tests.support.api_calls import of_file, post_csv, problem, table, two_classes
from tests.support.databases import only
from tests.support.html_page import checked_svg as checked
from tests.support.html_page import page_of
from tests.support.models.fitted_models import SMALL, fitted
from tests.support.models.partial_chains import give_back, take_chains

pytestmark = only("sqlite")


def svg_of(response) -> ET.Element:
    """Return a chart's document, checked to be valid and to fetch nothing."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "image/svg+xml"
    assert response.headers["content-security-policy"].startswith("default-src 'none'; style-src")
    assert "immutable" in response.headers["cache-control"]
    assert "private" in response.headers["cache-control"]
    return checked(response.content)


def sources(page) -> list[str]:
    """Return the URLs of a page's images, all variants."""
    return re.findall(r'(?:src|srcset)="(/ui/models/[^"]*\.svg[^"]*)"', page.text)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_every_chart_that_a_page_names_is_there_in_each_variant(browser, client, settings, every):
    """Wide, narrow, light and dark charts differ, and a repeated request gives equal bytes.

    The quick case draws every variant of one chart, and of each other one some variant.
    """
    model = fitted(client, settings, holdout=0.3)
    drawn: dict[str, bytes] = {}
    effects = [f"/effects?part=all&feature={name}" for name in ("size", "colour", "size&feature=colour")]
    for tab in ("", "/checks", "/chains", "/features", *effects):
        page = page_of(browser.get(f"/ui/models/{model['id']}{tab}"))
        for image in page.images:
            assert len(image["alt"] or "") > 20
        addresses = sources(page)
        for first in range(0, len(addresses), 4):
            variants = addresses[first : first + 4]
            for address in variants if every or not drawn else [variants[first // 4 % 4]]:
                answer = browser.get(address.replace("&amp;", "&"))
                svg_of(answer)
                drawn[address] = answer.content
    charts = {address.partition("&amp;theme=")[0] for address in drawn}
    kinds = {re.sub(r"\?.*", "", chart.rsplit("/", 1)[1]) for chart in charts}
    assert kinds == {
        *(
            "trace-sigma.svg",
            "ranks-sigma.svg",
            "trace-log_likelihood.svg",
            "agreement.svg",
            "held-out.svg",
            "calibration.svg",
        ),
        *("residuals.svg", "pit.svg"),
        *("permutation.svg", "importance.svg", "dependence.svg", "accumulated.svg", "reasons.svg"),
    }
    assert len(charts) == 15
    assert len(drawn) == 15 * 4 or not every
    assert len(set(drawn.values())) == len(drawn)
    some = next(iter(drawn))
    assert browser.get(some.replace("&amp;", "&")).content == drawn[some]


def test_a_prediction_shows_its_interval_and_its_density(browser, client, settings):
    """The form starts with a typical row; its result equals the API's and is drawn as a density."""
    model = fitted(client, settings)
    at = f"/ui/models/{model['id']}/predict"
    form = page_of(browser.get(at))
    of_file = {"file", "level", "digits", "totals_of", "totals_by", *ReadingQuery.model_fields}
    assert {control["id"] for control in form.controls} == {"f0", "f1", *of_file}

    page = page_of(browser.get(at, params={"f0": "7", "f1": "red"}))

    body = {"rows": [{"size": 7, "colour": "red"}], "interval": "predictive"}
    answer = client.post(f"/models/{model['id']}/predict", json=body).json()
    numbers = [formatting.number(value) for value in (answer["mean"][0], answer["intervals"][0]["lower"][0])]
    assert all(figure in page.words for figure in numbers), (numbers, page.words)
    assert "curl -s" in page.words
    assert "bart.predict(" in page.words
    (density, *_) = (address for address in sources(page) if "density" in address)
    svg_of(browser.get(density.replace("&amp;", "&")))
    wrong = page_of(browser.get(at, params={"f0": "many", "f1": "red"}), 422)
    assert [c["name"] for c in wrong.controls if c.get("aria-invalid") == "true"] == ["f0"]
    assert "is not a number" in wrong.words
    missing = page_of(browser.get(at, params={"f0": "", "f1": ""}))
    assert "missing" in missing.words


def test_features_are_ranked_by_held_out_rows_first(browser, client, settings):
    """Importance for prediction comes before shares; without held-out rows these alone are there."""
    model = fitted(client, settings, holdout=0.3)
    ranked = client.get(f"/models/{model['id']}/variable-importance").json()["permutation"]
    page = page_of(browser.get(f"/ui/models/{model['id']}/features"))
    first = page.words.index("Importance for prediction")
    assert first < page.words.index("Shares of the split rules")
    top = ranked["features"][0]
    mean, lower = (formatting.number(top[name], 3) for name in ("mean", "lower"))
    assert re.search(rf"{top['name']}\s*{re.escape(mean)}\s*{re.escape(lower)} to", page.words)
    assert "Slopes" not in page.words

    alone = fitted(client, settings, linear=True)
    page = page_of(browser.get(f"/ui/models/{alone['id']}/features"))
    assert "Importance for prediction" not in page.words
    assert "is known for models with held-out rows" in page.words
    slopes = client.get(f"/models/{alone['id']}/variable-importance").json()["linear"]
    words = page.words[page.words.index("Slopes of the linear part") :]
    for slope in slopes:
        assert formatting.number(slope["mean"]) in words
    assert "colour: " in words
    problem(client.get(f"/ui/models/{alone['id']}/charts/permutation.svg?v=1"), 404)


def test_effects_among_rows_like_the_data_and_row_by_row(browser, client, settings):
    """Accumulated effects of ordered features and SHAP values of training rows have the API's figures."""
    model = fitted(client, settings)
    at = f"/ui/models/{model['id']}/effects"
    page = page_of(browser.get(at, params={"part": "all", "feature": "size"}))
    along = client.post(f"/models/{model['id']}/accumulated-effects", json={"feature": "size"}).json()
    words = page.words[page.words.index("among rows like the data's") :]
    for figure in (along["mean"][0], along["intervals"][0]["upper"][-1]):
        assert formatting.number(figure) in words
    reasons = client.post(f"/models/{model['id']}/shap", json={}).json()
    sizes = np.abs(reasons["values"]).mean(axis=0)
    beyond = (np.array(reasons["lower"]) > 0) | (np.array(reasons["upper"]) < 0)
    for name, size, rows in zip(reasons["features"], sizes, beyond.sum(axis=0), strict=True):
        mean = re.escape(formatting.number(size, 3))
        assert re.search(rf"{name}\s*{mean}\s*{rows} of 60", words)
    by_level = page_of(browser.get(at, params={"part": "all", "feature": "colour"}))
    assert "among rows like" not in by_level.words
    problem(client.get(f"{at[:-8]}/accumulated.svg", params={"feature": "colour"}), 422)


def test_effects_come_part_by_part_for_scripts(browser, client, settings):
    """The page computes nothing and names its parts; each part has what the whole page has of it.

    A browser without scripts is sent to the whole page.
    """
    model = fitted(client, settings)
    at = f"/ui/models/{model['id']}/effects"
    waiting = browser.get(at, params={"feature": "size"})
    assert not sources(page_of(waiting))
    addresses = [unescape(each) for each in re.findall(r'data-part="([^"]+)"', waiting.text)]
    parts = [browser.get(address) for address in addresses]
    (whole_at,) = re.findall(r'<noscript><meta http-equiv="refresh" content="0; url=([^"]+)">', waiting.text)
    whole = browser.get(at + unescape(whole_at))
    assert [each for part in parts for each in sources(page_of(part))] == sources(page_of(whole))
    rows = re.compile(r"<tbody>.*?</tbody>", re.DOTALL)
    assert [table for part in parts for table in rows.findall(part.text)] == rows.findall(whole.text)
    assert all('class="part"' in part.text for part in parts)
    by_level = browser.get(at, params={"feature": "colour", "part": "accumulated"})
    assert 'class="part"' not in by_level.text, "a feature without an order has none"
    problem(client.get(at, params={"part": "half"}), 422)


def test_several_classes_show_the_one_that_moves_most(browser, client, settings):
    """Their SHAP values are of one class, which the page names; accumulated effects have a line for each."""
    rows = "".join(f"{'abc'[row % 3 if row % 5 else 0]},{row % 3}.{row % 10}\n" for row in range(60))
    model = fitted(client, settings, text=f"y,x\n{rows}", family="categorical")
    page = page_of(browser.get(f"/ui/models/{model['id']}/effects", params={"part": "all", "feature": "x"}))
    assert re.search(r"Shown is the class [abc], which moves most", page.words)
    drawn = [address for address in sources(page) if "accumulated" in address]
    words = {element.text for element in svg_of(browser.get(drawn[0].replace("&amp;", "&"))).iter()}
    assert {"change of probability", "a", "b", "c"} <= words
    for address in sources(page):
        svg_of(browser.get(address.replace("&amp;", "&")))


def test_two_classes_have_their_own_pictures(browser, client, settings):
    """Two classes have no sigma, probabilities instead of outcomes, and every chart that their pages name."""
    model = fitted(client, settings, text=two_classes(80), family="probit", holdout=0.3)
    for tab in ("", "/chains", "/effects?part=all", "/predict?f0=0.7"):
        page = page_of(browser.get(f"/ui/models/{model['id']}{tab}"))
        addresses = sources(page)
        assert addresses
        assert not any("trace-sigma.svg" in address for address in addresses)
        assert any("ranks-log_likelihood.svg" in address for address in addresses) == (tab == "/chains")
        svg_of(browser.get(addresses[0].replace("&amp;", "&")))
    assert "Probability of yes" in page.words
    problem(client.get(f"/ui/models/{model['id']}/charts/trace-sigma.svg?v=1"), 404)
    page = page_of(browser.get(f"/ui/models/{model['id']}"))
    area = model["holdout"]["auc"]
    words = " ".join(re.sub(r"<[^>]*>", " ", page.text).split())
    assert f"Area under the ROC curve {formatting.number(area['value'], 3)}" in words
    assert "always naming the most frequent class" in words
    page = page_of(browser.get(f"/ui/models/{model['id']}/checks"))
    words = " ".join(re.sub(r"<[^>]*>", " ", page.text).split())
    half = next(each for each in model["holdout"]["confusion_by_threshold"] if each["threshold"] == 0.5)
    kinds = ("true_positives", "false_positives", "false_negatives", "true_negatives")
    assert " ".join(["50%", *(str(half[kind]) for kind in kinds)]) in words
    (roc,) = {address.partition("&amp;")[0] for address in sources(page) if "roc.svg" in address}
    assert b"area" in browser.get(roc).content


def test_a_model_that_is_being_fitted_shows_its_chains(browser, client, settings, database):
    """A model being fitted has traces, diagnostics and predictions from its present draws."""
    dataset = post_csv(client, table(60)).json()
    model = client.post("/models", json={"dataset_id": dataset["id"], "target": "y"} | SMALL).json()
    at = f"/ui/models/{model['id']}"
    for tab in ("", "/chains", "/features", "/effects", "/predict"):
        assert not page_of(browser.get(at + tab)).images
    give_back(database.engine, take_chains(database.engine, 20, 30))

    page = page_of(browser.get(f"{at}/chains"))

    assert 'http-equiv="refresh"' in page.text
    for address in sources(page)[:3]:
        svg_of(browser.get(address.replace("&amp;", "&")))
    assert "20 draws" in page.words
    assert "A new outcome" in page_of(browser.get(f"{at}/predict", params={"f0": "3", "f1": "red"})).words
    assert "when the model has succeeded" in page_of(browser.get(f"{at}/effects")).words


def test_unknown_charts_are_refused(client, settings):
    """Unknown charts, themes, features and models are problem documents."""
    model = fitted(client, settings)
    at = f"/ui/models/{model['id']}"
    problem(client.get(f"{at}/charts/nothing.svg?v=1"), 422)
    problem(client.get(f"{at}/charts/held-out.svg?v=1"), 404)
    problem(client.get(f"{at}/charts/topologies.svg?v=1"), 404)
    problem(client.get(f"{at}/dependence.svg?v=1"), 422)
    problem(client.get(f"{at}/charts/trace-sigma.svg?v=1&theme=pink"), 422)
    problem(client.get(f"{at}/dependence.svg?v=1&feature=nothing"), 422)
    problem(client.get("/ui/models/mdl_none/charts/trace-sigma.svg?v=1"), 404)


@pytest.mark.slow
def test_charts_are_drawn_at_once_by_many_and_stay_themselves(client, settings):
    """Concurrent requests for variants of two charts get the same bytes as single ones."""
    model = fitted(client, settings)
    addresses = [
        f"/ui/models/{model['id']}/charts/{name}.svg?v=%s&theme={theme}&shape={shape}"
        for name in ("agreement", "importance")
        for theme, shape in (("light", "wide"), ("dark", "narrow"))
    ]
    alone = [client.get(address % "a").content for address in addresses]
    with ThreadPoolExecutor(8) as askers:
        together = list(askers.map(lambda address: client.get(address % "b").content, addresses))
    assert together == alone


def test_what_a_page_offers_to_copy_gives_what_the_page_shows(browser, client, settings):
    """A prediction's Python code runs unchanged, and so does its curl command if curl is installed."""
    model = fitted(client, settings)
    page = page_of(browser.get(f"/ui/models/{model['id']}/predict", params={"f0": "7", "f1": 'it\'s "red"'}))
    blocks = re.findall(r"<pre[^>]*><code>(.*?)</code>", page.text, re.DOTALL)
    curl, python = (unescape(block) for block in blocks)
    body = {"rows": [{"size": 7, "colour": 'it\'s "red"'}], "level": [0.5, 0.9], "interval": "predictive"}
    expected = client.post(f"/models/{model['id']}/predict", json=body).json()

    command = [sys.executable, "-c", python]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    with Client(str(client.base_url)) as bart:
        same = bart.predict(model["id"], body["rows"], level=[0.5, 0.9], interval="predictive")
    assert ran.stdout.strip() == str(same)
    if shutil.which("curl"):
        ran = subprocess.run(["sh", "-c", curl], capture_output=True, text=True, check=True, timeout=120)
        assert json.loads(ran.stdout) == expected


def test_a_chart_goes_with_its_model(client, monkeypatch):
    """Charts of a deleted model are a 404, even when cached in memory."""
    drawn = []
    nothing = Picture(lambda style: drawn.append(1) or style.axes(1.0), ())
    monkeypatch.setitem(CHARTS, "importance", lambda _: nothing)
    dataset = post_csv(client, table()).json()["id"]
    model_id = client.post("/models", json={"dataset_id": dataset, "target": "y"}).json()["id"]
    address = f"/ui/models/{model_id}/charts/importance.svg?v=1"
    assert [client.get(address).status_code for _ in range(2)] == [200, 200]
    assert len(drawn) == 1
    assert client.delete(f"/models/{model_id}").status_code == 204
    problem(client.get(address), 404)


def test_effects_that_are_too_much_work_are_of_fewer_draws(browser, client, settings, monkeypatch):
    """Page and chart show an effect by fewer draws where all are too much work, and say so."""
    model = fitted(client, settings)
    asked = {"features": ["size", "colour"]}
    at, query = f"/ui/models/{model['id']}", {"feature": asked["features"]}
    answer = client.post(f"/models/{model['id']}/partial-dependence", json=asked).json()
    posterior = of_file(client, model)
    affordable = partial(rows_to_average, posterior.law, answer["draws"] * 2, np.size(answer["mean"]), 0)
    none, some = affordable(0.0), affordable(1e9)
    for_19 = 1e9 * (19 - none) / (some - none)  # of at least 20 rows
    monkeypatch.setattr("app.services.explanations.partial_dependence.MOST", for_19)
    assert problem(client.post(f"/models/{model['id']}/partial-dependence", json=asked), 422)["errors"]
    half = answer["draws"] // 2
    page = page_of(browser.get(f"{at}/effects", params=query | {"part": "all"}))
    assert f"{half} of the {answer['draws']} draws of each chain" in page.words
    fewer = client.post(f"/models/{model['id']}/partial-dependence", json=asked | {"draws": half}).json()
    for row in fewer["mean"]:
        assert all(formatting.number(mean, 3) in page.words for mean in row)
    svg_of(browser.get(f"{at}/dependence.svg", params=query | {"v": "1"}))
    monkeypatch.setattr("app.services.explanations.partial_dependence.MOST", 1)
    problem(client.get(f"{at}/effects", params={"feature": asked["features"][::-1], "part": "all"}), 422)
