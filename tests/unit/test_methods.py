"""A method is one entry of a table, from which its behaviour follows."""

import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from sampler import Settings, fit
from sampler.engines import load_code
from sampler.errors import SettingsError
from sampler.methods import METHODS
from sampler.moves import MOVE_NAMES, MOVES
from sampler.posterior.posterior import Posterior

ROOT = Path(__file__).parents[2]
PLACES = (
    "chain",
    "posterior",
    "constants",
    "calibrate",
    "check_prior",
    "training_kernels",
    "warnings",
    "check_size",
)


def test_every_part_of_an_engine_can_be_imported():
    """Every object that an engine's entry names can be imported."""
    for method in METHODS.values():
        named = [
            getattr(method.engine, field.name) for field in fields(method.engine) if field.name in PLACES
        ]
        assert all(callable(load_code(place)) for place in named if place is not None)


@pytest.mark.usefixtures("all_kernels")
def test_another_entry_is_another_method(monkeypatch):
    """A new entry alone makes a method that can be fitted, saved and loaded."""
    entry = replace(METHODS["bcart-mean-variance"], num_chains=2, num_draws=6, thin=1, most_burnin=5)
    monkeypatch.setitem(METHODS, "quick-tree", entry)
    x = np.arange(40.0)
    posterior = fit({"x": x}, np.sin(x / 9), method="quick-tree", progress=False)
    assert type(posterior.law) is entry.law_of(posterior.settings)
    assert (posterior.num_chains, posterior.num_draws) == (2, 6)
    again = Posterior.from_bytes(posterior.to_bytes())
    assert np.array_equal(again.predict({"x": x}).mean, posterior.predict({"x": x}).mean)
    with pytest.raises(
        SettingsError, match="num_trees must be 1, or left out: method quick-tree fits one tree"
    ):
        Settings.resolve(method="quick-tree", num_trees=2)


def test_no_code_tests_a_method_by_name():
    """Outside the entries, code tests a method's properties, not its name."""
    asks = re.compile(r"method(?:\"\])? (?:==|!=|in) [\[(\"{]")
    lines = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for package in ("app", "worker", "sampler")
        for file in (ROOT / package).rglob("*.py")
        for line in file.read_text().splitlines()
        if asks.search(line)
    ]
    assert [line for line in lines if re.search("|".join(map(re.escape, METHODS)), line)] == []


def test_moves_have_the_numbers_of_their_kernels():
    """The names of moves stand in the order of the numbers that kernels use."""
    from sampler.bart.kernels import state

    assert [getattr(state, name.upper()) for name in MOVE_NAMES] == list(range(state.NUM_MOVES))
    assert len(MOVES) - 1 == state.RESTRUCTURE  # the last that `draw_move` draws
