"""The verdict on weighted draws: by their effective number, and by how far independent runs agree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.summary import END_ERROR, VERDICTS, Agreement, Summary, Verdict, describe_trees, judge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SPREAD: dict[Verdict, float] = {"converged": 0.5, "approximate": 1.0}  # most sd of the runs' log evidences


@dataclass(frozen=True)
class Weights:
    """Log weights of draws, float64 [run, draw]: those of a run add up to its estimate of the evidence."""

    log: Floats

    @property
    def share(self) -> Floats:
        """Weights that sum to one, [run, draw]."""
        relative = np.exp(self.log - self.log.max())
        return np.asarray(relative / relative.sum())

    @property
    def ess(self) -> float:
        """The effective number of draws."""
        return float(1 / np.sum(self.share**2))

    @property
    def log_evidence(self) -> Floats:
        """The log marginal likelihood as each run estimates it."""
        return np.asarray(np.logaddexp.reduce(self.log, axis=1))

    @property
    def spread(self) -> float:
        """The sd of those over runs; infinite of one run, of which it isn't known."""
        return float(np.std(self.log_evidence, ddof=1)) if len(self.log) > 1 else np.inf

    def to_json(self) -> dict[str, Any]:
        """Figures for a report."""
        runs = self.log_evidence
        known = np.isfinite(self.spread)
        return {
            "ess": self.ess,
            "log_evidence": float(np.logaddexp.reduce(runs) - np.log(len(runs))),
            "log_evidence_runs": runs.tolist(),
            "log_evidence_sd": self.spread if known else None,
        }


def agreement(f: Floats, share: Floats) -> Agreement:
    """How far runs agree on figures [figure, run, draw].

    R-hat compares the variance of all draws with that inside runs. The error of the mean is that of the
    weighted mean over independent runs, and no less than the effective number of draws allows.
    """
    runs = share.sum(axis=1)
    means = np.sum(f * share, axis=2) / runs
    mean = means @ runs
    variance = np.sum((f - mean[:, None, None]) ** 2 * share, axis=(1, 2))
    apart = (means - mean[:, None]) ** 2
    inside = np.maximum(variance - apart @ runs, 0)
    ess = np.full(len(f), 1 / np.sum(share**2))
    with np.errstate(divide="ignore", invalid="ignore"):
        rhat = np.sqrt(variance / inside)
        many = len(runs)
        error = np.sqrt(apart @ runs**2 * many / max(many - 1, 1) / variance)
    return Agreement(rhat, np.maximum(error, END_ERROR / np.sqrt(ess)), ess, ess)


def judge_weighted(found: Agreement, weights: Weights, chains: int) -> tuple[Verdict, list[str]]:
    """The best verdict whose limits hold, those of the evidence's spread among them, and why."""
    verdict, reasons = judge(found, None, chains)
    for better, most in SPREAD.items():
        if chains > 1 and weights.spread > most and VERDICTS.index(verdict) <= VERDICTS.index(better):
            verdict = VERDICTS[VERDICTS.index(better) + 1]
            told = f"the runs' log evidences differ by {weights.spread:.2f} (sd), above {most}"
            reasons = [*(reason for reason in reasons if "only" in reason), told]
    return verdict, reasons


def summarise_weighted(
    f: Floats,
    weights: Weights,
    leaf_counts: NDArray[np.int64],
    statistics: Sequence[Mapping[str, Any]],
) -> Summary:
    """Judge weighted draws of f [figure, run, draw]."""
    found = agreement(f, weights.share)
    runs, draws = weights.log.shape
    verdict, reasons = judge_weighted(found, weights, runs)
    advice = "The intervals can be used as they are."
    if verdict != "converged":
        advice = f"Take more particles (num_draws={4 * draws}) or pool more runs (num_chains={2 * runs})."
    summary = describe_trees(verdict, reasons, advice, found, leaf_counts, statistics)
    return replace(summary, chains=runs, draws=draws, weights=weights.to_json())
