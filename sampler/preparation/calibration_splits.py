"""Splits of rows by which intervals are calibrated, refused before a fit where rows are too few."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sampler.data.splits.split_plan import FOLDS
from sampler.storage.conformal_table import check_calibration_size

if TYPE_CHECKING:
    from sampler.data.rows import Rows
    from sampler.data.splits.split_plan import Split, SplitPlan


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
