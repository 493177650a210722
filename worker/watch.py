"""Signs of life while something is done that can't be cut into slices: compiling, preparing, judging."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from app.store import units
from app.store.engine import session_scope
from app.store.errors import LeaseLostError
from app.store.tables import CHAIN
from app.store.units import Claim, Directive, Progress
from worker.context import Context

log = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
LONGEST_SECONDS = 1800.0  # what takes longer is taken for stuck, and left to its lease

END: dict[Directive, Callable[..., None]] = {
    Directive.CANCEL: units.stop,
    Directive.DRAIN: units.release,
    Directive.TIME_UP: units.finish_early,
}


class EndedError(Exception):
    """The unit was ended while this process was busy with it."""


class Watch:
    """A thread that beats for a unit. A cancel, a drain or the end of a chain's time takes effect at once."""

    def __init__(self, context: Context, claim: Claim) -> None:
        self.progress: Progress | None = None  # told with the next beat
        self._engine, self._claim = context.engine, claim
        self._over = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def check(self) -> None:
        """Raise EndedError once there is nothing left to do."""
        if self._ended:
            raise EndedError

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Beat no more."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        began = time.monotonic()
        while not self._over.is_set() and time.monotonic() - began < LONGEST_SECONDS:
            try:
                self._beat()
            except LeaseLostError:
                self._ended = True
            except SQLAlchemyError as error:
                log.warning("Unit %s: no sign of life: %s", self._claim.unit_id, error)
            if self._ended:
                return
            self._over.wait(BEAT_SECONDS)

    def _beat(self) -> None:
        claim = self._claim
        with session_scope(self._engine) as session:
            directive = units.heartbeat(session, claim, self.progress)
        if directive is Directive.CONTINUE or (directive is Directive.TIME_UP and claim.kind != CHAIN):
            return
        with session_scope(self._engine) as session:
            END[directive](session, claim)
        self._ended = True


@contextmanager
def watched(context: Context, claim: Claim) -> Iterator[Watch]:
    """Beat for the unit as long as the block takes.

    Raises
    ------
    EndedError
        At the end of the block, when the unit has ended meanwhile, or is no longer this worker's.
    """
    watch = Watch(context, claim)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()
    watch.check()
