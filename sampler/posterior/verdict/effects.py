"""Verdict on a treatment's effects: on average, and of rows, by the effect's own draws (docs/verdict.md).

Chains agree on f at the rows' own arms long before they agree on what the other arm would add.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from sampler.array_types import Floats
from sampler.posterior.protocol import Document
from sampler.posterior.verdict.agreement import FEWEST_DRAWS, GROUPS, LIMITS, ROWS_SHARE, Agreement
from sampler.posterior.verdict.reasons import VERDICTS, Reason, Verdict, defined
from sampler.posterior.verdict.rhat_ess import mcse_mean

OfCredible = Literal["usable", "roughly", "not_yet"]
CREDIBLE: dict[Verdict, OfCredible] = {
    "converged": "usable",
    "approximate": "roughly",
    "not_converged": "not_yet",
}
USES: dict[OfCredible, Verdict] = {use: verdict for verdict, use in CREDIBLE.items()}
MOST_ROWS = 200  # of an answer, evenly spaced, by which its rows are judged
IN_WORDS = {"usable": "usable", "roughly": "roughly usable", "not_yet": "not yet usable"}


@dataclass(frozen=True, eq=False, repr=False)
class EffectsUse(Document):
    """Uses of a treatment's effects by the agreement of their own draws."""

    average: Annotated[OfCredible, "Average effects."]
    rows: Annotated[OfCredible, "Effects of single rows."]
    average_rhat: Annotated[float | None, "R-hat of the average effect, the largest of several arms'."] = None
    average_error: Annotated[float | None, "Its Monte Carlo error, in posterior standard deviations."] = None
    average_limit: Annotated[float | None, "R-hat up to which it is usable, of these chains."] = None
    average_ess: Annotated[float | None, "Its effective sample size, the smaller of bulk and tail."] = None
    rows_rhat: Annotated[float | None, "R-hat that 95% of the rows' effects don't exceed."] = None
    rows_error: Annotated[float | None, "The same of their Monte Carlo errors."] = None
    rows_limit: Annotated[float | None, "R-hat up to which they are usable."] = None
    rows_ess: Annotated[float | None, "The effective sample size that 95% of them reach."] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self["text"] = self.text

    @classmethod
    def of(cls, average: Floats, rows: Floats) -> EffectsUse:
        """Judge draws of averages and of rows' effects, float64 [figure, chain, draw]."""
        found: dict[str, Any] = {}
        for name, draws, share in (("average", average, 1.0), ("rows", rows, ROWS_SHARE)):
            found[name], figures = _judged(draws, share)
            found |= {f"{name}_{each}": value for each, value in figures.items()}
        return cls(**found)

    @classmethod
    def read(cls, document: Mapping[str, Any] | None) -> EffectsUse | None:
        """Read a stored document; None of models without a treatment, and of those made before."""
        return (
            None
            if document is None
            else cls(**{name: value for name, value in document.items() if name != "text"})
        )

    @property
    def verdict(self) -> Verdict:
        """Verdict of the worse of the two."""
        return max((USES[self.average], USES[self.rows]), key=VERDICTS.index)

    @property
    def reasons(self) -> list[Reason]:
        """Reasons why they are not better."""
        return [
            Reason("effect_disagrees", {each: self[f"{name}_{each}"] for each in IN_REASONS} | ERROR, of=of)
            for name, of in (("average", "average effect"), ("rows", "effects at 95% of the {rows}"))
            if self[name] != "usable" and all(f"{name}_{each}" in self for each in IN_REASONS)
        ]

    @property
    def text(self) -> Annotated[str, "Both in a sentence."]:
        """Sentences on what can be used."""
        average = _figures_in_words(self.average, self.average_rhat, self.average_error)
        rows = _figures_in_words(self.rows, self.rows_rhat, self.rows_error)
        return f"Average effect: {average}. Effects of rows: {rows}."


IN_REASONS = ("rhat", "error", "limit")
ERROR = {"most": LIMITS["converged"].error}


def _judged(draws: Floats, share: float = 1.0) -> tuple[OfCredible, dict[str, float | None]]:
    """Return the use of draws [figure, chain, draw], and figures by name that such a share of them keep.

    The Monte Carlo error is that of means: folded R-hat is about the ends too.
    """
    if draws.shape[2] < FEWEST_DRAWS:
        return "not_yet", {}
    agreed, chains = Agreement.of(np.ascontiguousarray(draws)), draws.shape[1]
    assert agreed.mean_error is not None, "they are draws of chains"
    rhat, error = (float(np.quantile(each, share)) for each in (agreed.rhat, agreed.mean_error))
    ess = float(np.quantile(np.minimum(agreed.ess_bulk, agreed.ess_tail), 1 - share))
    limits = {name: each.of(chains if agreed.settled else GROUPS) for name, each in LIMITS.items()}
    met: list[Verdict] = [
        name
        for name, each in limits.items()
        if rhat <= each.rhat and error < each.error and (name != "converged" or chains > 1)
    ]
    figures = {"rhat": rhat, "error": error, "limit": limits["converged"].rhat, "ess": ess}
    use = CREDIBLE[met[0] if met else "not_converged"]
    return use, {name: defined(value) for name, value in figures.items()}


def judge_average(draws: Floats) -> tuple[OfCredible, float | None]:
    """Say how an average with these draws, float64 [chain, draw], can be used, and its standard error."""
    use, figures = _judged(draws[None])
    return use, defined(mcse_mean(draws[None])[0]) if figures else None


def worst(*verdicts: Verdict) -> Verdict:
    """Return the worst of verdicts."""
    return max(verdicts, key=VERDICTS.index)


def farthest(
    error: float | None, rhat: float | None, effects: Mapping[str, Any] | None
) -> tuple[float | None, float | None]:
    """Return the larger Monte Carlo error and R-hat: those of f given, or of `effects`; None if undefined."""
    found = []
    for own, name in ((error, "error"), (rhat, "rhat")):
        beside = [effects.get(f"{of}_{name}") for of in ("average", "rows")] if effects else []
        known = [each for each in (own, *beside) if each is not None]
        found.append(max(known) if len(known) == 1 + len(beside) else None)
    return found[0], found[1]


def _figures_in_words(use: OfCredible, rhat: float | None, error: float | None) -> str:
    if use == "usable" or rhat is None or error is None:
        return IN_WORDS[use]
    return f"{IN_WORDS[use]} (R-hat {rhat:.2f}, Monte Carlo error {error:.2f} sd)"
