"""Counters of a worker's children reach the database with its heartbeats and outlive the children."""

import os
import signal

import pytest

from app.store.engine import session_scope
from app.store.queue import counters, workers
from tests.support.processes.worker_service import LONG, SHORT, children

pytestmark = pytest.mark.slow


def counted(service, tally: counters.Tally, *labels: str) -> float:
    """Return that counter's total over all workers, or a histogram's number of values."""
    with session_scope(service.engine, read_only=True) as session:
        rows = [worker.counts or {} for worker, _ in workers.last_beats(session)]
    counts = [cells for row in rows for has, cells in counters.cells_of(row, tally) if has == labels]
    return sum(sum(cells[:-1]) if tally.buckets else cells[0] for cells in counts)


def test_iterations_slices_jobs_and_bells_are_counted(service):
    """Two chains of 200 iterations and a finish are counted, whichever child ran them."""
    model_id = service.create_model(**SHORT)
    service.start_worker()
    assert service.ended(model_id, 120).state == "succeeded"

    service.eventually(lambda: counted(service, counters.JOBS, "finish", "done") == 1, 60)
    assert counted(service, counters.ITERATIONS) >= 400  # more if a busy machine lost a lease
    assert counted(service, counters.JOBS, "chain", "done") == 2
    assert counted(service, counters.SLICES) >= 2
    assert counted(service, counters.BELLS, "rung") >= 3


def test_what_a_killed_child_counted_stays(service):
    """Counts survive kill -9 of a child; the continued chain counts as resumed."""
    model_id = service.create_model(**LONG | {"num_draws": 5000})  # it is cancelled at the end of the test
    process = service.start_worker()
    service.eventually(lambda: counted(service, counters.ITERATIONS) > 0, 60)
    before = counted(service, counters.ITERATIONS)

    for pid in children(process):
        os.kill(pid, signal.SIGKILL)

    service.eventually(lambda: counted(service, counters.RESUMED, "lost") > 0, 60)
    assert counted(service, counters.ITERATIONS) >= before
    service.cancel(model_id)
