"""Mean probabilities of classes."""

import numpy as np
import pytest

from sampler import fit
from sampler.posterior.laws.classes import ClassesLaw


@pytest.mark.parametrize("num_draws", [7, 25, 41])
def test_means_of_certain_classes_are_at_most_one(monkeypatch, num_draws):
    """Shares of draws add up to one but for rounding; a mean is no larger than its draws."""
    X = np.arange(12.0)[:, None]
    posterior = fit(
        X, np.arange(12) % 3, family="categorical", linear=False, seed=1, progress=False,
        num_trees=1, num_chains=2, num_burnin=1, num_draws=num_draws,
    )  # fmt: skip

    def certain(_self, coded, chosen):
        f = np.zeros((len(chosen), coded.num_rows, 3))
        f[:, :, 0] = 1.0
        return f

    monkeypatch.setattr(ClassesLaw, "f_of", certain)
    mean = posterior.predict(X, level=None).mean
    np.testing.assert_array_equal(mean, np.tile([1.0, 0.0, 0.0], (len(X), 1)))
