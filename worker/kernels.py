"""Compiled kernels for a unit: loaded, or compiled one by one."""

from app.store.queue.units import Progress
from sampler import Settings, is_warm, warm
from worker.heartbeat import Watch

PREDICTION = "prediction"


def load_kernels(watch: Watch, *needed: Settings | str) -> None:
    """Load the kernels that a fit (or a named group) or several need, or compile them.

    Raises
    ------
    EndedError
        A cancel or a drain has taken effect meanwhile; no further kernel is compiled.
    """
    if is_warm(needed):
        warm(needed)
        return

    def tell(done: int, total: int) -> None:
        watch.tell(Progress("compiling", done, total))
        watch.check()

    warm(needed, tell)
    watch.tell(None)
