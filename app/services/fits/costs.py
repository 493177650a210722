"""What a fit takes of a worker, before it is started: memory, and time (`durations`), by formulas.

A worker's process holds the columns several times while it prepares them (as read, as floats, as the noise is
estimated), then a byte per row and tree; when it finishes it holds all draws. `benchmarks/fit_cost.py`
measures all of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.services.errors import InvalidRequestError
from app.services.fits.durations import TUNED, chain_seconds, finish_seconds, prepare_seconds
from app.services.request_context import actor
from sampler import ColumnSummary
from sampler.methods import METHODS

MIB = 1024 * 1024
# Bytes, as measured, and rounded up:
PROCESS = 420 * MIB  # a worker's process with its kernels, before any data
CELL, CELL_SCORED = 36, 48  # per row and coded column, the target one more; with rows held out and scored
ROW = 64  # per row besides: outcome, residual, weights
SLOT = 1  # per row and tree
PARTICLE, PARTICLE_ROW = 20_000, 30  # of a particle filter: each lists the rows in its tree's order, thrice
DRAW, TREE = 24_000, 40  # per kept draw (f at 200 reference rows, several times over), and per tree of each
SEARCHED = 450  # per draw of the chains of a topology of ten splits, and coded column
FORMULA = (
    f"{PROCESS // MIB} MiB + the larger of  rows x ({CELL} x (columns + 1) + {ROW} + trees)  "
    f"({CELL_SCORED} instead of {CELL} with a holdout)  and  chains x draws x ({DRAW} + {TREE} x trees); "
    f"of a particle filter  draws x ({PARTICLE} + {PARTICLE_ROW} x rows)  besides the rows; of a search "
    f"chains x (draws + {TUNED}) x {SEARCHED} x (columns + 1)  of its own besides"
)


@dataclass(frozen=True)
class Cost:
    """What one process of a worker needs, in bytes, and how long a fit takes, its finish included."""

    bytes: int
    seconds: float
    finish_seconds: float


class TooMuchMemoryError(InvalidRequestError):
    """No worker of this service has the memory for the fit."""

    slug, title = "fit-too-large", "No worker has the memory for this fit"


class TooLongError(InvalidRequestError):
    """The estimated time of the fit is longer than this service gives one."""

    slug, title = "fit-too-long", "That fit would take too long"


def estimate(settings: Mapping[str, Any], rows: int, columns: int, *, slots: int = 1) -> Cost:
    """The memory that a fit takes of each worker process, and the time to its end.

    Parameters
    ----------
    settings
        Of the fit, resolved.
    rows
        Of the dataset.
    columns
        Coded ones, `coded_columns`.
    slots
        Chains that are worked on at once; the time supposes a core for each.
    """
    trees, chains = int(settings["num_trees"]), int(settings["num_chains"])
    draws, scored = int(settings["num_draws"]), bool(settings.get("holdout"))
    sampling = rows * ((CELL_SCORED if scored else CELL) * (columns + 1) + ROW + SLOT * trees)
    finishing = chains * draws * (DRAW + TREE * trees)
    if METHODS[settings.get("method") or "bart"].engine.particles:
        sampling += draws * (PARTICLE + PARTICLE_ROW * rows)
    if search := settings.get("search"):
        sampling += int(search["chains"] * (search["draws"] + TUNED)) * SEARCHED * (columns + 1)
    seen = round(rows * (1 - float(settings.get("holdout") or 0.0)))
    turns = -(-chains // max(slots, 1))
    finish = finish_seconds(settings, rows, columns)
    seconds = prepare_seconds(rows, columns) + turns * chain_seconds(settings, seen, columns) + finish
    return Cost(PROCESS + max(sampling, finishing), seconds, finish)


def coded_columns(kinds: Mapping[str, str], summaries: Iterable[ColumnSummary]) -> int:
    """Columns that the features become: a category is one for each level, and one more for missing."""
    found = 0
    for summary in summaries:
        if kinds.get(summary.name) == "category":
            found += 1 if summary.distinct <= 2 else summary.distinct + (summary.missing > 0)
        elif summary.name in kinds:
            found += 1
    return found


def check_memory(settings: Mapping[str, Any], rows: int, columns: int) -> None:
    """Refuse a fit that would need more memory than a worker has.

    Raises
    ------
    TooMuchMemoryError
        With the estimate and the formula.
    """
    most = actor().limits.fit_memory
    needed = estimate(settings, rows, columns).bytes
    if most is not None and needed > most:
        raise TooMuchMemoryError(
            f"This fit would take about {_mib(needed)} of a worker that has {_mib(most)}: {FORMULA}. Here: "
            f"{rows} rows, {columns} columns (a category counts once for each level), "
            f"{settings['num_trees']} trees, {settings['num_chains']} chains of "
            f"{settings['num_draws']} draws. Ask for fewer features, draws or trees."
        )


def check_seconds(seconds: float) -> None:
    """Refuse a fit that would take longer than one may.

    Raises
    ------
    TooLongError
        With the estimate and the setting.
    """
    most = actor().limits.fit_seconds
    if most is not None and seconds > most:
        raise TooLongError(
            f"This fit would take about {_time(seconds)}, where {_time(most)} is the most "
            "(BARTSERVE_FIT_SECONDS). Ask for fewer trees, chains, draws or burn-in, or a smaller thin; "
            "stop rules with max_seconds end a fit in time. POST /models/estimate tells what a request takes."
        )


def _time(seconds: float) -> str:
    for name, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {name}"
    return f"{seconds:,.1f} seconds"


def _mib(num_bytes: int) -> str:
    return f"{-(-num_bytes // MIB):,} MiB"
