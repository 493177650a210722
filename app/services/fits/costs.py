"""Estimated cost of a fit before it starts: memory of a worker process, and time (`durations`), by formulas.

A worker process holds the columns several times while it prepares them (as read, as floats, for the noise
estimate), then one byte per row and tree; at the finish it holds all draws. `benchmarks/fit_cost.py` measures
all of this.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.services.errors import InvalidRequestError
from app.services.fits.durations import (
    TUNED,
    chain_seconds,
    finish_seconds,
    may_have_line,
    num_forests,
    prepare_seconds,
)
from app.services.request_context import actor
from sampler import ColumnSummary
from sampler.data.scalars import counted
from sampler.families import FAMILIES
from sampler.methods import METHODS
from sampler.noise import NOISE_TREES, NOISES
from sampler.studies.folds import FOLDS

MIB = 1024 * 1024
# Bytes, measured and rounded up:
PROCESS = 420 * MIB  # a worker's process with its kernels, before any data
CELL, CELL_SCORED = 36, 48  # per row and coded column, target included; without and with a holdout
ROW = 64  # also per row: outcome, residual, weights
SLOT = 1  # per row and tree
LINEAR_CELL = 24  # per row and term of a linear part: its values, and the terms as drawn in two bases
LINES_ROW = 20  # per row and class with linear parts: log odds, without them too, and the line
SCALE_ROW = 24  # per row with heavy tails: its scale, squared error, weight
PRECISION_ROW = 32  # per row with a forest of precisions: log precision, its part of sums, weight
CLASS_ROW = 16  # per row and class with a sum of trees: log f, its part of sums, whether it is the row's
PARTICLE, PARTICLE_ROW = 20_000, 30  # per particle of a filter, and per row of it (three orders)
GROUP_ROW = 8  # per row and column of groups: the row's group
DRAW, TREE = 24_000, 40  # per kept draw (copies of f at 200 reference rows), and per tree of each
SLOPE_CELL = 16  # per row, slope and column of groups: the row's value, and effects
DRAWN_GROUP = 48  # per kept draw and group: its intercept as kept, packed, unpacked and read
SEARCHED = 450  # per coded column and draw of the chains of a topology with ten splits
FORMULA = (
    f"{PROCESS // MIB} MiB + the larger of  rows x ({CELL} x (columns + 1) + {ROW} + trees)  "
    f"({CELL_SCORED} instead of {CELL} with a holdout)  and  chains x draws x ({DRAW} + {TREE} x trees); "
    f"of a particle filter  draws x ({PARTICLE} + {PARTICLE_ROW} x rows)  besides the rows; of a search "
    f"chains x (draws + {TUNED}) x {SEARCHED} x (columns + 1)  of its own besides"
)
SHORTER = (
    "Ask for fewer trees, chains, draws or burn-in, or a smaller thin; stop rules with max_seconds end a fit "
    "in time. POST /models/estimate estimates a request."
)


@dataclass(frozen=True)
class Cost:
    """Bytes that one worker process needs, and the duration of a fit including its finish."""

    bytes: int
    seconds: float
    finish_seconds: float


class TooMuchMemoryError(InvalidRequestError):
    """The fit needs more memory than a worker of this service has."""

    slug, title = "fit-too-large", "Fit needs too much memory"


class TooLongError(InvalidRequestError):
    """The estimated duration of the fit exceeds the limit of this service."""

    slug, title = "fit-too-long", "Fit would take too long"


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
    """
    forests, chains = num_forests(settings), int(settings["num_chains"])
    trees = forests * int(settings["num_trees"])
    draws, scored = int(settings["num_draws"]), bool(settings.get("holdout"))
    sampling = rows * ((CELL_SCORED if scored else CELL) * (columns + 1) + ROW + SLOT * trees)
    if forests > 1:
        sampling += rows * CLASS_ROW * forests
    more = FAMILIES[settings.get("family") or "gaussian"].more_trees
    trees, sampling = trees + more, sampling + rows * SLOT * more
    of_noise = NOISES[settings.get("noise") or "constant"]
    if of_noise.heavy_tails:
        sampling += rows * SCALE_ROW
    if of_noise.forest:
        trees += NOISE_TREES
        sampling += rows * (PRECISION_ROW + SLOT * NOISE_TREES)
    if may_have_line(settings, rows, columns):
        sampling += rows * (LINEAR_CELL * columns + (LINES_ROW * forests if forests > 1 else 0))
    slopes = len(settings.get("slopes") or ())
    sampling += rows * (GROUP_ROW + SLOPE_CELL * slopes) * len(settings.get("groups") or ())
    drawn = (1 + slopes) * int(settings.get("num_groups") or 0)
    finishing = chains * draws * (DRAW + TREE * trees + DRAWN_GROUP * drawn)
    if METHODS[settings.get("method") or "bart"].engine.particles:
        sampling += draws * (PARTICLE + PARTICLE_ROW * rows)
    if search := settings.get("search"):
        sampling += int(search["chains"] * (search["draws"] + TUNED)) * SEARCHED * (columns + 1)
    seen = round(rows * (1 - float(settings.get("holdout") or 0.0)))
    turns = -(-chains // max(slots, 1))
    finish = finish_seconds(settings, rows, columns)
    seconds = prepare_seconds(rows, columns) + turns * chain_seconds(settings, seen, columns) + finish
    if settings.get("calibrate") == "folds":
        apart = prepare_seconds(rows, columns) + chains * chain_seconds(settings, rows, columns)
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


def check_memory(settings: Mapping[str, Any], rows: int, columns: int) -> None:
    """Refuse a fit that would need more memory than a worker has.

    Raises
    ------
    TooMuchMemoryError
        The message gives the estimate and the formula.
    """
    most = actor().limits.fit_memory()
    needed = estimate(settings, rows, columns).bytes
    if most is not None and needed > most:
        raise TooMuchMemoryError(
            f"This fit would take about {_mib(needed)} of a worker that has {_mib(most)}: {FORMULA}. Here: "
            f"{counted(rows, 'row')}, {counted(columns, 'column')} (a category counts once for each level), "
            f"{counted(num_forests(settings) * settings['num_trees'], 'tree')}, "
            f"{counted(settings['num_chains'], 'chain')} of {counted(settings['num_draws'], 'draw')}. "
            "Ask for fewer features, draws or trees."
        )


def check_seconds(seconds: float, work: str = "fit", advice: str = SHORTER) -> None:
    """Refuse a fit, or other work of workers, that would take longer than the limit.

    `work` names it, `advice` says how to shorten it.

    Raises
    ------
    TooLongError
        The message gives the estimate and the setting.
    """
    most = actor().limits.fit_seconds
    if most is not None and seconds > most:
        raise TooLongError(
            f"This {work} would take about {_time(seconds)}, and the limit is {_time(most)} "
            f"(BARTSERVE_FIT_SECONDS). {advice}"
        )


def _time(seconds: float) -> str:
    for name, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {name}"
    return f"{seconds:,.1f} seconds"


def _mib(num_bytes: int) -> str:
    return f"{-(-num_bytes // MIB):,} MiB"
