"""Divide, Conquer, Combine (DCC): evidences of topologies, their choice, and the draws of a run."""

import numpy as np
import pytest
from scipy import special, stats

from sampler import Settings, SettingsError, fit, load
from sampler.chains import resume_chain, start_chain
from sampler.posterior.weighting.importance_weights import WORTH
from sampler.preparation import prepare
from sampler.soft.kernels.density import densities
from sampler.trees.soft import topology_chains
from sampler.trees.soft.evidence import Evidence, _log_mixture, fill_samples, reduce_samples, sample_layers
from sampler.trees.soft.nuts import nuts
from sampler.trees.soft.search import utilities
from sampler.trees.soft.tree import SoftTree
from tests.reference.soft_trees import GOLDEN_CLASS, GOLDEN_X, GOLDEN_Y, make_room, make_rows, make_shape

SMALL = {"iterations": 4, "first": 20, "chains": 2, "draws": 40, "samples": 4}
QUICK = {"num_chains": 2, "num_burnin": 60, "num_draws": 100, "search": SMALL}


def evidence_of(rows, starts, seed=0, spatial=True, draws=400):
    """Return the evidence estimated for one split, and the weighted mean threshold."""
    shape, rng = make_shape([1, 0, 0]), np.random.default_rng(seed)
    room, slope = make_room(rows, shape), np.zeros(starts.shape[1])

    def density(points):
        into = np.empty(len(points))
        densities(rows, shape, 0.05, np.ascontiguousarray(points), room, slope, into)
        return into

    result = nuts(rows, (True, False, False), 0.05, starts, 300, draws, seed)
    points, weights = map(
        np.concatenate, zip(*sample_layers(result, density, 10, rng, spatial=spatial), strict=True)
    )
    evidence = Evidence()
    evidence.add(points, weights, 1000, rng)
    share = np.exp(weights - weights.max())
    mean = np.sum(share / (1 + np.exp(-points[:, 0]))) / share.sum()
    return evidence, mean


def test_golden_evidence_of_numbers():
    """The evidence and mean threshold are those of docs/maths.md#tests within Monte Carlo error."""
    rows = make_rows(GOLDEN_X[:, None], GOLDEN_Y)
    evidences = [evidence_of(rows, np.tile([0.1, 0.0, 0.9, -1.0], (4, 1)), seed) for seed in range(4)]
    log = np.array([evidence.log_evidence for evidence, _ in evidences])
    assert log.mean() == pytest.approx(-7.2565562, abs=0.05)
    assert np.mean([mean for _, mean in evidences]) == pytest.approx(0.502766, abs=0.01)


@pytest.mark.parametrize("spatial", [True, False])
def test_golden_evidence_of_classes(spatial):
    """The evidence of two classes is the golden one with both denominators."""
    rows = make_rows(GOLDEN_X[:, None], GOLDEN_CLASS, classes=2)
    evidences = [evidence_of(rows, np.zeros((4, 1)), seed, spatial) for seed in range(4)]
    log = np.array([evidence.log_evidence for evidence, _ in evidences])
    assert log.mean() == pytest.approx(-4.3394785, abs=0.05 if spatial else 0.2)


@pytest.mark.parametrize("room", [1 << 21, 10_000])
def test_layers_of_a_known_density(monkeypatch, room):
    """A normal density has evidence one for any centres of the layers; block sums cover all samples.

    For any number of samples the matrix of distances in memory stays within the limit.
    """
    monkeypatch.setattr("sampler.trees.soft.evidence.BLOCK", room)
    rng = np.random.default_rng(1)
    law = stats.multivariate_normal([1, 2, 3], np.diag([1.0, 4, 0.25]))
    whole, parts = [], Evidence()
    for _ in range(3):
        for points, weights in sample_layers(law.rvs((4, 200), random_state=rng), law.logpdf, 5, rng):
            assert len(points) * 200 <= room
            whole.append(weights)
            parts.add(points, weights, 300, rng)
    assert len(np.concatenate(whole)) == parts.samples == 3 * 4 * 200 * 5
    weights = np.concatenate(whole)
    assert parts.log_evidence == pytest.approx(0, abs=0.03)
    assert parts.log_evidence == pytest.approx(np.logaddexp.reduce(weights) - np.log(len(weights)))
    assert parts.ess == pytest.approx(np.exp(weights).sum() ** 2 / np.exp(2 * weights).sum())
    assert parts.log_variance == pytest.approx(np.log(np.exp(weights).var()))
    assert parts.mean_log == pytest.approx(weights.mean())
    assert parts.spread_log / len(weights) == pytest.approx(weights.var())
    share = np.exp(parts.log_weight - np.logaddexp.reduce(parts.log_weight))
    assert len(share) == 300
    np.testing.assert_allclose(share @ parts.points, [1, 2, 3], atol=0.3)


@pytest.mark.parametrize("good", [1, 3, 8])
def test_chains_in_a_poor_mode_take_nothing(good):
    """The evidence is that of the good mode, however many of eight chains are in one of mass e^-30."""
    rng = np.random.default_rng(good)
    modes = [stats.multivariate_normal([centre] * 3) for centre in (0, 50)]
    draws = np.array([modes[chain >= good].rvs(100, random_state=rng) for chain in range(8)])

    def density(points):
        return np.logaddexp(modes[0].logpdf(points), modes[1].logpdf(points) - 30)

    evidence = Evidence()
    for points, weights in sample_layers(draws, density, 10, rng):
        evidence.add(points, weights, 100, rng)
    assert evidence.log_evidence == pytest.approx(0, abs=0.1)
    assert np.all(np.linalg.norm(evidence.points[np.argmax(evidence.log_weight)]) < 20)


def test_mixture_of_far_centres():
    """The log of a mean of normal kernels is right near all centres and where each kernel underflows."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(40, 3))
    points = np.concatenate([centres[:5] + 0.1, centres[:5] + 100])
    squares = np.sum((points[:, None] - centres) ** 2, axis=2)
    expected = special.logsumexp(-0.5 * squares, axis=1) - np.log(40)
    np.testing.assert_allclose(_log_mixture(points, centres), expected, rtol=1e-11)


def test_reduced_weights_are_right_in_expectation():
    """Heavy samples keep their weight, others do in expectation; totals are kept."""
    rng = np.random.default_rng(2)
    weight = np.append(rng.gamma(0.3, size=30), [9.0, 0.0])
    total = np.zeros(32)
    for _ in range(4000):
        chosen, log_weight = reduce_samples(
            np.log(weight, where=weight > 0, out=np.full(32, -np.inf)), 8, rng
        )
        assert len(set(chosen.tolist())) == len(chosen) == 8
        assert np.exp(log_weight).sum() == pytest.approx(weight.sum())
        assert log_weight[chosen == 30] == pytest.approx(np.log(9))
        total[chosen] += np.exp(log_weight)
    np.testing.assert_allclose(total / 4000, weight, atol=0.06)


def test_weights_too_far_apart_for_one_scale():
    """Samples whose relative weight underflows are not chosen, without division by zero."""
    rng = np.random.default_rng(0)
    chosen, log_weight = reduce_samples(np.append([5.0, 4.0], np.full(20, -800.0)), 10, rng)
    assert chosen.tolist() == [0, 1]
    assert log_weight.tolist() == [5.0, 4.0]
    chosen, log_weight = reduce_samples(np.full(20, -np.inf), 10, rng)
    assert len(chosen) == len(log_weight) == 0


def test_few_samples_fill_a_run():
    """Too few samples are filled up by repeating heavy ones, which share their weight."""
    chosen, log_weight = fill_samples(np.array([4, 7]), np.log([3.0, 1.0]), 5)
    assert len(chosen) == 5
    assert np.exp(log_weight)[chosen == 4].sum() == pytest.approx(3)
    assert np.exp(log_weight).max() <= 1


def batch(log_weights):
    evidence = Evidence()
    evidence.add(
        np.zeros((len(log_weights), 1)), np.asarray(log_weights, float), 10, np.random.default_rng(0)
    )
    return evidence


def test_utility():
    """Utilities of three topologies equal the formula; a constant added to all log weights has no effect."""
    batches = [[0.0, 0.0], [np.log(4), np.log(2)], [-1.0, -3.0]]
    selections = [1, 2, 4]
    knobs = {"delta": 0.25, "kappa": 0.5, "optimism": 2.0}
    values = utilities([batch(each) for each in batches], selections, **knobs)
    weights = [np.exp(each) for each in batches]
    use = np.array([np.sqrt(w.mean() ** 2 + 1.5 * w.var()) for w in weights])
    z = [(np.log(4) - np.mean(each)) / np.std(each, ddof=1) if np.ptp(each) else np.inf for each in batches]
    look = 1 - stats.norm.cdf(z) ** 1000
    chosen = np.array(selections)
    rare = np.log(7) / np.sqrt(chosen)
    expected = (0.75 * use / use.max() + 0.25 * look / look.max() + 2 * rare) / chosen
    np.testing.assert_allclose(values, expected)
    moved = utilities([batch(np.array(each) - 700) for each in batches], selections, **knobs)
    np.testing.assert_allclose(moved, values)


def steps(rows=60):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(rows, 2))
    return X, np.where(X[:, 0] < 0.5, 1.0, 4.0) + 0.2 * rng.normal(size=rows)


def test_a_search_gives_weighted_draws_and_a_verdict(tmp_path):
    """A run has weighted draws, evidence, verdict and topologies; its file gives equal answers."""
    X, y = steps()
    posterior = fit(X, y, method="dcc-tree", progress=False, **QUICK)
    assert posterior.weights.shape == (2, 100)
    prediction = posterior.predict(np.array([[0.1, 0.5], [0.9, 0.5]]), interval="predictive")
    assert prediction.mean == pytest.approx([1, 4], abs=0.3)
    assert len(posterior.evidence["log_evidence_runs"]) == 2
    shapes = posterior.topologies()
    assert sum(entry["probability"] for entry in shapes) == pytest.approx(1)
    topologies = posterior.law.draws.statistics[0]["divide"]["topologies"]
    log_evidence = np.logaddexp.reduce([entry["log_evidence"] for entry in topologies])
    assert posterior.evidence["log_evidence_runs"][0] == pytest.approx(log_evidence, abs=1e-3)
    assert all(entry["apart"] >= 0 for entry in topologies)
    worth = [entry["apart"] for entry in topologies if entry["share"] >= WORTH]
    assert posterior.law.weights.apart >= max(worth)
    assert "log evidence" in str(posterior.summary())
    assert "Search longer" in posterior.summary().advice or posterior.summary().verdict == "converged"
    posterior.save(tmp_path / "dcc.bart")
    np.testing.assert_array_equal(load(tmp_path / "dcc.bart").predict(X).mean, posterior.predict(X).mean)
    with pytest.raises(SettingsError, match="fit again"):
        posterior.extend(10)


def test_chains_begin_at_good_trees():
    """Initial leaf means and sigma are those of the rows; the best of several trees is the start."""
    X, y = steps()
    here = topology_chains.Local(prepare(X, y, method="dcc-tree", **QUICK).training)
    bits, random = (True, False, False), np.arange(1, 5, dtype=np.uint64)
    tree = SoftTree(bits, np.array([-1]), np.array([0.0, 20.0, 0.0, 0.0, 0.0]))
    goes = here.rows.x[0] > 0.5
    count, total = here.rows.count[0], here.rows.count[0] * here.rows.mean
    means = [(total[at].sum() + y.mean()) / (count[at].sum() + 1) for at in (~goes, goes)]
    fitted = here._fitted(tree, 1e-4)
    assert fitted[:4] == pytest.approx([0.0, 20.0, *means], abs=1e-6)
    left = np.sqrt(np.mean((y - np.where(X[:, 0] > 0.5, means[1], means[0])) ** 2))
    assert np.exp(fitted[4]) == pytest.approx(left, rel=0.2)

    width = here.constants.sharpness_start
    firsts = np.array([here._first(bits, random) for _ in range(20)])
    others = np.array([here._fitted(here.parameters.first(random, bits), width) for _ in range(200)])
    assert np.median(here.density(bits, firsts, width)) > np.quantile(here.density(bits, others, width), 0.9)


@pytest.mark.parametrize(("held", "rounds"), [(topology_chains.HELD, {2, 3, 4, 5}), (1, {1})])
def test_draws_for_rounds_to_come_have_little_room(monkeypatch, held, rounds):
    """A call that draws for several rounds stays within the room for all topologies."""
    monkeypatch.setattr(topology_chains, "HELD", held)
    X, y = steps(40)
    knobs = QUICK | {"search": SMALL | {"iterations": 5, "first": 8}, "num_draws": 50}
    chain = start_chain(prepare(X, y > 2, method="dcc-tree", family="categorical", **knobs).training, 1)
    seen = set()
    while not chain.done:
        chain.run(1)
        seen |= {each.chains.rounds for each in chain._topologies.values()} - {0}
    assert seen <= rounds | {1}
    assert seen & rounds


def test_a_run_resumes_bit_for_bit():
    """A run resumed after any unit ends with equal draws.

    Also between rounds that were drawn in one call.
    """
    X, y = steps(40)
    knobs = QUICK | {"search": SMALL | {"iterations": 5, "first": 8}, "num_draws": 50}
    training = prepare(X, y > 2, method="dcc-tree", family="categorical", **knobs).training
    whole = start_chain(training, 1)
    while not whole.done:
        assert whole.run(3)
    chain, kept, between = start_chain(training, 1), None, 0
    while not chain.done:
        chain.run(1)
        kept = chain.take()
        between += any(0 < each.chains.used < each.chains.rounds for each in chain._topologies.values())
        chain = resume_chain(training, chain.checkpoint())
    assert between
    assert kept == whole.take()
    assert chain.num_kept == 50
    assert chain.statistics() == whole.statistics()


def test_settings_are_restored_from_json():
    """Resolved settings are restored unchanged; methods without a search store none."""
    settings = Settings.resolve(method="dcc-tree", search={"chains": 3})
    assert Settings.from_json(settings.to_json()) == settings
    assert settings.search["chains"] == 3
    assert "search" not in Settings.resolve(method="bart").to_json()
