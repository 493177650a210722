"""Figures of the measurements of effects on public boards (lab/effect_boards.py)."""

import numpy as np
import pandas as pd
import pytest

from lab import effect_boards
from lab.effect_tables import KnownEffects


def table(rows, seed):
    """Return rows whose effect is 2, of a line without noise."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": np.arange(rows, dtype=float), "b": rng.normal(size=rows)})
    treated = (np.arange(rows) % 2).astype(float)
    y = 3 * X["b"].to_numpy() + 2 * treated
    return KnownEffects(X, treated, y, np.full(rows, 2.0), "a")


def test_figures_are_those_of_the_draws():
    """Draws one above the truth, and within 3 of it, have an error of one and intervals that hold it."""
    known, new = table(80, 1), table(4, 2)
    spread = np.linspace(-3, 5, 101)[:, None]  # about 1
    found = {"draws": 2 + spread + np.zeros(80), "new": effect_boards.summed_up(2 + spread + np.zeros(4))}
    width = 0.9 * 8
    expected = [1, 1, 1, 1, width, 1, width, 1, width, 1]
    assert effect_boards.judged(found, known, new) == pytest.approx(expected)
    narrow = found | {"draws": 3 + spread / 100 + np.zeros(80)}
    assert effect_boards.judged(narrow, known, new)[3:9] == pytest.approx([0, 0.072, 0, 0.072, 0, 0.072])


def test_a_regression_finds_the_effect_of_a_line():
    """Without noise it is exact; intervals have no width."""
    known = table(80, 1)
    found = effect_boards.judged(effect_boards.regression(known, table(4, 2), 0), known, table(4, 2))
    assert found[:3] == pytest.approx([0, 0, 0], abs=1e-9)
    assert found[5] is None


def test_figures_are_kept(tmp_path):
    """Figures that a file has aren't measured again, and nothing is begun after so many seconds."""
    file, ran = tmp_path / "kept" / "figures.jsonl", []

    def run(*task):
        ran.append(task)
        return [len(ran)]

    tasks = [("A", 0), ("A", 1)]
    assert effect_boards.kept_figures(file, tasks[:1], run) == {("A", 0): [1]}
    assert effect_boards.kept_figures(file, tasks, run, seconds=-1) == {("A", 0): [1]}
    assert effect_boards.kept_figures(file, tasks, run) == {("A", 0): [1], ("A", 1): [2]}
    assert ran == tasks
