"""Exceptions that end a unit early, and their conversion to stored errors."""

from app.store.errors import StoreError
from app.store.queue.units import Directive
from app.store.tables import Json
from sampler import DataError, SamplerError, SettingsError

MOST_SAID = 300  # characters stored of an unexpected exception; the log has all


class Stopped(Exception):  # noqa: N818  not an error but a request
    """The unit must end early: because of a cancel, or because this worker stops or yields."""

    def __init__(self, directive: Directive) -> None:
        self.directive = directive
        super().__init__(directive.value)


class OutOfTimeError(Exception):
    """The fit's time was over before it had any draws."""


def sentence(error: Exception) -> Json:
    """Return the error that a model stores for an exception: `{type, detail}`."""
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
    message = " ".join(str(error).split())[:MOST_SAID]
    return {
        "type": "internal",
        "detail": f"The worker met an unexpected error ({type(error).__name__}: {message}).",
    }
