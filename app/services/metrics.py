"""Prometheus metrics for /metrics.

Requests, predictions and uploads are counted in this process. Figures on the queue, the fits and the workers
come from the database at the time of the scrape, so every API process gives the same answer and workers need
no port. Label values are known in advance: route templates, never ids of owners or models.
"""

import platform
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from app.services.health import FRESH_BEATS, FRESH_SECONDS
from app.store.clock import utc_now
from app.store.engine import session_scope
from app.store.queue import counters
from app.store.queue.snapshot import Snapshot, snapshot
from app.store.tables import CANCELLED, DONE, FAILED, OPEN_STATES, SUCCEEDED, Worker
from sampler.host.assessment import DRIFT_VERDICTS
from sampler.host.assessment import WATCH_VERDICTS as VERDICTS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NO_ROUTE = "(none)"  # for a request that matched no route, or was refused before routing
# From milliseconds for the prediction of one row to a minute for an upload.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# One registry per process: applications that tests create in one process share it.
process = CollectorRegistry()
requests = Counter("bart_http_requests", "HTTP responses.", ["route", "method", "status"], registry=process)
request_seconds = Histogram(
    "bart_http_request_duration_seconds",
    "Seconds from the request line to the last byte of the response.",
    ["route", "method"],
    buckets=SECONDS,
    registry=process,
)
predicted_rows = Counter("bart_predict_rows", "Rows predicted by synchronous requests.", registry=process)
reported_outcomes = Counter(
    "bart_outcomes", "Outcomes of predicted rows that were reported.", registry=process
)
predict_seconds = Histogram(
    "bart_predict_duration_seconds",
    "Seconds of a prediction by phase: load the posterior, compute, encode the response.",
    ["phase"],
    buckets=SECONDS,
    registry=process,
)
predict_inflight = Gauge(
    "bart_predict_inflight", "Predictions and explanations running or waiting.", registry=process
)
predict_rejected = Counter(
    "bart_predict_rejected", "Predictions refused, by problem type.", ["reason"], registry=process
)
upload_rejected = Counter(
    "bart_upload_rejected", "Uploads refused, by problem type.", ["reason"], registry=process
)
build = Gauge("bart_build_info", "1, labelled with versions.", ["version", "python"], registry=process)
build.labels(version("bartserve"), platform.python_version()).set(1)
for _phase in ("load", "compute", "encode"):
    predict_seconds.labels(_phase)  # present from the start, so that rates begin at zero


class CountedCache(Protocol):
    """Cache of posteriors, as far as it is counted here."""

    nbytes: int
    hits: int
    misses: int


class Scrape(Collector):
    """Collector for one application: its engine, cache and database."""

    def __init__(self, engine: Engine, cache: CountedCache, dispatch_seconds: float) -> None:
        self._engine = engine
        self._cache = cache
        self._fresh = max(FRESH_SECONDS, FRESH_BEATS * dispatch_seconds)
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(process) + generate_latest(self._registry)

    def describe(self) -> Iterator[Metric]:
        """Return no metrics: the database is queried at a scrape, not at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; without those from the database when it is unreachable."""
        yield from self._of_process()
        try:
            with session_scope(self._engine, read_only=True) as session:
                counted = snapshot(session)
        except SQLAlchemyError:
            yield GaugeMetricFamily("bart_database_up", "Whether the database responds.", value=0)
            return
        yield GaugeMetricFamily("bart_database_up", "Whether the database responds.", value=1)
        yield from _of_queue(counted)
        yield from _of_workers(counted, self._fresh)
        for tally in counters.TALLIES:
            yield _of_tally(tally, counted.workers)

    def _of_process(self) -> Iterator[Metric]:
        cache = self._cache
        yield GaugeMetricFamily("bart_ensemble_cache_bytes", "Posteriors in memory.", value=cache.nbytes)
        requests = CounterMetricFamily(
            "bart_ensemble_cache_requests", "Requests for a posterior.", labels=["result"]
        )
        requests.add_metric(["hit"], cache.hits)
        requests.add_metric(["miss"], cache.misses)
        yield requests
        pool = self._engine.pool
        if isinstance(pool, QueuePool):
            about = "Database connections in use by this process."
            yield GaugeMetricFamily("bart_db_pool_in_use", about, value=pool.checkedout())


def _of_queue(snapshot: Snapshot) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("bart_jobs", "Units of work.", labels=["kind", "state"])
    for kind in counters.UNIT_KINDS:
        for state in (*OPEN_STATES, DONE, FAILED, CANCELLED):
            jobs.add_metric([kind, state], snapshot.units.get((kind, state), 0))
    yield jobs
    models = GaugeMetricFamily("bart_models", "Models.", labels=["state"])
    for state in (*OPEN_STATES, SUCCEEDED, FAILED, CANCELLED):
        models.add_metric([state], snapshot.models.get(state, 0))
    yield models
    about = "Models with reported outcomes, by whether their intervals hold."
    watched = GaugeMetricFamily("bart_watched_models", about, labels=["verdict"])
    for verdict in VERDICTS:
        watched.add_metric([verdict], snapshot.watches.get(verdict, 0))
    yield watched
    about = "Models by whether the rows that they predict for resemble their training rows."
    drift = GaugeMetricFamily("bart_drift_models", about, labels=["verdict"])
    for judgement in DRIFT_VERDICTS:
        drift.add_metric([judgement], snapshot.drift.get(judgement, 0))
    yield drift
    oldest = snapshot.oldest_queued
    age = 0.0 if oldest is None else max(0.0, (utc_now() - oldest).total_seconds())
    about = "Age of the oldest queued unit in seconds; 0 when none is queued."
    yield GaugeMetricFamily("bart_oldest_queued_job_age_seconds", about, value=age)


def _of_workers(snapshot: Snapshot, fresh_seconds: float) -> Iterator[Metric]:
    fresh = [w for w in snapshot.workers if abs(snapshot.now - w.beat_at) < fresh_seconds]
    latest = snapshot.now + fresh_seconds  # a later one is of a clock that was ahead
    newest = max((w.beat_at for w in snapshot.workers if w.beat_at < latest), default=0.0)
    about = "Time of the latest heartbeat of any dispatcher; 0 if there was none."
    yield GaugeMetricFamily("bart_dispatcher_last_beat_timestamp_seconds", about, value=newest)
    beats = GaugeMetricFamily(
        "bart_worker_last_beat_timestamp_seconds",
        "Time of each worker's latest heartbeat, by the database's clock.",
        labels=["worker"],
    )
    slots = GaugeMetricFamily("bart_worker_slots", "Units that the live workers can run at once.")
    for worker in snapshot.workers:
        beats.add_metric([worker.id], worker.beat_at)
    slots.add_metric([], sum(worker.slots for worker in fresh if not worker.draining))
    yield beats
    yield slots


def _of_tally(tally: counters.Tally, workers: list[Worker]) -> Metric:
    """Build a metric from the workers' heartbeats, one series per worker; a worker's series ends with it."""
    make: Callable[..., Metric] = HistogramMetricFamily if tally.buckets else CounterMetricFamily
    family = make(tally.name, tally.help, labels=[*tally.labels, "worker"])
    for worker in workers:
        for labels, cells in counters.cells_of(worker.counts or {}, tally):
            if isinstance(family, HistogramMetricFamily):
                family.add_metric([*labels, worker.id], *_cumulated(tally, cells))
            elif isinstance(family, CounterMetricFamily):
                family.add_metric([*labels, worker.id], cells[0])
    return family


def _cumulated(tally: counters.Tally, cells: list[float]) -> tuple[list[tuple[str, float]], float]:
    *counts, total = cells
    bounds = [*(f"{bound:g}" for bound in tally.buckets), "+Inf"]
    return [(bound, sum(counts[: k + 1])) for k, bound in enumerate(bounds)], total
