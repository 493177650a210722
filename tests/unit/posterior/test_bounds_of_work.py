"""Explanations take as long as they are bounded by, with many draws, many trees or many columns."""

import time

import numpy as np
import pytest

from sampler import fit
from sampler.costs.explanations import of_accumulated_effects, of_contrast, of_shap_values, of_trees
from sampler.posterior.explanations.partial_dependence import EACH_POINT

UNIT = 1e-10  # seconds of a core
SLOWER = 6  # that another machine, or a busy one, may be
MODELS = {
    "one tree in 4,000 draws": {"num_trees": 1, "num_chains": 2, "num_draws": 2000},
    "many trees": {"num_trees": 100, "num_chains": 2, "num_draws": 60},
}


@pytest.fixture(scope="module", params=[(name, columns) for name in MODELS for columns in (3, 30)], ids=str)
def model(request):
    name, columns = request.param
    rng = np.random.default_rng(columns)
    X = rng.standard_normal((300, columns))
    short = {"num_burnin": 20, "thin": 1, "seed": 1, "progress": False}
    return fit(X, X[:, 0] + rng.standard_normal(300), **MODELS[name], **short), X


def seconds(work):
    work()  # what it needs is compiled
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.slow
@pytest.mark.parametrize(
    "explanation", ["contrast", "accumulated effects", "shap values", "effect", "curves"]
)
def test_no_explanation_takes_longer_than_its_work_says(model, explanation):
    posterior, X = model
    draws = posterior.num_chains * posterior.num_draws
    some = np.tile(X, (4, 1))
    point = of_trees(posterior) + EACH_POINT
    each, of_rows, act = {
        "contrast": (of_contrast, some, lambda: posterior.contrast(some, {"x1": 0}, {"x1": 1})),
        "accumulated effects": (
            of_accumulated_effects,
            some,
            lambda: posterior.accumulated_effects("x1", some),
        ),
        "shap values": (of_shap_values, X[:60], lambda: posterior.shap(X[:60])),
        "effect": (lambda _: 50 * point, X, lambda: posterior.partial_dependence("x1", X, grid=grid(50))),
        "curves": (
            lambda _: 10 * point * 4,  # of 60 rows with a curve of each
            X[:60],
            lambda: posterior.partial_dependence("x1", X[:60], grid=grid(10), ice=60),
        ),
    }[explanation]
    expected = len(of_rows) * draws * each(posterior) * UNIT
    assert seconds(act) < SLOWER * (expected + 0.02)


def grid(points):
    return {"x1": np.linspace(-2, 2, points).tolist()}


def test_shap_values_add_up_to_the_prediction_by_default(model):
    """They are of all draws, whatever their number; an answer of fewer says so."""
    posterior, X = model
    shap = posterior.shap(X[:3])
    assert shap.draws == posterior.num_chains * posterior.num_draws
    total = shap.base_values + shap.values.sum(axis=1)
    np.testing.assert_allclose(total, posterior.predict(X[:3], level=None).mean, rtol=1e-9, atol=1e-9)
    assert not any("draws" in warning for warning in shap.warnings)
    fewer = posterior.shap(X[:3], max_draws=50)
    assert any(warning.startswith("the values are of 50 of") for warning in fewer.warnings)
    np.testing.assert_allclose(fewer.base_values + fewer.values.sum(axis=1), fewer.f, rtol=1e-9)
