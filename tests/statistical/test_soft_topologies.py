"""Soft splits: topologies by chains and the search against integrals; thresholds; evidences."""

import numpy as np
import pytest
from scipy import special, stats

from lab import tree_paper
from sampler import fit
from sampler.chains import start_chain
from sampler.posterior.core.topology import shape_of
from sampler.preparation import prepare
from sampler.storage.draws import concatenate
from sampler.trees.soft.evidence import Evidence, sample_layers
from sampler.trees.soft.topology_chains import Chains, Local
from sampler.trees.soft.tree import log_topology
from tests.reference.soft_trees import make_shape, memberships
from tests.support.reports.p_values import ALARM, holds

X = np.array([0.1, 0.3, 0.5, 0.6, 0.8, 0.9])
Y = np.array([-0.2, -0.4, -0.1, 1.1, 0.9, 1.0])
CLASS = np.array([0, 0, 0, 1, 1, 1])
WIDTH, ALPHA, BETA = 0.1, 0.5, 1.0
TOPOLOGIES = ["(..)", "((..).)", "(.(..))"]
BITS = {shape_of(np.array(bits, bool)): bits for bits in ([1, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0])}
PRIOR = {"sharpness": WIDTH, "sharpness_start": WIDTH, "alpha": ALPHA, "beta": BETA}
ABSOLUTE = {"mean": 0.0, "leaf_sd": 1.0, "sigma_scale": 1.5}
SEARCH = {"iterations": 3, "first": 200, "proposals": 3, "chains": 3, "draws": 60, "samples": 10}


def log_likelihoods(share, classes):
    """Return the log likelihood of memberships [.., row, leaf], leaf parameters and sigma integrated out."""
    if classes:
        count = np.einsum("...il,ik->...lk", share, np.eye(2)[CLASS])
        total = special.gammaln(count + 1).sum(-1) - special.gammaln(count.sum(-1) + 2)
        return total.sum(-1)
    log_sigma = np.linspace(-3.5, 4, 121)
    parts = []
    for s in log_sigma:
        covariance = share @ np.swapaxes(share, -1, -2) + np.exp(2 * s) * np.eye(len(Y))
        _, log_det = np.linalg.slogdet(covariance)
        solved = np.linalg.solve(covariance, np.broadcast_to(Y[:, None], (*covariance.shape[:-1], 1)))[..., 0]
        log = -0.5 * (log_det + solved @ Y + len(Y) * np.log(2 * np.pi))
        parts.append(log + stats.invgamma.logpdf(np.exp(s), 1.5, scale=1.5) + s)
    return special.logsumexp(parts, axis=0) + np.log(log_sigma[1] - log_sigma[0])


def law_by_integrals(classes, points=60):
    """Return log prior times evidence of each topology, and the mean threshold of one split."""
    x = ((X - X.min()) / np.ptp(X))[:, None]
    grid = (np.arange(points) + 0.5) / points
    law, mean = {}, 0.0
    for text, bits in BITS.items():
        splits = sum(bits)
        places = np.stack(np.meshgrid(*[grid] * splits, indexing="ij"), -1).reshape(-1, splits)
        shape, one = make_shape(bits), np.ones((splits, 1))
        share = np.stack([memberships(x, shape, place, one, WIDTH) for place in places])
        log = log_likelihoods(share, classes)
        law[text] = special.logsumexp(log) - np.log(len(log)) + log_topology(bits, ALPHA, BETA)
        if splits == 1:
            mean = np.sum(special.softmax(log) * grid)
    return np.array([law[text] for text in TOPOLOGIES]), mean


def check_chains(method, classes, chains, draws):
    """Check topologies' shares and the mean threshold against the spread between chains."""
    family = "categorical" if classes else "gaussian"
    prior = PRIOR | ({} if classes else ABSOLUTE)
    knobs = {"num_burnin": 100, "num_draws": draws, "thin": 1, "num_chains": chains}
    moves = {"grow": 0.4, "prune": 0.4, "stay": 0.2}
    training = prepare(
        X[:, None], CLASS if classes else Y, method=method, family=family, prior=prior, moves=moves, **knobs
    ).training
    log_law, mean = law_by_integrals(classes)
    law = special.softmax(log_law)
    shares, thresholds = [], []
    for number in range(chains):
        chain = start_chain(training, number)
        chain.run(10**9)
        kept = concatenate([chain.take()])
        texts = [
            shape_of(kept.is_split[a:b])
            for a, b in zip(kept.tree_start[:-1], kept.tree_start[1:], strict=True)
        ]
        counts = np.array([texts.count(text) for text in TOPOLOGIES])
        shares.append(counts / counts.sum())
        first = np.cumsum([0] + [text.count("(") for text in texts])[:-1]
        thresholds.append(
            np.mean([kept.threshold[f] for f, t in zip(first, texts, strict=True) if t == "(..)"])
        )
    values = np.column_stack([shares, thresholds])
    exact = np.append(law, mean)
    z = (values.mean(axis=0) - exact) / stats.sem(values)
    p = 2 * stats.t.sf(np.abs(z), chains - 1).min() * len(z)
    print(f"\n{method}, {family}: found {values.mean(axis=0).round(4)}, exact {exact.round(4)}, p {p:.3g}")
    assert p > ALARM
    assert np.max(stats.sem(values)) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("classes", [False, True])
def test_topologies(classes):
    """Topologies have their law for numbers and classes; with one column both directions are one model."""
    check_chains("rjhmc-dfi", classes, 8, 300)


@pytest.mark.long
@pytest.mark.parametrize("method", ["rjhmc-df", "rjhmc-dfi"])
@pytest.mark.parametrize("classes", [False, True])
def test_topologies_long(method, classes):
    """Topologies have their law in longer runs."""
    check_chains(method, classes, 24, 6000)


def test_a_warm_up_leaves_no_large_trees():
    """With six rows the first draws of chains have trees typical of the posterior."""
    knobs = {"num_burnin": 300, "num_draws": 1, "thin": 1, "num_chains": 8}
    training = prepare(X[:, None], Y, method="rjhmc-dfi", prior=PRIOR | ABSOLUTE, **knobs).training
    leaves = []
    for number in range(8):
        chain = start_chain(training, number)
        chain.run(10**9)
        leaves.append(int(chain.take().leaf_counts[0, 0]))
    assert np.mean(leaves) < 5, leaves


def run_of(training, number):
    """Return one search's log evidences with the prior, topologies' shares by weight, and mean threshold."""
    run = start_chain(training, number)
    run.run(10**9)
    draws = run.take()
    evidences = {each["topology"]: each["log_evidence"] for each in run.statistics()["divide"]["topologies"]}
    texts = np.array(
        [shape_of(draws.is_split[a:b]) for a, b in zip(draws.tree_start, draws.tree_start[1:], strict=False)]
    )
    weight = np.exp(draws.log_weight)
    one = texts == TOPOLOGIES[0]
    first = np.cumsum([0, *(text.count("(") for text in texts)])[:-1]
    share = np.array([weight[texts == text].sum() for text in TOPOLOGIES])
    threshold = np.average(draws.threshold[first[one]], weights=weight[one])
    return [evidences.get(text, -np.inf) for text in TOPOLOGIES], share / share.sum(), threshold


def check_search(classes, runs):
    """Check that evidences are right in expectation, and weighted topologies and thresholds in law.

    The weights of one run follow the law up to the error of its evidences, so they are compared over runs.
    """
    prior = PRIOR | ({} if classes else ABSOLUTE)
    family = "categorical" if classes else "gaussian"
    training = prepare(
        X[:, None], CLASS if classes else Y, method="dcc-tree", family=family, prior=prior, search=SEARCH,
        num_chains=1, num_burnin=100, num_draws=400,
    ).training  # fmt: skip
    log_law, mean = law_by_integrals(classes)
    evidences, shares, thresholds = (
        np.array(each) for each in zip(*(run_of(training, number) for number in range(runs)), strict=True)
    )
    assert np.all(np.isfinite(evidences)), "a run didn't find a topology"
    ratios = np.exp(evidences - log_law)
    values = np.column_stack([ratios, shares, thresholds])
    exact = np.concatenate([np.ones(3), special.softmax(log_law), [mean]])
    z = (values.mean(axis=0) - exact) / stats.sem(values)
    p = min(1.0, 2 * stats.t.sf(np.abs(z), runs - 1).min() * len(z))
    averages, sd = values.mean(axis=0).round(4), values.std(axis=0).round(4)
    print(f"\nfound {averages}, sd {sd}, exact {exact.round(4)}, p {p:.3g}")
    holds(p)
    assert np.max(stats.sem(values)) < 0.1


@pytest.mark.parametrize("classes", [False, True])
def test_search(classes):
    """Every run finds the three topologies of numbers and classes, with their law."""
    check_search(classes, 6)


@pytest.mark.long
@pytest.mark.parametrize("classes", [False, True])
def test_search_long(classes):
    """The search has the law in more runs."""
    check_search(classes, 60)


def evidence_of(X, y, topology, seed, many):
    """Return the log evidence of a topology by `many` chains, and how far they are apart."""
    settings = tree_paper.settings_of("dcc-tree", "wu")
    here = Local(prepare(X, y, num_chains=1, num_burnin=1000, num_draws=400, seed=seed, **settings).training)
    bits, rng = tuple(bool(bit) for bit in BITS[topology]), np.random.default_rng(seed)
    random = np.random.SeedSequence(seed).generate_state(4, np.uint64)
    chains = Chains(starts=np.array([here.warmed_up(bits, random) for _ in range(many)]))
    chains.starts = here.restart_stragglers(bits, chains.starts)
    evidence = Evidence()
    for k in range(2):
        draws = here.next_round(bits, chains, 100, 1, 1, 10 * seed + k)
        for points, weights in sample_layers(draws, lambda at: here.density(bits, at), 10, rng):
            evidence.add(points, weights, 400, rng)
    return evidence.log_evidence, np.ptp([here.density(bits, chain).mean() for chain in draws])


def check_mirror(seeds, many):
    """Check evidences against those of mirrored rows, whose trees are these with left and right exchanged.

    Of rows of WU in whose topologies some chains are in a poor mode.
    """
    rows = tree_paper.wu(np.random.default_rng(1))
    found = []
    for seed in seeds:
        here, mirrored = (
            [evidence_of(X, rows.y, topology, seed + shift, many) for topology in topologies]
            for X, topologies, shift in (
                (rows.X, TOPOLOGIES[:0:-1], 0),
                (1 - rows.X[:, ::-1], TOPOLOGIES[1:], 100),
            )
        )
        found.append([here, mirrored])
    evidence, apart = np.moveaxis(np.array(found), -1, 0)  # [seed, side, topology]
    odds = evidence[:, :, 0] - evidence[:, :, 1]
    print(f"\nevidences {evidence.round(3).tolist()}, odds {odds.round(3).tolist()}, apart {apart.round(0)}")
    assert np.max(np.abs(evidence[:, 0] - evidence[:, 1])) < 0.1
    assert np.ptp(odds) < 0.2
    assert np.mean(apart > 10) > 0.2, "no chain is in a poor mode"


@pytest.mark.slow
def test_evidence_of_mirrored_rows():
    """Chains in poor modes don't dilute the evidence: it is that of the mirrored rows, at every seed."""
    check_mirror([0], 12)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_evidence_of_mirrored_rows_long():
    """The two true trees have the same odds at ten seeds, within .1 of the mirrored rows'."""
    check_mirror(range(10), 16)  # of eight chains all miss the good mode in one seed of twenty


@pytest.mark.long
def test_modes_far_apart_are_no_convergence():
    """A search whose chains of one topology are in modes far apart says so."""
    rows = tree_paper.wu(np.random.default_rng(1))
    settings = tree_paper.settings_of("dcc-tree", "wu") | {"search": {"iterations": 10, "chains": 6}}
    summary = fit(rows.X, rows.y, seed=1, num_chains=2, progress=False, **settings).summary()
    assert summary.verdict != "converged"
    assert "chains_apart" in [reason.code for reason in summary.reasons], summary
