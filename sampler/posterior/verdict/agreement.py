"""Agreement of chains by row, the limits of the verdicts, and the verdict that meets them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sampler.array_types import Floats
from sampler.posterior.verdict import rhat_ess
from sampler.posterior.verdict.reasons import Reason, ReasonCode, Verdict

ROWS_SHARE = 0.95  # share of the reference rows that must pass
DENSITY = 0.10313564037537139  # of a normal at its 5% quantile
END_ERROR = math.sqrt(0.05 * 0.95) / DENSITY  # error of that quantile x root ESS / sd
MOST_TIMES = 20.0  # beyond which an estimate of the draws that are needed means nothing
FEWEST_DRAWS = 8  # per chain, below which the figures mean nothing
# Scalars that are judged beside f, and the reason where their chains disagree.
SCALARS: dict[str, ReasonCode] = {"sigma": "sigma_disagrees", "log_likelihood": "likelihood_disagrees"}


# R-hat compares single chains, answers pool all of them: 8 chains half as long as 4 are as precise, and their
# R^2 - 1 is twice as large. So the limits are those of four groups of chains (nested R-hat with groups formed
# at random; Margossian et al. 2024), up to 16 chains, where the pooled draws have settled.
GROUPS, MOST_GROUPED = 4, 16
# Common move of all chains from the first half of the draws to the second, beyond chance: of f, in posterior
# sds, root mean square over rows. Sigma still falls by its own sd when f has all but settled.
MOST_SHIFT = 0.2


@dataclass(frozen=True)
class VerdictLimits:
    """Upper limits of a verdict: R-hat of f, Monte Carlo errors in posterior sds, R-hat of `SCALARS`."""

    rhat: float
    error: float
    sigma_rhat: float
    likelihood_rhat: float

    def of(self, chains: int) -> VerdictLimits:
        """Return the limits for single chains at which four groups of them would meet these."""
        size = min(max(chains / GROUPS, 1.0), MOST_GROUPED / GROUPS)
        rhat, sigma_rhat, likelihood_rhat = (
            round(math.sqrt(1 + size * (limit**2 - 1)), 2)
            for limit in (self.rhat, self.sigma_rhat, self.likelihood_rhat)
        )
        return VerdictLimits(rhat, self.error, sigma_rhat, likelihood_rhat)

    def of_scalar(self, name: str) -> float:
        """Return the limit of R-hat of one of `SCALARS`."""
        return self.sigma_rhat if name == "sigma" else self.likelihood_rhat


LIMITS: dict[Verdict, VerdictLimits] = {  # limits for four chains
    # The log-likelihood enters no answer, and by the limit of sigma it would refuse fits that are right.
    "converged": VerdictLimits(1.05, 0.1, 1.05, 1.10),
    "approximate": VerdictLimits(1.10, 0.2, 1.20, 1.20),
}
# Chains that do not quite meet are pooled to "approximate" where another fit would say the same and they have
# settled: 95% of the means are then within 0.3 sd of other fits'. The limit of R-hat, whatever the number of
# chains, holds off chains too short to have forgotten their start, which reproduce each other's mistakes:
# on diamonds 8 chains of 500 + 125 x 8 iterations do (R-hat 1.28), those of 500 + 280 x 8 do not (1.20).
POOLED_RHAT = 1.25
POOLED_ERROR = 0.15  # root mean square of the rows' reproducibility, in posterior sds
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
    # squares of the common move of all chains from the first half of the draws to the second, in posterior
    # sds, less those expected by chance: about 0 once the chains have settled
    shift: Floats | None = None

    @classmethod
    def of(cls, f: Floats) -> Agreement:
        """Measure the agreement of draws [row, chain, draw]."""
        tail, mean_error = rhat_ess.ess_tail(f), 1 / np.sqrt(rhat_ess.ess_mean(f))
        error = np.maximum(mean_error, END_ERROR / np.sqrt(tail))
        reproducibility = shift = None
        if f.shape[1] > 1:
            sd = f.std(axis=(1, 2), ddof=1)
            unit = np.where(sd == 0, 1.0, sd)  # where it is 0, it is the same in any fit
            reproducibility = rhat_ess.reproducibility(f) / unit
            shift = rhat_ess.shift_beyond_chance(f)
        return cls(rhat_ess.rhat(f), error, rhat_ess.ess_bulk(f), tail, mean_error, reproducibility, shift)

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

    @property
    def settled(self) -> bool:
        """Whether f has settled: all chains together move little from their first half to their second."""
        return self.shift is not None and float(np.mean(self.shift)) <= MOST_SHIFT**2


def judge(agreement: Agreement, rhats: Mapping[str, float], chains: int) -> tuple[Verdict, list[Reason]]:
    """Return the best verdict whose limits hold, and why it is not better (or the limits met).

    Parameters
    ----------
    agreement
        Agreement of the chains by row.
    rhats
        R-hat of the scalars of `SCALARS` that there are, by name: classes have no sigma.
    chains
        Number of chains.

    """
    complaints: list[Reason] = []
    for verdict, of_groups in LIMITS.items():
        limits = of_groups.of(chains if agreement.settled else GROUPS)
        complaints_now = _complaints(agreement, rhats, limits)
        if verdict == "converged" and chains == 1:
            complaints_now.append(Reason("one_chain"))
        if not complaints_now:
            met = {"rhat": limits.rhat, "error": limits.error, "share": ROWS_SHARE}
            return verdict, complaints or [Reason("limits_met", met)]
        if verdict == "approximate" and agreement.settled and _pooled(agreement, rhats, chains):
            seen = {"error": agreement.pooled_error or 0.0, "rhat": at_share(agreement.rhat)}
            return verdict, [*complaints, Reason("reproducible", seen)]
        complaints = complaints_now
    return "not_converged", complaints


def _pooled(agreement: Agreement, rhats: Mapping[str, float], chains: int) -> bool:
    """Tell whether the means of all chains together can be used, though single chains differ."""
    error = agreement.pooled_error
    few = len(agreement.rhat) < POOLED_ROWS
    if few or error is None or "sigma" not in rhats:
        return False
    limits = LIMITS["approximate"].of(chains)
    if not all(rhat <= limits.of_scalar(name) for name, rhat in rhats.items()):
        return False
    return error <= POOLED_ERROR and at_share(agreement.rhat) <= POOLED_RHAT


def _complaints(agreement: Agreement, rhats: Mapping[str, float], limits: VerdictLimits) -> list[Reason]:
    share = float(np.mean((agreement.rhat <= limits.rhat) & (agreement.error < limits.error)))
    complaints = []
    if share < ROWS_SHARE:
        seen = {"rhat": limits.rhat, "error": limits.error, "share": share}
        complaints.append(Reason("rows_disagree", seen))
    for name, rhat in rhats.items():
        limit = limits.of_scalar(name)
        if not rhat <= limit:
            complaints.append(Reason(SCALARS[name], {"rhat": rhat, "limit": limit}))
    return complaints


def times_to_converge(
    error: float | None, rhat: float | None, rhats: Mapping[str, float | None], chains: int = GROUPS
) -> float:
    """Estimate how many times as many draws the verdict "converged" takes, 1.5 to 20.

    Parameters
    ----------
    error, rhat
        Monte Carlo error in posterior sds and R-hat of f at 95% of the rows; None if undefined.
    rhats
        R-hat of scalars by name; None if undefined.
    chains
        Number of chains.

    Returns
    -------
    float
        The factor.

    """
    limits = LIMITS["converged"].of(chains)
    if error is None or rhat is None:
        return MOST_TIMES
    # errors fall with the square root of the draws, R-hat - 1 roughly in proportion to them
    factor = (error / limits.error) ** 2
    factor = max(factor, (rhat - 1) / (limits.rhat - 1))
    of_scalars = (((each or 1) - 1) / (limits.of_scalar(name) - 1) for name, each in rhats.items())
    factor = max([factor, *of_scalars])
    return min(max(factor, 1.5), MOST_TIMES) if math.isfinite(factor) else MOST_TIMES


def at_share(values: Floats) -> float:
    """Return the value that 95% of the rows' don't exceed."""
    return float(np.quantile(values, ROWS_SHARE))
