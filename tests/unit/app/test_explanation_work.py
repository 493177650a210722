"""The estimated work of explanations, which bounds requests: they take a few times its time at most."""

import time
import tracemalloc

import numpy as np
import pytest

from sampler import fit
from sampler.posterior.explanations import work
from sampler.posterior.explanations.row_sets import AggregateRequest

pytestmark = pytest.mark.usefixtures("all_kernels")
UNIT = 1e-10  # seconds of a core
TIMES = 5  # allowed, for a machine that is slow or busy
RNG = np.random.default_rng(2)
X = RNG.random((240, 7))
F = 3 * X[:, 0] + 4 * X[:, 1] * X[:, 2] - X[:, 3]
ALL = AggregateRequest.check(None, "sum", None, 0.9, "predictive", None)
BY_ROW = AggregateRequest.check("row", "sum", None, 0.9, "predictive", None)
SHORT = {"num_chains": 2, "num_burnin": 300, "thin": 1, "linear": False, "seed": 5, "progress": False}
MANY = {f"x{j + 1}": RNG.random(3000) for j in range(7)}


def many(count):
    return {name: values[:count] for name, values in MANY.items()}


def _distributions(law):
    law.cdf(np.zeros((100, 1)))
    law.quantile([0.1, 0.2, 0.5, 0.8, 0.9])
    law.crps(1.0)


def explanations(posterior, draws):
    """Return by name the estimate and the computation, of about as much work each."""
    law, both = posterior.law, ["x1", "x2"]
    rows = int(4e8 / work.contrast_work(law, draws, 1))
    averaged = work.rows_to_average(law, draws, 361, 0, 8e8)
    each = {
        "contrast": (
            work.contrast_work(law, draws, rows),
            lambda: posterior.contrast(many(rows), {"x1": 0.2}, {"x1": 0.7}, by="x2"),
        ),
        "totals": (
            work.aggregate_work(law, draws, ALL, rows, weighted=False),
            lambda: posterior.aggregate(many(rows)),
        ),
        "totals by row": (
            work.aggregate_work(law, draws, BY_ROW, rows, weighted=False),
            lambda: posterior.aggregate(many(rows) | {"row": np.arange(rows)}, "row"),
        ),
        "accumulated effects": (
            work.accumulation_work(law, draws, rows),
            lambda: posterior.accumulated_effects("x2", many(rows)),
        ),
        "partial dependence": (
            8e8 * max(1, 8 / averaged),
            lambda: posterior.partial_dependence(both, many(max(8, int(averaged)))),
        ),
        "usage by rows": (work.usage_work(law, draws, 200), lambda: posterior.inclusion(by="rows")),
        "SHAP values": (work.shap_work(law, draws, 12), lambda: posterior.shap(many(12))),
        "path-dependent ones": (
            work.shap_work(law, draws, 12),
            lambda: posterior.shap(many(12), game="path-dependent"),
        ),
    }
    if work.num_figures(law) == 1:
        each["interactions"] = (
            work.interactions_work(law, draws, 3, 50),
            lambda: posterior.interactions(["x1", "x2", "x3"]),
        )
        each["distributions"] = (
            work.distribution_work(law, draws, 20, 100, 5, 1),
            lambda: _distributions(posterior.distribution(many(20))),
        )
    return each


@pytest.mark.parametrize(
    "settings",
    [
        {"num_trees": 1, "num_draws": 300},
        {"num_trees": 1, "num_draws": 100, "prior": {"alpha": 0.999, "beta": 0.1}},
        {"num_trees": 30, "num_draws": 150, "transform": "yeo-johnson"},
        {"num_trees": 10, "num_draws": 150, "family": "categorical"},
        {"method": "bcart", "num_draws": 500},
    ],
    ids=["one tree", "a deep tree", "transformed", "classes", "bcart"],
)
def test_explanations_take_the_work_that_is_estimated(settings):
    """Estimates count all that is done per draw, and none is a hundred times too high."""
    y = np.digitize(F, [1.5, 3]) if settings.get("family") else np.sinh(F)
    posterior = fit(X, y, **SHORT | settings)
    draws = posterior.num_chains * posterior.num_draws
    posterior.shap(many(1), max_draws=1)  # loads what is loaded once
    for name, (estimate, compute) in explanations(posterior, draws).items():
        began = time.process_time()
        compute()
        seconds = time.process_time() - began
        assert UNIT * estimate / 100 < seconds + 0.02, (name, seconds, UNIT * estimate)
        assert seconds < TIMES * UNIT * estimate + 0.05, (name, seconds, UNIT * estimate)


def test_effects_of_many_draws_fit_in_memory():
    """A surface by many draws holds its averages once, with blocks beside it."""
    posterior = fit(
        X[:60], F[:60], num_trees=1, num_chains=2, num_draws=4000, num_burnin=50, thin=1, progress=False
    )
    tracemalloc.start()
    surface = posterior.partial_dependence(["x1", "x2"], many(5))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    averages = surface.mean.size * 8000 * 8
    assert averages > 20e6
    assert peak < 3 * averages + 100e6
