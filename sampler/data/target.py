"""Reading and checking of outcomes and weights."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.columns import is_number, sort_levels
from sampler.data.convert import NAMED_CELLS, to_labels
from sampler.data.scalars import as_text, counted, number_to_text, shortened
from sampler.data.schema import Column
from sampler.data.table import RawColumn, read_column
from sampler.definitions.data import COLUMN_ROLES
from sampler.definitions.prior import MOST
from sampler.errors import DataError, DataProblem, SettingsError, suggestion
from sampler.families import FAMILIES, Target
from sampler.methods import METHODS

FARTHEST_OFFSET = 8  # of a row of two classes: probabilities of 1e-15
LARGEST_COUNT = 2**30  # sums over rows stay exact
SYNONYMS = ({"1", "true", "yes", "y", "t"}, {"0", "false", "no", "n", "f"})
NAMED_ROWS = 5  # of those without an outcome
MASS, MASS_ROWS = 0.05, 20  # least share and number of rows at a point mass
MASS_TIMES = 5  # times the rows of any other value
MASS_AT_END = 0.4  # share of the rows there from which on a hurdle is for the outcomes
FEWEST_OF_HURDLE = 10  # rows at its point, and of others
FEWEST_OF_CLASSES = 10  # rows in which two numbers are no chance
# A number, or one beside signs or the code of a currency: "$1,000.00", "12 %", "(3)", "5 EUR".
_AMOUNT = re.compile(r"[^\w<>=≤≥~#]*(?:[A-Z]{3}\s?)?\d[\d.,'\s]*[^\w<>=≤≥~#]*(?:[A-Z]{3})?")
_IN_UNIT = re.compile(r"[^\w<>=≤≥~#]*\d[\d.,']*\s?(?P<unit>[^\W\d_]\D{0,11})")  # "12 kg"
MAX_CLASSES = 100  # each leaf of each draw holds a probability for every class


def guess_family(y: Any, method: str = "bart") -> str:
    """Choose the family for `family="auto"` from the outcomes.

    Booleans, text with two levels, and two whole numbers (`two_numbers`) are probit, or categorical
    where the method has no probit; text with more levels is ordinal where its type puts them in order and the
    method has it, else categorical where the method has it; all else is gaussian.
    """
    raw = read_column(y, "y")
    families = METHODS[method].families if method in METHODS else ()
    of_two = "probit" if "probit" in families else "categorical"
    if raw.numbers is None:
        several = len({*(raw.cells or ())} - {None})
        of_more = "categorical" if "categorical" in families and several > 1 else "gaussian"
        if raw.levels and several > 2 and "ordinal" in families:
            of_more = "ordinal"
        return of_two if several == 2 else of_more
    pair = two_numbers(raw)
    whole = pair is not None and all(map(float.is_integer, pair))
    return of_two if raw.type == "boolean" or whole else "gaussian"


def point_mass(y: NDArray[np.float64]) -> tuple[float, float] | None:
    """Find a lowest or highest value that many outcomes have, none other nearly as many, and its share."""
    values, counts = np.unique(y, return_counts=True)
    end = 0 if counts[0] >= counts[-1] else -1
    most, others = int(counts[end]), np.delete(counts, end)
    few = most < max(MASS_ROWS, MASS * len(y))
    if few or not len(others) or most < MASS_TIMES * others.max():
        return None
    return float(values[end]), most / len(y)


def find_point(prior: Mapping[str, Any], y: NDArray[np.float64]) -> float:
    """Find the value that many outcomes y [n] have exactly: the prior's, or the lowest or highest one.

    Raises SettingsError where no such value stands out, and where fewer than ten rows are at it or off it.
    """
    found = point_mass(y)
    if "point" not in prior and found is None:
        raise SettingsError(
            "family hurdle is for outcomes many of which are one value exactly, and neither the lowest nor "
            "the highest is that frequent: name the value by prior point, or take family gaussian",
            field="family",
            code="not_applicable",
        )
    point = float(prior["point"]) if "point" in prior else found[0] if found else np.nan
    at, text = int(np.sum(y == point)), number_to_text(point)
    if min(at, len(y) - at) < FEWEST_OF_HURDLE:
        raise SettingsError(
            f"of the outcomes {counted(at, 'row')} of {len(y)} are {text}: a hurdle takes {FEWEST_OF_HURDLE} "
            "at the value, and as many others",
            field="prior.point" if "point" in prior else "family",
            code="not_applicable",
        )
    return point


def two_numbers(raw: RawColumn) -> tuple[float, float] | None:
    """Return the values of outcomes that may be two classes: zeros and ones, or two in ten rows or more."""
    if raw.numbers is None or raw.type != "number":
        return None
    present = raw.numbers[~np.isnan(raw.numbers)]
    low, high = (float(present.min()), float(present.max())) if len(present) else (math.nan, math.nan)
    if not len(present) or not ((present == low) | (present == high)).all():
        return None
    if {low, high} <= {0.0, 1.0}:
        return 0.0, 1.0
    return (low, high) if low != high and len(present) >= FEWEST_OF_CLASSES else None


def family_warnings(raw: RawColumn, family: str, *, guessed: bool) -> list[str]:
    """Say how two numbers, or text that looks like numbers, were taken, if others may be meant."""
    if guessed and FAMILIES[family].target == "ordered":
        return [
            f"{raw.name} has an order from {shortened(raw.levels[0])} to {shortened(raw.levels[-1])}, so its "
            'classes are learnt in it: family="categorical" leaves the order out'
        ]
    if guessed and raw.numbers is None and (looks := _first_amount(raw)) is not None:
        return [
            f"{raw.name} has text such as {shortened(looks)}, which is taken as a class: if its values are "
            "numbers, convert them"
        ]
    pair = two_numbers(raw)
    if pair is None:
        return []
    low, high = map(as_text, pair)
    only = f"{raw.name} has the values {low} and {high} alone"
    if FAMILIES[family].target == "numbers":
        text = "" if all(map(float.is_integer, pair)) else "make them text and "
        return [f'{only}, and is learnt as a number: if they are classes, {text}set family="auto"']
    if guessed and pair != (0, 1):
        return [f'{only}: family="auto" takes them as classes, family="gaussian" as numbers']
    return []


def _first_amount(raw: RawColumn) -> str | None:
    """Return the first text that is no plain number, where most texts look like numbers; else None."""
    texts = {cell: None for cell in raw.cells or () if isinstance(cell, str)}
    in_unit = [_IN_UNIT.fullmatch(text) for text in texts]
    if (
        len(in_unit) > 1
        and len({match and match["unit"] for match in in_unit} - {None}) == 1
        and all(in_unit)
    ):
        return next(iter(texts))
    others = [text for text in texts if not is_number(text)]
    alike = [text for text in texts if is_number(text) or _AMOUNT.fullmatch(text.strip())]
    return others[0] if others and 2 * len(alike) > len(texts) else None


def read_target(
    y: Any, name: str, num_rows: int, family: str = "gaussian"
) -> tuple[Column, NDArray[np.float64]]:
    """Read the outcomes of a training table.

    Parameters
    ----------
    y
        Outcomes, n values.
    name
        Name of the column in messages and in the schema.
    num_rows
        Number of rows that the table has, n.
    family
        "gaussian" reads numbers; "probit" and "categorical" read classes of any type, "ordinal" those of
        numbers, and of others whose order was given.

    Returns
    -------
    tuple
        The target's column, and float64 [n]: the numbers, or the index of each row's class.

    Raises
    ------
    DataError
        For missing, infinite, constant or non-numeric values; for probit with other than two classes; for
        numbers beyond 1e100 and ranges below 1e-100.

    """
    raw = read_column(y, name)
    check_length(raw, num_rows)
    target = FAMILIES[family].target
    if FAMILIES[family].has_classes:
        return _read_classes(raw, target)
    if target == "counts":
        return _read_counts(raw)
    numbers = finite_numbers(raw)
    low, high = float(numbers.min()), float(numbers.max())
    if low == high:
        detail = f"constant target: every value is {low:g}, so there is nothing to learn"
        raise DataError([DataProblem(name, None, detail)])
    if max(-low, high) > MOST or high - low < 1 / MOST:
        size = f"up to {max(-low, high):.3g} with a range of {high - low:.3g}"
        limits = f"values up to {MOST:g} and ranges from {1 / MOST:g} are accepted"
        detail = f"the target is {size}; rescale it: {limits}"
        raise DataError([DataProblem(name, None, detail)])
    return Column(name, "number", (), 0, low, high), numbers


def finite_numbers(raw: RawColumn) -> NDArray[np.float64]:
    """Return the numbers of a target; raise DataError for other types, missing and infinite values."""
    if raw.numbers is None or raw.type != "number":
        raise DataError([DataProblem(raw.name, None, _not_numeric(raw))])
    reject_missing(raw.name, np.isnan(raw.numbers))
    reject_rows(raw.name, np.isinf(raw.numbers), "the target is infinite")
    return raw.numbers


def reject_beyond(name: str, numbers: NDArray[np.float64]) -> None:
    """Raise DataError with the rows of a target whose numbers are finite, but too large to be squared."""
    beyond = (np.abs(numbers) > MOST) & np.isfinite(numbers)
    reject_rows(name, beyond, f"values up to {MOST:g} are accepted: rescale the target")


def in_order(raw: RawColumn, levels: Sequence[Any] | None, family: str) -> RawColumn:
    """Give outcomes the order of their classes, from the lowest to the highest; None leaves their own.

    Raises SettingsError for levels named twice.
    """
    if levels is None or FAMILIES[family].target != "ordered":
        return raw
    names = [] if isinstance(levels, str) else [as_text(level) for level in levels]
    if len({*names}) < max(len(names), 2):
        raise SettingsError(
            "levels must be at least two different classes, from the lowest to the highest",
            field="levels",
            code="not_accepted",
        )
    return replace(raw, levels=tuple(names))


def absent_levels(raw: RawColumn, target: Column, family: str) -> list[str]:
    """Say which of the levels that were put in order no row has, and what the classes are without them."""
    absent = [level for level in raw.levels if level not in target.levels]
    if not absent or FAMILIES[family].target != "ordered":
        return []
    return [
        f"{raw.name}: no row has {_listed(absent)}, of the levels in order: the model has no such class, and "
        f"its classes are {_listed(target.levels)}"
    ]


def _listed(levels: Sequence[str]) -> str:
    more = f" and {len(levels) - NAMED_CELLS} more" if len(levels) > NAMED_CELLS else ""
    return ", ".join(map(shortened, levels[:NAMED_CELLS])) + more


def _read_classes(raw: RawColumn, target: Target) -> tuple[Column, NDArray[np.float64]]:
    names, index = _labelled(raw)
    classes = _in_order(raw, names, index) if target == "ordered" else sort_levels(names)
    if len(classes) == 1:
        detail = f"constant target: every value is {classes[0]!r}, so there is nothing to learn"
        raise DataError([DataProblem(raw.name, None, detail)])
    if target == "two" and len(classes) != 2:
        advice = 'probit takes two; family="categorical" takes more, family="gaussian" numbers'
        raise DataError([DataProblem(raw.name, None, f"the target has {len(classes)} classes: {advice}")])
    if len(classes) > MAX_CLASSES:
        looks = _first_amount(raw)
        detail = f"the target has {len(classes)} classes; at most {MAX_CLASSES} are accepted"
        detail += f": if text such as {shortened(looks)} is a number, convert it" if looks else ""
        raise DataError([DataProblem(raw.name, None, detail)])
    number = {name: float(place) for place, name in enumerate(classes)}
    return Column(raw.name, "category", classes), np.array([number[name] for name in names])[index]


def _in_order(raw: RawColumn, names: list[str], index: NDArray[np.intp]) -> tuple[str, ...]:
    """Put the classes that rows have in their order: as it was given, or that of numbers."""
    if not raw.levels:
        if not all(map(is_number, names)):
            detail = (
                f"classes such as {shortened(names[0])} have no order of their own: give levels, from the "
                "lowest to the highest, or an ordered Categorical of pandas"
            )
            raise DataError([DataProblem(raw.name, None, detail)])
        return sort_levels(names)
    for number, name in enumerate(names):
        if name not in raw.levels:
            row = int(np.flatnonzero(index == number)[0]) + 1
            advice = suggestion(name, raw.levels)
            raise DataError([DataProblem(raw.name, row, f"{shortened(name)} is not among levels{advice}")])
    return tuple(level for level in raw.levels if level in names)


def _labelled(raw: RawColumn) -> tuple[list[str], NDArray[np.intp]]:
    """Read the class names, and the index of each row's class, int [n]."""
    problems: list[DataProblem] = []
    labels = to_labels(raw, problems)
    if problems:
        raise DataError(problems)
    reject_missing(raw.name, labels.index < 0)
    return labels.names, labels.index


def read_outcomes(
    y: Any, target: Column, num_rows: int, *, new_classes: bool = False
) -> tuple[tuple[str, ...] | None, NDArray[np.float64]]:
    """Read the outcomes of new rows for a model with that target.

    Parameters
    ----------
    y
        Outcomes, n values.
    target
        The model's target.
    num_rows
        Number of rows, n.
    new_classes
        Whether the rows may have classes that the model doesn't have, as rows held out from a fit may.

    Returns
    -------
    tuple
        The classes, the model's first and then those that only these rows have (None for numbers), and
        float64 [row]: the numbers, or each row's index into the classes.

    Raises
    ------
    DataError
        For missing, infinite or non-numeric values, numbers beyond 1e100, and classes that the model doesn't
        have, by row; for a wrong number of rows.

    """
    raw = read_column(y, target.name)
    check_length(raw, num_rows)
    if not target.levels:
        numbers = finite_numbers(raw)
        reject_beyond(raw.name, numbers)
        return None, numbers
    names, index = _labelled(raw)
    more = tuple(name for name in sort_levels({*target.levels, *names}) if name not in target.levels)
    if more and not new_classes:
        problems = [_unknown_class(name, target, names, index) for name in more[:NAMED_CELLS]]
        if len(more) > NAMED_CELLS:
            problems.append(DataProblem.further(target.name, len(more) - NAMED_CELLS, "such classes"))
        raise DataError(problems)
    classes = (*target.levels, *more)
    number = {name: float(place) for place, name in enumerate(classes)}
    return classes, np.array([number[name] for name in names])[index]


def _unknown_class(name: str, target: Column, names: list[str], index: NDArray[np.intp]) -> DataProblem:
    """Describe the rows of a class that the model doesn't have."""
    levels = target.levels
    rows = np.flatnonzero(index == names.index(name))
    also = f", here and in {counted(len(rows) - 1, 'other row')}" if len(rows) > 1 else ""
    known = _listed(levels)
    near = [
        level for level in levels if any({name.casefold(), level.casefold()} <= same for same in SYNONYMS)
    ]
    advice = f"; did you mean {near[0]}?" if near else suggestion(name, levels)
    detail = f"{shortened(name)}{also} is no class of the model, which has {known}{advice}"
    return DataProblem(target.name, int(rows[0]) + 1, detail)


def read_weights(weights: Any, num_rows: int) -> NDArray[np.float64]:
    """Read precision weights, float64 [n]: row i has variance sigma^2 / weight.

    Returns
    -------
    ndarray
        The weights.

    Raises
    ------
    DataError
        For weights that are missing, not positive, or outside 1e-100 to 1e100; rows of weight 0 must be left
        out.

    """
    numbers, name = _numbers_of_role(weights, "weights", num_rows)
    reject_rows(name, np.isnan(numbers), "the weight is missing")
    bad = ~((numbers > 0) & np.isfinite(numbers))
    reject_rows(name, bad, "a weight must be positive and finite; leave rows of weight 0 out")
    beyond = (numbers > MOST) | (numbers < 1 / MOST)
    message = f"a weight must be between {1 / MOST:g} and {MOST:g}: rescale all weights by a common factor"
    reject_rows(name, beyond, message)
    return numbers


def read_exposure(exposure: Any, num_rows: int) -> NDArray[np.float64]:
    """Read exposures of counts, float64 [n]: a row's expected count is in proportion to its exposure.

    Returns
    -------
    ndarray
        The exposures.

    Raises
    ------
    DataError
        For exposures that are missing, not positive, or outside 1e-100 to 1e100.

    """
    numbers, name = _numbers_of_role(exposure, "exposure", num_rows)
    reject_rows(name, np.isnan(numbers), "the exposure is missing")
    bad = ~((numbers >= 1 / MOST) & (numbers <= MOST))
    reject_rows(name, bad, f"an exposure must be positive, between {1 / MOST:g} and {MOST:g}")
    return numbers


def read_offset(offset: Any, num_rows: int) -> NDArray[np.float64]:
    """Read offsets of two classes, float64 [n]: normal quantiles of probabilities known beforehand.

    Returns
    -------
    ndarray
        The offsets.

    Raises
    ------
    DataError
        For offsets that are missing, or outside -8 to 8.

    """
    numbers, name = _numbers_of_role(offset, "offset", num_rows)
    reject_rows(name, np.isnan(numbers), "the offset is missing")
    message = (
        f"an offset must be between {-FARTHEST_OFFSET} and {FARTHEST_OFFSET}: it is the normal quantile of a "
        "probability (scipy.special.ndtri)"
    )
    reject_rows(name, np.abs(numbers) > FARTHEST_OFFSET, message)
    return numbers


def _numbers_of_role(values: Any, role: str, num_rows: int) -> tuple[NDArray[np.float64], str]:
    """Read the numbers of a column with a role, which may be read already; return its name too."""
    raw = values if isinstance(values, RawColumn) else read_column(values, role)
    check_length(raw, num_rows)
    if raw.numbers is None or raw.type != "number":
        raise DataError([DataProblem(raw.name, None, f"{COLUMN_ROLES[role].noun} must be numbers")])
    return raw.numbers, raw.name


def _read_counts(raw: RawColumn) -> tuple[Column, NDArray[np.float64]]:
    numbers = finite_numbers(raw)
    bad = (numbers < 0) | (numbers != np.floor(numbers)) | (numbers > LARGEST_COUNT)
    message = f"a count must be a whole number from 0 to {LARGEST_COUNT}"
    reject_rows(raw.name, bad, f'{message}; family="gaussian" takes any numbers')
    low, high = float(numbers.min()), float(numbers.max())
    if low == high:
        detail = f"constant target: every value is {low:g}, so there is nothing to learn"
        raise DataError([DataProblem(raw.name, None, detail)])
    return Column(raw.name, "number", (), 0, low, high), numbers


def check_length(raw: RawColumn, num_rows: int) -> None:
    """Raise DataError where a column is empty, or has another length than the table."""
    if len(raw) == 0 or num_rows == 0:
        raise DataError("there are no rows")
    if len(raw) != num_rows:
        raise DataError([DataProblem(raw.name, None, f"it has {len(raw)} rows, the table has {num_rows}")])


def _not_numeric(raw: RawColumn) -> str:
    noun = {"boolean": "true and false", "date": "dates", "text": "text", "mixed": "values of several types"}
    advice = "choose a numeric column"
    texts = [(row, cell) for row, cell in enumerate(raw.cells or (), 1) if isinstance(cell, str)]
    if texts:
        row, cell = next(((row, cell) for row, cell in texts if _is_word(cell)), texts[0])
        advice = f"row {row} holds {cell!r}; choose a numeric column, leave such rows out{_as_classes(raw)}"
    elif raw.type == "boolean":
        advice = 'set family="probit", make it a number (0 and 1), or choose a numeric column'
    return f"the target must be numeric, and this is {noun.get(raw.type, raw.dtype)}: {advice}"


def _as_classes(raw: RawColumn) -> str:
    """Suggest a way to fit the target as classes, where its number of levels allows it; "" otherwise."""
    classes = len({*(raw.cells or ())} - {None})
    if classes == 2:
        return ', or set family="auto" if these are two classes'
    if 2 < classes <= MAX_CLASSES:
        return f', or set family="auto" if these are {classes} classes'
    return ""


def _is_word(cell: str) -> bool:
    try:
        return bool(np.isnan(float(cell)))
    except ValueError:
        return True


def reject_missing(name: str, missing: NDArray[np.bool_]) -> None:
    """Raise DataError where outcomes are missing: in how many rows, in which first, and what can be done."""
    rows = np.flatnonzero(missing) + 1
    if not len(rows):
        return
    named = ", ".join(map(str, rows[:NAMED_ROWS])) + (", .." if len(rows) > NAMED_ROWS else "")
    detail = (
        f"the target is missing in {len(rows)} of {counted(len(missing), 'row')} ({named}): fill it in, or "
        'leave these rows out (a fit does with missing_target="leave_out")'
    )
    raise DataError([DataProblem(name, int(rows[0]) if len(rows) == 1 else None, detail)])


def reject_rows(name: str, bad: NDArray[np.bool_], detail: str) -> None:
    """Raise DataError with the first rows that are marked, if any."""
    rows = np.flatnonzero(bad)
    if not len(rows):
        return
    problems = [DataProblem(name, int(row) + 1, detail) for row in rows[:NAMED_CELLS]]
    if len(rows) > NAMED_CELLS:
        problems.append(DataProblem.further(name, len(rows) - NAMED_CELLS, "such rows"))
    raise DataError(problems)
