"""The dispatcher: a thread of every worker's main process that sends doorbells for work in the database.

It looks every few seconds, and at once when a unit of its worker has ended, since that may have been short.
It relays accepted work, ends lost units and makes up for lost messages, and several copies do no harm. It
starts the refits of schedules, the making of sets of models and the sender of webhooks, and also sends
heartbeats for its worker, removes deleted rows, and ensures that a stopping worker ends. Without it a worker
would stand: one whose thread has died or is stuck ends, and whoever started it starts it again.
"""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from celery import Celery
from kombu.connection import Connection

from app.settings import BELL_QUEUE, BELL_TASK
from app.store import deletion, reserve
from app.store.engine import session_scope
from app.store.outcomes import schedules
from app.store.queue import claims, lifecycle, workers
from app.store.queue.counters import BELLS
from app.store.sets import model_sets
from app.store.tables import Worker
from app.store.webhooks import outbox
from worker.context import Context
from worker.places import MORE_PROCESSES

log = logging.getLogger(__name__)

BEAT_SECONDS = 2.0
REST_SECONDS = 0.05  # shortest time between looks, however short units are
MOST_SWEPT = 20  # lost units ended per heartbeat, each in its own transaction
STUCK_SECONDS = 300.0  # without a look, after which a worker ends; a database may take its time
REMOVE_SECONDS = 0.5  # time after each heartbeat for removing deleted rows in batches
DEAF_SECONDS = 15.0  # that doorbells may go unanswered while there is work and no process has any in hand
DRAIN_SECONDS = 25.0  # a unit that hasn't ended by then is left to the expiry of its lease
BROKER_SECONDS = 2.5  # longest time an unresponsive broker may block the dispatcher

# A fork while this thread is inside SQLite or libpq would copy their locks into the child in a locked state.
# So the thread uses the database only under this lock, and forks wait for it.
_database = threading.Lock()
os.register_at_fork(
    before=_database.acquire, after_in_parent=_database.release, after_in_child=_database.release
)


@dataclass
class Habit:
    """Work beside units that is done by a process of its own (`app.due`) whenever some is due.

    Parameters
    ----------
    queue
        Its name there: plans of refits read whole datasets, and receivers of webhooks may be slow.
    store
        Tells by `any_due` whether there is some.
    seconds
        Time between two looks.
    """

    queue: str
    store: Any
    seconds: float
    looked_at: float = 0.0
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    def at_rest(self, now: float) -> bool:
        """Tell whether it is time for a look, and no process at work."""
        at_work = self.process is not None and self.process.poll() is None
        return not at_work and now - self.looked_at >= self.seconds


class Dispatcher:
    """Polls for claimable units and sends doorbells while this worker has free slots.

    Parameters
    ----------
    app
        The Celery app that receives the doorbells.
    context
        Context of the main process.
    reserved
        Returns the number of doorbells that this worker has accepted and not finished.
    end
        Ends the worker's processes at once with the given exit code.
    """

    def __init__(
        self, app: Celery, context: Context, reserved: Callable[[], int], end: Callable[[int], None]
    ) -> None:
        self._app = app
        self._context = context
        self._reserved = reserved
        self._end = end
        self._processes = context.settings.worker_slots + MORE_PROCESSES
        self._drain_at: float | None = None
        self._drained = self._stopped = False
        self._beat_at = self._removed_at = 0.0
        self._looked_at = time.monotonic()
        self._habits = [
            Habit("refits", schedules, 20.0),
            Habit("webhooks", outbox, 2.0),
            Habit("model_sets", model_sets, 1.0),
        ]
        self._claimable = 0
        self._busy = False
        self._deaf_since: float | None = None
        self._answered = 0
        self._connection: Connection | None = None
        self._complained: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)
        self._guard = threading.Thread(target=self._watch_thread, name="dispatcher's guard", daemon=True)

    def start(self) -> None:
        """Start the thread; call this once the pool has started, so that its first forks come before."""
        self._thread.start()
        self._guard.start()

    def drain(self) -> None:
        """Let the running units end with their slice. Safe in a signal handler."""
        if self._drain_at is None:
            self._drain_at = time.monotonic()
        self._context.places.wake()

    def stop(self) -> None:
        """End the thread and delete the worker's row."""
        self._stopped = True
        self._context.places.wake()
        if self._thread.is_alive():
            self._thread.join(BROKER_SECONDS + 5.0)
        self._attempt("database", self._forget)

    def _run(self) -> None:
        self._attempt("database", self._register)
        while not self._stopped:
            self._looked_at = time.monotonic()
            if self._drain_at is not None:
                self._watch_drain(self._drain_at)
            elif self._attempt("database", self._look):
                self._attempt("broker", self._ring)
                self._watch_bells()
                self._attempt("database", self._remove)
                self._attempt("database", self._keep_habits)
            time.sleep(REST_SECONDS)
            self._context.places.sleep(max(self._context.settings.dispatch_seconds - REST_SECONDS, 0))

    def _watch_thread(self) -> None:
        """End the worker when its dispatcher's thread has died, or doesn't get on."""
        while not self._stopped:
            self._thread.join(STUCK_SECONDS / 10)
            stuck = time.monotonic() - self._looked_at > STUCK_SECONDS
            if not self._stopped and (stuck or not self._thread.is_alive()):
                log.error("The dispatcher's thread %s; ending.", "is stuck" if stuck else "has died")
                self._end(1)
                return

    def _look(self) -> None:
        """Send a heartbeat when due, end lost units, and count claimable ones."""
        places = self._context.places
        now = time.monotonic()
        self._busy = bool(places.busy())
        with _database:
            if now - self._beat_at >= BEAT_SECONDS:
                self._beat(now)
            with session_scope(self._context.engine, read_only=True) as session:
                self._claimable = claims.count_claimable(
                    session,
                    self._processes,
                    busy=places.busy(),
                    slots=places.free_slots(),
                    beside=places.kinds_beside(),
                )

    def _beat(self, now: float) -> None:
        with session_scope(self._context.engine) as session:
            known = workers.beat(session, self._context.worker_id, "ready", self._context.counts.sums())
        if not known:  # the database was restored, or this worker was considered dead
            self._enter()
        self._beat_at = now
        reserve.keep(self._context.engine)
        for _ in range(MOST_SWEPT):
            with session_scope(self._context.engine) as session:
                if not lifecycle.sweep(session, self._context.places.busy()):
                    break

    def _remove(self) -> None:
        """Remove batches of deleted rows for a moment, once per heartbeat."""
        if self._removed_at == self._beat_at:
            return
        self._removed_at = self._beat_at
        until = time.monotonic() + REMOVE_SECONDS
        while time.monotonic() < until:
            with _database, session_scope(self._context.engine) as session:
                if not deletion.delete_next_batch(session):
                    return

    def _keep_habits(self) -> None:
        """Start a process for each kind of work that is due, unless one is at it."""
        now = time.monotonic()
        for habit in self._habits:
            if not habit.at_rest(now):
                continue
            habit.looked_at = now
            with _database, session_scope(self._context.engine, read_only=True) as session:
                due = habit.store.any_due(session)
            if due:
                environment = os.environ | {"BARTSERVE_DATA_DIR": str(self._context.settings.data_dir)}
                command = (sys.executable, "-P", "-m", "app.due", habit.queue)
                habit.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)  # noqa: S603

    def _ring(self) -> None:
        """Send one doorbell per claimable unit, at most one per idle process, including queued doorbells."""
        doorbells = min(self._claimable, self._processes - self._reserved())
        if doorbells <= 0:
            return
        try:
            if self._connection is None:
                self._connection = self._app.connection_for_write(connect_timeout=BROKER_SECONDS)
            waiting = self._connection.default_channel.queue_declare(BELL_QUEUE).message_count
            for _ in range(doorbells - waiting):
                self._app.send_task(BELL_TASK, connection=self._connection, retry=False)
                self._context.counts.add(BELLS, "rung")
        except BaseException:
            self._context.counts.add(BELLS, "failed")
            self._disconnect()
            raise

    def _watch_bells(self) -> None:
        """End a worker whose processes answer no doorbell: whoever started it starts it again.

        A process killed just while it takes a doorbell may leave the pipe that all share within a message, or
        a message that Celery takes for delivered: then no other process ever receives one.
        """
        answered = self._context.places.answered()  # units shorter than a poll are never seen as busy
        hears, self._answered = answered != self._answered, answered
        if hears or self._busy or not self._claimable or not self._reserved():
            self._deaf_since = None
            return
        now = time.monotonic()
        self._deaf_since = now if self._deaf_since is None else self._deaf_since
        if now - self._deaf_since > DEAF_SECONDS:
            log.error("No process answered a doorbell for %s s though there is work; ending.", DEAF_SECONDS)
            self._end(1)

    def _disconnect(self) -> None:
        """Drop a failed connection; it may also remember queues that were deleted."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.release()  # type: ignore[no-untyped-call]

    def _register(self) -> None:
        with _database:
            self._enter()
        self._beat_at = time.monotonic()

    def _enter(self) -> None:
        row = Worker(
            id=self._context.worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            slots=self._context.settings.worker_slots,
            fit_memory=self._context.settings.fit_memory_bytes,
            beat_at=0.0,
            phase="ready",
        )
        with session_scope(self._context.engine) as session:
            workers.register(session, row)

    def _watch_drain(self, since: float) -> None:
        if not self._drained:
            self._drained = self._attempt("database", self._tell_drain)
        if self._reserved() == 0:
            # All state is in the database: Celery's own shutdown would only take five seconds (measured).
            self._attempt("database", self._forget)
            self._end(0)
        if time.monotonic() - since > DRAIN_SECONDS:
            log.error("A unit did not end its slice within %s s; its lease will expire.", DRAIN_SECONDS)
            self._end(1)

    def _tell_drain(self) -> None:
        with _database, session_scope(self._context.engine) as session:
            workers.drain(session, self._context.worker_id)

    def _forget(self) -> None:
        with _database, session_scope(self._context.engine) as session:
            workers.forget(session, self._context.worker_id)

    def _attempt(self, partner: str, act: Callable[[], None]) -> bool:
        """Run `act`; return False on failure. Log only the first failure of a partner, and its recovery."""
        try:
            act()
        except Exception as error:  # noqa: BLE001  this thread must not end; kombu raises many types
            if partner not in self._complained:
                log.warning("The %s can't be reached, retrying: %s", partner, error)
                self._complained.add(partner)
            return False
        if partner in self._complained:
            log.warning("The %s is back.", partner)
            self._complained.discard(partner)
        return True


def end_now(children: list[int], code: int) -> None:
    """Kill these processes and exit; expired leases recover unfinished units."""
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os._exit(code)
