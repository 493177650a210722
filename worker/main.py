"""`bartserve worker`: a Celery worker with its dispatcher, embedded or with Redis."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import socket
import sys
import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from app.settings import Settings
    from worker.context import Context
    from worker.dispatcher import Dispatcher

# Chains are the parallelism: threads of libraries would only compete with them.
_SINGLE_THREADED = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
EMBEDDED_NICE = 10  # keeps predictions fast while chains run on the same machine


def run_worker(settings: Settings) -> None:
    """Run a worker until it is asked to stop; then exit with its code."""
    for name in _SINGLE_THREADED:
        os.environ[name] = "1"
    # Imported here, because numpy and numba read the environment at import, before the pool forks.
    from worker.context import Context, enter  # noqa: PLC0415

    _quieten()
    context = Context(settings, f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}")
    enter(context)
    _refuse_other_schema(settings)
    _load_kernels()
    _announce(settings)
    worker, dispatcher = _make_worker(context)
    worker.start()
    dispatcher.stop()
    sys.exit(worker.exitcode)


def _quieten() -> None:
    from celery import signals  # noqa: PLC0415
    from celery.platforms import SecurityWarning  # noqa: PLC0415

    signals.setup_logging.connect(_leave_logging, weak=False)
    # Celery warns about root because of pickled messages; ours are JSON.
    warnings.filterwarnings("ignore", category=SecurityWarning)


def _leave_logging(**_kw: Any) -> None:
    """Do nothing: with a listener to this signal, Celery leaves the logging to `app.logging`."""


def _refuse_other_schema(settings: Settings) -> None:
    from app.store import schema  # noqa: PLC0415

    if (why := schema.mismatch(settings.database_url)) is not None:
        sys.exit(why)


def _load_kernels() -> None:
    """Load compiled kernels, and pandas for Arrow, before the pool forks, to be shared; never compile."""
    import pyarrow as pa  # noqa: PLC0415

    from sampler import Chain, Posterior  # noqa: F401, PLC0415
    from sampler.host.fits import load_ready  # noqa: PLC0415

    load_ready()
    pa.scalar(0.0)  # at its first conversion Arrow imports pandas, which would take each child a second
    # What is loaded now stays: without this the first collection of each child would copy all of its pages.
    gc.collect()
    gc.freeze()


def _announce(settings: Settings) -> None:
    import logging  # noqa: PLC0415

    from worker.fits.tracking import announce  # noqa: PLC0415

    logging.getLogger(__name__).info(has_and_lacks(settings))
    announce(settings)


OWN = ("families", "methods", "parts", "tree_laws")  # groups of entry points


def has_and_lacks(settings: Settings) -> str:
    """Say in a line, without secrets, what is configured for a worker, and what isn't by which setting."""
    from importlib.metadata import entry_points  # noqa: PLC0415

    database = urlsplit(settings.database_url)
    own = [each.name for kind in OWN for each in entry_points(group=f"bartserve.{kind}")]
    wakes = "none (BARTSERVE_REDIS_URL): the database is asked for work"
    each = {
        "slots": str(settings.worker_slots),
        "database": f"{database.scheme.partition('+')[0]} at {database.hostname or 'a local file'}",
        "Redis": wakes if settings.redis_url is None else str(urlsplit(settings.redis_url).hostname),
        "kernels": settings.kernels,
        "tracking server": "none (BARTSERVE_MLFLOW_TRACKING_URI)"
        if not settings.mlflow_tracking_uri
        else "MLflow",
        "private webhooks": settings.webhook_networks or "none (BARTSERVE_WEBHOOK_NETWORKS)",
        "models of your own": ", ".join(own) or f"none (bartserve.{', .'.join(OWN)})",
    }
    return "This worker has: " + "; ".join(f"{name}: {said}" for name, said in each.items())


def _make_worker(context: Context) -> tuple[Any, Dispatcher]:
    """Make Celery's worker, with its dispatcher and the set-up of its children."""
    from billiard import current_process  # noqa: PLC0415
    from celery import signals  # noqa: PLC0415
    from celery.worker import state  # noqa: PLC0415

    from worker.celery_app import make_app  # noqa: PLC0415
    from worker.dispatcher import Dispatcher, end_now  # noqa: PLC0415
    from worker.pool import LastingTaskPool  # noqa: PLC0415

    app = make_app(context.settings)
    worker = app.Worker(
        hostname=f"{context.worker_id}@{socket.gethostname()}",
        pool_cls=LastingTaskPool,
        concurrency=app.conf.worker_concurrency,
        loglevel="WARNING",
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )

    def end(code: int) -> None:
        end_now([process.pid for process in worker.pool._pool._pool], code)  # noqa: SLF001  no other list

    dispatcher = Dispatcher(app, context, lambda: len(state.reserved_requests), end)

    def stop(_signal: int, _frame: Any) -> None:
        state.should_stop = 0  # tells Celery to accept no more tasks and end
        dispatcher.drain()

    def ready(**_kw: Any) -> None:
        # Replaces Celery's handlers, which also write to the terminal and restart on a hang-up.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, stop)
        dispatcher.start()

    def child(**_kw: Any) -> None:
        context.after_fork(getattr(current_process(), "index", 0))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to the whole group; the parent ends its children
        if context.settings.embedded:
            os.nice(EMBEDDED_NICE)

    signals.worker_ready.connect(ready, weak=False)
    signals.worker_process_init.connect(child, weak=False)
    return worker, dispatcher
