"""Contrasts: how predictions differ between two settings of some columns, row by row and on average."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Bools, Codes, Floats
from sampler.data.binning import MISSING
from sampler.data.encode import Coded, numbers
from sampler.data.scalars import as_text, days_to_text, number_to_text
from sampler.data.table import RawColumn
from sampler.errors import SettingsError, unknown_feature
from sampler.posterior.core.intervals import equal_tailed, middle_of
from sampler.posterior.core.progress import track
from sampler.posterior.explanations.partial_dependence import codes_of
from sampler.posterior.predicting import few_note
from sampler.posterior.results.contrasts import Contrast, ContrastEstimate
from sampler.storage.model_header import Header

MAX_CELLS = 1 << 21  # draws times rows of a block: 16 MB for each of a few arrays
FEWEST_ALIKE = 10  # fewest training rows with a setting for which others can be compared with them
NEAR = 0.1  # a number is near a setting if at most this share of the cut points lies between
USUAL_SHARE = 0.05  # share of rows that are unlike the others by chance
MOST_GROUPS, MOST_COLUMNS = 50, 2
By = str | Sequence[str] | Mapping[str, Sequence[float] | None]  # columns, or cut points by name
QUARTERS = ("lowest quarter", "second quarter", "third quarter", "highest quarter")


@dataclass(frozen=True)
class ContrastWish:
    """Request for a contrast: two settings of the same columns, the column of the groups, and the level."""

    first: Mapping[str, Any]
    second: Mapping[str, Any]
    by: str | None
    level: float


def contrast(
    header: Header,
    f: Callable[[Coded], Floats],
    coded: Coded,
    shares: Floats,
    request: ContrastWish,
) -> Contrast:
    """Compute a contrast with intervals over draws.

    Parameters
    ----------
    header
        Header of the model.
    f
        Function from rows to draws of f, float64 [draw, row(, class)].
    coded
        Rows.
    shares
        float64 [column], by which differences in a column count where rows are compared: their share of the
        split rules.
    request
        The settings, the groups and the level.

    Returns
    -------
    Contrast
        Differences by row, on average, and by group, with intervals.

    Raises
    ------
    SettingsError
        For unknown columns, different columns in the two settings, and a column that has no groups.
    DataError
        For values that can't be converted to the column's kind.

    """
    names = [column.name for column in header.schema.columns]
    codes = coded.codes
    _check(request, names)
    if not coded.num_rows:
        raise SettingsError("X: there must be at least one row", field="X", code="not_accepted")
    first, second = (_with(header, coded, setting) for setting in (request.first, request.second))
    chosen = [i for i, (j, _) in enumerate(header.schema.coded) if names[j] in request.first]
    parts = {
        "": np.ones(codes.shape[1], bool),
        "treated": np.all(codes[chosen] == first.codes[chosen], axis=0),
    }
    groups = {} if request.by is None else groups_by(header, coded, request.by)
    parts |= {f"group {name}": rows for name, rows in groups.items()}
    averages = Averages(parts, bounded=bool(header.schema.target.levels))

    def difference(rows: slice) -> Floats:
        return f(first.part(rows)) - f(second.part(rows))

    mean, lower, upper = averages.fill(difference, coded.num_rows, request.level)
    estimates = {name: averages.estimate(name, request.level) for name in averages.parts}
    near = [_rows_near(header, setting) for setting in (request.first, request.second)]
    unlike = tuple(_unlike(header, codes, chosen, rows, shares) for rows in near)
    return Contrast(
        mean=mean,
        lower=lower,
        upper=upper,
        average=estimates[""],
        population=averages.population(request.level),
        treated=estimates["treated"] if parts["treated"].any() else None,
        groups={name: estimates[f"group {name}"] for name, rows in groups.items() if rows.any()},
        unlike=(unlike[0], unlike[1]),
        level=request.level,
        difference=_in_words(header, request),
        warnings=coded.warnings
        + few_note(averages.by_few, "figure", sd="")
        + [
            warning
            for setting, rows, strange in zip((request.first, request.second), near, unlike, strict=True)
            for warning in _warnings(setting, int(rows.sum()), len(rows), strange)
        ],
        classes=header.schema.target.levels or None,
        labels=coded.labels,
    )


class Averages:
    """Averages over parts of the rows and over Bayesian-bootstrap weights, by draw, filled block by block.

    Parameters
    ----------
    parts
        Rows of each part by its name, bool [row]; "" is that of all.
    every
        Whether each part has an average over the population that its rows are a sample of, or only "".
    chains
        Number of chains that the draws are of.
    bounded
        Whether values are bounded, as probabilities are.

    """

    def __init__(
        self,
        parts: dict[str, NDArray[np.bool_]],
        *,
        every: bool = False,
        chains: int = 1,
        bounded: bool = False,
    ) -> None:
        self.parts, self.chains, self._bounded = parts, chains, bounded
        self._totals: dict[str, Floats] = {}
        self._weighted: dict[str, Floats] = dict.fromkeys(parts if every else [""], np.zeros(0))
        self._weights: dict[str, Floats] = {}
        self._squares: Floats = np.zeros(0)  # summed over all rows, by draw
        self.by_few = 0  # figures whose mean a few draws decide: their median is given

    def fill(
        self, values: Callable[[slice], Floats], num_rows: int, level: float
    ) -> tuple[Floats, Floats, Floats]:
        """Evaluate all rows; return mean, lower and upper ends of each, float64 [row(, class)]."""
        rng = np.random.default_rng(0)  # equal requests get equal answers
        draws = values(slice(0, 1))
        several = draws.shape[2:]
        mean, lower, upper = (np.empty((num_rows, *several)) for _ in range(3))
        self._totals = {name: np.zeros((len(draws), *several)) for name in self.parts}
        self._weights = {name: np.zeros(len(draws)) for name in self._weighted}
        self._weighted = {name: np.zeros((len(draws), *several)) for name in self._weighted}
        self._squares = np.zeros((len(draws), *several))
        width = max(16, MAX_CELLS // draws[:, 0].size)
        for start in track(range(0, num_rows, width), "contrast"):
            rows = slice(start, min(start + width, num_rows))
            difference = values(rows)
            self._squares += np.einsum("dr...,dr...->d...", difference, difference)
            lower[rows], upper[rows] = equal_tailed(difference, level)
            mean[rows] = self._middle(difference, lower[rows], upper[rows])
            for name, part in self.parts.items():
                self._totals[name] += difference[:, part[rows]].sum(axis=1)
            weights = rng.standard_exponential(
                difference.shape[:2]
            )  # normalised they are Dirichlet(1, .., 1)
            for name in self._weighted:
                own, of_part = (
                    (weights, difference)
                    if name == ""
                    else (each[:, self.parts[name][rows]] for each in (weights, difference))
                )
                self._weighted[name] += np.einsum("dr...,dr->d...", of_part, own)
                self._weights[name] += own.sum(axis=1)
        return mean, lower, upper

    def widen(self, factors: Mapping[str, float]) -> None:
        """Move the draws of parts' averages apart from their means, by the factor of each part."""
        for name, factor in factors.items():
            for totals, size in ((self._totals, 1.0), (self._weighted, self._weights.get(name, 1.0))):
                if name in totals:
                    own = totals[name] / size
                    totals[name] = size * (own.mean(axis=0) + factor * (own - own.mean(axis=0)))

    def draws(self, name: str) -> Floats:
        """Return draws of the average over a part of the rows, float64 [draw(, class)]; NaN without rows."""
        rows = int(self.parts[name].sum())
        return self._totals[name] / rows if rows else np.full(1, np.nan)

    def by_chain(self, name: str) -> Floats:
        """Return the same draws of a number, float64 [chain, draw]."""
        return self.draws(name).reshape(self.chains, -1)

    def spread(self) -> Floats:
        """Return draws of the standard deviation over all rows, float64 [draw(, class)]."""
        own = self._squares / int(self.parts[""].sum()) - self.draws("") ** 2
        return np.asarray(np.sqrt(np.maximum(own, 0.0)))

    def estimate(self, name: str, level: float) -> ContrastEstimate:
        """Average over a part of the rows; NaN for one without rows."""
        return self._estimate(self.draws(name), int(self.parts[name].sum()), level)

    def population(self, level: float, name: str = "") -> ContrastEstimate:
        """Average over the population that the rows of a part are a sample of."""
        weighted = self._weighted[name]
        weights = self._weights[name].reshape(-1, *[1] * (weighted.ndim - 1))
        return self._estimate(weighted / weights, int(self.parts[name].sum()), level)

    def _estimate(self, draws: Floats, rows: int, level: float) -> ContrastEstimate:
        lower, upper = equal_tailed(draws, level)
        return ContrastEstimate(self._middle(draws, lower, upper), lower, upper, rows)

    def _middle(self, draws: Floats, lower: Floats, upper: Floats) -> Floats:
        mean, few = middle_of(draws, lower, upper, bounded=self._bounded)
        self.by_few += int(few.sum())
        return mean[()]  # a number where there is one figure


def _check(request: ContrastWish, names: Sequence[str]) -> None:
    for which, setting in (("first", request.first), ("second", request.second)):
        unknown = [name for name in setting if name not in names]
        if unknown:
            raise unknown_feature(which, unknown[0], names)
    if not request.first or set(request.first) != set(request.second):
        raise SettingsError(
            "second: the two settings must give values to the same features, at least one",
            field="second",
            code="not_accepted",
        )
    if request.by in request.first:
        raise SettingsError(
            f"by: {request.by!r} has the same value in all rows of a setting",
            field="by",
            code="not_applicable",
        )


def _with(header: Header, coded: Coded, setting: Mapping[str, Any]) -> Coded:
    """Return the rows with the setting's values."""
    changed = coded.codes.copy()
    values = None if coded.values is None else coded.values.copy()
    for name, value in setting.items():
        positions, codes, own = codes_of(header, _index(header, name), [value])
        changed[positions] = codes
        if values is not None:
            values[positions] = own
    return coded.changed(changed, values)


def _index(header: Header, name: str) -> int:
    return [column.name for column in header.schema.columns].index(name)


def groups_by(header: Header, coded: Coded, by: str) -> dict[str, NDArray[np.bool_]]:
    """Divide rows by a column: by level, or a number or date by its quarters in the training rows.

    It is a feature or a column of groups; rows without a value of it, or with a new one, are a group too.

    Raises SettingsError for any other column, and for one of too many levels.
    """
    columns = [*header.schema.columns, *header.schema.groups]
    names = [column.name for column in columns]
    if by not in names:
        raise unknown_feature("by", by, names)
    index = names.index(by)
    levels: list[Any] = [False, True] if columns[index].kind == "boolean" else [*columns[index].levels]
    if columns[index].kind == "encoded":  # by quarters of its means
        levels = []
    if len(levels) > MOST_GROUPS:
        raise SettingsError(
            f"by: {by!r} has {len(levels)} levels, more than {MOST_GROUPS}", field="by", code="too_large"
        )
    if coded.groups is not None and index >= len(header.schema.columns):
        own = coded.groups[index - len(header.schema.columns)]
        groups = {str(level): own == k for k, level in enumerate(levels)}
    else:
        groups = _groups_by_feature(header, coded.codes, index, levels)
    if (rest := ~np.any([*groups.values()], axis=0)).any():
        name = "missing" if by not in coded.unseen else "missing or new"
        groups[name if name not in groups else "without a value"] = rest
    return groups


def groups_of(
    header: Header,
    coded: Coded,
    by: By,
    beside: Mapping[str, RawColumn],
) -> dict[str, NDArray[np.bool_]]:
    """Divide rows by one column as `groups_by`, by two, or by cut points of numbers.

    A row at a cut point is below it, as it is in the trees: between two values of the fit it is exact.
    `beside` has columns of the rows that the model doesn't have, by name.

    Raises SettingsError as `groups_by`, and for other numbers of columns and cut points that don't rise.
    """
    asked = (
        {by: None}
        if isinstance(by, str)
        else dict(by)
        if isinstance(by, Mapping)
        else dict.fromkeys(by)
        if isinstance(by, list | tuple)
        else {}
    )
    if not 1 <= len(asked) <= MOST_COLUMNS or not all(isinstance(name, str) for name in asked):
        message = f"by: name one column, or {MOST_COLUMNS}, as text, a list or cut points by name, not {by!r}"
        raise SettingsError(message, field="by", code="not_accepted")
    each = [
        _groups_by_values(beside[name], cuts)
        if name in beside
        else groups_by(header, coded, name)
        if cuts is None
        else _between(header, coded, name, cuts)
        for name, cuts in asked.items()
    ]
    if len(each) == 1:
        return each[0]
    first, second = asked
    crossed = {
        f"{first} {one}, {second} {other}": rows & others
        for one, rows in each[0].items()
        for other, others in each[1].items()
        if (rows & others).any()
    }
    if len(crossed) > MOST_GROUPS:
        message = f"by: {first} and {second} make {len(crossed)} groups, more than {MOST_GROUPS}"
        raise SettingsError(message, field="by", code="too_large")
    return crossed


def _between(header: Header, coded: Coded, name: str, cuts: Sequence[float]) -> dict[str, NDArray[np.bool_]]:
    """Divide rows by the cut points of a feature of numbers."""
    columns = header.schema.columns
    if name not in (names := [column.name for column in columns]):
        raise unknown_feature("by", name, names)
    points, labels = _cuts_of(name, cuts, columns[names.index(name)].kind)
    (position,) = (i for i, (j, _) in enumerate(header.schema.coded) if j == names.index(name))
    own = coded.codes[position]
    part = np.searchsorted(header.grid.encode(position, np.array(points, float)), own)
    return _with_missing({label: part == k for k, label in enumerate(labels)}, own == MISSING)


def _cuts_of(name: str, cuts: Any, kind: str) -> tuple[list[float], list[str]]:
    """Check cut points of a column, and name the parts between them; raise SettingsError."""
    points = [*cuts] if isinstance(cuts, list | tuple) else []
    numbers_only = all(isinstance(each, int | float) and math.isfinite(each) for each in points)
    rising = numbers_only and all(low < high for low, high in pairwise(points))
    if kind != "number" or not rising or not 0 < len(points) < MOST_GROUPS:
        message = (
            f"by: cut points are of a feature of numbers and rise, at most {MOST_GROUPS - 1}, such as "
            f"[40, 60], not {cuts!r} of {name!r}"
        )
        raise SettingsError(message, field="by", code="not_accepted")
    return points, _limits(points)


def _limits(points: Sequence[float], *, of_dates: bool = False) -> list[str]:
    """Name the parts that points divide numbers, or days, into; a point is the upper end of its part."""
    show = days_to_text if of_dates else number_to_text
    ends = ["", *(show(point) if math.isfinite(point) else "" for point in points), ""]
    return [
        ", ".join([f"above {low}"] * bool(low) + [f"up to {high}"] * bool(high))
        for low, high in pairwise(ends)
    ]


def _with_missing(groups: dict[str, Bools], missing: Bools) -> dict[str, Bools]:
    """Leave rows without a value out of groups; they are one of their own."""
    found = {name: rows & ~missing for name, rows in groups.items()}
    return found | (
        {"missing" if "missing" not in groups else "without a value": missing} if missing.any() else {}
    )


def _groups_by_values(column: RawColumn, cuts: Sequence[float] | None) -> dict[str, Bools]:
    """Divide rows by the values of a column that the model doesn't have: numbers by their own quarters."""
    if cuts is not None:
        points, labels = _cuts_of(column.name, cuts, column.type)
    numbers = column.numbers
    if numbers is None or column.type == "boolean":
        cells = column.cells or [
            None if np.isnan(each) else bool(each) for each in ([] if numbers is None else numbers)
        ]
        index, levels = RawColumn(column.name, "text", cells=cells).labelled
        if len(levels) > MOST_GROUPS:
            raise SettingsError(
                f"by: {column.name!r} has {len(levels)} levels, more than {MOST_GROUPS}",
                field="by",
                code="too_large",
            )
        known = {name: place for place, name in enumerate(column.levels)}
        in_order = sorted(range(len(levels)), key=lambda k: (known.get(levels[k], len(known)), levels[k]))
        return _with_missing({levels[k]: index == k for k in in_order}, index < 0)
    present = numbers[~np.isnan(numbers)]
    if cuts is None:
        points = quarters(present).tolist()
        labels = _of_quarters(_limits(points, of_dates=column.type == "date"))
    part = np.searchsorted(points, numbers)
    return _with_missing({label: part == k for k, label in enumerate(labels)}, np.isnan(numbers))


def quarters(present: NDArray[Any]) -> NDArray[Any]:
    """Return the upper ends of three quarters of values."""
    return np.quantile(present, [0.25, 0.5, 0.75], method="inverted_cdf") if len(present) else np.zeros(3)


def _groups_by_feature(
    header: Header, codes: Codes, index: int, levels: list[Any]
) -> dict[str, NDArray[np.bool_]]:
    """Divide rows by a feature: by its levels, or by quarters where it has none."""
    positions = [i for i, (j, _) in enumerate(header.schema.coded) if j == index]
    own = codes[positions]
    if levels:
        _, of_levels, _ = codes_of(header, index, levels)
        return {str(level): np.all(own == of_levels[:, [k]], axis=0) for k, level in enumerate(levels)}
    (reference,) = header.reference[positions]
    present = reference[reference != MISSING]
    points, kind = quarters(present), header.schema.columns[index].kind
    if kind == "encoded":
        labels = [f"{name} of its means" for name in QUARTERS]
    else:  # a code stands for values up to its cut point; the last one has none
        cuts = np.append(header.grid.cuts[positions[0]], np.inf)
        if kind == "date" and np.all(2 * cuts[:-1] % 1 == 0):  # halfway between whole days
            cuts = np.floor(cuts)
        labels = _of_quarters(_limits(cuts[points.astype(np.int64)].tolist(), of_dates=kind == "date"))
    quarter = np.searchsorted(points, own[0])
    return {label: (quarter == k) & (own[0] != MISSING) for k, label in enumerate(labels)}


def _of_quarters(limits: Sequence[str]) -> list[str]:
    """Name quarters with their limits."""
    return [f"{name} ({ends})" if ends else name for name, ends in zip(QUARTERS, limits, strict=True)]


def _rows_near(header: Header, setting: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Mark the training rows kept with the model whose values equal those of the setting or are near."""
    near = np.ones(header.reference.shape[1], bool)
    for name, value in setting.items():
        index = _index(header, name)
        positions, coded, _ = codes_of(header, index, [value])
        column = header.schema.columns[index]
        if column.min is not None and column.max is not None:
            (own_value,) = numbers({name: [value]}, header.schema.of(column))[0]
            near &= not (own_value < column.min or own_value > column.max)
        for position, code in zip(positions, coded[:, 0].astype(int), strict=True):
            own = header.reference[position].astype(int)
            # Of encoded text the fit's rows have means of the other folds, each a little off its level's.
            exact = column.kind in ("category", "boolean") or code == MISSING
            width = 0.0 if exact else NEAR * len(header.grid.cuts[position])
            near &= (np.abs(own - code) <= width) & ((own == MISSING) == (code == MISSING))
    return near


def _unlike(
    header: Header, codes: Codes, chosen: Sequence[int], near: NDArray[np.bool_], shares: Floats
) -> NDArray[np.bool_]:
    """Mark rows that are further from every row with the setting than 95% of those are from each other.

    The distance adds up the differences in ranks of the other columns, by the columns' shares of the split
    rules. Where fewer than `FEWEST_ALIKE` rows have the setting all are marked.
    """
    from scipy.spatial.distance import cdist  # noqa: PLC0415  # slow to import

    if near.sum() < FEWEST_ALIKE:
        return np.ones(codes.shape[1], bool)
    others = [i for i in range(len(codes)) if i not in set(chosen)]
    scale = np.array([shares[header.schema.coded[i][0]] / max(len(header.grid.cuts[i]), 1) for i in others])
    like = header.reference[others][:, near].T * scale
    among = cdist(like, like, "cityblock")
    np.fill_diagonal(among, np.inf)
    limit = np.quantile(among.min(axis=1), 1 - USUAL_SHARE)
    strange = np.empty(codes.shape[1], bool)
    for start in range(0, codes.shape[1], 256):
        rows = codes[others, start : start + 256].T * scale
        strange[start : start + 256] = cdist(rows, like, "cityblock").min(axis=1) > limit
    return strange


def _in_words(header: Header, request: ContrastWish) -> str:
    """Say what a contrast subtracts from what."""
    classes, target = header.schema.target.levels, header.schema.target.name
    figure = target if not classes else f"probability of {classes[1]}" if len(classes) == 2 else "probability"
    first, second = (
        f"{figure} where {_named(setting, ' and ')}" for setting in (request.first, request.second)
    )
    return f"{first}, minus {second}"


def _named(setting: Mapping[str, Any], between: str = ", ") -> str:
    return between.join(
        f"{name} is missing"
        if value is None or (isinstance(value, float) and math.isnan(value))
        else f"{name} = {as_text(value)}"
        for name, value in setting.items()
    )


def _warnings(setting: Mapping[str, Any], near: int, reference: int, strange: NDArray[np.bool_]) -> list[str]:
    named = _named(setting)
    if near < FEWEST_ALIKE:
        return [
            f"{named}: only {near} of {reference} training rows are near this setting, so the contrast rests "
            "on the model's extrapolation"
        ]
    share = float(strange.mean())
    if share <= 2 * USUAL_SHARE:
        return []
    return [
        f"{named}: {share:.0%} of these rows are unlike every training row near this setting (about "
        f"{USUAL_SHARE:.0%} is usual), so their contrasts rest on the model's extrapolation"
    ]
