"""Reading of treatments, and refusals of those whose effect no rows can show."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.scalars import as_text
from sampler.data.table import RawColumn, read_column
from sampler.data.target import check_length, reject_rows
from sampler.errors import DataError, DataProblem, SettingsError
from sampler.methods import METHODS
from sampler.setting_checks import draws_trees_alone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sampler.data.schema import Column, Schema
    from sampler.definitions.design import Design
    from sampler.settings import Settings

    Floats = NDArray[np.float64]

FEWEST_OF_ARM = 10  # rows of an arm
ROWS_OF_A_LEVEL = 5  # rows per level of a category that may tell the arms apart by itself


def read_treatment(treatment: Any, num_rows: int) -> Floats:
    """Read which rows were treated, float64 [n]: 1 for treated rows, 0 for others.

    Returns
    -------
    ndarray
        The treatments.

    Raises
    ------
    DataError
        For treatments that are missing, or neither 0 and 1 nor true and false.

    """
    raw = treatment if isinstance(treatment, RawColumn) else read_column(treatment, "treatment")
    check_length(raw, num_rows)
    if raw.numbers is None or raw.type not in ("number", "boolean"):
        detail = "a treatment must be 1 or true of rows that were treated, and 0 or false of the others"
        levels = sorted({cell for cell in raw.cells or () if isinstance(cell, str)})
        if len(levels) == 2:
            detail += f": make one of {levels[0]!r} and {levels[1]!r} 1, and the other 0"
        raise DataError([DataProblem(raw.name, None, detail)])
    reject_rows(raw.name, np.isnan(raw.numbers), "the treatment is missing: fill it in, or leave the row out")
    stray = (raw.numbers != 0) & (raw.numbers != 1)
    reject_rows(raw.name, stray, "a treatment must be 1 (treated) or 0 (not treated): two arms are compared")
    return np.asarray(raw.numbers, np.float64)


def check_arms(name: str, treated: Floats, target: str, outcome: Floats) -> None:
    """Raise DataError for treatments [n] without two arms of some rows, or that fix the outcomes [n]."""
    arms = treated == 1, treated == 0
    counts = [int(arm.sum()) for arm in arms]
    if 0 in counts:
        arm = as_text(float(treated[0]))
        detail = f"every row has the treatment {arm}, so there is nothing to compare it with"
        raise DataError([DataProblem(name, None, detail)])
    if min(counts) < FEWEST_OF_ARM:
        which = "treated" if counts[0] < counts[1] else "not treated"
        detail = f"only {min(counts)} rows are {which}; each arm needs at least {FEWEST_OF_ARM}"
        raise DataError([DataProblem(name, None, detail)])
    if all(np.ptp(outcome[arm]) == 0 for arm in arms):
        detail = f"the target is a function of the treatment {name}: it has one value in each arm"
        raise DataError([DataProblem(target, None, detail)])


def check_overlap(name: str, treated: Floats, schema: Schema, design: Design) -> None:
    """Raise DataError where one of the features tells treated rows from the others without fail.

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

    """
    by_column = groupby(zip(schema.coded, design, strict=True), key=lambda each: each[0][0])
    problems = [
        DataProblem(
            schema.columns[place].name,
            None,
            f"it tells which rows have the treatment {name}: no two rows alike were treated differently, so "
            "its effect can't be told from that of this column; leave the column out if it is the treatment "
            "under another name",
        )
        for place, columns in by_column
        if _tells(schema.columns[place], [values for _, values in columns], treated == 1)
    ]
    if problems:
        raise DataError(problems)


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


def check_treatment(settings: Settings, propensity: str | None, *, treated: bool) -> None:
    """Raise SettingsError where settings of a treatment have none, or it has no place beside the others."""
    if not treated:
        for name, value, default in (
            ("propensity", propensity, None),
            ("effects", settings.effects, "bcf"),
            ("assignment", settings.assignment, "observed"),
        ):
            if value != default:
                raise SettingsError(
                    f"{name} is about a treatment: name its column as treatment, or leave {name} out",
                    field=name,
                    code="not_applicable",
                )
        return
    if not METHODS[settings.method].engine.forests:
        raise SettingsError(
            f"treatment needs method bart, not {settings.method}", field="method", code="contradiction"
        )
    if draws_trees_alone({"moves": settings.moves, "start": settings.start}):
        field = "start" if settings.start == "smc" else "moves"
        raise SettingsError(
            f"{field}: particles draw trees alone, and a treatment's effect has a forest beside them",
            field=field,
            code="contradiction",
        )
    if propensity is not None and (settings.effects == "plain" or settings.assignment == "random"):
        field = "effects" if settings.effects == "plain" else "assignment"
        raise SettingsError(
            f"{field} {getattr(settings, field)} uses no propensity: leave one of the two out",
            field="propensity",
            code="contradiction",
        )


def check_propensity(name: str | None, kinds: Mapping[str, str]) -> None:
    """Raise SettingsError for a propensity that is no feature of numbers beside others, of such kinds."""
    if name is not None and (kinds.get(name) != "number" or len(kinds) == 1):
        raise SettingsError(
            f"propensity: {name!r} must be one of several features, and have numbers",
            field="propensity",
            code="not_accepted",
        )
