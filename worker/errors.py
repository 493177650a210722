"""How a unit ends before its work is done."""

from app.store.errors import StoreError
from app.store.queue.units import Directive
from app.store.tables import Json
from sampler import DataError, SamplerError, SettingsError

MOST_SAID = 300  # characters of an exception nobody foresaw; the log has it whole


class Stopped(Exception):  # noqa: N818  not an error: it was asked for
    """A slice or heartbeat learnt that the unit is to end: by a cancel, or for this worker's own end."""

    def __init__(self, directive: Directive) -> None:
        self.directive = directive
        super().__init__(directive.value)


class OutOfTimeError(Exception):
    """A fit's time was over before there was anything to judge."""


def sentence(error: Exception) -> Json:
    """What a model keeps of the exception that ended it: `{type, detail}`."""
    kinds: list[tuple[type[Exception], str]] = [
        (DataError, "data"),
        (SettingsError, "settings"),
        (SamplerError, "sampler"),
        (StoreError, "store"),
        (OutOfTimeError, "out_of_time"),
        (MemoryError, "out_of_memory"),
    ]
    for kind, name in kinds:
        if isinstance(error, kind):
            return {"type": name, "detail": str(error) or "The worker ran out of memory."}
    said = " ".join(str(error).split())[:MOST_SAID]
    return {
        "type": "internal",
        "detail": f"The worker met an unexpected error ({type(error).__name__}: {said}).",
    }
