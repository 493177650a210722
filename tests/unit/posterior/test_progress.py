"""Bars of long computations: after a while, on a terminal, once, and never where somebody may interrupt."""

import io
import threading

import pytest
from rich.console import Console

from sampler import interrupt
from sampler.posterior.core import progress


@pytest.fixture
def terminal(monkeypatch):
    """Take what is shown, as a terminal would; show it at once."""
    shown = io.StringIO()
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setattr(
        "rich.console.Console", lambda **_: Console(file=shown, force_terminal=True, width=90)
    )
    return shown


def test_a_bar_says_what_takes_long(terminal):
    """The outermost steps have the bar; steps of steps have none, and the next computation has one again."""
    for _ in range(2):
        for _ in progress.track(range(3), "walking"):
            list(progress.track(range(2), "breathing"))
    assert "walking" in terminal.getvalue()
    assert "breathing" not in terminal.getvalue()


def test_quick_steps_and_those_of_a_service_show_nothing(terminal, monkeypatch):
    """Steps that may be interrupted are: there is no bar; nor is there one before people would wonder."""
    flag = threading.Event()
    with interrupt.by(flag):
        steps = progress.track(range(3), "serving")
        assert next(steps) == 0
        flag.set()
        with pytest.raises(interrupt.InterruptedWorkError):
            next(steps)
    monkeypatch.setattr(progress, "PATIENCE", 60.0)
    assert list(progress.track([5, 6], "quick")) == [5, 6]
    assert terminal.getvalue() == ""


def test_nothing_is_shown_where_there_is_no_terminal(monkeypatch, capfd):
    """A script's standard error that goes to a file stays empty."""
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    assert list(progress.track("ab", "counting")) == ["a", "b"]
    assert capfd.readouterr().err.strip() == ""
