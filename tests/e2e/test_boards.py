"""Methods that boards rate, and coverage of sets by their size (lab/boards.py)."""

import numpy as np
import pytest

from lab import boards


def test_methods_that_lack_a_split_are_not_rated():
    """A row of the frame is a method's loss on a split; who failed or lacks a split is left out."""
    ran = [f"{table} | {name} | {seed}" for table in "AB" for name in ("x", "y", "z") for seed in (0, 1)]
    kept = {key: {"rmse": float(number)} for number, key in enumerate(ran)} | {"C | other | 0": {"rmse": 1.0}}
    kept["B | y | 1"] = {"failed": "ValueError"}
    frame = boards.battles(kept, ["x", "y", "z"], "rmse")
    assert list(frame.columns) == ["task", "method", "seed", "metric_error"]
    assert frame["method"].unique().tolist() == ["x", "z"]
    assert frame.to_numpy().tolist() == [
        [table, name, seed, kept[f"{table} | {name} | {seed}"]["rmse"]]
        for table in "AB"
        for name in "xz"
        for seed in (0, 1)
    ]


@pytest.mark.long
def test_ratings_are_those_of_the_board():
    """A method that wins on all tables is above the anchor, and one that loses is below."""
    pytest.importorskip("bencheval", reason="bencheval is not there: locks/bench.txt has it")
    losses = {"x": 1.0, boards.ANCHOR: 2.0, "z": 4.0}
    kept = {f"{table} | {name} | 0": {"rmse": losses[name]} for table in range(10) for name in losses}
    found = boards.leaderboard(boards.battles(kept, [*losses], "rmse"), 1)
    assert found["winrate"].to_dict() == pytest.approx({"x": 1, boards.ANCHOR: 0.5, "z": 0})
    assert found["improvability"].to_dict() == pytest.approx({"x": 0, boards.ANCHOR: 0.5, "z": 0.75})
    assert found.loc["x", "elo"] > found.loc[boards.ANCHOR, "elo"] == 1000 > found.loc["z", "elo"]


def test_coverage_by_size_of_set():
    """The example of MAPIE's documentation, of five rows and four classes, and empty sets."""
    sets = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [1, 1, 1, 0], [0, 0, 1, 1], [1, 1, 0, 1]], bool)
    counts = boards.strata(sets, np.array([3, 3, 1, 2, 2]))
    assert counts == {"2": [2, 2], "3": [2, 1], "4": [1, 1]}
    assert boards.size_stratified_coverage(counts, 1) == 0.5
    empty = boards.strata(np.zeros((3, 4), bool), np.array([0, 1, 2]))
    both = boards.pooled([counts, empty, counts])
    assert both == {"0": [3, 0], "2": [4, 4], "3": [4, 2], "4": [2, 2]}
    assert boards.size_stratified_coverage(both, 3) == 0
    assert boards.size_stratified_coverage(both, 4) == 0.5
    assert np.isnan(boards.size_stratified_coverage(both, 5))
