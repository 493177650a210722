"""Rows that calibrate intervals, and their subgroups, refused before a fit where they are too few."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sampler.data.columns import infer_kind
from sampler.data.convert import to_floats
from sampler.data.rows import Rows
from sampler.data.schema import Column
from sampler.data.splits.split_plan import FOLDS, Split, SplitPlan
from sampler.data.target import read_outcomes
from sampler.storage.calibration_size import check_calibration_size
from sampler.storage.conformal_table import CalibrationKind, ConformalTable
from sampler.subgroups.declaration import Subgroups, refused
from sampler.subgroups.membership import KindByName, Membership, bits_of, quarter_points, resolve


def calibration_splits(plan: SplitPlan, rows: Rows, calibrate: str, holdout: float) -> list[Split]:
    """Choose the splits that calibrate a fit: that of the rows held out, or those of all folds.

    Rows without an outcome don't count. Raises SettingsError for too few rows, groups or periods.
    """
    if calibrate == "holdout":
        split = plan.holdout(holdout)
        used = split.test[~rows.outcome.is_missing[split.test]]
        check_calibration_size(len(np.unique(plan.unit[used])), plan.new_rows, "holdout")
        return [split]
    splits = plan.folds(FOLDS)  # refuses too few periods
    check_calibration_size(plan.num_units, plan.new_rows, "folds")
    return splits


def members_of(
    declared: Subgroups, judged: Rows, training: Rows, kinds: KindByName, target: Column
) -> Membership | None:
    """Tell to which declared subgroups calibration rows belong.

    Parameters
    ----------
    declared
        The declaration.
    judged
        The calibration rows.
    training
        The training rows, whose quarters are those of columns of numbers and dates.
    kinds
        KindByName of the features and of columns of groups, by name.
    target
        The model's target, by whose levels classes are numbered.

    Returns
    -------
    Membership or None
        The subgroups of each row; None where none are declared.

    Raises
    ------
    DataError
        For cells that conditions can't be about.
    SettingsError
        For columns that make no subgroups, and for the outcome.

    """
    if declared.are_none:
        return None
    if target.name in declared.columns:
        raise refused(f"{target.name!r} is the outcome, which new rows don't have: name other columns")

    def cuts(name: str) -> NDArray[np.float64]:
        raw = training.table.column(name)
        kind = kinds.get(name) or infer_kind(raw)
        return quarter_points(to_floats(raw, "date" if kind == "date" else "number", [], read_text=True))

    classes, y = read_outcomes(judged.outcome, target, judged.num_rows, new_classes=True)
    own = resolve(declared, judged.table, kinds, cuts, of_classes=classes is not None)
    labels = y.astype(np.int32) if declared.by_class else None
    return Membership(own, bits_of(own, judged.table), labels, classes or ())


def check_members(
    members: Membership | None, kind: CalibrationKind, plan: SplitPlan, splits: Sequence[Split]
) -> None:
    """Refuse subgroups of the rows that splits test, one after another, as their calibration would.

    Raises SettingsError for subgroups with too few rows, or groups, and for too many.
    """
    if members is None:
        return
    order, unit = plan.judged(splits)
    nothing = np.zeros(len(order))
    members = members.take(order)
    new_rows, of_classes = plan.new_rows, bool(members.labels)
    ConformalTable.of(
        kind, 1, nothing, of_classes=of_classes, new_rows=new_rows, unit=unit, members=members, levels=()
    )
