"""A verdict on predictive intervals: whether they have their nominal coverage, everywhere, on held-out rows.

It rests on the probability integral transform u of each outcome under its predictive distribution (Dawid
1984; Gneiting, Balabdaoui and Raftery 2007). If the intervals are right, the level |2 u - 1| of the smallest
central interval that contains the outcome is uniform on (0, 1), whatever the row. Two hypotheses are tested:
that it is uniform over all rows (Kolmogorov and Smirnov), and that its distribution is the same in each
quarter of the prediction and of each numeric feature (Kruskal and Wallis 1952, Bonferroni's correction over
the features).

Rows of one subject or site resemble each other, and count for less than as many others. Where new rows are of
other groups, the first test is made with as many rows as would vary as much (Kish 1965), the second with a
covariance clustered by group (Liang and Zeger 1986) and degrees of freedom of the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, chdtrc, fdtrc, kolmogorov

from sampler.array_types import Floats
from sampler.data.binning import MISSING
from sampler.data.scalars import days_to_text, number_to_text
from sampler.data.target import point_mass
from sampler.families import FAMILIES
from sampler.posterior.assessment.labelled_rows import LabelledRows

if TYPE_CHECKING:
    from sampler.posterior.laws.law import Law

LEVEL = 0.9  # level of the intervals whose coverage is counted by group
LEVELS = (0.5, 0.8, LEVEL, 0.95)
FEWEST_ROWS = 40  # ten in a quarter
CHANCE = 0.005  # probability of a false alarm, for either test
FEWEST_UNITS = 30
CHANCE_OF_UNITS = 0.001  # of the second test with groups, whose size is up to five times that
LEAST_GAP = 0.03  # smallest reported difference between claimed and observed shares
SHOWN = 10  # features whose quarters are given: those that differ most
NAMED = 3  # features named in reasons


@dataclass(frozen=True)
class Groups:
    """Rows in up to four groups of about equal size, by one quantity."""

    name: str | None  # name of the feature; None for the prediction
    number: NDArray[np.intp]  # number of each row's group, -1 for none
    edges: list[float]  # between neighbouring groups
    show: Callable[[float], str]


@dataclass(frozen=True)
class Comparison:
    """Coverage by group: numbers of rows and of rows inside, `rows` and `inside` [group]."""

    groups: Groups
    rows: NDArray[np.int64]
    inside: NDArray[np.int64]
    counted: Floats  # independent rows that vary as much as those of each group
    p: float  # that they differ as much by chance, corrected for the number of comparisons
    chance: float = CHANCE

    @property
    def gaps(self) -> Floats:
        """Excess of each group's coverage over the level, 0 where chance allows it; float64 [group]."""
        gaps = np.zeros(len(self.rows))
        for k, (rows, inside) in enumerate(zip(self.rows, self.inside, strict=True)):
            low, high = chance_range(LEVEL, int(self.counted[k]))
            if not low <= inside / rows <= high:
                gaps[k] = inside / rows - LEVEL
        return gaps

    @property
    def is_worth_a_word(self) -> bool:
        """Whether it is beyond chance and large enough to matter."""
        return self.p < self.chance and bool(np.max(np.abs(self.gaps)) > LEAST_GAP)

    def where(self, group: int) -> str:
        """Describe the rows of a group in words."""
        edges, show = self.groups.edges, self.groups.show
        name = self.groups.name or "the prediction"
        if group == 0:
            return f"{name} is at most {show(edges[0])}"
        if group == len(edges):
            return f"{name} is above {show(edges[-1])}"
        return f"{name} is from {show(edges[group - 1])} to {show(edges[group])}"

    def to_json(self) -> dict[str, Any]:
        """Give the comparison as JSON values."""
        ends = [None, *self.groups.edges, None]
        return {
            "feature": self.groups.name,
            "p": self.p,
            "quarters": [
                {"low": ends[k], "high": ends[k + 1]} | _share(LEVEL, int(inside), int(rows), self.counted[k])
                for k, (rows, inside) in enumerate(zip(self.rows, self.inside, strict=True))
            ],
        }


def interval_verdict(law: Law, rows: LabelledRows, below: Floats, mean: Floats) -> dict[str, Any]:
    """Judge predictive intervals by rows with known outcomes, whose groups count once where they have some.

    Parameters
    ----------
    law
        Law of numbers, of a fit without these rows.
    rows
        The rows and their outcomes.
    below
        float64 [row], the predictive probability of an outcome at most as large as the row's.
    mean
        float64 [row], the predictive mean, in units of the outcome.

    Returns
    -------
    dict
        ``verdict``, "held", "not_held" or, with fewer than 40 rows or 30 groups, "unknown"; ``text``, the
        same in a sentence, and ``advice`` (None when held); ``reasons``, each with ``code`` ("too_wide",
        "too_narrow" or "uneven"), of the last with ``feature`` (None: the prediction); ``overall``, for each
        ``level`` the share ``observed`` and the 95% range (``lower``, ``upper``) that chance allows it;
        ``by``, the prediction and up to 10 features that differ most, each with ``p`` and its ``quarters``:
        ``low``, ``high`` (None: open), ``rows`` and the shares inside 90% intervals

    """
    level = np.abs(2.0 * below - 1.0)  # level of the smallest central interval that contains the outcome
    count = len(level)
    unit = None if rows.unit is None else np.unique(rows.unit, return_inverse=True)[1]
    overall = [_share_of(each, level <= each, unit) for each in LEVELS]
    report: dict[str, Any] = {"level": LEVEL, "rows": count, "overall": overall}
    units = count if unit is None else int(unit.max(initial=-1)) + 1
    if unit is not None:
        report["units"] = units
    if count < FEWEST_ROWS or units < (0 if unit is None else FEWEST_UNITS):
        few, least = (f"{count} held-out rows", FEWEST_ROWS)
        if unit is not None:
            few, least = f"{units} held-out groups ({count} rows)", FEWEST_UNITS
        text = f"{few} are too few to judge the intervals by: {least} are needed."
        return report | {"verdict": "unknown", "text": text, "advice": None, "reasons": [], "by": []}
    compared = _compare(level, [*_groupings(law, rows, mean)], unit)
    uneven = [each for each in compared if each.is_worth_a_word]
    general = _overall_fault(level, unit)
    reasons: list[dict[str, Any]] = [] if general is None else [{"code": general, "feature": None}]
    reasons += [{"code": "uneven", "feature": each.groups.name} for each in uneven[:NAMED]]
    selected = sorted(compared[:SHOWN], key=lambda each: each.groups.name is not None)  # the prediction first
    return report | {
        "verdict": "not_held" if reasons else "held",
        "text": _text(overall, general, uneven),
        "advice": _advice(general, uneven, law.draws.header.settings, point_mass(rows.y)),
        "reasons": reasons,
        "by": [each.to_json() for each in selected],
    }


def chance_range(level: float, rows: int) -> tuple[float, float]:
    """Find the central 95% range of the share of outcomes inside, each with probability `level`."""
    cumulative = bdtr(np.arange(rows + 1), rows, level)
    low, high = np.searchsorted(cumulative, [0.025, 0.975])
    return float(low / rows), float(high / rows)


def independent_rows(values: Floats, unit: NDArray[np.intp] | None) -> float:
    """Count the independent rows whose mean would vary as that of `values` [row] does, by groups `unit`.

    It is n / (1 + (sum n_k^2 / n - 1) icc), where icc is their `likeness`, and at least 0; n without groups.
    """
    count = len(values)
    if unit is None or count < 2:
        return float(count)
    unit = np.unique(unit, return_inverse=True)[1]
    sizes = np.bincount(unit)
    squares = float(np.sum(sizes.astype(np.float64) ** 2))
    if len(sizes) == count:
        return float(count)
    return float(count / (1 + (squares / count - 1) * min(max(likeness(values, unit), 0.0), 1.0)))


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


def _share_of(level: float, inside: NDArray[np.bool_], unit: NDArray[np.intp] | None) -> dict[str, Any]:
    counted = independent_rows(inside.astype(np.float64), unit)
    return _share(level, int(np.count_nonzero(inside)), len(inside), counted)


def _share(level: float, inside: int, rows: int, counted: float) -> dict[str, Any]:
    lower, upper = chance_range(level, int(counted))
    return {"level": level, "rows": rows, "observed": inside / rows, "lower": lower, "upper": upper}


def _groupings(law: Law, rows: LabelledRows, mean: Floats) -> Iterator[Groups]:
    edges = np.unique(np.quantile(mean, [0.25, 0.5, 0.75]))
    yield Groups(None, np.searchsorted(edges, mean), edges.tolist(), number_to_text)
    schema, grid = law.schema, law.draws.header.grid
    for position, (j, _) in enumerate(schema.coded):
        column = schema.columns[j]
        if column.kind == "category":
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


def _compare(level: Floats, groupings: list[Groups], unit: NDArray[np.intp] | None) -> list[Comparison]:
    """Compare each grouping's groups, those that differ most first."""
    rank = np.empty(len(level))
    rank[np.argsort(level, kind="stable")] = np.arange(1, len(level) + 1)
    comparisons = []
    for groups in groupings:
        members = groups.number >= 0
        number, ranks = groups.number[members], rank[members]
        rows = np.bincount(number, minlength=len(groups.edges) + 1)
        inside = np.bincount(number, level[members] <= LEVEL, len(rows)).astype(np.int64)
        if np.any(rows == 0):
            continue
        if unit is None:
            centred = ranks - ranks.mean()
            between = np.sum(np.bincount(number, centred) ** 2 / rows)
            statistic = float(between) / max(float(centred.var(ddof=1)), 1e-300)
            p, counted, chance = float(chdtrc(len(rows) - 1, statistic)), rows.astype(np.float64), CHANCE
        else:
            statistic, p = _clustered_test(ranks, number, unit[members])
            of_row = (level[members] <= LEVEL).astype(np.float64)
            mine = [number == k for k in range(len(rows))]
            counted = np.array([independent_rows(of_row[each], unit[members][each]) for each in mine])
            chance = CHANCE_OF_UNITS
        p = min(1.0, p * len(groupings))
        comparisons.append((statistic, Comparison(groups, rows, inside, counted, p, chance)))
    return [each for _, each in sorted(comparisons, key=lambda pair: (pair[1].p, -pair[0]))]


def _clustered_test(values: Floats, number: NDArray[np.intp], unit: NDArray[np.intp]) -> tuple[float, float]:
    """Test whether values have one mean in all groups `number`; return the statistic and its p value.

    It is Wald's, with the sandwich covariance by units (CR1), against F with degrees of freedom of the units.
    """
    groups, units = int(number.max()) + 1, int(np.unique(unit).size)
    free = groups - 1
    if free == 0 or units <= free + 1:
        return 0.0, 1.0
    design = np.column_stack([np.ones(len(values)), *(number == k for k in range(1, groups))]).astype(float)
    bread = np.linalg.pinv(design.T @ design)
    beta = bread @ (design.T @ values)
    moments = np.zeros((int(unit.max()) + 1, groups))
    np.add.at(moments, unit, design * (values - design @ beta)[:, None])
    correction = units / (units - 1) * (len(values) - 1) / max(len(values) - groups, 1)
    covariance = correction * bread @ (moments.T @ moments) @ bread
    differences = beta[1:]
    wald = float(differences @ np.linalg.pinv(covariance[1:, 1:]) @ differences)
    statistic = wald / free * (units - free) / (units - 1)
    return statistic, float(fdtrc(free, units - free, statistic))


def _overall_fault(level: Floats, unit: NDArray[np.intp] | None) -> str | None:
    """Tell whether all intervals together are too wide or too narrow, beyond chance and by over 3 points."""
    ordered = np.sort(level)
    steps = np.arange(len(level) + 1) / len(level)
    above, beneath = np.max(steps[1:] - ordered), np.max(ordered - steps[:-1])
    gap = max(above, beneath)
    if gap <= LEAST_GAP or kolmogorov(np.sqrt(independent_rows(level, unit)) * gap) >= CHANCE:
        return None
    return "too_wide" if above > beneath else "too_narrow"


def _text(overall: list[dict[str, Any]], general: str | None, uneven: list[Comparison]) -> str:
    held = ", ".join(f"{share['level']:.0%} intervals contain {share['observed']:.1%}" for share in overall)
    if general is None and not uneven:
        return (
            f"The intervals cover what they claim, overall and in every group of rows examined: of "
            f"{overall[0]['rows']} held-out outcomes {held}."
        )
    sentences = []
    if uneven:
        worst = uneven[0]
        parts = [
            f"{'too wide' if gap > 0 else 'too narrow'} where {worst.where(k)} "
            f"({worst.inside[k] / worst.rows[k]:.1%} of outcomes inside)"
            for k, gap in enumerate(worst.gaps)
            if abs(gap) > LEAST_GAP
        ]
        sentences.append(f"90% intervals are {', '.join(parts)}.")
        others = [each.groups.name or "the prediction" for each in uneven[1:NAMED]]
        if others:
            sentences.append(f"They are uneven by {' and by '.join(others)} too.")
    if general is not None:
        sentences.append(f"Overall the intervals are {general.replace('_', ' ')}: {held}.")
    return " ".join(sentences)


def _advice(
    general: str | None,
    uneven: list[Comparison],
    settings: Mapping[str, Any],
    mass: tuple[float, float] | None,
) -> str | None:
    shares = "Rely on the share of outcomes inside, given for each quarter, rather than on the nominal level."
    family = FAMILIES[str(settings.get("family", "gaussian"))]
    if family.target == "counts" and not family.dispersed and (uneven or general is not None):
        return (
            "The variance of a Poisson count is its mean: fit again with a negative-binomial family, which "
            f"learns how far it exceeds it. Until then: {shares[0].lower()}{shares[1:]}"
        )
    has_none = family.target == "numbers" and not family.point
    if mass is not None and has_none and (uneven or general is not None):
        return (
            f"{mass[1]:.0%} of the outcomes are {number_to_text(mass[0])}, and predictions have no such "
            f"point mass. If {number_to_text(mass[0])} stands for a limit of what is measured, declare it "
            "(lower or upper); else fit again with family=hurdle, which learns whether an outcome is that. "
            f"Until then: {shares[0].lower()}{shares[1:]}"
        )
    plain = settings.get("family", "gaussian") == "gaussian" and settings.get("method") == "bart"
    if uneven and plain and settings.get("noise", "constant") == "constant":
        return (
            "The noise differs from row to row, and this model has a single sigma: fit again with "
            f"noise=forest, which learns it. Until then {shares[0].lower()}{shares[1:]}"
        )
    if uneven:
        return shares
    if general is not None:
        return "Rely on the share of held-out outcomes inside, given for each level, not on the level itself."
    return None
