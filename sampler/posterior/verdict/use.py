"""Uses of a fit, by three questions answered apart (docs/verdict.md).

Do the chains agree? That is about means, credible intervals and, by draws of their own, effects of a
treatment. Do held-out rows say that predictive
intervals hold? Would another fit say the same? Everything is read from documents as they are stored and sent,
so that a page, a card, a terminal and a program are told the same of models of any age.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from sampler.data.scalars import estimate_to_text, in_unit, number_to_text
from sampler.posterior.protocol import Document
from sampler.posterior.verdict.effects import CREDIBLE, EffectsUse, OfCredible
from sampler.posterior.verdict.intervals import (
    LEVEL,
    WORDS,
    OfIntervals,
    RefusedQuarter,
    judged,
    made_to_hold,
)
from sampler.posterior.verdict.reasons import Verdict

# Two standard errors of a mean beside the sd of its row's error: one is an eighth of it, and raises the error
# of predictions by 0.8%; for probabilities, two percentage points.
ERROR_SHARE, CLASS_ERROR = 0.25, 0.02

OfPredictions = Literal["usable", "not_yet"]
CHAINS: dict[Verdict, tuple[str, str, str]] = {  # with a figure, without one, and what follows
    "converged": (
        "The chains agree on predictions to within {figure}",
        "The chains agree",
        "credible intervals can be read as they are",
    ),
    "approximate": (
        "The chains agree on predictions to within about {figure}",
        "The chains nearly agree",
        "read credible intervals roughly",
    ),
    "not_converged": (
        "The chains' predictions still differ by {figure}",
        "The chains don't agree",
        "don't read credible intervals finely yet",
    ),
}


@dataclass(frozen=True, eq=False, repr=False)
class ChainAgreement(Document):
    """Agreement of the chains, and by how much figures may be off."""

    verdict: Verdict
    mean: Annotated[
        float | None,
        "Two Monte Carlo standard errors of means that 95% of the rows don't exceed, in the unit of the "
        "outcome (of classes as probabilities); null where they are unknown.",
    ]
    ends: Annotated[float | None, "The same of the ends of 90% credible intervals."]
    noise_share: Annotated[float | None, "`mean` as a share of the noise's standard deviation."]


@dataclass(frozen=True, eq=False, repr=False)
class HeldOutIntervals(Document):
    """Predictive intervals by held-out rows."""

    verdict: Annotated[
        Literal["held", "not_held", "unknown", "made_to_hold"],
        "unknown: too few rows; made_to_hold: all of them calibrate.",
    ]
    rows: int
    level: float
    inside: Annotated[float | None, "The share of outcomes inside; null where it wasn't measured."]
    lower: Annotated[float | None, "That share's 95% interval."]
    upper: float | None
    refused: Annotated[
        list[RefusedQuarter], "Quarters of the rows where the intervals fail, though others hold."
    ]


@dataclass(frozen=True, eq=False, repr=False)
class AnotherFit(Document):
    """Difference from another fit of the same request with another seed, as the chains tell it."""

    moves: Annotated[
        float | None,
        "What predictions would move by, in the unit of the outcome: root mean square over rows.",
    ]
    sds: Annotated[float, "The same in posterior standard deviations."]


@dataclass(frozen=True, eq=False, repr=False)
class Use(Document):
    """Uses of a model, by three questions answered apart."""

    predictions: OfPredictions
    intervals: Annotated[
        OfIntervals,
        "Intervals of 90% for new outcomes: usable where held-out rows say so, but for the quarters in "
        "`held_out.refused`; made_to_hold where such rows calibrate them (with `calibrate` those with "
        "interval=calibrated); unchecked without enough rows, not_usable where these, or reported outcomes, "
        "say otherwise.",
    ]
    credible: Annotated[OfCredible, "Credible intervals."]
    chains: Annotated[ChainAgreement, "Do the chains agree?"]
    held_out: Annotated[
        HeldOutIntervals | None,
        "Do held-out rows say that predictive intervals hold? null: none was held out.",
    ]
    another_fit: Annotated[
        AnotherFit | None, "Would another fit say the same? null where one chain can't tell."
    ]
    unit: Annotated[str | None, "The unit of the outcome, where its file had one."]
    text: Annotated[str, "All of it in sentences."]
    effects: Annotated[
        EffectsUse | None,
        "Effects of the treatment; null without one, and of models made before effects were judged.",
    ] = None

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def use_of(
    summary: Mapping[str, Any],
    scores: Mapping[str, Any] | None = None,
    *,
    no_longer_hold: bool = False,
    calibration: Mapping[str, Any] | None = None,
) -> Use:
    """Say what a fit can be used for.

    Parameters
    ----------
    summary
        `Summary.to_json()`, which may be that of an earlier version; of a law that held-out rows
        recalibrated, and of which there are no scores, ``recalibrated_by`` with their number.
    scores
        Scores on held-out rows, as `Posterior.score` returns them; None without any.
    no_longer_hold
        Whether outcomes that were reported since say that the intervals don't hold any more.
    calibration
        `ConformalTable.summary()` of calibrated intervals; None without them.

    Returns
    -------
    Use
        The answers, and what they allow.

    """
    precision = summary.get("precision") or {}
    verdict: Verdict = summary.get("without_effects") or summary["verdict"]
    effects = EffectsUse.read(summary.get("effects"))
    chains = ChainAgreement(verdict, *(precision.get(name) for name in ("mean", "ends", "share")))
    unit, sds = precision.get("unit"), precision.get("reproducibility")
    another = None if sds is None else AnotherFit(precision.get("another_fit"), sds)
    if not scores and (rows := summary.get("recalibrated_by")):
        scores = {"rows": rows, "intervals_verdict": made_to_hold(rows)}
    report = judged((scores or {}).get("intervals_verdict") or {})
    held_out = _held_out(scores, report)
    intervals = "unchecked" if held_out is None else WORDS[held_out.verdict]
    trusted = verdict != "not_converged" or intervals == "usable" or precision.get("means_usable")
    of_classes = "error_share" in precision and precision["noise"] is None
    said = _about_intervals(held_out, report)
    if calibration is not None and calibration["kind"] == "holdout" and not of_classes:
        once = "groups" if calibration["counted"] != calibration["rows"] else "held-out rows"
        made = made_to_hold(calibration["counted"], noun=once)["text"]
        intervals = "made_to_hold"
        said = f"Calibrated {made[0].lower()}{made[1:]} Predictive {said[:1].lower()}{said[1:]}"
    if no_longer_hold:
        intervals, said = "not_usable", f"{LEVEL:.0%} intervals: no longer usable, as reported outcomes say."
    predictions: OfPredictions = "usable" if trusted else "not_yet"
    sentences = [
        f"Predictions: usable. {said}" if trusted else "Predictions and their intervals: not yet usable.",
        _about_chains(chains, unit, of_classes=of_classes),
        effects.text if effects else "",
        _about_another(another, unit, of_classes=of_classes),
    ]
    return Use(
        predictions,
        intervals,
        CREDIBLE[verdict],
        chains,
        held_out,
        another,
        unit,
        " ".join(sentence.strip() for sentence in sentences if sentence),
        effects,
    )


def _held_out(scores: Mapping[str, Any] | None, report: Mapping[str, Any]) -> HeldOutIntervals | None:
    if not scores:
        return None
    verdict = report.get("verdict", "unknown")
    shares = [each for each in scores.get("coverage") or () if abs(each["level"] - LEVEL) < 1e-9]
    known = shares and verdict != "made_to_hold"
    inside, lower, upper = (shares[0][name] if known else None for name in ("coverage", "lower", "upper"))
    refused = report.get("refused") or []
    return HeldOutIntervals(verdict, int(scores["rows"]), LEVEL, inside, lower, upper, refused)


def _about_intervals(held_out: HeldOutIntervals | None, report: Mapping[str, Any]) -> str:
    its = f"{LEVEL:.0%} intervals"
    if held_out is None:
        return f"{its}: unchecked, no held-out row was scored."
    if "refused" in report:
        return str(report["text"])
    if held_out.inside is None:
        return ""
    rows = f"{number_to_text(held_out.rows)} held-out row{'s' * (held_out.rows != 1)}"
    if held_out.verdict == "unknown":
        return f"{its}: unchecked, {rows} are too few."
    word = WORDS[held_out.verdict].replace("_", " ")
    return f"{its}: {word}, {held_out.inside:.0%} of {rows} are inside."


def _about_chains(chains: ChainAgreement, unit: str | None, *, of_classes: bool) -> str:
    figured, plain, follows = CHAINS[chains.verdict]
    said = plain
    if chains.mean is not None:
        figure = _figure(chains.mean, unit, of_classes=of_classes)
        if chains.noise_share is not None:
            figure += f" ({_percent(chains.noise_share)} of the noise)"
        said = figured.format(figure=figure)
    return f"{said}: {follows}."


def _about_another(another: AnotherFit | None, unit: str | None, *, of_classes: bool) -> str:
    if another is None:
        return ""
    moves = f"{another.sds:.2g} of their posterior sd"
    if another.moves is not None:
        moves = _figure(another.moves, unit, of_classes=of_classes)
    return f"Fitted again with another seed, predictions would move by about {moves}."


def _figure(value: float, unit: str | None, *, of_classes: bool) -> str:
    """Write a rough figure in the unit of the outcome; of probabilities in percentage points."""
    if of_classes:
        return f"{number_to_text(float(f'{100 * value:.2g}'), 2)} percentage points"
    return in_unit(estimate_to_text(value), unit)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "less than 1%"
