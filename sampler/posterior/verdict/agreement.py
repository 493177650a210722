"""Agreement of chains by row, the limits of the verdicts, and the verdict that meets them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from sampler.posterior import rhat_ess
from sampler.posterior.verdict.reasons import Reason, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

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
# Chains that do not quite meet are pooled to "approximate" where another fit would say the same and sigma has
# settled: 95% of the means are then within 0.3 sd. Without the limit of drift 32 short chains would pass that
# reproduce each other's mistakes (docs/verdict.md).
POOLED_RHAT = 1.25
POOLED_ERROR = 0.15  # root mean square of the rows' reproducibility, in posterior sds
POOLED_DRIFT = 0.05  # level of the test, by Student's t over chains, that sigma has not settled
POOLED_ROWS = 20  # fewest: the chains' disagreement at a few rows may be small by chance


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
    reproducibility: Floats | None = None  # standard error of the mean by the chains' own, in posterior sds

    @classmethod
    def of(cls, f: Floats) -> Agreement:
        """Measure the agreement of draws [row, chain, draw]."""
        tail, mean_error = rhat_ess.ess_tail(f), 1 / np.sqrt(rhat_ess.ess_mean(f))
        error = np.maximum(mean_error, END_ERROR / np.sqrt(tail))
        reproducibility = None
        if f.shape[1] > 1:
            sd = f.std(axis=(1, 2), ddof=1)
            still = sd == 0  # the same in any fit
            reproducibility = np.where(still, 0.0, rhat_ess.reproducibility(f) / np.where(still, 1.0, sd))
        return cls(rhat_ess.rhat(f), error, rhat_ess.ess_bulk(f), tail, mean_error, reproducibility)

    @classmethod
    def join(cls, parts: Sequence[Agreement]) -> Agreement:
        """Join the figures of successive rows; those that the first part lacks are None."""
        known = [name for name, values in vars(parts[0]).items() if values is not None]
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in known})

    @property
    def pooled_error(self) -> float | None:
        """The rows' reproducibility, as a root mean square; None of one chain."""
        if self.reproducibility is None:
            return None
        return float(np.sqrt(np.mean(self.reproducibility**2)))


def judge(
    agreement: Agreement, sigma_rhat: float | None, chains: int, sigma_drift: float | None = None
) -> tuple[Verdict, list[Reason]]:
    """Return the best verdict whose limits hold, and why it is not better (or the limits met).

    Parameters
    ----------
    agreement
        Agreement of the chains by row.
    sigma_rhat, sigma_drift
        R-hat of sigma, and its drift in standard errors; None for classes.
    chains
        Number of chains.

    """
    complaints: list[Reason] = []
    for verdict, limits in LIMITS.items():
        complaints_now = _complaints(agreement, sigma_rhat, limits)
        if verdict == "converged" and chains == 1:
            complaints_now.append(Reason("one_chain"))
        if not complaints_now:
            met = {"rhat": limits.rhat, "error": limits.error, "share": ROWS_SHARE}
            return verdict, complaints or [Reason("limits_met", met)]
        if verdict == "approximate" and _pooled(agreement, sigma_rhat, sigma_drift, chains):
            seen = {"error": agreement.pooled_error or 0.0, "rhat": at_share(agreement.rhat)}
            return verdict, [*complaints, Reason("reproducible", seen)]
        complaints = complaints_now
    return "not_converged", complaints


def _pooled(agreement: Agreement, sigma_rhat: float | None, sigma_drift: float | None, chains: int) -> bool:
    """Tell whether the means of all chains together can be used, though single chains differ."""
    error = agreement.pooled_error
    few = len(agreement.rhat) < POOLED_ROWS
    if few or error is None or sigma_rhat is None or sigma_drift is None:
        return False
    most_drift = stdtrit(chains - 1, 1 - POOLED_DRIFT / 2)
    settled = sigma_rhat <= LIMITS["approximate"].sigma_rhat and abs(sigma_drift) <= most_drift
    return settled and error <= POOLED_ERROR and at_share(agreement.rhat) <= POOLED_RHAT


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
