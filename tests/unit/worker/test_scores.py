"""Scores on held-out rows."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binomtest

from sampler import fit
from worker.held_out import look_at
from worker.scores import _coverage, score
from worker.spec import Rows


@pytest.mark.parametrize(("inside", "rows"), [(0, 7), (7, 7), (85, 99), (1, 2)])
def test_a_coverage_carries_its_own_binomial_interval(inside, rows):
    """The interval beside a measured coverage is the exact binomial one, also at its ends."""
    found = _coverage(0.9, inside, rows)

    exact = binomtest(inside, rows).proportion_ci(0.95, method="exact")
    assert (exact.low, exact.high) == pytest.approx((found["lower"], found["upper"]))
    assert found["lower"] <= found["coverage"] <= found["upper"]


def test_a_class_that_training_rows_lack_was_given_no_probability():
    """Classes keep their own columns; the rows of one that is new count as wrong, and are shown so."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 1, 60), [0.1, 0.5, 0.9, 0.5]])
    y = [*("acd"[int(3 * value)] for value in x[:60]), "a", "b", "d", "c"]
    posterior = fit(
        {"x": x[:60]}, y[:60], method="bcart", family="categorical", num_chains=2, num_draws=50, thin=10,
        num_burnin=500, progress=False,
    )  # fmt: skip

    def rows(part):
        return Rows(pa.table({"x": x[part]}), pa.chunked_array([y[part]]), None)

    training, held = rows(slice(60)), rows(slice(60, None))
    p = posterior.predict({"x": x[60:]}).mean

    scores = score(posterior, training, held, lambda: None)
    assert scores["accuracy"] == 0.75
    own = [p[0, 0], 1e-12, p[2, 2], p[3, 1]]
    assert scores["log_loss"] == pytest.approx(-np.log(own).mean())
    truth = np.array([[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]])
    assert scores["brier"] == pytest.approx(np.sum((np.c_[p, np.zeros(4)] - truth) ** 2) / 4)

    shown = look_at(posterior, training, held, np.arange(60, 64), lambda: None)
    assert shown["classes"] == ["a", "c", "d", "b"]
    assert shown["rows"]["actual"] == [0, 3, 2, 1]
    assert shown["rows"]["mean"] == [p[0, 0], 0, p[2, 2], p[3, 1]]
    assert shown["rows"]["predicted"] == [0, 1, 2, 1]
    assert sum(entry["observed"] * entry["rows"] for entry in shown["calibration"]) == 3
