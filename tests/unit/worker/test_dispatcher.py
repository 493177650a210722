"""The dispatcher's watch for doorbells that no process answers."""

import contextlib
import sys
import threading
from types import SimpleNamespace

import pytest

from worker import dispatcher
from worker.dispatcher import Dispatcher
from worker.places import WorkPlaces


@pytest.fixture
def watched(monkeypatch):
    """Make a dispatcher with controlled clock, work and processes, and the list of its exit codes."""
    ended, clock = [], SimpleNamespace(now=0.0)
    monkeypatch.setattr(dispatcher, "time", SimpleNamespace(monotonic=lambda: clock.now))
    state = SimpleNamespace(reserved=1)
    context = SimpleNamespace(settings=SimpleNamespace(worker_slots=2), places=WorkPlaces(2))
    started = Dispatcher(None, context, lambda: state.reserved, ended.append)
    started._claimable = 1
    return started, state, clock, ended


def test_a_worker_that_answers_no_doorbell_ends(watched):
    """A worker ends when, for fifteen seconds, work waits, a doorbell was taken and no process works."""
    dispatcher, _, clock, ended = watched
    for clock.now in (0.0, 7.0, 14.9):
        dispatcher._watch_bells()
    assert ended == []
    clock.now = 15.1
    dispatcher._watch_bells()
    assert ended == [1]


@pytest.mark.parametrize("change", ["busy", "idle", "answered"])
def test_a_worker_at_work_or_without_any_goes_on(watched, change):
    """A working process, no waiting work, or no doorbell out restarts the count."""
    dispatcher, state, clock, ended = watched
    dispatcher._watch_bells()
    clock.now = 14.0
    dispatcher._busy = change == "busy"
    dispatcher._claimable = int(change != "idle")
    state.reserved = int(change != "answered")
    dispatcher._watch_bells()
    dispatcher._busy, dispatcher._claimable, state.reserved = False, 1, 1
    clock.now = 20.0
    dispatcher._watch_bells()
    assert ended == []


def test_a_worker_of_units_shorter_than_a_poll_goes_on(watched):
    """Doorbells answered between two looks restart the count, though no process is ever seen at work."""
    dispatcher, _, clock, ended = watched
    for clock.now in range(0, 60, 2):
        with dispatcher._context.places.claiming():
            pass
        dispatcher._watch_bells()
    assert ended == []
    for clock.now in (60.0, 76.0):
        dispatcher._watch_bells()
    assert ended == [1]


@pytest.mark.parametrize("fault", ["dead", "stuck"])
def test_a_worker_without_its_dispatcher_ends(fault, monkeypatch):
    """A worker whose thread dies of an error outside its attempts, or doesn't get on, ends."""
    ended = threading.Event()
    dies = SimpleNamespace(sleep=lambda _: ended.wait() if fault == "stuck" else 1 / 0, wake=lambda: None)
    settings = SimpleNamespace(worker_slots=2, dispatch_seconds=1.0)
    started = Dispatcher(None, SimpleNamespace(settings=settings, places=dies), int, lambda _: ended.set())
    monkeypatch.setattr(dispatcher, "STUCK_SECONDS", 0.2 if fault == "stuck" else 1e3)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    started.start()
    assert ended.wait(60)
    started._stopped = True


def test_refits_that_are_due_are_started_once(watched, monkeypatch):
    """A process is started for schedules that are due, and no second one while it is at work."""
    started_processes = []

    class Process:
        code = None

        def __init__(self, command, **_options) -> None:
            started_processes.append(command)

        def poll(self):
            return Process.code

    dispatcher_at_work, _, clock, _ = watched
    dispatcher_at_work._context.engine = None
    dispatcher_at_work._context.settings.data_dir = "."
    monkeypatch.setattr(dispatcher, "session_scope", lambda *_a, **_k: contextlib.nullcontext())
    monkeypatch.setattr(dispatcher.schedules, "any_due", lambda _session: clock.now < 100)
    monkeypatch.setattr(dispatcher.outbox, "any_due", lambda _session: False)
    monkeypatch.setattr(dispatcher.model_sets, "any_due", lambda _session: False)
    monkeypatch.setattr(dispatcher.subprocess, "Popen", Process)
    for clock.now in (1.0, 21.0, 30.0, 50.0):
        dispatcher_at_work._keep_habits()
    assert [command[-1] for command in started_processes] == ["refits"]
    Process.code = 0
    for clock.now in (80.0, 120.0, 150.0):
        dispatcher_at_work._keep_habits()
    assert [command[-1] for command in started_processes] == ["refits"] * 2
    monkeypatch.setattr(dispatcher.outbox, "any_due", lambda _session: True)
    for clock.now in (151.0, 152.0, 160.0):
        dispatcher_at_work._keep_habits()
    assert started_processes[2:] == [(sys.executable, "-P", "-m", "app.due", "webhooks")] * 2
