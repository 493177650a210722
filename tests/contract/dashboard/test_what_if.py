"""The page of contrasts, and the interactions on that of features."""

import re

import pytest

from app.dashboard import formatting
from sampler.data.scalars import range_to_text
from sampler.storage.model_file import MEDIA_TYPE
from tests.support.api_calls import problem
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import fitted
from tests.support.models.random_posteriors import make_posterior

pytestmark = only("sqlite")
SET = {"feature": ["size"], "of": ["size"], "first": ["8"], "second": ["2"], "by": "colour"}


def figures(estimate) -> str:
    ends = re.escape(range_to_text(estimate["lower"], estimate["upper"], 3))
    return rf"{estimate['rows']}\s*{re.escape(formatting.number(estimate['mean'], 3))}\s*{ends}"


def test_a_contrast_has_the_figures_of_the_api(browser, client, settings):
    """Averages over rows, the population and groups, what must hold, and the same call in Python."""
    model = fitted(client, settings)
    page = page_of(browser.get(f"/ui/models/{model['id']}/what-if", params=SET))
    body = {"first": {"size": 8}, "second": {"size": 2}, "by": "colour"}
    answer = client.post(f"/models/{model['id']}/contrast", json=body).json()
    assert re.search(rf"These rows\s*{figures(answer['average'])}", page.words)
    assert re.search(rf"a sample of\s*{figures(answer['population'])}", page.words)
    for name, estimate in answer["groups"].items():
        assert re.search(rf"{name}\s*{figures(estimate)}", page.words)
    unlike = [sum(answer[f"unlike_{end}"]) for end in ("first", "second")]
    told = f"Of 60 rows {unlike[0]} are like no training row with the first setting, and {unlike[1]} with"
    assert told in page.words
    assert "only if nothing hidden causes both" in page.words
    assert "bart.contrast(" in page.words
    assert "by='colour'" in page.words


def test_the_form_begins_with_usual_values(browser, client, settings):
    """Quartiles of a number, levels of a category, also where the feature changes; two go together."""
    model = fitted(client, settings)
    at = f"/ui/models/{model['id']}/what-if"
    plain = page_of(browser.get(at))
    size = page_of(browser.get(at, params={"feature": "size"}))
    quartiles = [c["value"] for c in size.controls if c.get("name") in ("first", "second") and c.get("value")]
    assert len(quartiles) == 2
    assert float(quartiles[0]) > float(quartiles[1])
    assert "These rows" in plain.words
    other = page_of(browser.get(at, params=SET | {"feature": ["colour"], "by": ""}))
    assert "These rows" in other.words
    both = {
        "feature": ["size", "colour"],
        "of": ["size", "colour"],
        "first": ["8", "red"],
        "second": ["2", "blue"],
    }
    body = {"first": {"size": 8, "colour": "red"}, "second": {"size": 2, "colour": "blue"}}
    answer = client.post(f"/models/{model['id']}/contrast", json=body).json()
    page = page_of(browser.get(at, params=both))
    assert re.search(rf"These rows\s*{figures(answer['average'])}", page.words)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"first": ["many"]}, "is not a number"),
        ({"by": "size"}, "same value in all rows"),
        ({"by": "hue"}, "hue"),
        ({"feature": ["hue"]}, "hue"),
        ({"feature": ["size", "size"], "of": ["size", "size"]}, "it is set twice"),
        ({"first": ["1e999"]}, "size"),
    ],
)
@pytest.mark.sampled(quick=3)
def test_wrong_values_are_told(browser, model_of_page, wrong, message):
    """Values that can't be compared are told above the table, with status 422, or 200 if they make sense."""
    answer = browser.get(f"/ui/models/{model_of_page['id']}/what-if", params=SET | wrong)
    assert answer.status_code in (200, 422)
    assert message in page_of(answer, answer.status_code).words


@pytest.fixture
def model_of_page(client, settings):
    return fitted(client, settings)


def test_an_imported_model_and_one_in_work(browser, client):
    """A model from a file has no profiles, and begins with the ends of a range; one in work says so."""
    posted = client.post(
        "/models", content=make_posterior()[0].to_bytes(), headers={"Content-Type": MEDIA_TYPE}
    )
    page = page_of(browser.get(f"/ui/models/{posted.json()['id']}/what-if"))
    assert "The population they are a sample of" in page.words
    problem(client.get("/ui/models/mdl_0/what-if"), 404)


def test_pairs_of_features(browser, client, settings):
    """The interactions appear on request, with the API's figures."""
    model = fitted(client, settings)
    at = f"/ui/models/{model['id']}/features"
    assert "Compare all pairs" in page_of(browser.get(at)).words
    (pair,) = client.get(f"/models/{model['id']}/interactions").json()["pairs"]
    words = page_of(browser.get(at, params={"pairs": "true"})).words
    strength = re.escape(formatting.number(pair["strength"], 3))
    ends = re.escape(range_to_text(pair["strength_lower"], pair["strength_upper"], 3))
    assert re.search(rf"{' and '.join(pair['features'])}\s*{strength}\s*{ends}", words)
