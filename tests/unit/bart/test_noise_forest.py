"""Noise by row: golden values, exact laws on tiny problems, resuming, weights, refusals."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, polygamma

from sampler import SettingsError, fit, load
from sampler.bart import log_linear, noise_forest, row_noise
from sampler.bart.chain import Chain
from sampler.bart.checkpoint import read_checkpoint, write_checkpoint
from sampler.bart.kernels.leaf_models.log_linear_pass import log_gamma
from sampler.errors import PackedError
from tests.reference.enumerator import leaf_law
from tests.reference.log_linear import Precisions
from tests.support.chain_driver import check_resuming, training
from tests.support.toy_problems import GOLDEN_X, GOLDEN_Y


def test_the_evidence_is_the_golden_one():
    """One tree of precisions has the golden evidence and leaf distribution on the published rows."""
    toy = Precisions(GOLDEN_X.T, GOLDEN_Y)
    assert len(toy.trees) == 162
    assert toy.log_density == pytest.approx(-1.8229261226, abs=5e-11)
    law = [0.05209897, 0.39743350, 0.31451851, 0.18197332, 0.05397570]
    np.testing.assert_allclose(leaf_law(toy, toy.posterior), law, atol=5e-9)


@pytest.mark.parametrize(
    ("trees", "log_sd", "shape", "rate"),
    [(20, 0.5, 80.4990, 79.9995), (40, 1.0, 40.4979, 39.9990), (50, 2.0, 12.99334, 12.49667)],
)
def test_the_prior_is_calibrated_exactly(trees, log_sd, shape, rate):
    """The log of the product of precisions has prior mean 0 and the requested sd."""
    gamma = noise_forest.gamma_prior(log_sd, trees)
    assert gamma == pytest.approx((shape, rate), rel=1e-5)
    assert trees * polygamma(1, gamma[0]) == pytest.approx(log_sd**2)


def test_log_gamma_is_scipys():
    """The kernel's log gamma equals scipy's, for small and large arguments, up to rounding."""
    x = np.concatenate([np.linspace(0.3, 30, 200), 10.0 ** np.arange(2, 9)])
    np.testing.assert_allclose([log_gamma(v) for v in x], gammaln(x), rtol=2e-14, atol=2e-14)


def one_tree_each(monkeypatch, shape, rate):
    """Give all further fits one tree of precisions with the given leaf prior, whatever the spread."""
    for module in (noise_forest, row_noise):
        monkeypatch.setattr(module, "NOISE_TREES", 1)
    monkeypatch.setattr(log_linear, "gamma_prior", lambda _log_sd, _trees: (shape, rate))


@pytest.mark.parametrize("moves", ["default", "growprune", "pg"])
def test_trees_of_precisions_have_their_posterior_law(monkeypatch, moves):
    """With the mean fixed at 0, the number of leaves has the enumerated posterior distribution."""
    one_tree_each(monkeypatch, 3.0, 0.2)
    toy = Precisions(GOLDEN_X.T, GOLDEN_Y)
    prior = {"leaf_sd": 1e-6, "sigma": 1.0, "alpha": 0.95, "beta": 1.0, "step": 2.0**-20}
    settings = {"num_trees": 1, "num_burnin": 100, "num_draws": 1200, "thin": 6}
    chain = Chain.start(training(toy.codes, toy.y, prior=prior, noise="forest", moves=moves, **settings), 0)
    chain.run(10**6)
    leaves = chain.take().forests["precision"].leaf_counts[:, 0]
    counts = np.bincount(leaves, minlength=6)[1:6]
    expected = leaf_law(toy, toy.posterior)
    assert stats.chisquare(counts, expected * counts.sum()).pvalue > 1e-4


def test_spread_and_trees_have_their_joint_law(monkeypatch):
    """With the mean fixed at 0, the spread and the number of leaves have the enumerated joint law."""
    for name, value in {"NOISE_TREES": 1, "LEAST": 0.6, "MOST": 2.4, "GRID": 3}.items():
        monkeypatch.setattr(noise_forest, name, value)
    monkeypatch.setattr(row_noise, "NOISE_TREES", 1)
    spreads = np.geomspace(0.6, 2.4, 3)
    laws = []
    for spread in spreads:
        shape, rate = noise_forest.gamma_prior(2 * spread, 1)
        toy = Precisions(GOLDEN_X.T, GOLDEN_Y, shape=shape, rate=rate)
        laws.append(spread * np.exp(toy.log_density) * leaf_law(toy, toy.posterior))
    expected = np.array(laws) / np.sum(laws)
    np.testing.assert_allclose(expected.sum(axis=1), [0.11468969, 0.44058122, 0.44472908], atol=5e-9)
    prior = {"leaf_sd": 1e-6, "sigma": 1.0, "alpha": 0.95, "beta": 1.0, "step": 2.0**-20}
    settings = {"num_trees": 1, "num_burnin": 100, "num_draws": 2000, "thin": 8}
    chain = Chain.start(training(toy.codes, toy.y, prior=prior, noise="forest", **settings), 0)
    chain.run(10**6)
    draws = chain.take()
    place = np.searchsorted(spreads, draws.scalars["noise_spread"] * 0.999)
    counts = np.zeros(expected.shape)
    np.add.at(counts, (place, draws.forests["precision"].leaf_counts[:, 0] - 1), 1)
    assert stats.chisquare(counts.ravel(), (expected * counts.sum()).ravel()).pvalue > 1e-4


def test_mean_and_precisions_have_their_joint_law(monkeypatch):
    """With one tree each for mean and precisions, leaf counts have the joint law found by quadrature."""
    one_tree_each(monkeypatch, 3.0, 0.6)
    prior = {"leaf_sd": 0.5, "sigma": 1.0, "alpha": 0.95, "beta": 1.0, "step": 2.0**-20}
    settings = {"num_trees": 1, "num_burnin": 100, "num_draws": 1500, "thin": 4}
    data = training([[0, 1, 2]], [0.3, -0.4, 1.1], prior=prior, noise="forest", **settings)
    chain = Chain.start(data, 0)
    chain.run(10**6)
    counts = np.bincount(chain.take().forests["precision"].leaf_counts[:, 0], minlength=4)[1:4]
    expected = np.array([0.0480018, 0.4968196, 0.4551786])
    assert stats.chisquare(counts, expected * counts.sum()).pvalue > 1e-4


def uneven(rows, seed=0, sd=lambda x: np.exp(2 * x) / 5):
    """Return data with mean 4 x^2 and noise that grows with x."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 2))
    return X, 4 * X[:, 0] ** 2 + sd(X[:, 0]) * rng.normal(size=rows)


FAST = {"num_trees": 20, "num_chains": 2, "num_burnin": 60, "num_draws": 30, "thin": 1, "progress": False}


@pytest.mark.parametrize("weighted", [False, True])
def test_a_chain_resumes_bit_for_bit(weighted):
    """A chain with noise by row resumes exactly from a checkpoint after any iteration."""
    from sampler.preparation import prepare

    X, y = uneven(80)
    weights = np.where(np.arange(80) < 40, 1.0, 2.5) if weighted else None
    settings = {"num_trees": 7, "num_chains": 1, "num_burnin": 12, "num_draws": 8, "thin": 1}
    check_resuming(prepare(X, y, weights=weights, noise="forest", **settings).training)


def test_a_checkpoint_of_less_state_is_refused():
    """A checkpoint of a version without the spread is refused as such."""
    data = training(np.zeros((1, 40)), uneven(40)[1], noise="forest", num_trees=2, num_burnin=4, num_draws=2)
    chain = Chain.start(data, 0)
    chain.run(2)
    numbers, body = read_checkpoint(chain.checkpoint(), data)
    with pytest.raises(PackedError, match="another version"):
        Chain.resume(data, write_checkpoint(data, numbers, body[:32] + body[40:]))


def test_intervals_follow_the_noise(tmp_path):
    """Intervals are wide where outcomes vary much, and equal from a file and for single rows."""
    X, y = uneven(1200)
    posterior = fit(X, y, noise="forest", **FAST | {"num_burnin": 300, "num_draws": 60})
    new = np.column_stack([[0.1, 0.5, 0.9], [0.5] * 3])
    prediction = posterior.predict(new)
    width = (prediction.upper - prediction.lower) / (2 * 1.645)
    np.testing.assert_allclose(width, np.exp(2 * new[:, 0]) / 5, rtol=0.35)
    spread = posterior.noise_spread()
    assert spread.shape == (2, 60)
    assert 0.05 <= spread.min() < spread.max() <= 0.5
    s = posterior.sample_sigma(new)
    assert s.shape == (2, 60, 3)
    assert np.all(np.diff(s.mean(axis=(0, 1))) > 0)
    posterior.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    np.testing.assert_array_equal(again.noise_spread(), spread)
    for k in range(3):
        np.testing.assert_array_equal(again.predict(new[[k]]).lower, prediction.lower[[k]])
    credible = posterior.predict(new, interval="credible")
    assert np.all(credible.upper < prediction.upper)
    assert posterior.summary().sigma["rhat"] > 0.9


def test_what_makes_outcomes_uncertain():
    """The noise's trees split on the column that it depends on, and its effect is the curve of its sd."""
    X, y = uneven(800)
    posterior = fit(
        X,
        y,
        noise="forest",
        prior={"k": 2.0},
        transform="none",
        **FAST | {"num_burnin": 200, "num_draws": 200},
    )
    shares = posterior.inclusion(of="noise")
    assert shares.mean[0] > 0.5
    name = shares.names[0]
    effect = posterior.partial_dependence([name], grid={name: [0.1, 0.9]}, of="noise")
    np.testing.assert_allclose(effect.mean, np.exp(2 * np.array([0.1, 0.9])) / 5, rtol=0.5)
    other = shares.names[1]
    flat = posterior.partial_dependence([other], grid={other: [0.1, 0.9]}, of="noise")
    assert flat.mean[1] / flat.mean[0] == pytest.approx(1.0, abs=0.3)
    plain = fit(X, y, noise="constant", **FAST)
    for ask in (lambda of: plain.inclusion(of=of), lambda of: plain.partial_dependence([name], of=of)):
        for of in ("noise", "sd"):
            with pytest.raises(SettingsError) as refused:
                ask(of)
            assert refused.value.field == "of"


def test_scale_and_weights_change_units_alone():
    """Outcomes times 2^k and weights times 2^j give the same trees, and intervals in the new units."""
    X, y = uneven(150)
    weights = 1.0 + np.arange(150) % 3
    base = fit(X, y, weights, noise="forest", **FAST)
    scaled = fit(X, y * 2.0**20, weights * 2.0**-30, noise="forest", **FAST)
    a, b = base.predict(X[:5]), scaled.predict(X[:5])
    np.testing.assert_array_equal(a.mean * 2.0**20, b.mean)
    np.testing.assert_array_equal(base.leaf_counts, scaled.leaf_counts)
    np.testing.assert_allclose(base.sigma * 2.0**5, scaled.sigma, rtol=1e-12)
