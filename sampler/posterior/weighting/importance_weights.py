"""The verdict on weighted draws, by their effective sample size and the agreement of independent runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.posterior.verdict.agreement import END_ERROR, Agreement, judge
from sampler.posterior.verdict.reasons import VERDICTS, Reason, Verdict
from sampler.posterior.verdict.summary import Summary, weighted_summary
from sampler.posterior.weighting.quantiles import of_draws

CLOSE = 1e-12  # tolerance in comparing sums of weights
MOST_APART = 10.0  # log density between chains of one topology, beyond which they are in different modes
WORTH = 0.01  # share of the evidence from which a topology's chains are looked at
SPREAD: dict[Verdict, float] = {"converged": 0.5, "approximate": 1.0}  # largest sd of runs' log evidences


@dataclass(frozen=True)
class Weights:
    """Log weights of draws, float64 [run, draw]; the weights of a run sum to its estimate of the evidence."""

    log: Floats

    @property
    def share(self) -> Floats:
        """Normalised weights, float64 [run, draw], with sum 1."""
        relative = np.exp(self.log - self.log.max())
        return np.asarray(relative / relative.sum())

    @property
    def ess(self) -> float:
        """Effective sample size."""
        return float(1 / np.sum(self.share**2))

    @property
    def log_evidence(self) -> Floats:
        """Log marginal likelihood estimated by each run, float64 [run]."""
        return np.asarray(np.logaddexp.reduce(self.log, axis=1))

    @property
    def spread(self) -> float:
        """Standard deviation of the log evidence over runs; infinite for one run."""
        return float(np.std(self.log_evidence, ddof=1)) if len(self.log) > 1 else np.inf

    def to_json(self) -> dict[str, Any]:
        """Return the figures of a report as JSON values."""
        runs = self.log_evidence
        known = np.isfinite(self.spread)
        return {
            "ess": self.ess,
            "log_evidence": float(np.logaddexp.reduce(runs) - np.log(len(runs))),
            "log_evidence_runs": runs.tolist(),
            "log_evidence_sd": self.spread if known else None,
        }


def agreement(f: Floats, share: Floats) -> Agreement:
    """Measure how well runs agree on figures.

    R-hat compares the variance of all draws with that within runs. The error of the mean is that of the
    weighted mean over independent runs, and at least what the effective sample size implies.

    Parameters
    ----------
    f
        float64 [figure, run, draw].
    share
        Weights, float64 [run, draw], with sum 1.

    Returns
    -------
    Agreement
        The figures.

    """
    _, variance, apart = _moments(f, share)
    inside = np.maximum(variance - apart @ share.sum(axis=1), 0)
    ess = np.full(len(f), 1 / np.sum(share**2))
    with np.errstate(divide="ignore", invalid="ignore"):
        rhat = np.sqrt(variance / inside)
        error = _over_runs(apart, share) / np.sqrt(variance)
    return Agreement(rhat, np.maximum(error, END_ERROR / np.sqrt(ess)), ess, ess)


def mean_error(f: Floats, share: Floats) -> Floats:
    """Compute the Monte Carlo standard error of weighted means, float64 [figure].

    It follows from the spread of the means of independent runs, weighted by the runs' weights, and is at
    least what the effective sample size implies, on which it rests entirely with one run. See `agreement` for
    the arguments.
    """
    _, variance, apart = _moments(f, share)
    return np.maximum(_over_runs(apart, share), np.sqrt(variance * np.sum(share**2)))


def quantile_error(f: Floats, share: Floats, level: float) -> Floats:
    """Compute the Monte Carlo standard error of weighted quantiles, float64 [figure].

    It is half the distance between the quantiles one standard error of their level below and above. See
    `agreement` for the arguments.
    """
    flat, weight = f.reshape(len(f), -1), share.reshape(-1)
    at = of_draws(flat, weight, np.array([level]))[0]
    error = mean_error((f <= at[:, None, None]).astype(np.float64), share)
    order = np.argsort(flat, axis=1, kind="stable")
    total = np.cumsum(weight[order], axis=1)
    last = flat.shape[1] - 1
    ends = [
        np.minimum(np.sum(total < np.clip(level + sign * error, 0, 1)[:, None] - CLOSE, axis=1), last)
        for sign in (-1, 1)
    ]
    low, high = (
        np.take_along_axis(flat, np.take_along_axis(order, end[:, None], 1), 1)[:, 0] for end in ends
    )
    return np.asarray((high - low) / 2)


def _moments(f: Floats, share: Floats) -> tuple[Floats, Floats, Floats]:
    """Compute weighted means and variances [figure], and squared deviations of runs' means [figure, run]."""
    means = np.sum(f * share, axis=2) / share.sum(axis=1)
    mean = means @ share.sum(axis=1)
    variance = np.sum((f - mean[:, None, None]) ** 2 * share, axis=(1, 2))
    return mean, variance, (means - mean[:, None]) ** 2


def _over_runs(apart: Floats, share: Floats) -> Floats:
    """Compute the standard error of the mean over runs, each weighted by its estimate of the evidence."""
    many = len(share)
    return np.asarray(np.sqrt(apart @ share.sum(axis=1) ** 2 * many / max(many - 1, 1)))


def apart(statistics: Sequence[Mapping[str, Any]]) -> float:
    """Return how far chains of one topology are apart in log density, by the statistics of each run."""
    found = [each for run in statistics for each in run.get("divide", {}).get("topologies", ())]
    return max((each.get("apart", 0.0) for each in found if each["share"] >= WORTH), default=0.0)


def judge_weighted(
    agreed: Agreement, weights: Weights, chains: int, chains_apart: float = 0.0
) -> tuple[Verdict, list[Reason]]:
    """Return the best verdict whose limits hold, and its reasons.

    The evidence's spread over runs has limits too. Where chains of one topology are in modes far apart
    (`chains_apart`, by log density), their estimates are right, but none shows that there is no better mode.
    """
    verdict, reasons = judge(agreed, {}, chains)
    for better, most in SPREAD.items():
        if chains > 1 and weights.spread > most and VERDICTS.index(verdict) <= VERDICTS.index(better):
            verdict = VERDICTS[VERDICTS.index(better) + 1]
            of_rows = [reason for reason in reasons if reason.code == "rows_disagree"]
            reasons = [*of_rows, Reason("evidence_disagrees", {"sd": weights.spread, "limit": most})]
    if chains_apart > MOST_APART:
        modes = Reason("chains_apart", {"apart": chains_apart, "limit": MOST_APART})
        if verdict == "converged":
            verdict, reasons = "approximate", []
        reasons = [*reasons, modes]
    return verdict, reasons


def summarise_weighted(
    f: Floats,
    weights: Weights,
    leaf_counts: NDArray[np.int64],
    statistics: Sequence[Mapping[str, Any]],
    chains_apart: float = 0.0,
) -> Summary:
    """Judge weighted draws.

    Parameters
    ----------
    f
        Draws of f, float64 [figure, run, draw].
    weights
        Log weights of the draws.
    leaf_counts
        Leaves of each tree, int64 [run, draw, tree].
    statistics
        Counters of the moves, by run.
    chains_apart
        Log density by which chains of one topology are apart.

    Returns
    -------
    Summary
        Verdict, reasons, figures and advice.

    """
    agreed = agreement(f, weights.share)
    runs, draws = weights.log.shape
    verdict, reasons = judge_weighted(agreed, weights, runs, chains_apart)
    advice = "Means and credible intervals can be read as they are."
    if verdict != "converged":
        longer = f"Take more particles (num_draws={4 * draws})"
        if any("divide" in each for each in statistics):
            longer = "Search longer (the search's iterations, chains and draws)"
        advice = f"{longer} or pool more runs (num_chains={2 * runs})."
    summary = weighted_summary(verdict, reasons, advice, agreed, leaf_counts, weights.share, statistics)
    return replace(summary, chains=runs, draws=draws, weights=weights.to_json())
