"""A verdict on predictive intervals, by held-out rows: how many are inside, of all and where.

Rows are compared in quarters of the prediction and of each numeric feature; what is refused is
`sampler.posterior.verdict.intervals`'s. Rows of one subject or site resemble each other, and count for less
than as many others: where new rows are of other groups, as many rows as would vary as much (Kish 1965).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.binning import MISSING
from sampler.data.scalars import days_to_text, number_to_text
from sampler.data.schema import OF_LEVELS
from sampler.data.target import point_mass
from sampler.families import FAMILIES
from sampler.noise import CONSTANT
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.verdict.intervals import LEVEL, SHARES, chance_of, chance_range, judged

if TYPE_CHECKING:
    from sampler.posterior.laws.law import Law

LEVELS = (0.5, 0.8, LEVEL, 0.95)
SHOWN = 10  # features whose quarters are given: those that differ most


@dataclass(frozen=True)
class Groups:
    """Rows in up to four groups of about equal size, by one quantity."""

    name: str | None  # name of the feature; None for the prediction
    number: NDArray[np.intp]  # number of each row's group, -1 for none
    edges: list[float]  # between neighbouring groups
    show: Callable[[float], str]

    def where(self, group: int) -> str:
        """Describe the rows of a group in words."""
        edges, name = self.edges, self.name or "the prediction"
        if group == 0:
            return f"where {name} is at most {self.show(edges[0])}"
        if group == len(edges):
            return f"where {name} is above {self.show(edges[-1])}"
        return f"where {name} is from {self.show(edges[group - 1])} to {self.show(edges[group])}"


def interval_verdict(
    law: Law, rows: LabelledRows, mean: Floats, inside: NDArray[np.bool_], expected: Floats
) -> dict[str, Any]:
    """Judge predictive intervals by rows with known outcomes, whose groups count once where they have some.

    Parameters
    ----------
    law
        Law of numbers, of a fit without these rows.
    rows
        The rows and their outcomes.
    mean
        float64 [row], the predictive mean, in units of the outcome.
    inside
        bool [level, row], whether the outcome is inside the interval of each of `LEVELS`.
    expected
        float64 [level, row], the probability of that by the law: the level, or more where values have one.

    Returns
    -------
    dict
        ``verdict``, "held", "not_held" or, with fewer than 40 rows or 30 groups, "unknown"; ``text``, the
        same in a sentence, ``others``, one on other levels or None, and ``advice`` (None without faults);
        ``refused``, the quarters in which the intervals fail though others hold, each with ``code``
        ("too_wide" or "too_narrow"), ``feature`` (None: the prediction), ``low``, ``high`` (None: open),
        ``where`` in words, ``rows`` and ``observed``; ``reasons``, each with ``code`` (one of these of all
        rows, or "uneven") and ``feature``; ``overall``, for each ``level`` the shares ``observed`` and
        ``expected`` and the 95% range (``lower``, ``upper``) that chance allows it; ``by``, the prediction
        and up to 10 features that differ most, each with its ``quarters``, of which each has the
        probability ``p`` of a share so far off, and ``compared``, the quarters by which p is multiplied

    """
    unit = None if rows.unit is None else np.unique(rows.unit, return_inverse=True)[1]
    report = verdict_of([*_groupings(law, rows, mean)] if len(mean) else [], inside, expected, unit)
    mass = point_mass(rows.y)
    if not report["reasons"] and (mass is None or report["others"] is None):
        return report | {"advice": None}
    return report | {"advice": _advice(report["reasons"], law, mass)}


def verdict_of(
    groupings: Sequence[Groups],
    inside: NDArray[np.bool_],
    expected: Floats,
    unit: NDArray[np.intp] | None = None,
) -> dict[str, Any]:
    """Judge by rows in groups as `interval_verdict` does, without advice; `unit` is numbered from 0."""
    alike = [0.0 if unit is None else likeness(each.astype(np.float64), unit) for each in inside]
    each_level = zip(LEVELS, inside, expected, alike, strict=True)
    overall = [_share(level, own, right, icc, unit) for level, own, right, icc in each_level]
    at = LEVELS.index(LEVEL)
    units = {} if unit is None else {"units": int(unit.max(initial=-1)) + 1}
    by = _compare(groupings, inside[at], expected[at], alike[at], unit)
    figures = {"level": LEVEL, "rows": inside.shape[1], **units, "overall": overall}
    report = judged(figures | {"by": by})
    shown = sorted(by[:SHOWN], key=lambda each: each["feature"] is not None)  # the prediction first
    return report | {"by": [] if report["verdict"] == "unknown" else shown}


def independent_rows(values: Floats, unit: NDArray[np.intp] | None) -> float:
    """Count the independent rows whose mean would vary as that of `values` [row] does, by groups `unit`.

    It is n / (1 + (sum n_k^2 / n - 1) icc), where icc is their `likeness`, and at least 0; n without groups.
    """
    if unit is None or len(values) < 2:
        return float(len(values))
    unit = np.unique(unit, return_inverse=True)[1]
    return len(values) / inflation(unit, likeness(values, unit))


def inflation(unit: NDArray[np.intp] | None, icc: float) -> float:
    """Compute by how much the variance of a mean is larger where rows of one unit are alike by `icc`."""
    if unit is None:
        return 1.0
    sizes = np.unique(unit, return_counts=True)[1].astype(np.float64)
    return 1 + float(np.sum(sizes**2) / np.sum(sizes) - 1) * min(max(icc, 0.0), 1.0)


def likeness(values: Floats, unit: NDArray[np.intp]) -> float:
    """Return the intra-class correlation of values [row] in groups, numbered from 0, by analysis of variance.

    1 for a single group, and 0 where each has one row.
    """
    count, sizes = len(values), np.bincount(unit)
    groups, squares = len(sizes), float(np.sum(sizes.astype(np.float64) ** 2))
    if groups in (1, count):
        return float(groups == 1)
    centred = values - values.mean()
    means = np.bincount(unit, centred) / sizes
    between = float(np.sum(sizes * means**2)) / (groups - 1)
    within = float(np.sum((centred - means[unit]) ** 2)) / (count - groups)
    typical = (count - squares / count) / (groups - 1)
    spread = between + (typical - 1) * within
    return float((between - within) / spread) if spread > 0 else 0.0


def _share(
    level: float, inside: NDArray[np.bool_], expected: Floats, icc: float, unit: NDArray[np.intp] | None
) -> dict[str, Any]:
    """Compare the share of some rows inside with what is expected, where rows of one unit are so alike."""
    rows, right, observed = len(inside), round(float(expected.mean()), 9), float(inside.mean())
    independent = rows / inflation(unit, icc)
    lower, upper = chance_range(right, int(independent))
    figures = {"level": level, "rows": rows, "observed": observed, "expected": right}
    p = chance_of(observed * independent, independent, right)
    return figures | {"lower": lower, "upper": upper, "p": p}


def _groupings(law: Law, rows: LabelledRows, mean: Floats) -> Iterator[Groups]:
    edges = np.unique(np.quantile(mean, [0.25, 0.5, 0.75]))
    yield Groups(None, np.searchsorted(edges, mean), edges.tolist(), number_to_text)
    schema, grid = law.schema, law.draws.header.grid
    for position, (j, _) in enumerate(schema.coded):
        column = schema.columns[j]
        if column.kind in OF_LEVELS:
            continue
        codes = rows.coded.codes[position]
        present = codes[codes != MISSING]
        last = len(grid.cuts[position])  # the code of the largest values: no cut is above them
        if not len(present):
            continue
        at = np.unique(np.quantile(present, [0.25, 0.5, 0.75], method="inverted_cdf")).astype(np.int64)
        at = at[at < min(last, int(present.max()))]  # no group is empty
        if len(at):
            number = np.where(codes == MISSING, -1, np.searchsorted(at, codes))
            show = days_to_text if column.kind == "date" else number_to_text
            yield Groups(column.name, number, grid.cuts[position][at].tolist(), show)


def _compare(
    groupings: Sequence[Groups],
    inside: NDArray[np.bool_],
    expected: Floats,
    icc: float,
    unit: NDArray[np.intp] | None,
) -> list[dict[str, Any]]:
    """Compare the rows of each group with what is expected, the groupings that differ most first."""
    compared = sum(len(each.edges) + 1 for each in groupings if each.name is not None)
    found = []
    for groups in groupings:
        ends, quarters = [None, *groups.edges, None], []
        for k in range(len(groups.edges) + 1):
            own = groups.number == k
            if not own.any():
                break
            share = _share(LEVEL, inside[own], expected[own], icc, None if unit is None else unit[own])
            quarters.append({"low": ends[k], "high": ends[k + 1], "where": groups.where(k)} | share)
        else:
            times = {"compared": 1 if groups.name is None else compared}
            found.append({"feature": groups.name, **times, "quarters": quarters})
    return sorted(found, key=lambda each: min(part["p"] for part in each["quarters"]))


def _advice(reasons: Sequence[Mapping[str, Any]], law: Law, mass: tuple[float, float] | None) -> str:
    """Say what to do about faults; noise and transform are one choice, and what the data chose stays so."""
    header = law.draws.header
    settings, family = header.settings, FAMILIES[str(header.settings.get("family", "gaussian"))]
    until = f"Until then: {SHARES[0].lower()}{SHARES[1:]}"
    if family.target == "counts" and not family.dispersed:
        return (
            "The variance of a Poisson count is its mean: fit again with a negative-binomial family, which "
            f"learns how far it exceeds it. {until}"
        )
    if mass is not None and family.target == "numbers" and not family.point:
        return (
            f"{mass[1]:.0%} of the outcomes are {number_to_text(mass[0])}, and predictions have no such "
            f"point mass. If {number_to_text(mass[0])} stands for a limit of what is measured, declare it "
            "(lower or upper); else fit again with family=hurdle, which learns whether an outcome is that. "
            f"{until}"
        )
    plain = settings.get("family", "gaussian") == "gaussian" and settings.get("method") == "bart"
    uneven = any(each["code"] == "uneven" for each in reasons)
    if uneven and plain and settings.get("noise", CONSTANT) == CONSTANT and header.transform:
        how = "is" if header.noise_choice is None else "was chosen"
        return (
            f"One sigma {how} beside transform={header.transform.kind}, and the two are one choice: fit "
            f"again with noise=auto and transform=none, and compare held-out scores. {until}"
        )
    if uneven and plain and settings.get("noise", CONSTANT) == CONSTANT and header.noise_choice is None:
        return (
            "The noise differs from row to row, and this model has a single sigma: fit again with "
            f"noise=forest, which learns it. {until}"
        )
    return SHARES
