"""Rules by sets of levels over HTTP: the library's fits, also extended, answers, studies and refusals."""

import numpy as np
import pytest

from sampler import fit
from tests.support.api_calls import of_file, problem
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, extended, fitted, run_units

pytestmark = only("sqlite")
OPTIONS = SMALL | {"categories": "sets", "num_draws": 15, "seed": 3}
PLAIN = {"noise": "constant", "linear": False, "transform": "none"}


def rows(number=120):
    """Return a category of nine levels, some of it missing, a number, and outcomes."""
    rng = np.random.default_rng(6)
    level, x = rng.integers(0, 9, number), np.round(rng.uniform(size=number), 3)
    y = np.round(2.0 * (level % 2) + x + 0.2 * rng.normal(size=number), 3)
    site = np.array([*(f"s{k}" for k in range(9)), None], dtype=object)[np.where(level == 8, 9, level)]
    return {"site": site, "x": x}, y


def as_csv():
    X, y = rows()
    return "site,x,y\n" + "".join(
        f"{a or ''},{b},{c}\n" for a, b, c in zip(X["site"], X["x"], y, strict=True)
    )


def test_fits_are_the_librarys(client, settings):
    """Fitted, extended and stored as in the library, bit for bit; new levels are named."""
    model = fitted(client, settings, text=as_csv(), target="y", **OPTIONS | PLAIN)
    assert model["settings"]["categories"] == "sets"
    path = f"/models/{model['id']}"
    extended(client, settings, path)
    X, y = rows()
    lengths = {"num_draws": 25, "num_burnin": OPTIONS["num_burnin"]}
    expected = fit(X, y, target_name="y", progress=False, **OPTIONS | PLAIN | lengths)
    downloaded = of_file(client, model)
    np.testing.assert_array_equal(downloaded.sample(X), expected.sample(X))
    new = {"site": ["s1", "elsewhere", None], "x": [0.1, 0.9, 0.5]}
    answer = client.post(f"{path}/predict", json={"columns": new}).json()
    assert answer["mean"] == expected.predict(new).mean.tolist()
    assert any("elsewhere" in text for text in answer["warnings"])
    values = client.post(f"{path}/shap", json={"columns": new})
    assert values.status_code == 200, values.text
    importance = client.get(f"{path}/variable-importance").json()
    assert importance["features"][0]["name"] == "site", importance


@pytest.mark.slow
def test_studies_learn_by_sets_too(client, settings):
    """Noise that the data choose, rows held out, and candidates of a tuning."""
    text = as_csv()
    model = fitted(client, settings, text=text, target="y", holdout=0.2, **OPTIONS)
    for candidates in ([{}, {"categories": "indicators"}], [{"num_trees": 10}, {"num_trees": 20}]):
        body = {"kind": "tuning", "folds": 2, "candidates": candidates}
        answer = client.post(f"/models/{model['id']}/studies", json=body)
        assert answer.status_code == 202, answer.text
        run_units(settings)
        assert client.get(answer.headers["location"]).json()["state"] == "succeeded"


def test_single_trees_are_refused_with_a_way_that_works(client, settings):
    model = fitted(client, settings, text=as_csv(), target="y", **OPTIONS | PLAIN)
    body = {"dataset_id": model["dataset_id"], "target": "y", "method": "bcart", "categories": "sets"}
    found = problem(client.post("/models", json=body), 422)
    assert "set method=bart, or leave out categories" in str(found)
