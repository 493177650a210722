"""Gated refits, weekly recalibration and deliveries under kills, restarts of the database and full disks."""

import contextlib
import hashlib
import json
import signal
import sqlite3
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import event, func, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app import due
from app.settings import Settings
from app.store import draws, schema
from app.store.clock import utc_now
from app.store.engine import make_engine, session_scope
from app.store.tables import KnownOutcome, Model, RefitSchedule, Unit, WebhookDelivery, WeeklyTable
from sampler import warm
from tests.support.api_calls import post_csv, table
from tests.support.models.fitted_models import SMALL
from tests.support.processes import plain_http
from tests.support.processes.api_server import serving
from tests.support.processes.dying_processes import die_at_commit, in_a_child
from tests.support.processes.receiver import receiving
from tests.support.processes.servers import Postgres, crashing_postgres, folder
from tests.support.processes.small_disk import fill_up, small_disk
from tests.support.reports import chaos_report as report
from tests.support.waiting import stretched
from worker.context import Context
from worker.units import run_one

FIT = SMALL | {"target": "y", "name": "mine", "holdout": 0.5, "calibrate": "holdout", "seed": 3}
SIZES = [i * 7 % 19 for i in range(60)]
LAST_WEEK = (utc_now() - timedelta(weeks=1)).isoformat()  # it is over, so that its outcomes move the table
OUTCOMES = [
    {"size": x, "colour": "red", "y": 3.0 + x / 2 + i % 5, "at": LAST_WEEK} for i, x in enumerate(SIZES)
]
FULL_SECONDS = 1.0
MOST = 200  # commits


def settings_of(url: str) -> Settings:
    return Settings(database_url=url, redis_url=None, lease_seconds=600.0, webhook_networks="127.0.0.0/8")


def run_units(settings: Settings) -> None:
    context = Context(settings, "wrk_chaos")
    while run_one(context):
        pass
    context.close()


def prepare(url: str, hook: str) -> None:
    """Fit a model, with weekly recalibration, a webhook, and a schedule that is due with newer data."""
    settings = settings_of(url)
    with serving(settings) as address, httpx.Client(base_url=address, timeout=60) as client:
        first = post_csv(client, table(220), name="sales").json()["id"]
        client.post("/models", json=FIT | {"dataset_id": first}).raise_for_status()
        run_units(settings)
        told = client.post("/models/mine/outcomes/policy", json={"recalibrate": "weekly"})
        assert told.status_code == 200, told.text
        client.post("/models/mine/outcomes", json={"rows": OUTCOMES, "at": "at"}).raise_for_status()
        client.put("/models/mine/schedule", json={"every": "7d", "promote": "auto"}).raise_for_status()
        client.post("/webhooks", json={"url": hook}).raise_for_status()
        post_csv(client, table(300), name="sales").raise_for_status()
    engine = make_engine(url)
    with session_scope(engine) as session:
        session.execute(update(WeeklyTable).values(at=utc_now() - timedelta(weeks=2)))
        session.execute(update(RefitSchedule).values(due_at=utc_now()))
    engine.dispose()


def live(url: str) -> None:
    """Do once what the service does by itself: a report of outcomes, refits, units, deliveries."""
    settings = settings_of(url)
    engine = make_engine(url)
    with serving(settings) as address:
        body, headers = {"rows": OUTCOMES, "at": "at"}, {"Idempotency-Key": "report"}
        until_done(
            lambda: plain_http.post(
                f"{address}/models/mine/outcomes", json=body, headers=headers, timeout=60
            ).raise_for_status()
        )
    until_done(lambda: due.QUEUES["refits"](engine, settings, 60.0))
    until_done(lambda: run_units(settings))
    until_done(lambda: due.QUEUES["webhooks"](engine, settings, 60.0))
    engine.dispose()


def until_done(act) -> None:
    """Do as dispatchers and clients do: begin again what a lost database ended."""
    deadline = time.monotonic() + stretched(120)
    while True:
        try:
            act()
        except (DBAPIError, httpx.HTTPError):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            return


def lapse(url: str) -> None:
    """Let all leases end, of units, schedules and deliveries."""
    engine = make_engine(url)
    with session_scope(engine) as session:
        session.execute(update(Unit).where(Unit.state == "running").values(lease_until=0.0))
        soon = utc_now() + timedelta(hours=1)
        for waiting in (RefitSchedule, WebhookDelivery):
            session.execute(update(waiting).where(waiting.due_at < soon).values(due_at=utc_now()))
    engine.dispose()


def facts(url: str, heard: list) -> dict:
    """Return what must be the same after any disturbance; deliveries have arrived, each with one text."""
    engine = make_engine(url)
    with session_scope(engine, read_only=True) as session:
        models = session.scalars(select(Model).order_by(Model.created_at)).all()
        stored = {delivery.id: delivery for delivery in session.scalars(select(WebhookDelivery))}
        found = {
            "models": [(each.state, each.withheld, (each.refit or {}).get("decision")) for each in models],
            "scores": [json.dumps((each.refit or {}).get("log_score")) for each in models],
            "draws": [
                hashlib.sha256(b"".join(map(b"".join, draws.read(session, each.id)))).hexdigest()
                for each in models
            ],
            "tables": [
                (each.number, each.checksum, each.counted)
                for each in session.scalars(select(WeeklyTable).order_by(WeeklyTable.number))
            ],
            "outcomes": session.scalar(select(func.count()).select_from(KnownOutcome)),
            "schedule": session.scalars(select(RefitSchedule.due_at)).one() > utc_now() + timedelta(days=6),
            "deliveries": Counter((each.kind, each.state) for each in stored.values()),
        }
    engine.dispose()
    bodies = {(headers["webhook-id"], body.decode()) for headers, body in heard}
    assert bodies == {(each.id, each.body) for each in stored.values()}
    return found


@contextlib.contextmanager
def copies(dialect: str, tmp_path: Path, server=None):
    """Yield a function that copies the prepared database, and the receiver of its webhook."""
    file = tmp_path / "template.db"
    template = f"sqlite:///{file}" if dialect == "sqlite" else Postgres(server).create()
    numbers = iter(range(10_000))
    schema.migrate(template)
    warm()
    with receiving() as receiver:
        assert in_a_child(lambda: prepare(template, receiver.url)) == 0

        def copy() -> str:
            receiver.heard.clear()
            if dialect == "postgres":
                return Postgres(server).create(template)
            fresh = tmp_path / f"{next(numbers)}.db"
            with (
                contextlib.closing(sqlite3.connect(file)) as source,
                contextlib.closing(sqlite3.connect(fresh)) as target,
            ):
                source.backup(target)
            return f"sqlite:///{fresh}"

        yield copy, receiver


WAYS = [
    pytest.param("sqlite", "before", 29, marks=pytest.mark.slow),
    *(
        pytest.param(d, w, 1, marks=pytest.mark.long)
        for d in ("sqlite", "postgres")
        for w in ("before", "after")
    ),
]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("dialect", "when", "step"), WAYS)
def test_habits_killed_at_every_commit(dialect, when, step, tmp_path, request):
    """Killed at any commit, they end with the same refit, decision and tables, and tell the same."""
    server = request.getfixturevalue("postgres_server").url if dialect == "postgres" else None
    with copies(dialect, tmp_path, server) as (copy, receiver):
        url = copy()
        assert in_a_child(lambda: live(url)) == 0
        expected = facts(url, receiver.heard)
        assert expected["models"][1][1:] == (False, "promoted")
        assert [counted for _, _, counted in expected["tables"]] == [0, 120]
        assert set(expected["deliveries"].values()) == {1}
        for number in range(1, MOST, step):
            url = copy()

            def victim(url=url, number=number):
                die_at_commit(when, number)
                live(url)

            code = in_a_child(victim)
            if code == 0:  # there is no such commit: all have been tried
                break
            assert code == -signal.SIGKILL
            lapse(url)
            assert in_a_child(lambda: live(url)) == 0  # noqa: B023  at once
            assert facts(url, receiver.heard) == expected, number
        assert 20 < number < MOST - step
    scenario = f"habits killed {when} commits on {dialect}, {step} apart"
    count = number // step
    report.add(scenario, {"service at a commit": count}, checked=count, compared=count)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("disturbance", "step"),
    [
        pytest.param("restart", 23, marks=pytest.mark.slow),
        pytest.param("restart", 3, marks=pytest.mark.long),
        pytest.param("full disk", 5, marks=pytest.mark.long),
    ],
)
def test_habits_when_the_database_crashes_or_its_disk_is_full(disturbance, step, tmp_path):
    """A crash of Postgres or a full disk at a commit loses nothing and changes no number."""
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(folder("bartserve-habits-"))
        if disturbance == "full disk":
            stack.enter_context(small_disk(root / "data", 192 << 20))
        few = {"max_wal_size": "32MB", "min_wal_size": "32MB"}
        server = stack.enter_context(crashing_postgres(few, root))
        copy, receiver = stack.enter_context(copies("postgres", tmp_path, server.url))
        url = copy()
        live(url)
        expected, tried = facts(url, receiver.heard), 0
        for number in range(2, MOST, step):
            Postgres(server.url).drop(url)
            url = copy()
            with disturbed_at(number, disturbance, server, root / "data") as happened:
                live(url)
            lapse(url)
            live(url)
            assert facts(url, receiver.heard) == expected, number
            if not happened.is_set():
                break
            tried += 1
        assert tried
    report.add(f"habits and a {disturbance} of Postgres", {disturbance: tried}, checked=tried, compared=tried)


@contextlib.contextmanager
def disturbed_at(number: int, disturbance: str, server, place: Path):
    """Crash the server just before a commit, or fill its disk for a moment; yield whether that happened."""
    left, happened, over = [number], threading.Event(), threading.Event()

    def revive(ballast: Path) -> None:
        time.sleep(FULL_SECONDS)
        ballast.unlink()
        server.crash()  # it may have ended by itself
        server.start()
        over.set()

    def at(session: Session) -> None:
        if session.get_bind().get_execution_options().get("bartserve_read_only"):
            return
        left[0] -= 1
        if left[0]:
            return
        happened.set()
        if disturbance == "restart":
            server.crash()
            server.start()
            over.set()
        else:
            threading.Thread(target=revive, args=(fill_up(place),)).start()

    event.listen(Session, "before_commit", at)
    try:
        yield happened
    finally:
        event.remove(Session, "before_commit", at)
        assert not happened.is_set() or over.wait(60)
