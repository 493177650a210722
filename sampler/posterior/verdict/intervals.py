"""The word on predictive intervals, and its sentence, by the shares of outcomes that were inside.

A share is doubted where it is off by more than matters *and* by more than chance allows: of all rows by 4
points with p < .02 (by groups .005), of a quarter of the rows outside .82 to .97 with p < .005. Each
quarter of the prediction has that chance; those of all features share it (Bonferroni). A quarter that fails
is refused, not the model, if the share of the others isn't off. Values that have a probability, as counts do,
let intervals hold more than their level: they are judged by what the law expects.

Everything is computed from figures as they are stored, so that those of earlier versions are judged alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from scipy.special import bdtr, betainc, betaincinv

from sampler.data.scalars import counted, number_to_text
from sampler.posterior.protocol import Document
from sampler.storage.calibration_size import gaps_inside

LEVEL = 0.9  # of the intervals that the sentence is about
TOLERANCE = 0.04  # of the share of all rows inside
NARROWER, WIDER = 0.08, 0.07  # tolerance of a quarter's
CHANCE_OF_ALL = 0.02  # of a false alarm by all rows
CHANCE = 0.005  # of a false alarm, in a quarter of the prediction and in all of the features
WORTH_A_WORD = 0.03  # by which other levels are off
FEWEST_ROWS, FEWEST_UNITS = 40, 30
NAMED = 3  # features whose quarters are named

OfIntervals = Literal["usable", "made_to_hold", "unchecked", "not_usable"]
WORDS: Mapping[str, OfIntervals] = {
    "held": "usable",
    "made_to_hold": "made_to_hold",
    "unknown": "unchecked",
    "not_held": "not_usable",
}
SIDES = {"too_narrow": "narrower", "too_wide": "wider"}
IN_WORDS = ("lowest", "second", "third", "highest")
SHARES = "Rely on the share of outcomes inside, given for each quarter, rather than on the nominal level."


def chance_range(level: float, rows: int) -> tuple[float, float]:
    """Find the central 95% range of the share of outcomes inside, each with probability `level`."""
    cumulative = bdtr(np.arange(rows + 1), rows, level)
    low, high = np.searchsorted(cumulative, [0.025, 0.975])
    return float(low / rows), float(high / rows)


def made_to_hold(rows: int, level: float = LEVEL, *, noun: str = "held-out rows") -> dict[str, Any]:
    """Say of intervals that rows calibrated how many new outcomes they hold; it stands for a verdict.

    Parameters
    ----------
    rows
        Number of rows that calibrated, or of groups that count once each.
    level
        Level of the intervals.
    noun
        What they are, in the plural.

    Returns
    -------
    dict
        ``verdict``, "made_to_hold"; ``level`` and ``rows``; ``observed``, None, as these rows are no
        evidence; ``expected``, the share of new rows inside, with the central 95% range of its law,
        Beta(k, rows + 1 - k) (``lower``, ``upper``); ``text``, the same in a sentence; ``others``,
        ``advice``, ``reasons``, ``refused`` and ``by``, all without content

    """
    inside = gaps_inside(rows, level, of_classes=False)
    lower, upper = (float(betaincinv(inside, rows + 1 - inside, q)) for q in (0.025, 0.975))
    expected = inside / (rows + 1)
    text = (
        f"Intervals are made to hold by {number_to_text(rows)} {noun}: of new rows like these "
        f"{expected:.0%} ({100 * lower:.0f} to {100 * upper:.0f}) are inside, on average over rows."
    )
    figures = {"level": level, "rows": rows, "observed": None, "expected": expected}
    nothing: dict[str, Any] = {"others": None, "advice": None, "reasons": [], "refused": [], "by": []}
    return {"verdict": "made_to_hold", **figures, "lower": lower, "upper": upper, "text": text, **nothing}


def judged(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Judge shares of outcomes inside intervals.

    Parameters
    ----------
    figures
        ``rows``, ``overall`` and ``by`` as `interval_verdict` returns them; ``units`` where groups count
        once. A whole verdict of an earlier version is judged anew, but for groups; one that lacks shares, or
        was made by this rule, is returned as it is.

    Returns
    -------
    dict
        The figures, with ``verdict``, ``text``, ``others``, ``reasons`` and ``refused`` as `interval_verdict`
        describes them; of an earlier one with ``advice``, which doesn't name a choice that has been made

    """
    report = dict(figures)
    before = report.get("verdict")
    shares = {round(each["level"], 9): each for each in report.get("overall") or ()}
    if "refused" in report or LEVEL not in shares or (before is not None and "units" in report):
        return report
    rows, units = report["rows"], report.get("units")
    if rows < FEWEST_ROWS or (units is not None and units < FEWEST_UNITS):
        few, least = f"{counted(rows, 'held-out row')} are too few", f"{FEWEST_ROWS}"
        if units is not None:
            few = f"{counted(units, 'held-out group')} ({counted(rows, 'row')}) are too few"
            least = f"{FEWEST_UNITS} groups"
        text = f"{LEVEL:.0%} intervals: unchecked, {few} ({least} are needed)."
        nothing: dict[str, Any] = {"others": None, "reasons": [], "refused": []}
        return report | {"verdict": "unknown", "text": text, "advice": None} | nothing
    at, refused = shares[LEVEL], _refused(report["by"])
    general = _fault(at, TOLERANCE)
    p = at.get("p", chance_of(at["observed"] * rows, rows, _expected(at)))
    if p >= (CHANCE_OF_ALL if units is None else CHANCE):  # how alike rows of a group are is uncertain too
        general = None
    if general is not None:  # the fault of some quarters alone, or of the model
        apart = [each for each in refused if each.rest is not None and abs(each.rest) <= TOLERANCE]
        partial = [each for each in refused if each.rest is not None]
        general, refused = (None, apart[:1]) if apart else (general, partial[:1])
    wholly = any(each.rest is None for each in refused)
    reasons: list[dict[str, Any]] = [] if general is None else [{"code": general, "feature": None}]
    reasons += [{"code": "uneven", "feature": each.feature} for each in refused]
    failing = [part for each in refused for part in each.quarters]
    report |= {
        "verdict": "not_held" if general or wholly else "held",
        "text": _sentence(at, report, general, failing, everywhere=wholly),
        "others": _of_others([each for level, each in shares.items() if level != LEVEL]),
        "reasons": reasons,
        "refused": failing,
    }
    if before is not None:
        advice = report.get("advice") or SHARES
        report["advice"] = (SHARES if "noise=forest" in advice else advice) if reasons else None
    return report


def judged_anew(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores whose verdict on intervals, if there is one, is by today's rule."""
    verdict = scores.get("intervals_verdict")
    return {**scores, "intervals_verdict": judged(verdict)} if verdict else dict(scores)


def chance_of(inside: float, rows: float, expected: float) -> float:
    """Compute twice the probability that by chance as few of `rows` are inside, or as many where more are.

    Independent rows may be a part of their number: the binomial law's tail is then the beta law's.
    """
    if inside < rows * expected:
        return min(1.0, float(2 * betainc(rows - inside, inside + 1, 1 - expected)))
    return min(1.0, float(2 * betainc(inside, rows - inside + 1, expected))) if inside else 1.0


def _expected(share: Mapping[str, Any]) -> float:
    """Return what the law expects of a share; figures of earlier versions have none."""
    return float(share.get("expected", share["level"]))


def _fault(share: Mapping[str, Any], tolerance: float) -> str | None:
    """Tell whether intervals of a level are too wide or too narrow, beyond a tolerance and chance."""
    gap = share["observed"] - _expected(share)
    if abs(gap) <= tolerance or share["lower"] <= share["observed"] <= share["upper"]:
        return None
    return "too_wide" if gap > 0 else "too_narrow"


@dataclass(frozen=True, eq=False, repr=False)
class RefusedQuarter(Document):
    """A quarter of the held-out rows in which intervals are too wide or too narrow."""

    code: Literal["too_wide", "too_narrow"]
    feature: Annotated[str | None, "By which rows are divided; null: the prediction."]
    where: Annotated[str, "The same in words."]
    low: Annotated[float | None, "Its ends; null is open."]
    high: float | None
    rows: int
    observed: Annotated[float, "The share of outcomes inside."]


@dataclass(frozen=True)
class _Refused:
    """Quarters to refuse by one feature, or by the prediction (None)."""

    feature: str | None
    quarters: list[RefusedQuarter]
    p: float  # of the least probable one, times the number of comparisons
    rest: float | None  # by how much the share of the other rows inside is off; None where all fail


def _refused(by: Sequence[Mapping[str, Any]]) -> list[_Refused]:
    """List quarters to refuse by what they are of, the worst first."""
    features = sum(each["feature"] is not None for each in by)
    found = []
    for each in by:
        name, rest, least = each["feature"], [], 1.0
        failing: list[RefusedQuarter] = []
        compared = 1 if name is None else each.get("compared", features * len(each["quarters"]))
        for place, part in enumerate(each["quarters"]):
            gap, rows = part["observed"] - _expected(part), part["rows"]
            p = compared * part.get("p", chance_of(part["observed"] * rows, rows, _expected(part)))
            if -NARROWER - 1e-9 <= gap <= WIDER + 1e-9 or p >= CHANCE:
                rest.append((gap, rows))
                continue
            of = f"in the {IN_WORDS[place]} quarter of {name or 'the prediction'}"
            figures = {key: part[key] for key in ("low", "high", "rows", "observed")}
            where = part.get("where", of)
            failing.append(RefusedQuarter("too_wide" if gap > 0 else "too_narrow", name, where, **figures))
            least = min(least, p)
        if failing:
            off = sum(gap * rows for gap, rows in rest) / sum(rows for _, rows in rest) if rest else None
            found.append(_Refused(name, failing, least, off))
    return sorted(found, key=lambda each: each.p)[:NAMED]


def _sentence(
    at: Mapping[str, Any],
    report: Mapping[str, Any],
    general: str | None,
    failing: Sequence[Mapping[str, Any]],
    *,
    everywhere: bool,
) -> str:
    rows, its = report["rows"], f"{LEVEL:.0%} intervals"
    shares = [
        part["observed"] for each in report["by"] if each["feature"] is None for part in each["quarters"]
    ]
    ends = sorted({f"{100 * share:.0f}" for share in (min(shares), max(shares))}, key=int) if shares else []
    word = "by" if len(ends) > 1 else "in each"
    spread = f", {' to '.join(ends)}% {word} quarter of the prediction" if ends else ""
    chance = f"chance: {100 * at['lower']:.0f} to {100 * at['upper']:.0f}"
    if abs(_expected(at) - LEVEL) >= 0.005:
        chance = f"expected: {_expected(at):.0%}, {chance}"
    groups = f" in {report['units']} groups" if report.get("units", rows) != rows else ""
    counted_rows = f"{number_to_text(rows)} held-out rows{groups}"
    evidence = f"Of {counted_rows} {at['observed']:.0%} are inside ({chance}){spread}."
    places = ", ".join(
        f"{code.replace('_', ' ')} {' and '.join(own)}"
        for code in SIDES
        if (own := [_place(each) for each in failing if each["code"] == code])
    )
    if general is not None:
        return f"{its}: not usable, {general.replace('_', ' ')}. {evidence}" + (
            f" They are {places}." if places else ""
        )
    if everywhere:
        return f"{its}: not usable, {places}. {evidence}"
    if places:
        return f"{its} are {places}; the others hold. {evidence}"
    return f"{its}: usable. {evidence}"


def _place(quarter: Mapping[str, Any]) -> str:
    return f"{quarter['where']} ({quarter['observed']:.0%} of {number_to_text(quarter['rows'])} rows inside)"


def _of_others(shares: Sequence[Mapping[str, Any]]) -> str | None:
    """Say which intervals of other levels hold more or less than they say."""
    sentences = []
    for code, side in SIDES.items():
        own = [
            f"{each['level']:.0%} intervals hold {each['observed']:.0%}"
            for each in shares
            if _fault(each, WORTH_A_WORD) == code
        ]
        sentences += [f"{', '.join(own)}: {side} than they say."] if own else []
    return " ".join(sentences) or None
