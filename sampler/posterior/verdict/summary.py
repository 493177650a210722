"""The summary of a posterior: verdict, reasons, advice, figures of convergence, and Monte Carlo errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.scalars import counted, estimate_to_text, in_unit
from sampler.definitions.stop import MORE_TREES
from sampler.posterior.protocol import Document
from sampler.posterior.verdict import rhat_ess
from sampler.posterior.verdict.agreement import (
    END_ERROR,
    FEWEST_DRAWS,
    SCALARS,
    Agreement,
    at_share,
    judge,
    times_to_converge,
)
from sampler.posterior.verdict.effects import EffectsUse, farthest, worst
from sampler.posterior.verdict.reasons import Reason, Verdict, defined, reasons_to_json
from sampler.posterior.verdict.use import CLASS_ERROR, ERROR_SHARE, Use, use_of

CONTINUE = (
    "  posterior.extend({draws}) goes on with these chains and returns the longer fit, verdict included."
)
OF_SCALARS = {
    "rhat": rhat_ess.rhat,
    "ess_bulk": rhat_ess.ess_bulk,
    "ess_tail": rhat_ess.ess_tail,
    "drift": rhat_ess.drift,
}


@dataclass(frozen=True, eq=False, repr=False)
class Precision(Document):
    """By how much estimates at the reference rows may be off."""

    mean: Annotated[
        float,
        "Two Monte Carlo standard errors of the mean that 95% of the rows don't exceed, in units of the "
        "target.",
    ]
    ends: Annotated[float, "The same of the ends of 90% credible intervals."]
    noise: Annotated[
        float | None,
        "Posterior mean of the noise's standard deviation in units of the target, with weights that of a "
        "row of typical weight, with a transform its mean over the rows; null for classes.",
    ]
    share: Annotated[
        float | None,
        "Two Monte Carlo standard errors of the mean as a share of the noise's standard deviation of the "
        "same row, which 95% of the rows don't exceed; null for classes.",
    ]
    reproducibility: Annotated[
        float | None,
        "How far another fit, with another seed, would move means, in posterior standard deviations; null "
        "for one chain.",
    ]
    error_share: Annotated[
        float | None, "As `share`, of the standard deviation of the prediction's error (the noise's and f's)."
    ]
    another_fit: Annotated[float | None, "`reproducibility` in units of the target."]
    unit: Annotated[str | None, "The unit of the target, where its file had one."]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.update(means_usable=self.means_usable, text=self.text)

    @property
    def means_usable(self) -> Annotated[bool, "Whether errors of means matter little to predictions."]:
        """Whether the error of means matters little to the error of predictions: it adds 1% at most."""
        return self.mean <= CLASS_ERROR if self.error_share is None else self.error_share <= ERROR_SHARE

    @property
    def text(self) -> Annotated[str, "The same as a sentence."]:
        """By how much estimates may be off, and how much another fit would differ, in a sentence."""
        mean, ends = (in_unit(estimate_to_text(each), self.unit) for each in (self.mean, self.ends))
        share = "" if self.share is None else f" ({self.share:.0%} of the noise's standard deviation)"
        off = f"means may be off by {mean}{share}, and ends of 90% credible intervals by {ends}"
        usual = f"At 95% of the rows {off}."
        if self.reproducibility is None:
            return usual
        moved = f"{self.reproducibility:.2g} of their posterior sd"
        return f"{usual} Another fit would move means by about {moved}."


@dataclass(frozen=True, repr=False)
class Summary:
    """Verdict on a posterior, with figures, reasons and advice; `str()` is a readable report."""

    verdict: Verdict
    reasons: list[Reason]
    advice: str
    chains: int
    draws: int
    sigma: dict[str, float | None]
    log_likelihood: dict[str, float | None]
    f: dict[str, float | int | None]
    moves: dict[str, dict[str, float | int]]
    leaves: dict[str, Any]
    weights: dict[str, Any] | None = None  # for weighted draws: effective number, log evidence by run
    topologies: list[Any] | None = None  # for a single tree: its shapes, the most probable first
    precision: Precision | None = None  # by how much estimates may be off; None of weighted or too few draws
    num_trees: dict[str, float] | None = None  # mean and 90% interval of their number, where it is drawn
    effects: EffectsUse | None = None  # of a treatment, by draws of their own
    without_effects: Verdict | None = None  # the verdict on all else, where there are effects
    recalibrated_by: int | None = None  # held-out rows that made intervals hold
    calibration: Mapping[str, Any] | None = None  # of calibrated intervals, which the header keeps

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, reasons as sentences and as codes; undefined figures are None.

        Those about effects are there of models with a treatment, num_trees where their number is drawn. What
        held-out rows were used for stands in their scores, and in the calibration.
        """
        absent = {"recalibrated_by", "calibration"}
        absent |= set() if self.effects else {"effects", "without_effects"}
        absent |= set() if self.num_trees else {"num_trees"}
        shown = {name: value for name, value in vars(self).items() if name not in absent}
        return shown | reasons_to_json(self.reasons)

    def use(self, scores: Mapping[str, Any] | None = None) -> Use:
        """Say what can be used, by the chains and, where there are any, held-out rows and a calibration."""
        made = {"recalibrated_by": self.recalibrated_by}
        return use_of(self.to_json() | made, scores, calibration=self.calibration)

    def __str__(self) -> str:
        lines = [
            f"{self.verdict.replace('_', ' ')}: {counted(self.chains, 'chain')} of {self.draws} draws",
            f"  {self.use().text}",
            *(f"  {reason}" for reason in self.reasons),
            *([f"  {self.precision.text}"] if self.precision else []),
            f"  {self.advice}",
            *([CONTINUE.format(draws=self.draws)] if self.verdict == "not_converged" else []),
            "",
            f"{'':12}{'R-hat':>8}{'95%':>8}{'bulk ESS':>10}{'tail ESS':>10}",
            f"{'f (median)':12}{_figure(self.f['rhat_median'])}{_figure(self.f['rhat_p95'])}"
            f"{_count(self.f['ess_bulk_median'])}{_count(self.f['ess_tail_median'])}",
            _of_scalar("sigma", self.sigma),
            _of_scalar("likelihood", self.log_likelihood),
            "",
            f"leaves per tree: {self.leaves['mean']:.2f} on average, {self.leaves['max']} at most",
        ]
        if self.num_trees:
            lines.append(
                "trees: {mean:.1f} on average, 90% interval {lower:g} to {upper:g}".format(**self.num_trees)
            )
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
    scalars: Mapping[str, Floats],
    leaf_counts: NDArray[np.int64],
    statistics: Sequence[Mapping[str, Any]],
    noise: Floats | None = None,
    effects: Sequence[EffectsUse] = (),
) -> Summary:
    """Judge the agreement of chains (docs/verdict.md).

    Parameters
    ----------
    f
        Draws of f, float64 [row, chain, draw].
    scalars
        Draws of sigma, which classes have not, and of the log-likelihood where it is known, float64 [chain,
        draw], by name.
    leaf_counts
        Leaves of each tree, int64 [chain, draw, tree].
    statistics
        Counters of the moves, by chain.
    noise
        Posterior mean of the noise's sd by row, in units of f, float64 [row]; None where it is unknown, and
        for classes.
    effects
        What a treatment's effects can be used for; none without one.

    Returns
    -------
    Summary
        Verdict, reasons, figures and advice.

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
            sigma=dict.fromkeys(OF_SCALARS),
            log_likelihood=dict.fromkeys(OF_SCALARS),
            f={**nothing, "rows": len(f)},
            moves=moves,
            leaves=leaves,
            effects=next(iter(effects), None),
            without_effects="not_converged",
        )
    agreement = Agreement.of(f)
    figures = {
        scalar: {name: float(of(each[None])[0]) for name, of in OF_SCALARS.items()}
        for scalar, each in scalars.items()
    }
    rhats = {scalar: each["rhat"] for scalar, each in figures.items()}
    of_f, reasons = judge(agreement, rhats, chains)
    verdict = worst(of_f, *(each.verdict for each in effects))
    reasons += [reason for each in effects for reason in each.reasons]
    shown = {
        scalar: {name: defined(figures[scalar][name]) if scalar in figures else None for name in OF_SCALARS}
        for scalar in SCALARS
    }
    return Summary(
        verdict=verdict,
        reasons=reasons,
        advice=_advice(verdict, agreement, rhats, chains, draws, next(iter(effects), None))
        + (_more_trees(leaf_counts.shape[2]) if of_f == "not_converged" and "sigma" in scalars else ""),
        chains=chains,
        draws=draws,
        sigma=shown["sigma"],
        log_likelihood=shown["log_likelihood"],
        f=_figures_of(agreement),
        moves=moves,
        leaves=leaves,
        precision=None if noise is None and "sigma" in scalars else _precision(agreement, f, noise),
        effects=next(iter(effects), None),
        without_effects=of_f,
    )


def weighted_summary(
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

    Returns
    -------
    Summary
        Verdict, reasons, figures and advice.

    """
    return Summary(
        verdict=verdict,
        reasons=reasons,
        advice=advice,
        chains=leaf_counts.shape[0],
        draws=leaf_counts.shape[1],
        sigma=dict.fromkeys(OF_SCALARS),
        log_likelihood=dict.fromkeys(OF_SCALARS),
        f=_figures_of(agreement),
        moves=_moves(statistics),
        leaves=_leaves(leaf_counts, np.repeat(share.reshape(-1), leaf_counts.shape[2])),
    )


def _precision(agreement: Agreement, f: Floats, noise: Floats | None) -> Precision | None:
    assert agreement.mean_error is not None
    sd = f.std(axis=(1, 2), ddof=1)
    errors = 2 * sd * agreement.mean_error
    ends = at_share(2 * sd * END_ERROR / np.sqrt(agreement.ess_tail))
    share = of_error = another = None
    if noise is not None:
        share, of_error = at_share(errors / noise), at_share(errors / np.hypot(noise, sd))
    figures = at_share(errors), ends, None if noise is None else float(noise.mean()), share
    if not all(figure is None or math.isfinite(figure) for figure in figures):
        return None
    if agreement.reproducibility is not None:
        another = float(np.sqrt(np.mean((agreement.reproducibility * sd) ** 2)))
    return Precision(*figures, agreement.pooled_error, of_error, another, unit=None)


def _figures_of(agreement: Agreement) -> dict[str, float | int | None]:
    return {
        "rhat_median": defined(np.median(agreement.rhat)),
        "rhat_p95": defined(at_share(agreement.rhat)),
        "ess_bulk_median": defined(np.median(agreement.ess_bulk)),
        "ess_tail_median": defined(np.median(agreement.ess_tail)),
        "mcse_p95": defined(at_share(agreement.error)),
        "rows": len(agreement.rhat),
    }


def _advice(
    verdict: Verdict,
    agreement: Agreement,
    rhats: Mapping[str, float],
    chains: int,
    draws: int,
    effects: EffectsUse | None,
) -> str:
    if verdict == "converged":
        return "Means and credible intervals can be read as they are."
    if chains == 1:
        return "Run several chains: num_chains=4."
    far = farthest(at_share(agreement.error), at_share(agreement.rhat), effects)
    times = math.ceil(times_to_converge(*far, rhats, chains))
    usable = "Credible intervals have some Monte Carlo error. " if verdict == "approximate" else ""
    return (
        f"{usable}To improve, pool more chains (num_chains={chains * 2}), or draw longer ones "
        f"(num_draws={draws * times} or thin {times} times as large, and a longer burn-in)."
    )


def _more_trees(trees: int) -> str:
    """Advise more trees where a sum of fewer learns numbers (docs/mixing.md#more-trees)."""
    if not 1 < trees < MORE_TREES:
        return ""
    return (
        " On thousands of rows with little noise, chains of more trees agree sooner "
        f"(num_trees={MORE_TREES}); that is another model, better or worse: compare held-out rows."
    )


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
    if weights is None and np.any(counts):
        counts = counts[counts > 0]  # trees that are present
    counts = counts.reshape(-1)
    weights = np.ones(counts.size) if weights is None else weights
    sums = np.bincount(np.minimum(counts, 5), weights, minlength=6)[1:]
    shares = sums / weights.sum()
    names = ("1", "2", "3", "4", "5+")
    return {
        "mean": float(np.average(counts, weights=weights)),
        "max": int(counts.max()),
        "share": dict(zip(names, shares.tolist(), strict=True)),
    }


def _of_scalar(name: str, figures: Mapping[str, float | None]) -> str:
    ends = _count(figures["ess_bulk"]), _count(figures["ess_tail"])
    return f"{name:12}{_figure(figures['rhat'])}{'':8}{''.join(ends)}"


def _figure(value: float | None) -> str:
    return f"{'-':>8}" if value is None else f"{value:8.3f}"


def _count(value: float | None) -> str:
    return f"{'-':>10}" if value is None else f"{value:10.0f}"
