"""GET /metrics, parsed by Prometheus's own parser."""

import re
from datetime import timedelta

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.store.clock import utc_now
from app.store.engine import session_scope
from app.store.queue import counters, workers
from app.store.tables import Unit, Worker
from tests.support.api_calls import post_csv, post_json, problem, table
from tests.support.databases import only
from tests.support.models.fitted_models import fitted

PROMISED = {
    "bart_http_requests_total",
    "bart_http_request_duration_seconds_bucket",
    "bart_predict_rows_total",
    "bart_predict_duration_seconds_bucket",
    "bart_predict_inflight",
    "bart_ensemble_cache_bytes",
    "bart_ensemble_cache_requests_total",
    "bart_jobs",
    "bart_models",
    "bart_oldest_queued_job_age_seconds",
    "bart_chain_iterations_total",
    "bart_chain_slice_duration_seconds_bucket",
    "bart_lease_lost_total",
    "bart_chain_resumed_total",
    "bart_doorbells_total",
    "bart_job_duration_seconds_bucket",
    "bart_dispatcher_last_beat_timestamp_seconds",
    "bart_worker_last_beat_timestamp_seconds",
    "bart_worker_slots",
    "bart_db_pool_in_use",
    "bart_predict_rejected_total",
    "bart_upload_rejected_total",
    "bart_database_up",
    "bart_watched_models",
    "bart_drift_models",
    "bart_outcomes_total",
    "bart_build_info",
}


def read(client: httpx.Client) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return every sample by name and labels."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = [s for family in text_string_to_metric_families(answer.text) for s in family.samples]
    values = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(values) == len(samples), "a sample is there twice"
    return values


def value(samples, name: str, **labels: str) -> float:
    """Return the sum of the samples with that name and those labels."""
    return sum(v for (n, has), v in samples.items() if n == name and labels.items() <= dict(has).items())


@pytest.fixture
def counting(database) -> None:
    """Write a worker with a value in each of its counters."""
    counts = counters.Counts(2)
    for tally in counters.TALLIES:
        for labels in tally.combinations():
            for counts.part in (0, 1):
                if tally.buckets:
                    counts.observe(tally, 0.3, *labels)
                else:
                    counts.add(tally, *labels, amount=2)
    with session_scope(database.engine) as session:
        workers.register(session, Worker(id="w1", host="h", pid=1, slots=3, beat_at=0.0, phase="ready"))
        assert workers.beat(session, "w1", "ready", counts.sums())


def test_every_promised_name_is_there_and_labels_are_few(client, settings, counting):
    """A used service has a sample for each documented metric, and no label holds an id of an object."""
    model = fitted(client, settings)
    body = {"rows": [{"size": 3, "colour": "red"}] * 2}
    assert client.post(f"/models/{model['id']}/predict", json=body).status_code == 200
    problem(client.post(f"/models/{model['id']}/predict", json={"rows": []}), 422)
    problem(post_csv(client, ""), 422)

    samples = read(client)

    assert not PROMISED - {name for name, _ in samples}
    values = {v for _, labels in samples for _, v in labels}
    assert not [v for v in values if re.search(r"(mdl|ds|prd|un)_[0-9a-f]", v)]


def test_requests_count_by_template(client, caplog):
    """Requests are labelled by route template; those without a route share one, and log their method."""
    before = read(client)
    caplog.set_level("INFO", "app.api.requests")
    for number in range(3):
        client.get(f"/models/mdl_{number:020x}")
        client.get(f"/nowhere/{number}")

    after = read(client)

    def grown(**labels: str) -> float:
        name = "bart_http_requests_total"
        return value(after, name, **labels) - value(before, name, **labels)

    assert grown(route="/models/{model_id}", method="GET", status="404") == 3
    assert grown(route="(none)", status="404") == 3
    assert not [labels for _, labels in after if "nowhere" in str(labels)]
    assert caplog.messages.count("GET (none) 404") == 3


def test_predictions_and_the_cache_are_counted(client, settings):
    """Rows, phases, cache hits and misses, and refusals by type are counted."""
    model = fitted(client, settings)
    before = read(client)
    for _ in range(3):
        body = {"rows": [{"size": 3, "colour": "red"}] * 4}
        assert client.post(f"/models/{model['id']}/predict", json=body).is_success
    problem(client.post(f"/models/{model['id']}/predict", json={"rows": [{"sise": 3}]}), 422)

    after = read(client)

    def grown(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert grown("bart_predict_rows_total") == 12
    assert grown("bart_predict_duration_seconds_count", phase="encode") == 3
    assert grown("bart_predict_duration_seconds_count", phase="load") == 4
    assert grown("bart_ensemble_cache_requests_total") == 4
    assert grown("bart_ensemble_cache_requests_total", result="hit") >= 3
    assert grown("bart_predict_rejected_total", reason="unusable-data") == 1
    assert value(after, "bart_ensemble_cache_bytes") > 0
    assert value(after, "bart_predict_inflight") == 0


def test_uploads_refused_are_counted_by_reason(client):
    """Refused uploads are counted by problem type."""
    before = read(client)
    problem(post_csv(client, ""), 422)
    problem(client.post("/datasets", content=b"x", headers={"Content-Type": "image/png"}), 415)
    after = read(client)

    for reason in ("unusable-data", "unsupported-media-type"):
        name = "bart_upload_rejected_total"
        assert value(after, name, reason=reason) - value(before, name, reason=reason) == 1


def test_the_queue_is_what_the_database_says_now(client, database):
    """Jobs by kind and state and the oldest's age are read from the database at each scrape."""
    samples = read(client)
    assert value(samples, "bart_jobs", kind="chain", state="queued") == 0
    assert value(samples, "bart_oldest_queued_job_age_seconds") == 0
    dataset = post_csv(client, table()).json()["id"]
    created = post_json(
        client, "/models", f'{{"dataset_id": "{dataset}", "target": "y", "num_chains": 3, "num_draws": 10}}'
    )
    assert created.status_code == 202
    with session_scope(database.engine) as session:
        for unit in session.query(Unit):
            unit.created_at = utc_now() - timedelta(hours=1)

    samples = read(client)

    assert value(samples, "bart_jobs", kind="chain", state="queued") == 3
    assert value(samples, "bart_models", state="queued") == 1
    assert 3600 <= value(samples, "bart_oldest_queued_job_age_seconds") < 4200


def test_workers_counts_add_up(client, counting):
    """Counters written with a worker's heartbeat appear as that worker's series."""
    samples = read(client)

    assert value(samples, "bart_chain_iterations_total", worker="w1") == 4
    assert value(samples, "bart_doorbells_total", result="failed") == 4
    assert value(samples, "bart_chain_slice_duration_seconds_bucket", le="0.25") == 0
    assert value(samples, "bart_chain_slice_duration_seconds_bucket", le="0.5") == 2
    assert value(samples, "bart_chain_slice_duration_seconds_bucket", le="+Inf") == 2
    assert value(samples, "bart_chain_slice_duration_seconds_sum") == pytest.approx(0.6)
    assert value(samples, "bart_job_duration_seconds_count", kind="finish", outcome="lost") == 2
    assert value(samples, "bart_worker_slots") == 3
    assert value(samples, "bart_worker_last_beat_timestamp_seconds", worker="w1") > 1.7e9


@only("sqlite")
def test_metrics_answer_while_the_database_is_away(client, database):
    """Without a database /metrics still has the process's own figures and reports the failure."""
    with session_scope(database.engine) as session:
        session.execute(Unit.__table__.delete())
        session.connection().exec_driver_sql("ALTER TABLE units RENAME TO gone")

    samples = read(client)

    assert value(samples, "bart_database_up") == 0
    assert value(samples, "bart_http_requests_total") > 0
