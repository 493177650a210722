"""Intervals of forecasts that follow reported outcomes: a table of distances from the median.

A distance is in half-widths of 90% intervals of the paths, below 0 under the median. `place_of` maps it to
(0, 1) in order, so that tables of predictive probabilities (`sampler.storage.weekly_tables`) carry it, with
the bound that they promise; unlike a rank among paths it has no end where all paths are passed.
"""

from __future__ import annotations

import numpy as np

from sampler.array_types import Floats
from sampler.forecasts.answers import interval_of
from sampler.forecasts.calibration import Calibration
from sampler.storage.conformal_table import ConformalTable
from sampler.storage.weekly_tables import ends_in_force, first_tails, table_of_newest

OF_PATHS = 0.9  # level of the intervals whose half-widths are the unit


def place_of(distance: Floats) -> Floats:
    """Return distances from the median as numbers from 0 to 1, in order."""
    with np.errstate(invalid="ignore"):
        place = distance / (1 + np.abs(distance))
    return np.asarray(0.5 + 0.5 * np.where(np.isinf(distance), np.sign(distance), place))


def distance_of(place: float) -> float:
    """Return the distance of a place; infinite ones of 0 and 1."""
    share = 2 * place - 1
    return float(share / (1 - abs(share))) if abs(share) < 1 else float(np.sign(share) * np.inf)


def table_of_rehearsals(calibration: Calibration, draws: int) -> ConformalTable | None:
    """Return the table from which intervals begin to follow outcomes; None without rehearsals."""
    if not calibration:
        return None
    judged, half = calibration.steps, 0.5 * calibration.counts
    distance = np.sign(judged.y - judged.ends(OF_PATHS)[0]) * judged.scores(OF_PATHS, half)
    known = place_of(distance[~np.isnan(distance)])
    table = ConformalTable.of("folds", draws, known, of_classes=False)
    return table_of_newest(table, np.zeros(0), first_tails())


def adapted_ends(
    paths: Floats, table: ConformalTable, level: float, *, counts: bool
) -> tuple[Floats, Floats, Floats]:
    """Return the median of paths, and ends as the table has them, by what is behind the first axis.

    Raises SettingsError for a level that isn't adapted. Ends may be infinite.
    """
    middle, lower, upper = interval_of(paths, OF_PATHS, 1.0, counts=counts)
    half = 0.5 * counts
    below, above = middle - lower + half, upper - middle + half
    low, high = (distance_of(each) for each in ends_in_force(table, level))
    first, last = (middle + each * (below if each < 0 else above) for each in (low, high))
    if counts:
        first, last = np.maximum(np.ceil(first), 0.0), np.maximum(np.floor(last), 0.0)
    return middle, first, last
