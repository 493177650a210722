"""Noise that is a mixture: the engine's laws on tiny problems, the law of its answers, what is refused."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from sampler import PackedError, Sampler, fit, load
from sampler.bart import noise_mixture
from sampler.bart.chain import Chain
from sampler.bart.noise_mixture import with_noise_mean
from sampler.noise import COMPONENTS, component_names
from sampler.posterior.core.stored_draws import StoredDraws
from sampler.posterior.weighting import noise_law
from sampler.posterior.weighting.mixture_noise import Mixture
from sampler.posterior.weighting.quantiles import noise_mixture as quantiles_of
from sampler.preparation import prepare
from tests.support.chain_driver import check_resuming, training

FAST = {"num_trees": 20, "num_chains": 2, "num_burnin": 60, "num_draws": 30, "thin": 1, "progress": False}
LENGTHS = {"num_trees": 7, "num_chains": 1, "num_burnin": 8, "num_draws": 6, "thin": 1}
NU, SCALE, PULL, SHAPE = 3.0, 400.0, 0.25, 1 / 3  # of a prior, on the grid
FACTORS = np.exp(np.linspace(-14, 4, 400))
MASS = stats.chi2(1).pdf(FACTORS) * FACTORS
MASS /= MASS.sum()
E = np.array([-35, -20, 15, 90, 100], np.int32)  # errors, in grid steps


def two_kinds(rows=200, seed=0):
    """A curve whose outcomes are of two kinds, some of them far above the others."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 2))
    far = rng.uniform(size=rows) < 0.15
    return X, 4 * X[:, 0] ** 2 + np.where(far, 3 + rng.normal(size=rows), 0.2 * rng.normal(size=rows))


def words(seed):
    """Return the state of a generator."""
    return np.random.SeedSequence(seed).generate_state(4, np.uint64)


def log_evidence(values, scale):
    """Log density of values of one component, its mean and sd integrated out, by scale of the prior."""
    n, mean = len(values), float(np.mean(values))
    pull = PULL + n
    rest = NU * scale + np.sum((values - mean) ** 2) + PULL * n / pull * mean**2
    nu = NU + n
    return (
        gammaln(nu / 2) - gammaln(NU / 2) + NU / 2 * np.log(NU * scale) - nu / 2 * np.log(rest)
        + 0.5 * np.log(PULL / pull) - n / 2 * np.log(np.pi)
    )  # fmt: skip


def log_mean(logs):
    """Average over the prior of the scale's factor."""
    return np.logaddexp.reduce(logs + np.log(MASS))


def test_labels_and_components_have_their_joint_law():
    """Five known errors, three components: every partition into components as often as enumerated."""
    from sampler.bart.kernels.steps.noise_mixture import BLOCK, draw_components, draw_labels

    count = 3
    logs: dict[tuple[int, ...], float] = {}
    for labels in product(range(count), repeat=len(E)):
        key = tuple(labels.index(each) for each in labels)
        parts = [E[np.array(labels) == k].astype(float) for k in range(count)]
        log = log_mean(sum(log_evidence(part, SCALE * FACTORS) for part in parts if len(part)))
        log += sum(gammaln(SHAPE + len(part)) for part in parts)
        logs[key] = np.logaddexp(logs.get(key, -np.inf), log)
    law = np.exp(np.array([*logs.values()]) - np.logaddexp.reduce([*logs.values()]))
    random, label = words(3), np.zeros(len(E), np.uint8)
    parts, sums = np.array([[0.4, 0.3, 0.3], [0.0, 0.0, 50.0], [20.0, 50.0, 9.0]]), np.zeros((3, count))
    seen, factor = dict.fromkeys(logs, 0), 1.0
    for sweep in range(60_000):
        draw_labels(E, parts, 1.0, random, np.empty((count + 2, BLOCK)), label, sums)
        factor = draw_components(sums, 1.0, NU, SCALE, factor, PULL, SHAPE, random, parts)
        if sweep % 6 == 0:
            labels = label.tolist()
            seen[tuple(labels.index(each) for each in labels)] += 1
    counts = np.array([*seen.values()])
    usual = law > 0.004
    expected = law[usual] / law[usual].sum() * counts[usual].sum()
    assert stats.chisquare(counts[usual], expected).pvalue > 1e-3
    assert law[usual].sum() > 0.9


def test_a_tree_has_its_posterior_law(monkeypatch):
    """Three rows, the components known: 1, 2 and 3 leaves as often as integrals say."""
    known = np.array([[0.7, 0.3], [0.0, 1.5], [0.3, 0.8]])
    full = np.zeros((3, COMPONENTS))
    full[:, :2], full[2, 2:] = known, 1.0
    full[0, 2:] = 1e-300

    def keep(*arguments):
        parts = arguments[-1]
        parts[:] = full
        parts[1:] *= 2.0**20
        parts[1] = np.rint(parts[1])
        return 1.0

    monkeypatch.setattr(noise_mixture, "draw_components", keep)
    prior = {"leaf_sd": 0.5, "alpha": 0.95, "beta": 1.0, "step": 2.0**-20, "offset": 0.0}
    settings = {"num_trees": 1, "num_burnin": 0, "num_draws": 3000, "thin": 5}
    data = training([[0, 1, 2]], [0.3, -0.4, 2.1], prior=prior, noise="mixture", **settings)
    chain = Chain.start(data, 0)
    chain._likelihood.outcome.scalars[1:-1] = full.reshape(-1)
    chain.run(10**6)
    counts = np.bincount(chain.take().leaf_counts[:, 0], minlength=4)[1:4]
    expected = np.array([0.036087, 0.421830, 0.542083])
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-4


def shape_of(rng, draws):
    """Return shapes of mixtures, one of them asymmetric, by draw."""
    share = rng.dirichlet(np.ones(3), draws).T
    return Mixture.of(np.stack([share, rng.normal(size=(3, draws)), rng.uniform(0.05, 2, (3, draws))]))


def test_the_law_of_the_noise_has_mean_0_and_sd_1():
    """Probabilities, densities, E|Z| and draws are those of the components."""
    rng = np.random.default_rng(2)
    shape = shape_of(rng, 4)
    z = np.linspace(-60, 60, 200_001)[:, None]
    step = z[1, 0] - z[0, 0]
    density = noise_law.scaled_density(z, shape) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(np.exp(shape.log_density(z)), density, atol=1e-12)
    for power, expected in ((0, 1), (1, 0), (2, 1)):
        np.testing.assert_allclose((z**power * density).sum(axis=0) * step, expected, atol=1e-6)
    below = sum(
        share * stats.norm.cdf(z, mean, sd)
        for share, mean, sd in zip(shape.share, shape.mean, shape.sd, strict=True)
    )
    np.testing.assert_allclose(noise_law.below(z, shape), below, atol=1e-12)
    np.testing.assert_allclose(noise_law.below(-z, shape.mirrored()), 1 - below, atol=1e-9)
    size = (np.abs(0.7 + 2 * z) * density).sum(axis=0) * step
    np.testing.assert_allclose(noise_law.mean_size(np.array(0.7), np.array(2.0), shape), size, atol=1e-5)
    drawn = noise_law.sample(rng, (40_000, 4), shape)
    for k in range(4):
        own = shape.map(lambda by_draw, k=k: by_draw[[k]])
        assert stats.kstest(drawn[:, k], own.below).pvalue > 1e-4


def test_quantiles_of_both_tails():
    """They are roots of the mixture over draws, whose noise is asymmetric."""
    rng = np.random.default_rng(3)
    shape, tails = shape_of(rng, 5), np.array([0.05, -0.05, 0.4])
    f, sd, share = rng.normal(size=(2, 5)), rng.uniform(0.5, 2, (2, 5)), np.full(5, 0.2)
    for tail, values in zip(tails, quantiles_of(f, sd, share, tails, shape), strict=True):
        below = (noise_law.below((values[:, None] - f) / sd, shape) * share).sum(axis=1)
        np.testing.assert_allclose(below, tail if tail > 0 else 1 + tail, atol=1e-8)


def test_answers_are_those_of_a_mixture(tmp_path):
    """Intervals, scores and densities agree with outcomes drawn, and with the file's; f is the mean."""
    X, y = two_kinds()
    posterior = fit(X, y, noise="mixture", **FAST)
    new, truth = two_kinds(6, seed=9)
    prediction = posterior.predict(new, level=0.8)
    chains = posterior.chains()
    parts = np.array([[each.scalars[name] for each in chains] for name in component_names()])
    share, mean, sd = parts.reshape(3, COMPONENTS, 2, 30)
    rng = np.random.default_rng(2)
    label = (rng.uniform(size=(400, 1, 2, 30, 6)) > np.cumsum(share, axis=0)[..., None]).sum(axis=1)
    chosen = np.minimum(label, COMPONENTS - 1)
    at = np.ogrid[tuple(slice(n) for n in (2, 30))]
    middle = np.sum(share * mean, axis=0)[:, :, None]
    noise = mean[chosen, at[0][..., None], at[1][..., None]] - middle
    noise += sd[chosen, at[0][..., None], at[1][..., None]] * rng.normal(size=chosen.shape)
    outcomes = (posterior.sample(new) + noise).reshape(-1, 6)
    inside = (prediction.lower <= outcomes) & (outcomes <= prediction.upper)
    np.testing.assert_allclose(inside.mean(axis=0), 0.8, atol=0.02)
    np.testing.assert_allclose(prediction.mean, outcomes.mean(axis=0), atol=0.03)
    law = posterior.law.outcome_law(posterior.encode(new), None)
    np.testing.assert_allclose(law.below(truth), (outcomes <= truth).mean(axis=0), atol=0.02)
    low, high = law.interval(0.8)
    np.testing.assert_allclose(low, prediction.lower, rtol=1e-6)
    np.testing.assert_allclose(high, prediction.upper, rtol=1e-6)
    some = outcomes[rng.permutation(len(outcomes))[:3000]]
    crps = np.abs(outcomes - truth).mean(axis=0) - np.abs(some[:1500] - some[1500:]).mean(axis=0) / 2
    np.testing.assert_allclose(law.crps(truth), crps, atol=0.05)
    density = posterior.density(new[:1])
    assert np.sum(density["outcome"]) * (density["x"][1] - density["x"][0]) == pytest.approx(1, abs=0.05)
    simulated = posterior.sample_predictive(new)
    np.testing.assert_allclose(np.mean(simulated <= truth, axis=(0, 1)), law.below(truth), atol=0.12)
    posterior.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    np.testing.assert_array_equal(again.predict(new[[2]], level=0.8).lower, prediction.lower[[2]])
    assert posterior.score(new, truth)["rows"] == 6


def test_intervals_have_the_shape_of_the_noise():
    """Intervals of outcomes of two kinds at 50% hold far too many with constant noise."""
    X, y = two_kinds(300)
    new, truth = two_kinds(300, seed=5)
    held, scores = {}, {}
    for noise in ("constant", "mixture"):
        posterior = fit(X, y, noise=noise, transform="none", **FAST)
        prediction = posterior.predict(new, level=0.5)
        held[noise] = np.mean((prediction.lower <= truth) & (truth <= prediction.upper))
        scores[noise] = posterior.score(new, truth)["log_score"]
    assert held["constant"] > held["mixture"] + 0.1
    assert 0.42 < held["mixture"] < 0.58
    assert scores["mixture"] > scores["constant"] + 0.4


def test_the_mean_of_the_noise_goes_to_the_first_tree():
    """All its leaves move by whole steps; nothing else changes."""
    X, y = two_kinds(60)
    posterior = fit(X, y, noise="mixture", **FAST)
    draws = posterior.chains()[0]
    scalars = {name: values.copy() for name, values in draws.scalars.items()}
    parts = np.array([scalars[name] for name in component_names()]).reshape(3, COMPONENTS, -1)
    moved = with_noise_mean(draws, scalars, posterior.law.step)
    shift = np.rint(np.sum(parts[0] * parts[1], axis=0) / posterior.law.step)
    start = draws.tree_start.tolist()
    for draw in (0, 17):
        first = slice(start[draw * 20], start[draw * 20 + 1])
        own = moved.leaf[first] - draws.leaf[first]
        np.testing.assert_array_equal(own, np.where(draws.feature[first] < 0, shift[draw], 0))
        rest = slice(start[draw * 20 + 1], start[draw * 20 + 20])
        np.testing.assert_array_equal(moved.leaf[rest], draws.leaf[rest])


@pytest.mark.parametrize("settings", [{}, {"linear": True}, {"num_burnin": 60, "moves": "cgm"}])
def test_a_chain_resumes_bit_for_bit(settings):
    """From a checkpoint after any iteration."""
    X, y = two_kinds(80)
    check_resuming(prepare(X, y, noise="mixture", **LENGTHS | settings).training)


def test_a_sampler_of_ones_own_has_the_same_mean():
    """Its sums are the outcome's mean, as those of the posterior are."""
    X, y = two_kinds(60)
    sampler = Sampler(X, y, noise="mixture", num_trees=6, seed=1)
    sampler.step(30)
    np.testing.assert_allclose(sampler.sums, sampler.predict(X), atol=1e-5)
    assert sampler.sigma == pytest.approx(float(sampler.posterior().sigma[0, 0]))


def test_a_file_of_odd_components_is_refused():
    """Shares that don't add up to 1, sds below 0, or none at all."""
    X, y = two_kinds(40)
    posterior = fit(X, y, noise="mixture", **FAST)
    chains = posterior.chains()
    for change in ({"noise_share_0": np.full(30, 1.5)}, {"noise_sd_1": np.full(30, -1.0)}, None):
        odd = [replace(each, scalars={} if change is None else each.scalars | change) for each in chains]
        with pytest.raises(PackedError, match="components"):
            StoredDraws(posterior.header, odd, [], [])
