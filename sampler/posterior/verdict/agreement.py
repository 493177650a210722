"""Agreement of chains by row, the limits of the verdicts, and the verdict that meets them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sampler.posterior import rhat_ess
from sampler.posterior.verdict.reasons import Reason, Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ROWS_SHARE = 0.95  # share of the reference rows that must pass
END_ERROR = math.sqrt(0.05 * 0.95) / 0.10313564037537139  # error of a normal's 5% quantile x root ESS / sd
MOST_TIMES = 20.0  # beyond which an estimate of the draws that are needed means nothing
FEWEST_DRAWS = 8  # per chain, below which the figures mean nothing


@dataclass(frozen=True)
class VerdictLimits:
    """Upper limits of a verdict: R-hat of f, Monte Carlo errors in posterior sds, R-hat of sigma."""

    rhat: float
    error: float
    sigma_rhat: float


LIMITS: dict[Verdict, VerdictLimits] = {
    "converged": VerdictLimits(1.05, 0.1, 1.05),
    "approximate": VerdictLimits(1.10, 0.2, 1.20),
}


@dataclass(frozen=True)
class Agreement:
    """Agreement of chains by row: R-hat, effective sample sizes, and Monte Carlo error in posterior sds.

    The error is the larger of those of the mean and of the interval ends. The ends' error is that of a normal
    distribution's quantile at their effective sample size: estimated from the spacing of order statistics it
    would be noisy by a quarter, and refuse one row in eight of 1,000 independent draws.
    """

    rhat: Floats
    error: Floats
    ess_bulk: Floats
    ess_tail: Floats
    mean_error: Floats | None = None  # Monte Carlo error of the mean alone, in posterior sds

    @classmethod
    def of(cls, f: Floats) -> Agreement:
        """Measure the agreement of draws [row, chain, draw]."""
        tail, mean_error = rhat_ess.ess_tail(f), 1 / np.sqrt(rhat_ess.ess_mean(f))
        error = np.maximum(mean_error, END_ERROR / np.sqrt(tail))
        return cls(rhat_ess.rhat(f), error, rhat_ess.ess_bulk(f), tail, mean_error)


def judge(agreement: Agreement, sigma_rhat: float | None, chains: int) -> tuple[Verdict, list[Reason]]:
    """Return the best verdict whose limits hold, and why it is not better (or the limits met)."""
    complaints: list[Reason] = []
    for verdict, limits in LIMITS.items():
        complaints_now = _complaints(agreement, sigma_rhat, limits)
        if verdict == "converged" and chains == 1:
            complaints_now.append(Reason("one_chain"))
        if not complaints_now:
            met = {"rhat": limits.rhat, "error": limits.error, "share": ROWS_SHARE}
            return verdict, complaints or [Reason("limits_met", met)]
        complaints = complaints_now
    return "not_converged", complaints


def _complaints(agreement: Agreement, sigma_rhat: float | None, limits: VerdictLimits) -> list[Reason]:
    share = float(np.mean((agreement.rhat <= limits.rhat) & (agreement.error < limits.error)))
    found = []
    if share < ROWS_SHARE:
        seen = {"rhat": limits.rhat, "error": limits.error, "share": share}
        found.append(Reason("rows_disagree", seen))
    if sigma_rhat is not None and not sigma_rhat <= limits.sigma_rhat:
        found.append(Reason("sigma_disagrees", {"rhat": sigma_rhat, "limit": limits.sigma_rhat}))
    return found


def times_to_converge(error: float | None, rhat: float | None, sigma_rhat: float | None) -> float:
    """Estimate how many times as many draws the verdict "converged" takes, 1.5 to 20.

    Parameters
    ----------
    error, rhat
        Monte Carlo error in posterior sds and R-hat of f at 95% of the rows; None if undefined.
    sigma_rhat
        R-hat of sigma; None for classes.

    """
    limits = LIMITS["converged"]
    if error is None or rhat is None:
        return MOST_TIMES
    # errors fall with the square root of the draws, R-hat - 1 roughly in proportion to them
    factor = (error / limits.error) ** 2
    factor = max(factor, (rhat - 1) / (limits.rhat - 1))
    factor = max(factor, ((sigma_rhat or 1) - 1) / (limits.sigma_rhat - 1))
    return min(max(factor, 1.5), MOST_TIMES) if math.isfinite(factor) else MOST_TIMES


def at_share(values: Floats) -> float:
    """Return the value that 95% of the rows' don't exceed."""
    return float(np.quantile(values, ROWS_SHARE))
