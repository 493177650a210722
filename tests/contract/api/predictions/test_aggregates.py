"""Totals, means and quantiles of sets of rows over HTTP."""

import pytest

from tests.support.api_calls import of_file, problem
from tests.support.databases import only

ROWS = {
    "size": [1.5, 4.0, None, 9.0, 2.0, 7.5],
    "colour": ["red", "blue", "green", "red", "blue", None],
    "shop": ["n", "s", "n", None, "s", "n"],
}


def post(client, model, **body):
    return client.post(f"/models/{model['id']}/aggregate", json={"columns": ROWS, **body})


def test_figures_are_those_of_the_model_file(client, model):
    """Answers equal those of the downloaded file, of as many draws as are asked for."""
    posterior = of_file(client, model)
    for asked in (
        {"by": "shop"},
        {"by": "shop", "of": "mean", "interval": "credible", "level": 0.5},
        {"by": ["shop", "colour"], "draws": 7},
        {"by": "shop", "of": "quantile", "q": 0.25, "weights": [1, 2, 3, 4, 5, 6]},
        {"compare": {"shop": ["n", "s"]}, "observed": [3.5, None, None, None, 1, None]},
    ):
        response = post(client, model, **asked)
        assert response.status_code == 200, response.text
        given = {"num_draws" if name == "draws" else name: value for name, value in asked.items()}
        document = posterior.aggregate(ROWS, **given).to_json()
        answer = response.json()
        assert (answer.pop("model_id"), answer.pop("draws")) == (model["id"], asked.get("draws", 40))
        assert answer == document
    assert answer["sets"][0]["observed_rows"] == 2
    assert answer["figure"].endswith("shop = n less shop = s")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"by": ["shop", "other"]}, "by"),
        ({"of": "product"}, "of"),
        ({"of": "quantile"}, "q"),
        ({"level": 1}, "level"),
        ({"interval": "other"}, "interval"),
        ({"compare": {"shop": ["n", "x"]}, "by": "colour"}, "compare"),
        ({"weights": [1, 2, 3, 4, 5, -6]}, "weights"),
        ({"observed": [1, 2]}, None),
    ],
)
@only("sqlite")
def test_what_is_wrong_is_named(client, model, asked, field):
    """A request that can't be answered is a 422 that names its field."""
    refused = problem(post(client, model, **{"by": "shop"} | asked), 422)
    fields = [error.get("field") or error.get("column") or "" for error in refused.get("errors", [])]
    assert field is None or any(field in name for name in fields), refused


@only("sqlite")
def test_too_many_rows_for_one_answer_are_refused(client, model, monkeypatch):
    """More work than one request may take is a 413 that says how many rows are accepted."""
    monkeypatch.setattr("app.services.explanations.guard.MOST", 3e4)
    refused = problem(post(client, model, by="shop"), 413, "too-large")
    assert "Totals of 6 rows are more work" in refused["detail"]
