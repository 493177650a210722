"""`bartserve worker`: a Celery worker with its dispatcher, embedded or beside Redis."""

import logging
import os
import secrets
import socket
import sys
from typing import Any

from app.settings import Settings

# Chains are the parallelism: a library that starts threads of its own only takes them from each other.
_SINGLE_THREADED = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
EMBEDDED_NICE = 10  # predictions stay quick while chains run on the same machine


def run_worker(settings: Settings) -> None:
    """Run a worker until it is asked to stop; then exit with its code."""
    for name in _SINGLE_THREADED:
        os.environ[name] = "1"
    # Only now: numpy and numba read the environment when they load, before the pool forks.
    from worker.app import make_app  # noqa: PLC0415
    from worker.context import Context, enter  # noqa: PLC0415

    logging.getLogger("celery").setLevel(logging.WARNING)
    host = socket.gethostname()
    context = Context(settings, f"{host}-{os.getpid()}-{secrets.token_hex(3)}")
    enter(context)
    _load_kernels()
    worker = make_app(settings).Worker(
        hostname=f"{context.worker_id}@{host}",
        pool_cls="prefork",
        concurrency=settings.worker_slots,
        loglevel="WARNING",
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    dispatcher = _attach(worker, context)
    worker.start()
    dispatcher.stop()
    sys.exit(worker.exitcode)


def _load_kernels() -> None:
    """Load compiled kernels before the pool forks, so that children share them; never wait for compiling."""
    from sampler import Chain, Posterior, is_warm, warm  # noqa: F401, PLC0415

    if is_warm():
        warm()


def _attach(worker: Any, context: Any) -> Any:
    """Tie the dispatcher and the children's set-up to the worker's signals."""
    from celery import signals  # noqa: PLC0415
    from celery.worker import state  # noqa: PLC0415

    from worker.dispatcher import Dispatcher, kill  # noqa: PLC0415

    def end() -> None:
        kill([process.pid for process in worker.pool._pool._pool])  # noqa: SLF001  Celery has no other list

    dispatcher = Dispatcher(worker.app, context, lambda: len(state.reserved_requests), end)

    def ready(**_kw: Any) -> None:
        dispatcher.start()

    def shutting_down(**_kw: Any) -> None:
        dispatcher.drain()

    def child(**_kw: Any) -> None:
        context.after_fork()
        if context.settings.embedded:
            os.nice(EMBEDDED_NICE)

    signals.worker_ready.connect(ready, weak=False)
    signals.worker_shutting_down.connect(shutting_down, weak=False)
    signals.worker_process_init.connect(child, weak=False)
    return dispatcher
