"""A number of trees that is drawn, over HTTP: fitted to real cars, shown, predicted from, stored, refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sampler import fit
from tests.support.api_calls import of_file, post_csv, problem
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import SMALL, extended, fitted

pytestmark = only("sqlite")
CARS = Path(__file__).parents[3] / "examples" / "auto_mpg.csv"
PRIOR = {"num_trees": "poisson", "num_trees_mean": 8}
FIT = {"target": "mpg", "features": ["weight", "year", "origin"], "noise": "constant", "transform": "none"}


@pytest.mark.slow
def test_cars(client, browser, settings):
    """Fitted and extended as in the library, bit for bit; diagnostics and pages tell the number."""
    lengths = SMALL | {"num_trees": 20, "seed": 3}
    model = fitted(client, settings, text=CARS.read_text(), prior=PRIOR, **FIT | lengths)
    assert model["settings"]["prior"] == model["settings"]["prior"] | PRIOR
    path = f"/models/{model['id']}"
    extended(client, settings, path)
    cars = pd.read_csv(CARS)
    X, options = cars[FIT["features"]], {name: FIT[name] for name in ("noise", "transform")}
    expected = fit(X, cars["mpg"], prior=PRIOR, progress=False, **options, **lengths | {"num_draws": 50})
    downloaded = of_file(client, model)
    np.testing.assert_array_equal(downloaded.tree_numbers(), expected.tree_numbers())
    np.testing.assert_array_equal(downloaded.sample(X), expected.sample(X))
    assert np.array_equal((expected.leaf_counts > 0).sum(2), expected.tree_numbers())

    trees = client.get(path).json()["diagnostics"]["num_trees"]
    assert trees == expected.summary().num_trees
    assert 1 < trees["lower"] <= trees["mean"] <= trees["upper"] <= 20
    report = client.get(f"{path}/diagnostics").json()
    assert report["num_trees"]["mean"] == pytest.approx(trees["mean"])
    assert "0" not in report["trees"]["leaves"]["share"]
    new = {name: X[name][:5].tolist() for name in X}
    assert client.post(f"{path}/predict", json={"columns": new}).json()["mean"] == pytest.approx(
        expected.predict(X[:5]).mean
    )
    assert "Trees, 90% interval" in page_of(browser.get(f"/ui{path}/chains")).words
    assert "poisson" in page_of(browser.get(f"/ui{path}/settings")).words


def test_what_has_no_place_for_absent_trees_is_refused_with_a_way(client):
    """Particle Gibbs, monotone features and a hurdle are refused by the name of the entry."""
    body = {"dataset_id": post_csv(client, CARS.read_text()).json()["id"], **FIT, "prior": PRIOR}
    for more, way in (
        ({"moves": "pg"}, "leave out moves, or leave out prior.num_trees"),
        ({"monotone": {"weight": "decreasing"}}, "leave out prior.num_trees, or leave out monotone"),
        ({"family": "poisson"}, "leave out prior.num_trees"),
        ({"prior": {"num_trees_mean": 8}}, "has a meaning only with num_trees: poisson or geometric"),
    ):
        response = client.post("/models", json=body | more)
        assert way in problem(response, 422)["detail"], response.text
