"""Reading of treatments, and refusals of those whose effect no rows can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.groupings import may_group
from sampler.data.scalars import as_text
from sampler.data.schema import Column, Schema
from sampler.data.table import RawColumn, Table, read_column
from sampler.data.target import check_length, reject_rows
from sampler.data.treatment.design import DOSE, MOST_ARMS, TWO
from sampler.definitions.design import Design
from sampler.errors import DataError, DataProblem, SettingsError, suggestion
from sampler.settings import Settings

HUNDRED = 100
FEWEST_OF_ARM = 10  # rows of an arm
MISSING = "the treatment is missing: fill it in, or leave the row out"
READ_AS_MISSING = (
    "; a word such as none or NA in a file was read as missing: if it is an arm, give it another name, or "
    "read the file with other spellings of missing values (?missing=NA over HTTP)"
)
UNTREATED = ("control", "placebo", "none", "no", "untreated", "false")  # the first of two arms, in any case
ROWS_OF_A_LEVEL = 5  # rows per level of a category that may tell the arms apart by itself


def arms_of(treatment: RawColumn) -> tuple[str, ...]:
    """Name the arms of rows: the names of a column, in their order, none of a dose, or treated or not.

    Two numbers are two arms, the lower first. Of two names the untreated one is first, as `UNTREATED` or the
    order of categories tell it; where neither does, `read_treatment` refuses them.
    """
    if treatment.type == "number" and treatment.numbers is not None:
        values = np.unique(treatment.numbers[~np.isnan(treatment.numbers)])
        if len(values) == len(TWO) and np.isfinite(values).all():
            return tuple(as_text(value) for value in values.tolist())
        others = ~np.isnan(treatment.numbers) & (treatment.numbers != 0) & (treatment.numbers != 1)
        return DOSE if others.sum() >= FEWEST_OF_ARM else TWO  # fewer are rather mistakes
    names = {each for each in treatment.cells or () if isinstance(each, str)}
    known = treatment.levels or treatment.categories
    in_order = tuple(name for name in (*known, *sorted(names - {*known})) if name in names)
    if len(names) == len(TWO):
        first = [name for name in in_order if name.strip().casefold() in UNTREATED]
        if len(first) == 1:
            return tuple(sorted(in_order, key=lambda name: name != first[0]))
        return in_order if known else TWO
    return in_order if len(names) > len(TWO) else TWO


def read_treatment(treatment: Any, num_rows: int, arms: tuple[str, ...] | None = None) -> Floats:
    """Read the rows' arms by their places, 1 for treated rows of two arms, or their doses, float64 [n].

    Parameters
    ----------
    treatment
        The column.
    num_rows
        Number of rows it must have.
    arms
        Names of the arms of a model, none of one with a dose; by default those of the column.

    Returns
    -------
    ndarray
        The treatments.

    Raises
    ------
    DataError
        For treatments that are missing, of no arm of the model, or no number of a dose, and for too many
        arms.

    """
    raw = treatment if isinstance(treatment, RawColumn) else read_column(treatment, "treatment")
    check_length(raw, num_rows)
    in_a_file = "" if raw.cells is None else READ_AS_MISSING
    reject_rows(raw.name, raw.is_missing, f"{MISSING}{in_a_file}")
    arms = arms_of(raw) if arms is None else arms
    if arms not in (TWO, DOSE):
        return _read_arms(raw, arms)
    if raw.numbers is None or raw.type not in ("number", "boolean"):
        detail = (
            "a treatment must be 1 or true of rows that were treated, and 0 or false of the others; a dose "
            "must be a number, and several arms need three names"
        )
        levels = sorted({cell for cell in raw.cells or () if isinstance(cell, str)})
        if len(levels) == 2:
            detail = (
                f"which of {levels[0]!r} and {levels[1]!r} is the untreated arm isn't known: make it 0 and "
                f"the other 1, call it {', '.join(UNTREATED[:-1])} or {UNTREATED[-1]}, or put it first of a "
                "categorical's categories"
            )
        raise DataError([DataProblem(raw.name, None, detail)])
    stray = (raw.numbers != 0) & (raw.numbers != 1) if arms == TWO else ~np.isfinite(raw.numbers)
    few = f"a treatment must be 1 (treated) or 0 (not treated); a dose needs {FEWEST_OF_ARM} other numbers"
    reject_rows(raw.name, stray, few if arms == TWO else "a dose must be finite")
    return np.asarray(raw.numbers, np.float64)


def _read_arms(raw: RawColumn, arms: tuple[str, ...]) -> Floats:
    """Read the rows' arms by their names; raises as `read_treatment`."""
    if len(arms) > MOST_ARMS:
        detail = f"the treatment has {len(arms)} names; at most {MOST_ARMS} arms are compared"
        raise DataError([DataProblem(raw.name, None, detail)])
    cells = raw.cells or []
    if raw.numbers is not None:
        cells = [as_text(number) for number in raw.numbers.tolist()]
    place = {name: float(number) for number, name in enumerate(arms)}
    found = np.array([place.get(each, np.nan) if isinstance(each, str) else np.nan for each in cells])
    reject_rows(raw.name, np.isnan(found), f"the treatment must be one of {', '.join(arms)}")
    return found


def check_arms(name: str, treated: Floats, target: str, outcome: Floats, arms: tuple[str, ...] = TWO) -> None:
    """Raise DataError for treatments [n] without arms of some rows each, or that fix the outcomes [n].

    Of a dose there must be two that differ, and some rows without the most frequent one.
    """
    if arms == DOSE:
        _check_dose(name, treated, target, outcome)
        return
    rows = [treated == place for place in range(len(arms))]
    counts = [int(arm.sum()) for arm in rows]
    if arms == TWO and 0 in counts:
        arm = as_text(float(treated[0]))
        detail = f"every row has the treatment {arm}, so there is nothing to compare it with"
        raise DataError([DataProblem(name, None, detail)])
    if min(counts) < FEWEST_OF_ARM:
        few = int(np.argmin(counts))
        which = ("not treated", "treated")[few] if arms == TWO else f"in the arm {arms[few]}"
        detail = f"only {min(counts)} rows are {which}; each arm needs at least {FEWEST_OF_ARM}"
        raise DataError([DataProblem(name, None, detail)])
    if all(np.ptp(outcome[arm]) == 0 for arm in rows):
        detail = f"the target is a function of the treatment {name}: it has one value in each arm"
        raise DataError([DataProblem(target, None, detail)])


def _check_dose(name: str, doses: Floats, target: str, outcome: Floats) -> None:
    """Raise DataError as `check_arms` for doses [n]."""
    values, which, counts = np.unique(doses, return_inverse=True, return_counts=True)
    most, others = as_text(float(values[np.argmax(counts)])), len(doses) - int(counts.max())
    if others < FEWEST_OF_ARM:
        detail = f"all but {others} rows have the dose {most}; at least {FEWEST_OF_ARM} need another"
        raise DataError([DataProblem(name, None, detail)])
    if len(values) < len(doses) and _by_group(which, outcome) is not None:
        detail = f"the target is a function of the treatment {name}: it has one value at each dose"
        raise DataError([DataProblem(target, None, detail)])


def _by_group(group: NDArray[np.int64], values: Floats) -> Floats | None:
    """Return the value [n] that the rows of each group [n] have, if they have one."""
    one = np.zeros(int(group.max()) + 1)
    one[group] = values
    return one if np.array_equal(one[group], values) else None


def check_overlap(
    name: str, treated: Floats, schema: Schema, design: Design, settings: Settings, *, dose: bool = False
) -> None:
    """Raise DataError where one of the features tells treated rows from the others, or the dose, always.

    Parameters
    ----------
    name
        Name of the treatment.
    treated
        The treatments, float64 [n].
    schema
        The features.
    design
        Coded columns before binning, float64 [column, n].
    settings
        Settings of the fit.
    dose
        Whether the treatment is a dose.

    """
    tells, what = (_tells_dose, "dose of") if dose else (_tells_any, "rows have the treatment")
    by_column = groupby(zip(schema.coded, design, strict=True), key=lambda each: each[0][0])
    problems = [
        DataProblem(
            schema.columns[place].name,
            None,
            f"it tells which {what} {name}: no two rows with equal values were treated differently, so "
            "its effect can't be told from that of this column; "
            f"{_as_groups(schema.columns[place], values[0], treated, settings)}leave the column out if it is "
            "the treatment under another name",
        )
        for place, columns in by_column
        if tells(schema.columns[place], values := [each for _, each in columns], treated)
    ]
    if problems:
        raise DataError(problems)


def treated_whole(values: Floats, treated: Floats) -> int:
    """Count whole numbers of several rows each, all with the same treatment; 0 where one has others."""
    known = ~np.isnan(values)
    values, treated = values[known], treated[known]
    count = len(np.unique(values))
    whole = np.array_equal(values, np.rint(values)) and len(values) >= ROWS_OF_A_LEVEL * count
    alone = whole and np.unique(np.stack([values, treated]), axis=1).shape[1] == count
    return count if alone and count > len(TWO) else 0


def _as_groups(column: Column, values: Floats, treated: Floats, settings: Settings) -> str:
    """Say what to do where whole levels were treated: sites for instance, by name or number."""
    levels = len(column.levels) if column.kind == "category" else treated_whole(values, treated)
    if levels <= len(TWO) or not may_group(settings):
        return ""
    return (
        f"where whole levels of it were treated, such as sites, set groups={column.name!r}: each level has "
        "an intercept then, and intervals allow for how few levels there are; "
    )


def _tells_dose(column: Column, columns: Sequence[Floats], doses: Floats) -> bool:
    """Tell whether a feature's values go with the dose: by its order, or where each has one dose."""
    values = np.nan_to_num(np.stack(columns), nan=-np.inf)
    level = np.unique(values, axis=1, return_inverse=True)[1].reshape(-1)
    by_level = _by_group(level, doses)
    if by_level is None:
        return False
    steps = np.diff(by_level)
    in_order = column.kind != "category" and bool(np.all(steps >= 0) or np.all(steps <= 0))
    return in_order or len(doses) >= ROWS_OF_A_LEVEL * len(by_level)


def _tells_any(column: Column, columns: list[Floats], treated: Floats) -> bool:
    return any(_tells(column, columns, treated == arm) for arm in np.unique(treated))


def _tells(column: Column, columns: Sequence[Floats], treated: NDArray[np.bool_]) -> bool:
    """Tell whether a feature's values predict the treatment: by one threshold, or by its levels."""
    if column.kind != "category":
        (values,) = columns
        missing = np.isnan(values)
        if missing.any() and not missing.all():
            return np.array_equal(missing, treated) or np.array_equal(missing, ~treated)
        low, high = values[treated], values[~treated]
        return bool(low.max() < high.min() or high.max() < low.min())
    level = np.unique(np.nan_to_num(np.stack(columns), nan=-1.0), axis=1, return_inverse=True)[1].reshape(-1)
    rows = np.bincount(level)
    share = np.bincount(level, treated)
    return len(treated) >= ROWS_OF_A_LEVEL * len(rows) and bool(np.all((share == 0) | (share == rows)))


def check_propensity(name: str, kinds: Mapping[str, str], table: Table, *, dose: bool) -> None:
    """Refuse a propensity that is no feature of numbers beside others, of such kinds, or can't be one.

    Raises SettingsError for its column, and DataError for its values, by row.
    """
    if name not in kinds:
        message = f"propensity names {name!r}, which is not among the features{suggestion(name, [*kinds])}"
        raise SettingsError(message, field="propensity", code="unknown")
    raw, what = table.column(name), "expected dose" if dose else "probability of being treated"
    numbers = raw.numbers
    if kinds[name] != "number" or len(kinds) == 1 or numbers is None:
        held = next((f" (row 1 holds {cell!r})" for cell in (raw.cells or ())[:1]), "")
        message = f"propensity: {name!r} must be one of several features, and have numbers: the {what}{held}"
        raise SettingsError(message, field="propensity", code="not_accepted")
    fitted = "or leave propensity out, so that it is fitted"
    reject_rows(name, np.isnan(numbers), f"the propensity is missing: fill it in, {fitted}")
    if not dose:
        percent = ", not percent: divide it by 100" if 1 < numbers.max() <= HUNDRED else ""
        detail = f"a propensity is the {what}, from 0 to 1{percent}, {fitted}"
        reject_rows(name, (numbers < 0) | (numbers > 1), detail)
    if numbers.min() == numbers.max():
        detail = f"every row has the propensity {as_text(float(numbers[0]))}, which tells nothing of a row"
        raise DataError(
            [DataProblem(name, None, f'{detail}: set assignment="random" in its place, {fitted}')]
        )
