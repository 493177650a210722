"""Bars of long computations: after a while, on a terminal, once, and never where somebody may interrupt."""

import io
import threading

import pytest
from rich.console import Console

from sampler import interrupt
from sampler.posterior.assessment.convergence import growth
from sampler.posterior.core import progress
from tests.support.models import kinds


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


class SetAtTheSecondLook(interrupt.StopFlag):
    """A flag that somebody sets while a computation is under way."""

    looks = 0

    def is_set(self) -> bool:
        self.looks += 1
        return self.looks > 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda posterior, rows: posterior.inclusion(X=rows, by="rows"),
        lambda posterior, _: posterior.groups(),
        lambda posterior, _: growth(posterior.law, posterior.num_draws),
    ],
    ids=["inclusion", "groups", "growth"],
)
def test_what_takes_no_blocks_of_predictions_is_interrupted_too(ask):
    """Answers that come from trees, effects and scalars look at the flag between their parts."""
    kind, posterior = kinds.Kind("gaussian+slopes+linear"), kinds.fitted("gaussian+slopes+linear")
    rows = {name: [*cells] * 5 for name, cells in kind.rows.items()}
    with interrupt.by(SetAtTheSecondLook()), pytest.raises(interrupt.InterruptedWorkError):
        ask(posterior, rows)
