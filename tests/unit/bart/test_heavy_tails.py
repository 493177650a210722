"""Heavy tails: the engine's law on a tiny problem, the law of its answers, resuming, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from sampler import PackedError, fit, load
from sampler.bart import student
from sampler.bart.chain import Chain
from sampler.noise import DEGREE_GRID
from sampler.posterior.core.stored_draws import StoredDraws
from sampler.posterior.weighting import noise_law
from sampler.posterior.weighting.student_noise import Student, sd_of
from sampler.preparation import prepare
from tests.support.chain_driver import check_resuming, training

FAST = {"num_trees": 20, "num_chains": 2, "num_burnin": 60, "num_draws": 30, "thin": 1, "progress": False}


def far_out(rows=150, seed=0):
    """A curve with t noise of two and a half degrees of freedom, in two columns."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 2))
    return X, 4 * X[:, 0] ** 2 + 0.3 * rng.standard_t(2.5, size=rows)


def test_a_tree_has_its_posterior_law(monkeypatch):
    """Three rows, four degrees of freedom known: the golden probabilities of 1, 2 and 3 leaves."""
    monkeypatch.setattr(student, "FIRST", 4.0)
    monkeypatch.setattr(student, "EVERY", 10**9)  # the first iteration draws them, and is undone below
    prior = {"leaf_sd": 0.5, "sigma": 0.3**0.5, "alpha": 0.95, "beta": 1.0, "step": 2.0**-20}
    settings = {"num_trees": 1, "num_burnin": 100, "num_draws": 1500, "thin": 4}
    chain = Chain.start(training([[0, 1, 2]], [0.3, -0.4, 2.1], prior=prior, noise="t", **settings), 0)
    chain.run(1)
    chain._likelihood.outcome.scalars[1] = 4.0
    chain.run(10**6)
    counts = np.bincount(chain.take().leaf_counts[:, 0], minlength=4)[1:4]
    expected = np.array([0.037037, 0.436128, 0.526835])
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-4


def test_degrees_have_their_conditional_law():
    """Given errors, the degrees of freedom have prior times t density, whatever the weights."""
    from sampler.bart.kernels.steps.student import draw_degrees, measure_errors

    rng = np.random.default_rng(1)
    errors, weights = np.rint(1000 * rng.standard_t(4, size=60)).astype(np.int32), 1.0 + np.arange(60) % 2
    squares, seen = np.empty(60), 60
    assert measure_errors(np.zeros(60, np.int32), weights, errors, 1e6, 60, squares) == seen
    np.testing.assert_allclose(squares, weights * (errors / 1000.0) ** 2, rtol=1e-12)
    grid, log_prior = np.array(DEGREE_GRID), student.log_prior()
    words = np.random.SeedSequence(5).generate_state(4, np.uint64)
    scores = np.empty(len(grid))
    drawn = [draw_degrees(squares, seen, 1.0, grid, log_prior, scores, words) for _ in range(6000)]
    law = np.array([stats.t.logpdf(np.sqrt(squares), degrees).sum() for degrees in grid]) + log_prior
    law = np.exp(law - law.max())
    law /= law.sum()
    counts = np.bincount(drawn, minlength=len(grid))
    usual = law > 1e-3
    assert stats.chisquare(counts[usual], law[usual] / law[usual].sum() * counts[usual].sum()).pvalue > 1e-4
    assert counts[~usual].sum() < 60


def test_the_law_of_the_noise_is_scipys():
    """Probabilities, densities, quantiles and E|Z| of t in units of its standard deviation."""
    degrees = np.array(DEGREE_GRID)
    sd = sd_of(degrees)
    z = np.concatenate([-(10.0 ** np.arange(-3, 5)), [0.0], np.linspace(0.001, 30, 400)])[:, None]
    np.testing.assert_allclose(noise_law.below(z, Student(degrees)), stats.t.cdf(z * sd, degrees), atol=1e-9)
    np.testing.assert_allclose(
        noise_law.log_density(z, Student(degrees)), stats.t.logpdf(z * sd, degrees) + np.log(sd)
    )
    np.testing.assert_allclose(noise_law.around(0.03, Student(degrees))[0] * sd, stats.t.ppf(0.03, degrees))
    root = np.sqrt(2 * np.pi)
    for k in (0, 4):

        def integrand(x, k=k):
            return abs(1.5 + 2 * x) * noise_law.scaled_density(np.array(x), Student(degrees[k])) / root

        size = sum(quad(integrand, a, b, limit=200)[0] for a, b in ((-np.inf, -0.75), (-0.75, np.inf)))
        mean_size = noise_law.mean_size(np.array(1.5), np.array(2.0), Student(degrees[[k]]))
        np.testing.assert_allclose(mean_size, size, rtol=1e-5)


def test_answers_are_those_of_a_mixture_of_t(tmp_path):
    """Intervals, scores and densities agree with draws from the mixture, and with the file's."""
    X, y = far_out()
    posterior = fit(X, y, noise="t", **FAST)
    new, truth = far_out(6, seed=9)
    prediction = posterior.predict(new, level=0.8)
    rng = np.random.default_rng(2)
    degrees = posterior.degrees()
    assert degrees.shape == (2, 30)
    assert np.median(degrees) < 8
    noise = rng.standard_t(np.broadcast_to(degrees[:, :, None], (400, 2, 30, 6)))
    scale = posterior.sample_sigma(new) / sd_of(degrees)[:, :, None]
    outcomes = (posterior.sample(new) + scale * noise).reshape(-1, 6)
    inside = (prediction.lower <= outcomes) & (outcomes <= prediction.upper)
    np.testing.assert_allclose(inside.mean(axis=0), 0.8, atol=0.02)
    law = posterior.law.outcome_law(posterior.encode(new), None)
    np.testing.assert_allclose(law.below(truth), (outcomes <= truth).mean(axis=0), atol=0.02)
    low, high = law.interval(0.8)
    np.testing.assert_allclose(low, prediction.lower, rtol=1e-6)
    np.testing.assert_allclose(high, prediction.upper, rtol=1e-6)
    grid = np.linspace(-400, 400, 160_001)
    one = posterior.law.outcome_law(posterior.encode(new[:1]), None)
    steps = np.array([one.below(np.array([x]))[0] for x in grid[::40]])
    direct = np.sum((steps - (grid[::40] >= truth[0])) ** 2) * (grid[40] - grid[0])
    assert one.crps(truth[:1])[0] == pytest.approx(direct, abs=0.25)
    density = posterior.density(new[:1])
    assert np.sum(density["outcome"]) * (density["x"][1] - density["x"][0]) == pytest.approx(1, abs=0.05)
    posterior.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    np.testing.assert_array_equal(again.predict(new[[2]], level=0.8).lower, prediction.lower[[2]])
    assert posterior.score(new, truth)["rows"] == 6


@pytest.mark.parametrize("settings", [{"noise": "t"}, {"noise": "t-forest"}, {"noise": "t", "linear": True}])
def test_a_chain_resumes_bit_for_bit(settings):
    """From a checkpoint after any iteration."""
    X, y = far_out(80)
    weights = np.where(np.arange(80) < 40, 1.0, 2.5)
    short = {"num_trees": 7, "num_chains": 1, "num_burnin": 8, "num_draws": 6, "thin": 1}
    check_resuming(prepare(X, y, weights=weights, **short | settings).training)


def test_an_outcome_far_out_moves_nothing():
    """One wrong outcome among 150 moves a normal fit's intervals, not those of heavy tails."""
    X, y = far_out()
    wrong = y.copy()
    wrong[3] += 60
    widths = {}
    for noise in ("constant", "t"):
        prediction = fit(X, wrong, noise=noise, **FAST).predict(X[10:40])
        widths[noise] = float(np.mean(prediction.upper - prediction.lower))
    assert widths["t"] < 0.8 * widths["constant"]


def test_a_file_of_odd_degrees_is_refused():
    """Degrees of freedom that no fit has drawn, or none at all."""
    X, y = far_out(40)
    posterior = fit(X, y, noise="t", **FAST)
    chains = posterior.chains()
    for scalars in ({"degrees": np.full(30, 1.5)}, {}):
        odd = [replace(draws, scalars=scalars) for draws in chains]
        with pytest.raises(PackedError, match="degrees"):
            StoredDraws(posterior.header, odd, [], [])
