"""Estimated memory of a worker process, by a formula, with the duration (`durations`) beside it.

A process holds the columns of up to 4 million cells several times while it prepares them (as read, as
floats, for the noise estimate), of larger tables a few columns at a time; then one byte per row and tree; at
the finish it holds all draws. `lab/fit_cost.py` measures all of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sampler.costs.durations import (
    TUNED,
    chain_seconds,
    finish_seconds,
    may_have_line,
    num_forests,
    prepare_seconds,
)
from sampler.costs.part import costs, trees_of_parts
from sampler.data.columns import ColumnSummary
from sampler.data.splits.split_plan import FOLDS
from sampler.families import FAMILIES
from sampler.methods import METHODS
from sampler.noise import AUTO, CONSTANT, HEAVIEST, NOISE_TREES, NOISES

MIB = 1024 * 1024
# Bytes, measured and rounded up:
PROCESS = 420 * MIB  # a worker's process with its kernels, before any data
CELL, CELL_SCORED = 2, 4  # per row and coded column, target included; without and with a holdout
HELD_CELL, HELD_CELLS = 36, 4_000_000  # besides, of a table that is held as floats, or of that many cells
ROW = 120  # also per row: outcome, residual, weights; some columns while they are prepared
SLOT = 1  # per row and tree
LINEAR_CELL = 24  # per row and term of a linear part: its values, and the terms as drawn in two bases
LINES_ROW = 20  # per row and class with linear parts: log odds, without them too, and the line
SCALE_ROW = 24  # per row with heavy tails: its scale, squared error, weight
PRECISION_ROW = 32  # per row with a forest of precisions: log precision, its part of sums, weight
CLASS_ROW = 16  # per row and class with a sum of trees: log f, its part of sums, whether it is the row's
PARTICLE, PARTICLE_ROW = 20_000, 30  # per particle of a filter, and per row of it (three orders)
DRAW, TREE = 24_000, 40  # per kept draw (copies of f at 200 reference rows), and per tree of each
SEARCHED = 450  # per coded column and draw of the chains of a topology with ten splits
NOISE_ROW = SCALE_ROW + PRECISION_ROW + SLOT * NOISE_TREES  # per row where noise may differ by row
FORMULA = (
    f"{PROCESS // MIB} MiB + the larger of  rows x ({CELL} x (columns + 1) + {ROW} + trees) + {HELD_CELL} x "
    f"cells  (cells = rows x (columns + 1), at most {HELD_CELLS:,}; {CELL_SCORED} instead of {CELL} with a "
    f"holdout, {NOISE_ROW} more a row where the data choose the noise)  and  chains x draws x ({DRAW} + "
    f"{TREE} x trees); "
    f"of a particle filter  draws x ({PARTICLE} + {PARTICLE_ROW} x rows)  besides the rows; of a search "
    f"chains x (draws + {TUNED}) x {SEARCHED} x (columns + 1)  of its own besides"
)


@dataclass(frozen=True)
class Cost:
    """Bytes that one worker process needs, and the duration of a fit including its finish."""

    bytes: int
    seconds: float
    finish_seconds: float


def estimate(settings: Mapping[str, Any], rows: int, columns: int, *, slots: int = 1) -> Cost:
    """Estimate the memory that a fit takes in each worker process, and its duration.

    Parameters
    ----------
    settings
        Resolved settings of the fit.
    rows
        Number of rows in the dataset.
    columns
        Number of coded columns (`coded_columns`).
    slots
        Chains that run at once; the duration assumes a core for each.

    Returns
    -------
    Cost
        Bytes of one process, and seconds.

    """
    forests, chains = num_forests(settings), int(settings["num_chains"])
    trees = forests * int(settings["num_trees"]) + trees_of_parts(settings)
    draws, scored = int(settings["num_draws"]), bool(settings.get("holdout"))
    sampling = rows * ((CELL_SCORED if scored else CELL) * (columns + 1) + ROW + SLOT * trees)
    sampling += HELD_CELL * min(rows * (columns + 1), HELD_CELLS)
    if forests > 1:
        sampling += rows * CLASS_ROW * forests
    family = FAMILIES[settings.get("family") or "gaussian"]
    more = trees if family.point else family.more_trees
    trees, sampling = trees + more, sampling + rows * SLOT * more
    name = settings.get("noise") or CONSTANT
    of_noise = NOISES[HEAVIEST if name == AUTO else name]
    if not of_noise.is_normal:
        sampling += rows * SCALE_ROW
    if of_noise.forest:
        trees += NOISE_TREES
        sampling += rows * (PRECISION_ROW + SLOT * NOISE_TREES)
    if may_have_line(settings, rows, columns):
        sampling += rows * (LINEAR_CELL * columns + (LINES_ROW * forests if forests > 1 else 0))
    of_draw = sum(own.draw_bytes(settings) for own in costs(settings))
    finishing = chains * draws * (DRAW + TREE * trees + of_draw)
    sampling += rows * sum(own.row_bytes(settings, columns) for own in costs(settings))
    if METHODS[settings.get("method") or "bart"].engine.particles:
        sampling += draws * (PARTICLE + PARTICLE_ROW * rows)
    if search := settings.get("search"):
        sampling += int(search["chains"] * (search["draws"] + TUNED)) * SEARCHED * (columns + 1)
    seen = round(rows * (1 - float(settings.get("holdout") or 0.0)))
    turns = -(-chains // max(slots, 1))
    finish = finish_seconds(settings, rows, columns)
    seconds = (
        prepare_seconds(settings, rows, columns) + turns * chain_seconds(settings, seen, columns) + finish
    )
    if settings.get("calibrate") == "folds":
        apart = prepare_seconds(settings, rows, columns) + chains * chain_seconds(settings, rows, columns)
        seconds += max(apart, FOLDS * apart / max(slots, 1))
    return Cost(PROCESS + max(sampling, finishing), seconds, finish)


def coded_columns(kinds: Mapping[str, str], summaries: Iterable[ColumnSummary]) -> int:
    """Count the coded columns: a category takes one per level, and one more for missing values."""
    columns = 0
    for summary in summaries:
        if kinds.get(summary.name) == "category":
            columns += 1 if summary.distinct <= 2 else summary.distinct + (summary.missing > 0)
        elif summary.name in kinds:
            columns += 1
    return columns
