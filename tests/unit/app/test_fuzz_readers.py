"""File readers, fuzzed with coverage-guided mutation; `make fuzz` runs the long form."""

import os
import signal
from dataclasses import replace

import pytest

from sampler import warm
from tests.support.fuzzing import readers
from tests.support.fuzzing.readers import READERS, fuzz
from tests.support.models import kinds

BATCHES = {"model": 30}  # accepted inputs are mutated often
SOME_KINDS = ("gaussian+arms", "poisson+exposure", "several-with-class")


@pytest.fixture(scope="module", autouse=True)
def _kernels() -> None:
    warm("prediction")


@pytest.mark.parametrize("reader", [name for name in READERS if not name.startswith("model ")])
@pytest.mark.sampled(quick=2)
def test_whatever_bytes_are_taken_or_refused(reader):
    """A reader accepts or refuses any bytes; `make fuzz` runs this for as long as desired."""
    batch = BATCHES.get(reader, 200)
    assert fuzz(reader, inputs=2 * batch, seed=1, batch=batch) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOME_KINDS)
def test_forged_models_of_some_kinds_answer_or_refuse(kind):
    """A forged file is refused, or the model answers, or refuses, what it is asked."""
    assert fuzz(f"model {kind}", inputs=100, seed=1, batch=50) == 0


@pytest.mark.long
@pytest.mark.parametrize("kind", kinds.KINDS)
def test_forged_models_of_every_kind_answer_or_refuse(kind):
    """20,000 forged files of every kind are refused, or the models answer or refuse."""
    assert fuzz(f"model {kind}", inputs=20_000, seed=2, batch=500) == 0


@pytest.mark.parametrize("end", [signal.SIGSEGV, signal.SIGABRT, None])
def test_a_reader_that_ends_or_hangs_has_failed(end, monkeypatch, capsys):
    """A signal, and an input that takes too long, is a failure that names the input."""
    monkeypatch.setattr(readers, "SECONDS", 1)

    def read(data: bytes) -> None:
        while data == b"bad" and end is None:
            pass
        if data == b"bad":
            os.kill(os.getpid(), end)

    reader = replace(READERS["csv"], read=read, seeds=lambda: [b"good", b"bad", b"good"])
    monkeypatch.setitem(READERS, "csv", reader)
    assert fuzz("csv", inputs=1, seed=1, batch=1) == 1
    assert "csv: b'bad'\nthe reader ended by SIG" in capsys.readouterr().out
