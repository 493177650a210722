"""What a notebook asks of a posterior, by its definitions."""

import numpy as np
import pytest
from scipy.stats import norm

from sampler import DataError
from sampler.posterior import rhat_ess
from sampler.posterior.assessment.stop_rules import look, next_look
from sampler.posterior.report import thinned
from tests.support.random_posteriors import make_posterior


def test_convergence_is_that_of_growing_parts_of_the_draws():
    """At each count R-hat and ESS are those of so many first draws; the last count is all of them."""
    posterior, _, _ = make_posterior(num_draws=(40, 50))
    told = posterior.convergence()
    assert (told["draws"][-1], told["chains"], told["f"]["rows"]) == (40, 2, 50)
    f = posterior.draws_by_figure(posterior.reference.codes)[thinned(posterior.reference.num_rows, 50)]
    for i, count in enumerate(told["draws"]):
        sigma = np.ascontiguousarray(posterior.sigma[None, :, :count])
        assert told["sigma"]["ess_bulk"][i] == rhat_ess.ess_bulk(sigma)[0]
        rhat = rhat_ess.rhat(np.ascontiguousarray(f[:, :, :count]))
        assert told["f"]["rhat"][i] == pytest.approx(np.median(rhat), rel=1e-12)
        assert told["f"]["rhat_p95"][i] == pytest.approx(np.quantile(rhat, 0.95), rel=1e-12)


def test_a_density_is_that_of_the_draws():
    """A new outcome's is the mixture of the draws' normals; it integrates to one; other rows are refused."""
    posterior, X, _ = make_posterior(num_draws=(40, 50))
    row = {name: values[0] for name, values in X.items()}
    told = posterior.density(row)
    f, sigma = posterior.sample(one := {name: [value] for name, value in row.items()}), posterior.sigma
    np.testing.assert_allclose(
        told["outcome"], norm.pdf(told["x"][:, None], f.reshape(-1), sigma.reshape(-1)).mean(axis=1)
    )
    assert np.trapezoid(told["outcome"], told["x"]) == pytest.approx(1, abs=1e-3)
    predicted = posterior.predict(one, 0.9, "predictive")
    assert told["intervals"]["outcome"] == (predicted.lower[0], predicted.upper[0])
    assert told["centre"] == pytest.approx(f.mean())
    with pytest.raises(DataError, match="one row"):
        posterior.density({name: values[:2] for name, values in X.items()})


def test_stop_rules_hold_by_the_posteriors_own_figures():
    """A rule holds up to the very figure it is about, and only rules that were given are judged."""
    posterior, _, _ = make_posterior(num_draws=(40, 50))
    seen = look(posterior, {"min_ess": 1.0, "max_rhat": None})
    assert seen.held == {"min_ess": True}
    assert seen.satisfied
    ess = seen.figures["ess"]
    assert look(posterior, {"min_ess": ess}).satisfied
    assert not look(posterior, {"min_ess": np.nextafter(ess, np.inf)}).satisfied
    assert not look(posterior, {}).satisfied
    assert [next_look(20, 50), next_look(45, 50), next_look(1, 9)] == [30, 50, 2]
