"""Refusal of fits that need more memory or time than this service has (estimates: `sampler.costs`)."""

from collections.abc import Mapping
from typing import Any

from app.services.errors import InvalidRequestError
from app.services.request_context import actor
from sampler.host.data import counted
from sampler.host.fits import MEMORY_FORMULA as FORMULA
from sampler.host.fits import MIB, num_forests, trees_of_parts
from sampler.host.fits import estimate_memory as estimate

SHORTER = (
    "Ask for fewer trees, chains, draws or burn-in, or a smaller thin; stop rules with max_seconds end a fit "
    "in time. POST /models/estimate estimates a request."
)


class TooMuchMemoryError(InvalidRequestError):
    """The fit needs more memory than a worker of this service has."""

    slug, title = "fit-too-large", "Fit needs too much memory"


class TooLongError(InvalidRequestError):
    """The estimated duration of the fit exceeds the limit of this service."""

    slug, title = "fit-too-long", "Fit would take too long"


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
            f"{counted(num_forests(settings) * settings['num_trees'] + trees_of_parts(settings), 'tree')}, "
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
