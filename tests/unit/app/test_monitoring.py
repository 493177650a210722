"""The alert rules and the Grafana dashboard use existing metrics and labels."""

import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from app.services.errors import BusyError, QuotaError, UnavailableError
from app.services.metrics import (
    Scrape,
    _of_queue,
    _of_tally,
    _of_workers,
    predict_rejected,
    request_seconds,
    requests,
    upload_rejected,
)
from app.services.predictions.posterior_cache import Cache
from app.store.engine import session_scope
from app.store.queue import counters, workers
from app.store.queue.snapshot import snapshot
from app.store.tables import Worker
from tests.support.databases import only

DEPLOY = Path(__file__).parents[3] / "deploy"
NAME = re.compile(r"\bbart_\w+")


def expressions_of() -> list[str]:
    """Return every expression of both files."""
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    expressions = [rule["expr"] for rule in rules]
    return expressions + [target["expr"] for panel in panels for target in panel["targets"]]


@pytest.fixture
def samples(database) -> dict[str, set[str]]:
    """Return the names of a fully used service's metric samples, each with its labels."""
    counts = counters.Counts(1)
    for tally in counters.TALLIES:
        for labels in tally.combinations():
            counts.observe(tally, 1.0, *labels) if tally.buckets else counts.add(tally, *labels)
    with session_scope(database.engine) as session:
        workers.register(session, Worker(id="w", host="h", pid=1, slots=1, beat_at=0.0, phase="ready"))
        workers.beat(session, "w", "ready", counts.sums())
    for counter in (predict_rejected, upload_rejected):
        counter.labels("x")
    requests.labels("/x", "GET", "200")
    request_seconds.labels("/x", "GET")
    text = Scrape(database.engine, Cache(1), 1.0).text().decode()
    labels_of: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels_of.setdefault(sample.name, set()).update(sample.labels)
    return labels_of


def inmost(before: str) -> tuple[str, set[str]]:
    """Return the innermost aggregation open at the end of a text, with its labels, or None."""
    depth, at = 0, len(before)
    while (at := at - 1) >= 0:
        depth += {")": 1, "(": -1}.get(before[at], 0)
        if depth < 0:
            depth = 0
            if call := re.search(r"\b(sum|max|min|avg|count)(?: by \(([^)]*)\))? ?$", before[:at]):
                return call[1], set(re.findall(r"\w+", call[2] or ""))
    return "", set()


@only("sqlite")
def test_figures_of_all_replicas_are_counted_once(samples, database):
    """Database figures, equal at each API replica, are reduced by max before they are summed."""
    with session_scope(database.engine, read_only=True) as session:
        metrics = [*_of_queue(snapshot(session)), *_of_workers(snapshot(session), 1.0)]
        metrics += [_of_tally(tally, snapshot(session).workers) for tally in counters.TALLIES]
    shared = {sample.name for family in metrics for sample in family.samples}
    assert {"bart_jobs", "bart_chain_iterations_total", "bart_worker_slots"} <= shared
    counted = 0
    for expression in expressions_of():
        for name in NAME.finditer(expression):
            if name[0] in shared:
                how, labels = inmost(expression[: name.start()])
                assert how == "max", expression
                if "sum" in expression and "worker" in samples[name[0]]:
                    assert "worker" in labels, expression
                counted += 1
    assert counted > 12
    assert inmost("sum by (a, b) (max by (c) (rate(") == ("max", {"c"})
    assert inmost("sum(f(x)) / clamp_min(sum by (a, b) (rate(") == ("sum", {"a", "b"})


@only("sqlite")
def test_every_used_metric_exists_with_its_labels(samples):
    """Every metric and label in a panel or an alert is one that the service exports."""
    expressions = expressions_of()
    assert len(expressions) > 25
    for expression in expressions:
        for name in NAME.findall(expression):
            assert name in samples, f"{name} of {expression}"
        for name, matched in re.findall(r"(bart_\w+)\{([^}]*(?:\{[^}]*\}[^}]*)*)\}", expression):
            labels = set(re.findall(r"(\w+)=~?\"", matched))
            assert labels <= samples[name], expression
        grouped = {
            label for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(", ")
        }
        known = set().union(*(samples[name] for name in NAME.findall(expression)))
        assert grouped <= known | {"instance"}, expression


def test_the_reasons_that_alerts_name_are_problem_types():
    """Reasons of capacity errors in alerts are problem types of the service."""
    text = (DEPLOY / "alerts.yml").read_text()
    for kind in (BusyError, UnavailableError, QuotaError):
        assert kind.slug in text
