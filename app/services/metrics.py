"""What Prometheus reads at /metrics.

Requests, predictions and uploads are counted in this process. The queue, the fits and what the workers count
come from the database at the moment of the scrape, so that any API process gives the same answer and workers
need no port. Labels have values that are known beforehand: route templates, never ids of tenants or models.
"""

import platform
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from app.services.health import FRESH_BEATS, FRESH_SECONDS
from app.store.clock import utc_now
from app.store.counts import Figures, figures
from app.store.engine import session_scope
from app.store.queue import counters
from app.store.tables import CANCELLED, DONE, FAILED, OPEN_STATES, SUCCEEDED, Worker

if TYPE_CHECKING:
    from app.services.predictions.posterior_cache import Cache

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NO_ROUTE = "(none)"  # of a request that met no route, or was refused before
# To the millisecond where one row is predicted, to the minute where a file is uploaded.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# One process, one count: the applications that tests make in it share these.
process = CollectorRegistry()
requests = Counter("bart_http_requests", "Answers.", ["route", "method", "status"], registry=process)
request_seconds = Histogram(
    "bart_http_request_duration_seconds",
    "From the request line to the last byte of the answer.",
    ["route", "method"],
    buckets=SECONDS,
    registry=process,
)
predicted_rows = Counter(
    "bart_predict_rows", "Rows predicted at once (not in the background).", registry=process
)
predict_seconds = Histogram(
    "bart_predict_duration_seconds",
    "Of a prediction: load (the posterior into memory), compute, encode (the answer).",
    ["phase"],
    buckets=SECONDS,
    registry=process,
)
predict_inflight = Gauge(
    "bart_predict_inflight", "Predictions and explanations at work or in line.", registry=process
)
predict_rejected = Counter(
    "bart_predict_rejected", "Predictions refused, by the problem's type.", ["reason"], registry=process
)
upload_rejected = Counter(
    "bart_upload_rejected", "Files refused, by the problem's type.", ["reason"], registry=process
)
build = Gauge("bart_build_info", "1, with what runs.", ["version", "python"], registry=process)
build.labels(version("bartserve"), platform.python_version()).set(1)
for _phase in ("load", "compute", "encode"):
    predict_seconds.labels(_phase)  # there from the start, so that rates know their zero


class Scrape(Collector):
    """The figures of one application: its engine, its cache, its database."""

    def __init__(self, engine: Engine, cache: "Cache[Any]", dispatch_seconds: float) -> None:
        self._engine = engine
        self._cache = cache
        self._fresh = max(FRESH_SECONDS, FRESH_BEATS * dispatch_seconds)
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """All metrics, in the text format."""
        return generate_latest(process) + generate_latest(self._registry)

    def describe(self) -> Iterator[Metric]:
        """Nothing: the database is asked when it is read, not when it is registered."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """One by one; without the database's own when it is away."""
        yield from self._of_process()
        try:
            with session_scope(self._engine, read_only=True) as session:
                found = figures(session)
        except SQLAlchemyError:
            yield GaugeMetricFamily("bart_database_up", "Whether the database answers.", value=0)
            return
        yield GaugeMetricFamily("bart_database_up", "Whether the database answers.", value=1)
        yield from _of_queue(found)
        yield from _of_workers(found, self._fresh)
        for tally in counters.TALLIES:
            yield _of_tally(tally, found.workers)

    def _of_process(self) -> Iterator[Metric]:
        cache = self._cache
        yield GaugeMetricFamily("bart_ensemble_cache_bytes", "Posteriors in memory.", value=cache.nbytes)
        requests = CounterMetricFamily(
            "bart_ensemble_cache_requests", "Posteriors asked for.", labels=["result"]
        )
        requests.add_metric(["hit"], cache.hits)
        requests.add_metric(["miss"], cache.misses)
        yield requests
        pool = self._engine.pool
        if isinstance(pool, QueuePool):
            told = "Connections to the database in use by this process."
            yield GaugeMetricFamily("bart_db_pool_in_use", told, value=pool.checkedout())


def _of_queue(found: Figures) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("bart_jobs", "Units of work there are.", labels=["kind", "state"])
    for kind in counters.UNIT_KINDS:
        for state in (*OPEN_STATES, DONE, FAILED, CANCELLED):
            jobs.add_metric([kind, state], found.units.get((kind, state), 0))
    yield jobs
    models = GaugeMetricFamily("bart_models", "Models there are.", labels=["state"])
    for state in (*OPEN_STATES, SUCCEEDED, FAILED, CANCELLED):
        models.add_metric([state], found.models.get(state, 0))
    yield models
    oldest = found.oldest_queued
    age = 0.0 if oldest is None else max(0.0, (utc_now() - oldest).total_seconds())
    told = "How long the unit that was made first, of those in the queue, is there; 0: none is."
    yield GaugeMetricFamily("bart_oldest_queued_job_age_seconds", told, value=age)


def _of_workers(found: Figures, fresh_seconds: float) -> Iterator[Metric]:
    newest = max((worker.beat_at for worker in found.workers), default=0.0)
    told = "When a dispatcher last beat; 0: never."
    yield GaugeMetricFamily("bart_dispatcher_last_beat_timestamp_seconds", told, value=newest)
    beats = GaugeMetricFamily(
        "bart_worker_last_beat_timestamp_seconds",
        "When each worker last beat, by the database's clock.",
        labels=["worker"],
    )
    slots = GaugeMetricFamily("bart_worker_slots", "Units that the workers that beat can do at once.")
    for worker in found.workers:
        beats.add_metric([worker.id], worker.beat_at)
    alive = [w for w in found.workers if w.beat_at > found.now - fresh_seconds and not w.draining]
    slots.add_metric([], sum(worker.slots for worker in alive))
    yield beats
    yield slots


def _of_tally(tally: counters.Tally, workers: list[Worker]) -> Metric:
    """What every worker wrote with its beat, a series each: one that ends takes its series along."""
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
