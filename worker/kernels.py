"""Compiled kernels for a unit: loaded, or compiled with signs of life."""

import time

from app.store import units
from app.store.engine import session_scope
from app.store.units import Claim, Directive, Progress
from sampler import Settings, is_warm, warm
from worker.context import Context
from worker.errors import Stopped

TELL_SECONDS = 0.5  # between heartbeats while compiling
PREDICTION = "prediction"


def load_kernels(context: Context, claim: Claim, what: Settings | str) -> None:
    """Load the kernels that a fit (or a named group's work) needs, or compile them.

    Raises
    ------
    Stopped
        By a cancel or a drain, which end the wait.
    """
    if is_warm(what):
        warm(what)
        return
    told = [0.0]

    def tell(done: int, total: int) -> None:
        now = time.monotonic()
        if now - told[0] < TELL_SECONDS and done < total:
            return
        told[0] = now
        with session_scope(context.engine) as session:
            directive = units.heartbeat(session, claim, Progress("compiling", done, total))
        if directive is not Directive.CONTINUE:
            raise Stopped(directive)

    warm(what, tell)
