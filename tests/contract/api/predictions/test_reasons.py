"""SHAP values, contrasts and interactions over HTTP."""

import numpy as np
import pytest

from sampler.posterior.explanations.work import shap_work
from tests.support.api_calls import ask, of_file, problem
from tests.support.databases import only


def test_shap_values_are_those_of_the_notebook(client, model):
    """Values, ends and base equal the model file's, and add up to f; a column of text has values too."""
    rows = {"size": [1.0, 7.5, None], "colour": ["red", "blue", "red"]}
    response = client.post(f"/models/{model['id']}/shap", json={"columns": rows, "level": 0.5})
    assert response.status_code == 200, response.text
    answer, expected = response.json(), of_file(client, model).shap(rows, level=0.5)
    assert (answer["model_id"], answer["draws"], answer["features"]) == (model["id"], 80, ["size", "colour"])
    for name in ("values", "lower", "upper", "f"):
        np.testing.assert_array_equal(answer[name], getattr(expected, name))
    assert answer["base"] == expected.base_values
    assert answer["warnings"] == expected.warnings
    assert any("missing" in warning for warning in expected.warnings)
    np.testing.assert_allclose(answer["base"] + np.sum(answer["values"], axis=1), answer["f"])
    predicted = client.post(f"/models/{model['id']}/predict", json={"columns": rows}).json()
    np.testing.assert_allclose(answer["f"], predicted["mean"])  # all draws are used


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"rows": [{"size": 1, "colour": "red"}], "game": "tree"}, 422, "game"),
        ({"rows": [{"size": 1, "colour": "red"}], "draws": 0}, 422, "draws"),
        ({"rows": [{"size": "x", "colour": "red"}]}, 422, "size"),
        ({"rows": []}, 422, None),
        ({"columns": {"size": [1] * 9_000, "colour": ["red"] * 9_000}, "draws": 100_000}, 413, None),
    ],
)
def test_shap_values_that_make_no_sense_are_refused(client, model, body, status, field, monkeypatch):
    """A wrong option, a wrong cell, no rows, and too many rows are refused by name."""
    monkeypatch.setattr("app.services.explanations.guard.MOST", 1e8)
    refusal = problem(client.post(f"/models/{model['id']}/shap", json=body), status)
    if field is not None:
        assert field in str(refusal["errors"])


def test_shap_values_of_training_rows(client, model, monkeypatch):
    """Without rows they are of the reference rows, with their cells; of fewer where that is much work."""
    posterior, path = of_file(client, model), f"/models/{model['id']}/shap"
    expected = posterior.shap()
    answer = client.post(path, json={}).json()
    np.testing.assert_array_equal(answer["values"], expected.values)
    assert answer["data"] == [list(row) for row in zip(*expected.data, strict=True)]
    assert {row[1] for row in answer["data"]} == {"red", "green", "blue"}
    most = shap_work(posterior.law, expected.draws, 17)
    monkeypatch.setattr("app.services.explanations.guard.MOST", most)
    assert len(client.post(path, json={}).json()["values"]) == 17
    assert client.post(path, json={"rows": [{"size": 1, "colour": "red"}]}).json()["data"] is None


@only("sqlite")
def test_shap_values_of_a_row_fit_in_memory(client, model, monkeypatch):
    """Draws times features of one row are bounded, however few rows there are."""
    monkeypatch.setattr("app.services.explanations.shap_values.MAX_DRAWN", 100)
    body = {"rows": [{"size": 1, "colour": "red"}], "draws": 50}
    assert client.post(f"/models/{model['id']}/shap", json=body).status_code == 200
    refusal = problem(client.post(f"/models/{model['id']}/shap", json=body | {"draws": 51}), 413)
    assert "fewer draws" in refusal["detail"]


def test_contrasts_are_those_of_the_notebook(client, model):
    """Rows, averages and groups equal the model file's; the reference rows are the default."""
    posterior = of_file(client, model)
    first, second = {"size": 8.0}, {"size": 2.0}
    rows = {"size": [1.0, 7.5, 8.0], "colour": ["red", "blue", "red"]}
    for sent in (None, rows):
        body = {"first": first, "second": second, "by": "colour", "columns": sent, "level": 0.5}
        response = client.post(f"/models/{model['id']}/contrast", json=body)
        assert response.status_code == 200, response.text
        answer, expected = response.json(), posterior.contrast(sent, first, second, by="colour", level=0.5)
        for name in ("mean", "lower", "upper"):
            np.testing.assert_array_equal(answer[name], getattr(expected, name))
        for name in ("average", "population"):
            assert list(answer[name].values()) == list(getattr(expected, name))
        assert answer["groups"]["red"]["mean"] == expected.groups["red"].mean
        assert answer["warnings"] == expected.warnings
    assert answer["treated"]["rows"] == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"first": {"length": 1}, "second": {"length": 2}}, "first"),
        ({"first": {"size": 1}, "second": {"colour": "red"}}, "second"),
        ({"first": {"size": 1}, "second": {"size": 2}, "by": "size"}, "by"),
        ({"first": {"size": "big"}, "second": {"size": 2}}, "size"),
    ],
)
def test_contrasts_that_make_no_sense_are_refused_by_name(client, model, body, field):
    """Unknown features, settings of different features and wrong values are refused by name."""
    refusal = problem(client.post(f"/models/{model['id']}/contrast", json=body), 422)
    assert field in str(refusal["errors"])


def test_interactions_are_those_of_the_notebook(client, model):
    """Pairs have the model file's figures; unknown features and single ones are refused by name."""
    answer = ask(client, model, "interactions", level=0.5)
    expected = of_file(client, model).interactions(level=0.5)
    assert [tuple(pair["features"]) for pair in answer["pairs"]] == expected.pairs
    for name in ("strength", "strength_upper", "h", "h_lower", "inclusion", "inclusion_upper", "expected"):
        assert [pair[name] for pair in answer["pairs"]] == getattr(expected, name).tolist()
    for wrong in (["size"], ["size", "town"]):
        refused = client.get(f"/models/{model['id']}/interactions", params={"feature": wrong})
        assert "features" in str(problem(refused, 422)["errors"])
