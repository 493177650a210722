"""Compiled kernels for a unit: loaded, or compiled with signs of life."""

from app.store.units import Claim, Progress
from sampler import Settings, is_warm, warm
from worker.context import Context
from worker.watch import watched

PREDICTION = "prediction"


def load_kernels(context: Context, claim: Claim, what: Settings | str) -> None:
    """Load the kernels that a fit (or a named group's work) needs, or compile them.

    Raises
    ------
    EndedError
        A cancel or a drain has taken effect meanwhile; no further kernel is begun.
    """
    if is_warm(what):
        warm(what)
        return
    with watched(context, claim) as watch:

        def tell(done: int, total: int) -> None:
            watch.progress = Progress("compiling", done, total)
            watch.check()

        warm(what, tell)
