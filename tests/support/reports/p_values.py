"""Hypothesis tests with a stated false-alarm rate, and their report."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

ALARM = 1e-4  # largest probability that a correct sampler fails one test, over choices of its fixed seeds

noted: list[float] = []  # p-values of the running test, for the report (conftest)


@dataclass(frozen=True)
class Verdict:
    """Result of comparing counts with a law."""

    p: float
    total_variation: float
    expected_variation: float  # the same for independent draws from the law

    def __str__(self):
        return (
            f"p {self.p:.3g}, TV {self.total_variation:.5f} (independent draws {self.expected_variation:.5f})"
        )


def pooled(counts, expected, least):
    """Merge cells, rarest first, until each is expected `least` times: (counts, expected)."""
    order = np.argsort(expected, kind="stable")
    seen, pooled_expected, start = [], [], 0
    total = np.cumsum(expected[order])
    while start < len(order):
        before = total[start - 1] if start else 0.0
        stop = min(int(np.searchsorted(total, before + least)) + 1, len(order))
        if total[-1] - total[stop - 1] < least:
            stop = len(order)
        seen.append(counts[order[start:stop]].sum())
        pooled_expected.append(expected[order[start:stop]].sum())
        start = stop
    return np.array(seen), np.array(pooled_expected)


def chi_square(counts, probabilities, least=8.0):
    """Run Pearson's test of independent counts against a law; merge cells expected below `least`.

    Counts outside the law's support must be given as a cell of probability 0: any such count gives p = 0.
    """
    counts = np.asarray(counts, float)
    probabilities = np.asarray(probabilities, float) / np.sum(probabilities)
    total = counts.sum()
    expected = total * probabilities
    variation = 0.5 * np.abs(counts / total - probabilities).sum()
    reference = 0.5 * np.sqrt(2 / np.pi * probabilities * (1 - probabilities) / total).sum()
    if counts[probabilities == 0].sum():
        return Verdict(0.0, variation, reference)
    seen, pooled_expected = pooled(counts, expected, least)
    statistic = ((seen - pooled_expected) ** 2 / pooled_expected).sum()
    return Verdict(float(stats.chi2.sf(statistic, max(len(seen) - 1, 1))), variation, reference)


def uniform_ranks(ranks, num_draws, bins=16):
    """Return p of ranks 0..num_draws being uniform; num_draws + 1 must be a multiple of the bins."""
    assert (num_draws + 1) % bins == 0
    counts = np.bincount(np.asarray(ranks) * bins // (num_draws + 1), minlength=bins)
    shape = chi_square(counts, np.ones(bins))
    # chi-square alone misses small shifts: the mean rank has its own test, each at half the rate
    z = (np.mean(ranks) - num_draws / 2) / np.sqrt(((num_draws + 1) ** 2 - 1) / 12 / len(ranks))
    return min(1.0, 2 * min(shape.p, 2 * float(stats.norm.sf(abs(z)))))


def uniform_by_name(ranks, num_draws, bins=16):
    """Return p by name of each figure's ranks being uniform; a replication has a rank by name."""
    return {name: uniform_ranks([each[name] for each in ranks], num_draws, bins) for name in ranks[0]}


def keeps_prior(path, prior, names, batches=40):
    """Return p by name of a chain's functions having the means of independent draws from the prior.

    Geweke's test (2004), with means of batches: `path` and `prior` are [draw, function]. Functions that are
    known, one and the same number in all draws of both, are left out.
    """
    path, prior = np.asarray(path)[len(path) % batches :], np.asarray(prior)
    means = path.reshape(batches, -1, len(names)).mean(axis=1)
    known = (path == prior[0]).all(axis=0) & (prior == prior[0]).all(axis=0)
    p = stats.ttest_ind(means, prior, equal_var=False).pvalue
    return {name: each for name, each, skip in zip(names, p, known, strict=True) if not skip}


def rank_of(truth, draws, rng):
    """Return the rank of the truth among draws, ties broken at random."""
    draws = np.asarray(draws)
    ties = int((draws == truth).sum())
    return int((draws < truth).sum()) + int(rng.integers(ties + 1))


def holds(p):
    """Record a p-value for the report, and fail below the alarm."""
    noted.append(float(p))
    assert p > ALARM, f"p {p:.3g}"


def all_above(results, alarm=ALARM):
    """Print one line per test and fail on those below the alarm, shared among them (Bonferroni)."""
    bad = []
    noted.extend(map(float, results.values()))
    for name, p in results.items():
        print(f"  {name}: p {p:.3g}")
        if p < alarm / len(results):
            bad.append(f"{name}: p {p:.3g}")
    assert not bad, "; ".join(bad)


def mean_is(draws, expected, batches=50):
    """Return p of the columns of correlated draws [draw, row] having these means, by batch means."""
    size = len(draws) // batches
    means = np.asarray(draws)[: size * batches].reshape(batches, size, -1).mean(1)
    t = (means.mean(0) - expected) / (means.std(0, ddof=1) / np.sqrt(batches))
    return min(1.0, means.shape[1] * 2 * float(stats.t.sf(np.abs(t).max(), batches - 1)))
