"""Rows that were predicted for, counted by week off the path of requests; no row is stored."""

import logging
import threading
from collections import defaultdict, deque

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app.services.drift.counting import record
from sampler import Posterior
from sampler.host.assessment import DriftRows
from sampler.host.data import Coded

log = logging.getLogger(__name__)
SECONDS = 10.0  # between additions to the database's counts
MOST_WAITING = 10_000  # requests that wait for them; beyond, the oldest are not counted
MANY_ROWS = 10_000  # of a request, for which it isn't waited


class Traffic:
    """Rows that this process predicted for and that the database doesn't count yet.

    Parameters
    ----------
    engine
        The database.
    counts
        Whether anything is counted.
    """

    def __init__(self, engine: Engine, *, counts: bool) -> None:
        self.engine = engine
        self._counts = counts
        self._waiting: deque[tuple[str, DriftRows]] = deque(maxlen=MOST_WAITING)
        self._one_at_a_time = threading.Lock()
        self._wake, self._closing = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to add counts to the database's every few seconds."""
        if self._counts:
            self._thread = threading.Thread(target=self._run, name="drift", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Add what waits, and end."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()

    def note(self, model_id: str, posterior: Posterior, coded: Coded, mean: NDArray[np.float64]) -> None:
        """Let rows be counted that were just predicted for; takes no time."""
        if self._counts:
            rows = DriftRows.of(posterior.schema, coded, mean)
            self._waiting.append((model_id, rows))
            if coded.num_rows > MANY_ROWS or len(self._waiting) > MOST_WAITING // 2:
                self._wake.set()

    def flush(self) -> None:
        """Add what waits to the database's counts; what can't be added is left out, and logged."""
        with self._one_at_a_time:
            by_model: dict[str, list[DriftRows]] = defaultdict(list)
            while self._waiting:
                model_id, rows = self._waiting.popleft()
                by_model[model_id].append(rows)
            for model_id, some in by_model.items():
                try:
                    record(self.engine, model_id, some)
                except SQLAlchemyError:
                    log.exception("%d requests of model %s could not be counted", len(some), model_id)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait(SECONDS)
            self._wake.clear()
            self.flush()
