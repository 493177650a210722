"""The verdict on a posterior: whether its chains agree, with figures, reasons and advice."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

import numpy as np

from sampler.posterior import rhat_ess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sampler.storage.model_header import Header

    Floats = NDArray[np.float64]

Verdict = Literal["converged", "approximate", "not_converged"]
VERDICTS: tuple[Verdict, ...] = ("converged", "approximate", "not_converged")
ROWS_SHARE = 0.95  # share of the reference rows that must pass
END_ERROR = math.sqrt(0.05 * 0.95) / 0.10313564037537139  # error of a normal's 5% quantile x root ESS / sd
# Largest error of means that matters little: an eighth of the noise's sd as a standard error (two of them are
# a quarter) raises the error of predictions by 0.8%; for probabilities, two percentage points.
NOISE_SHARE, CLASS_ERROR = 0.25, 0.02
MOST_TIMES = 20.0  # beyond which an estimate of the draws that are needed means nothing
FEWEST_DRAWS = 8  # per chain, below which the figures mean nothing
PRIOR_SHARE = 0.25  # of sigma^2, above which the prior's part is reported

ReasonCode = Literal[
    "limits_met",
    "rows_disagree",
    "sigma_disagrees",
    "one_chain",
    "evidence_disagrees",
    "too_few_draws",
    "sigma_by_prior",
]
SENTENCES: dict[ReasonCode, str] = {
    "limits_met": "R-hat at most {rhat} and errors below {error} sd at {share:.0%} or more of the {rows}",
    "rows_disagree": "f: R-hat at most {rhat} and Monte Carlo error below {error} sd at only {share:.0%} of "
    "the {rows}",
    "sigma_disagrees": "sigma: R-hat {rhat:.2f} is above {limit}",
    "one_chain": "one chain alone can't show that it agrees with others",
    "evidence_disagrees": "the runs' log evidences differ by {sd:.2f} (sd), above {limit}",
    "too_few_draws": "{draws} draws per chain are too few to tell",
    "sigma_by_prior": "sigma: {share:.0%} of sigma^2 comes from its prior (scale {scale:.3g}), not from the "
    "residuals; if the noise is smaller, set the prior's lambda to about the variance of the noise",
}


@dataclass(frozen=True)
class Reason:
    """Reason why a verdict is not better, or what holds (`limits_met`, `sigma_by_prior`): code and figures.

    `str()` gives a sentence; `rows` is its name for the rows that were examined.
    """

    code: ReasonCode
    values: Mapping[str, float] = field(default_factory=dict)
    rows: str = "reference rows"

    def __str__(self) -> str:
        return SENTENCES[self.code].format(rows=self.rows, **self.values)

    def to_json(self) -> dict[str, Any]:
        """Return `{code, values}` as JSON values; undefined figures are None."""
        return {"code": self.code, "values": {name: _number(value) for name, value in self.values.items()}}


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


@dataclass(frozen=True)
class Precision:
    """Two Monte Carlo standard errors that 95% of the reference rows don't exceed, in units of the target.

    Attributes
    ----------
    mean, ends
        Of the mean of f, and of the ends of its 90% interval (of probabilities, for classes).
    noise
        Posterior mean of sigma, where it is one number; None for classes.

    """

    mean: float
    ends: float
    noise: float | None

    @property
    def means_usable(self) -> bool:
        """Whether the error of means matters little: to the error of predictions it adds 1% at most."""
        return self.mean <= (CLASS_ERROR if self.noise is None else NOISE_SHARE * self.noise)

    def sentence(self, verdict: Verdict) -> str:
        """Say what can be used, and by how much it may be off."""
        noise = "" if self.noise is None else f", beside noise with sd {self.noise:.3g}"
        off = f"means may be off by {self.mean:.2g}{noise}; ends of 90% credible intervals by {self.ends:.2g}"
        if verdict != "not_converged":
            return f"Usable: means and intervals. At 95% of the rows {off}."
        if self.means_usable:
            return f"Usable: means, not yet credible intervals. At 95% of the rows {off}."
        return f"Usable: nothing yet. At 95% of the rows {off}."

    def to_json(self, verdict: Verdict) -> dict[str, Any]:
        """Return the figures, whether means are usable, and the sentence."""
        return asdict(self) | {"means_usable": self.means_usable, "text": self.sentence(verdict)}


@dataclass(frozen=True, repr=False)
class Summary:
    """Verdict on a posterior, with figures, reasons and advice; `str()` is a readable report."""

    verdict: Verdict
    reasons: list[Reason]
    advice: str
    chains: int
    draws: int
    sigma: dict[str, float | None]
    f: dict[str, float | int | None]
    moves: dict[str, dict[str, float | int]]
    leaves: dict[str, Any]
    weights: dict[str, Any] | None = None  # of weighted draws: effective number, log evidence by run
    topologies: list[dict[str, Any]] | None = None  # of one tree: its shapes, the most probable first
    precision: Precision | None = None  # by how much estimates may be off; None of weighted or too few draws

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, reasons as sentences and as codes; undefined figures are None."""
        precision = self.precision and self.precision.to_json(self.verdict)
        return asdict(self) | {"precision": precision} | reasons_to_json(self.reasons)

    def __str__(self) -> str:
        lines = [
            f"{self.verdict.replace('_', ' ')}: {self.chains} chains of {self.draws} draws",
            *(f"  {reason}" for reason in self.reasons),
            *([f"  {self.precision.sentence(self.verdict)}"] if self.precision else []),
            f"  {self.advice}",
            "",
            f"{'':12}{'R-hat':>8}{'95%':>8}{'bulk ESS':>10}{'tail ESS':>10}",
            f"{'f (median)':12}{_figure(self.f['rhat_median'])}{_figure(self.f['rhat_p95'])}"
            f"{_count(self.f['ess_bulk_median'])}{_count(self.f['ess_tail_median'])}",
            f"{'sigma':12}{_figure(self.sigma['rhat'])}{'':8}"
            f"{_count(self.sigma['ess_bulk'])}{_count(self.sigma['ess_tail'])}",
            "",
            f"leaves per tree: {self.leaves['mean']:.2f} on average, {self.leaves['max']} at most",
        ]
        if self.weights:
            spread = self.weights["log_evidence_sd"]
            over = "" if spread is None else f" (sd {spread:.2f} over runs)"
            lines.append(
                f"effective draws: {self.weights['ess']:.0f}, "
                f"log evidence {self.weights['log_evidence']:.2f}{over}"
            )
        if self.topologies:
            likely = (f"{each['topology']} {100 * each['probability']:.0f}%" for each in self.topologies[:3])
            lines.append("shapes of the tree: " + ", ".join(likely))
        if self.moves:
            rates = (f"{name} {100 * move['acceptance']:.0f}%" for name, move in self.moves.items())
            lines.append("accepted: " + ", ".join(rates))
        return "\n".join(lines)

    __repr__ = __str__  # notebooks display the repr of a cell's last expression


def summarise(
    f: Floats,
    sigma: Floats | None,
    leaf_counts: NDArray[np.int64],
    statistics: Sequence[Mapping[str, Any]],
) -> Summary:
    """Judge the agreement of chains (docs/verdict.md).

    Parameters
    ----------
    f
        Draws of f, float64 [row, chain, draw].
    sigma
        Draws of sigma, float64 [chain, draw]; None for classes.
    leaf_counts
        Leaves of each tree, int64 [chain, draw, tree].
    statistics
        Counters of the moves, by chain.

    """
    _, chains, draws = f.shape
    moves, leaves = _moves(statistics), _leaves(leaf_counts)
    if draws < FEWEST_DRAWS:
        reasons = [Reason("too_few_draws", {"draws": draws})]
        nothing = dict.fromkeys(("rhat_median", "rhat_p95", "ess_bulk_median", "ess_tail_median", "mcse_p95"))
        return Summary(
            verdict="not_converged",
            reasons=reasons,
            advice="Take more draws: raise num_draws.",
            chains=chains,
            draws=draws,
            sigma=dict.fromkeys(("rhat", "ess_bulk", "ess_tail")),
            f={**nothing, "rows": len(f)},
            moves=moves,
            leaves=leaves,
        )
    agreement = Agreement.of(f)
    of_sigma: dict[str, float | None] = dict.fromkeys(("rhat", "ess_bulk", "ess_tail"))
    if sigma is not None:
        figures = (rhat_ess.rhat, rhat_ess.ess_bulk, rhat_ess.ess_tail)
        of_sigma = {name: _number(of(sigma[None])[0]) for name, of in zip(of_sigma, figures, strict=True)}
    verdict, reasons = judge(agreement, of_sigma["rhat"], chains)
    return Summary(
        verdict=verdict,
        reasons=reasons,
        advice=_advice(verdict, agreement, of_sigma["rhat"], chains, draws),
        chains=chains,
        draws=draws,
        sigma=of_sigma,
        f=_figures_of(agreement),
        moves=moves,
        leaves=leaves,
        precision=_precision(agreement, f, sigma),
    )


def _precision(agreement: Agreement, f: Floats, sigma: Floats | None) -> Precision | None:
    assert agreement.mean_error is not None
    sd = f.std(axis=(1, 2), ddof=1)
    mean = float(_at_share(2 * sd * agreement.mean_error))
    ends = float(_at_share(2 * sd * END_ERROR / np.sqrt(agreement.ess_tail)))
    if not math.isfinite(mean) or not math.isfinite(ends):
        return None
    return Precision(mean, ends, None if sigma is None else float(sigma.mean()))


def noise_prior_reason(sigma: Floats, header: Header) -> Reason | None:
    """Return the reason for draws of sigma [chain, draw] that rest on the prior; None for any others.

    Given residuals with the weighted sum of squares S, sigma^2 ~ (nu lambda + S) / chi^2(nu + rows): the
    prior's share is nu lambda / (nu lambda + S). The scale lambda comes from a linear model, so it is far too
    large where f is far from linear and the noise small; chains agree all the same.
    """
    constants = header.constants
    nu, lambda_ = constants.get("nu"), constants.get("lambda_")
    settings = header.settings
    known = constants.get("sigma_fixed", True) or settings.get("prior_only", False)
    known = known or settings.get("method") != "bart"  # whose leaves have a prior of their own
    differs = settings.get("noise", "constant") != "constant"  # sigma is then a mean over rows
    if known or differs or header.num_rows is None or not (_is_positive(nu) and _is_positive(lambda_)):
        return None
    with np.errstate(over="ignore"):
        share = nu * lambda_ * float(np.mean(sigma**-2)) / (nu + header.num_rows)
    if not share > PRIOR_SHARE:
        return None
    return Reason("sigma_by_prior", {"share": min(share, 1.0), "scale": math.sqrt(lambda_)})


def _is_positive(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and 0 < value <= sys.float_info.max


def reasons_to_json(reasons: Sequence[Reason]) -> dict[str, Any]:
    """Return the reasons as sentences (`reasons`) and as codes with their figures (`reason_codes`)."""
    return {
        "reasons": [str(reason) for reason in reasons],
        "reason_codes": [reason.to_json() for reason in reasons],
    }


def _figures_of(agreement: Agreement) -> dict[str, float | int | None]:
    return {
        "rhat_median": _number(np.median(agreement.rhat)),
        "rhat_p95": _number(_at_share(agreement.rhat)),
        "ess_bulk_median": _number(np.median(agreement.ess_bulk)),
        "ess_tail_median": _number(np.median(agreement.ess_tail)),
        "mcse_p95": _number(_at_share(agreement.error)),
        "rows": len(agreement.rhat),
    }


def describe_trees(
    verdict: Verdict,
    reasons: list[Reason],
    advice: str,
    agreement: Agreement,
    leaf_counts: NDArray[np.int64],
    share: Floats,
    statistics: Sequence[Mapping[str, Any]],
) -> Summary:
    """Assemble a summary of weighted draws whose verdict is known.

    Parameters
    ----------
    verdict, reasons, advice
        The verdict and its explanation.
    agreement
        Agreement of the runs.
    leaf_counts
        Leaves of each tree, int64 [run, draw, tree].
    share
        Weights of the draws, float64 [run, draw], with sum 1.
    statistics
        Counters of the moves, by run.

    """
    return Summary(
        verdict=verdict,
        reasons=reasons,
        advice=advice,
        chains=leaf_counts.shape[0],
        draws=leaf_counts.shape[1],
        sigma=dict.fromkeys(("rhat", "ess_bulk", "ess_tail")),
        f=_figures_of(agreement),
        moves=_moves(statistics),
        leaves=_leaves(leaf_counts, np.repeat(share.reshape(-1), leaf_counts.shape[2])),
    )


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


def _advice(verdict: Verdict, agreement: Agreement, sigma_rhat: float | None, chains: int, draws: int) -> str:
    if verdict == "converged":
        return "The intervals can be used as they are."
    if chains == 1:
        return "Run several chains: num_chains=4."
    times = math.ceil(times_to_converge(_at_share(agreement.error), _at_share(agreement.rhat), sigma_rhat))
    usable = "The intervals are usable, with some Monte Carlo error. " if verdict == "approximate" else ""
    return (
        f"{usable}To improve, draw longer chains (num_draws={draws * times} or thin {times} times as large, "
        f"and a longer num_burnin) or pool more of them (num_chains={chains * 2})."
    )


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


def _at_share(values: Floats) -> float:
    return float(np.quantile(values, ROWS_SHARE))


def _moves(statistics: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float | int]]:
    moves: dict[str, dict[str, float | int]] = {}
    for chain in statistics:
        for name, counts in chain.get("moves", {}).items():
            total = moves.setdefault(name, {"proposed": 0, "accepted": 0})
            for key in ("proposed", "accepted"):
                total[key] += int(counts[key])
    for total in moves.values():
        total["acceptance"] = total["accepted"] / total["proposed"] if total["proposed"] else 0.0
    return moves


def _leaves(counts: NDArray[np.int64], weights: Floats | None = None) -> dict[str, Any]:
    weights = np.ones(counts.size) if weights is None else weights
    sums = np.bincount(np.minimum(counts.reshape(-1), 5), weights, minlength=6)[1:]
    shares = sums / weights.sum()
    names = ("1", "2", "3", "4", "5+")
    return {
        "mean": float(np.average(counts.reshape(-1), weights=weights)),
        "max": int(counts.max()),
        "share": dict(zip(names, shares.tolist(), strict=True)),
    }


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _figure(value: float | None) -> str:
    return f"{'-':>8}" if value is None else f"{value:8.3f}"


def _count(value: float | None) -> str:
    return f"{'-':>10}" if value is None else f"{value:10.0f}"
