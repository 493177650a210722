"""The declared work of a prediction: what limits requests, and divides predictions in the background."""

import time

import numpy as np
import pytest

from app.services.predictions.options import PredictionOptions
from app.services.predictions.predict_rows import work_of_row
from sampler import fit

pytestmark = pytest.mark.usefixtures("all_kernels")
FAST = {"num_trees": 20, "num_chains": 2, "num_burnin": 30, "num_draws": 100, "thin": 1, "progress": False}
TREE = 1e-10  # seconds of a core, of a tree of one draw at one row
TIMES = 5  # allowed, for a machine that is slow or busy


@pytest.mark.parametrize(
    ("target", "settings"),
    [
        ("numbers", {}),
        ("numbers", {"linear": True}),
        ("numbers", {"noise": "t-forest"}),
        ("numbers", {"noise": "mixture"}),
        ("numbers", {"transform": "yeo-johnson"}),
        ("numbers", {"method": "bcart", "num_trees": 1}),
        ("classes", {"family": "categorical"}),
        ("counts", {"family": "negative-binomial"}),
        ("many", {"family": "negative-binomial"}),
    ],
)
def test_predictions_take_the_work_that_is_declared(target, settings):
    """The mean, and the mean with an interval, take at most a few times the time of their declared work."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    f = X[:, 0] + X[:, 1] * X[:, 2]
    y = {
        "numbers": np.sinh(f + rng.normal(size=150)),
        "classes": np.digitize(f, [-0.5, 0.5]),
        "counts": rng.poisson(np.exp(f / 2) * rng.gamma(2, 0.5, 150)),
        "many": rng.poisson(500 * np.exp(f / 2) * rng.gamma(2, 0.5, 150)),
    }[target]
    posterior = fit(X, y, **FAST | settings)
    rows = posterior.encode(np.tile(X, (2, 1)))
    posterior.predict(rows.part(slice(0, 3)))  # loads what is loaded once
    for only_mean in (True, False):
        options = PredictionOptions(draws=100, target="mean" if only_mean else "all")
        began = time.process_time()
        posterior.predict(rows, level=None if only_mean else 0.9)
        seconds = time.process_time() - began
        assert seconds < TIMES * TREE * 300 * work_of_row(posterior, options, rows) + 0.02, (
            only_mean,
            seconds,
        )
