"""Partial dependence and accumulated effects over HTTP."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.api_calls import dependence, of_file, places, post_json, problem
from tests.support.databases import only
from tests.support.fuzzing.json_values import FUZZ, VALUES, send
from tests.support.models.fitted_models import fitted


def test_partial_dependence_is_that_of_the_notebook(client, model):
    """Partial dependence on one and two features, at every level, equals the model file's bit for bit."""
    posterior = of_file(client, model)
    for features, shape in ((["size"], (19,)), (["colour"], (3,)), (["colour", "size"], (3, 19))):
        response = dependence(client, model, features=features, level=[0.5, 0.9])
        assert response.status_code == 200, response.text
        answer, expected = response.json(), posterior.partial_dependence(features, level=[0.5, 0.9])
        assert (answer["model_id"], answer["draws"], answer["rows"]) == (model["id"], 40, 60)
        assert (answer["features"], answer["grid"], answer["ice"]) == (features, expected.grid, None)
        assert np.shape(answer["mean"]) == shape
        assert (answer["mean"], answer["sd"]) == (expected.mean.tolist(), expected.sd.tolist())
        assert answer["intervals"] == [
            {"level": level, "lower": lower.tolist(), "upper": upper.tolist()}
            for level, lower, upper in expected.intervals
        ]


def test_partial_dependence_on_three_features(client, settings):
    """Three features give [first][second][third], as in the notebook; four are refused."""
    model = fitted(
        client, settings, text="y,a,b,c\n" + "".join(f"{i},{i},{i % 7},{i % 3}\n" for i in range(60))
    )
    answer = dependence(client, model, features=["a", "b", "c"]).json()
    expected = of_file(client, model).partial_dependence(["a", "b", "c"])
    assert np.shape(answer["mean"]) == (9, 7, 3)
    assert (answer["grid"], answer["mean"]) == (expected.grid, expected.mean.tolist())
    problem(dependence(client, model, features=["a", "b", "c", "y"]), 422)


def test_partial_dependence_of_ones_own_grid_rows_and_draws(client, model):
    """Partial dependence and ICE equal predictions of the given rows with the feature fixed."""
    rows = [{"size": 3, "colour": "red"}, {"size": None, "colour": "blue"}, {"size": 9, "colour": "green"}]
    answer = dependence(
        client, model, features=["size"], grid={"size": [2, None]}, rows=rows, draws=7, ice=True
    ).json()

    for point, size in enumerate((2, None)):
        changed = [row | {"size": size} for row in rows]
        path = f"/models/{model['id']}/predict"
        body = {"rows": changed, "draws": 7, "interval": "credible"}
        predicted = client.post(path, json=body).json()
        np.testing.assert_allclose(answer["mean"][point], np.mean(predicted["mean"]))
        ice = answer["ice"]
        np.testing.assert_allclose([curve[point] for curve in ice["mean"]], predicted["mean"])
        for end in ("lower", "upper"):
            np.testing.assert_allclose(
                [curve[point] for curve in ice["intervals"][0][end]], predicted["intervals"][0][end]
            )
    assert (answer["grid"], answer["rows"], answer["draws"]) == ([[2, None]], 3, 7)
    assert ice["rows"] == [0, 1, 2]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    again = dependence(
        client, model, features=["size"], grid={"size": [2, None]}, columns=columns, draws=7, ice=True
    )
    assert again.json() == answer


@only("sqlite")
def test_partial_dependence_that_makes_no_sense_is_refused_by_name(client, model):
    """Unknown features, unfit grids and too much work are refused with the field or column."""
    for body, field in {
        '{"features": []}': "features",
        '{"features": ["hue"]}': "features",
        '{"features": ["size", "size"]}': "features",
        '{"features": ["size", "colour", "y"]}': "features",
        '{"features": "size"}': "features",
        '{"features": ["size"], "grid": {"hue": [1]}}': "grid",
        '{"features": ["size"], "grid": {"size": []}}': "grid",
        '{"features": ["size"], "grid": {"size": ["big"]}}': "size",
        '{"features": ["size"], "grid": {"size": [[1]]}}': "size",
        '{"features": ["size"], "grid": {"size": [1e999]}}': "grid.size.0",
        '{"features": ["size", "colour"], "ice": true}': "ice",
        '{"features": ["size"], "draws": 41}': "draws",
        '{"features": ["size"], "level": 1}': "level",
        '{"features": ["size"], "rows": [{"size": 1}]}': "colour",
        '{"features": ["size"], "seed": 1}': "seed",
    }.items():
        refused = problem(post_json(client, f"/models/{model['id']}/partial-dependence", body), 422)
        assert str(places(refused)[0][0]).startswith(field), refused
    assert "rows" in problem(dependence(client, model, features=["size"], rows=[]), 422)["detail"]
    grid = {"size": [1.0] * 10_001}
    assert "points" in problem(dependence(client, model, features=["size"], grid=grid), 413)["detail"]


def test_no_question_of_dependence_makes_a_server_error(client, model):
    """Any JSON, and valid requests with changed fields, never give a 5xx."""
    names = st.sampled_from(["features", "grid", "level", "ice", "draws", "rows", "columns"])
    path = f"/models/{model['id']}/partial-dependence"

    @given(fields=st.dictionaries(names, VALUES, max_size=3), cells=st.lists(VALUES, max_size=4))
    @FUZZ
    def fuzz(fields, cells):
        send(client, path, {"features": ["size"]} | fields)
        send(client, path, {"features": ["colour", "size"], "grid": {"colour": cells}})
        send(client, path, {"features": ["size"], "columns": {"size": cells, "colour": cells}})

    fuzz()


def test_accumulated_effects_are_those_of_the_notebook(client, model):
    """They equal those of the model's file, over training rows and over rows sent; faults are named."""
    posterior, path = of_file(client, model), f"/models/{model['id']}/accumulated-effects"
    sent = {"size": [1.0, 4.0, 2.0, 5.0], "colour": ["red", "blue", "red", "blue"]}
    for columns in (None, sent):
        answer = client.post(path, json={"feature": "size", "level": [0.5, 0.9], "columns": columns})
        assert answer.status_code == 200, answer.text
        expected = posterior.accumulated_effects("size", columns, [0.5, 0.9])
        document = answer.json()
        assert (document["grid"], document["rows"]) == (expected.grid, expected.rows.tolist())
        assert document["mean"] == expected.mean.tolist()
        assert document["intervals"][1]["upper"] == expected.intervals[1].upper.tolist()
    for feature in ("colour", "weight"):
        document = problem(client.post(path, json={"feature": feature}), 422)
        assert document["errors"][0]["column"] == "feature"
    problem(client.post(path, json={"feature": "size", "draws": 10**9}), 422)
