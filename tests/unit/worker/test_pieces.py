"""Parts of the worker that need neither a process nor a database."""

import math

import numpy as np
import pytest

from app.store.draws import StoredBlock
from app.store.errors import CorruptBlockError
from sampler import DataError, Draws, unpack
from sampler.storage.draws import concatenate
from worker.errors import sentence
from worker.fits.draw_blocks import BlockWriter, draws_per_block
from worker.fits.finish import json_safe


def stumps(num_draws, num_trees, seed=0):
    """Return draws whose trees are all stumps."""
    generator = np.random.default_rng(seed)
    nodes = num_draws * num_trees
    return Draws(
        num_trees=num_trees,
        sigma=generator.uniform(size=num_draws),
        tree_start=np.arange(nodes + 1),
        feature=np.full(nodes, -1, np.int32),
        cut=np.zeros(nodes, np.uint8),
        missing_left=np.zeros(nodes, np.uint8),
        leaf=generator.integers(-1000, 1000, nodes).astype(np.int32),
    )


@pytest.mark.parametrize("cuts", [[], [1], [7], [16], [17], [20, 21, 31, 32, 299], list(range(1, 300))])
def test_blocks_do_not_depend_on_slices(cuts):
    """The final stored blocks are equal wherever slices end, with a resume after each."""
    num_trees, num_draws = 200, 300
    draws = stumps(num_draws, num_trees)
    whole = {block.seq: block for block in BlockWriter(num_trees).add(draws)}
    stored: dict[int, StoredBlock] = {}
    for start, stop in zip([0, *cuts], [*cuts, num_draws], strict=True):
        writer = BlockWriter(num_trees, stored[max(stored)] if stored else None)
        assert writer.num_draws == start
        stored |= {block.seq: block for block in writer.add(draws[start:stop])}

    assert stored == whole
    assert concatenate([unpack(stored[seq].data) for seq in sorted(stored)]) == draws
    assert [block.num_draws for block in whole.values()] == [16] * 18 + [12]


def test_a_block_holds_at_least_one_draw():
    """A block has at least one draw, however large the forest; without draws there is no block."""
    assert draws_per_block(10_000_000) == 1
    assert BlockWriter(10).add(None) == []


def test_errors_become_sentences():
    """Expected errors are stored with their message, unexpected ones shortened."""
    assert sentence(DataError("The target is constant.")) == {
        "type": "data",
        "detail": "The target is constant.",
    }
    assert sentence(CorruptBlockError("damaged"))["type"] == "store"
    assert sentence(MemoryError())["detail"] == "The worker ran out of memory."
    unforeseen = sentence(KeyError("x\n" * 1000))
    assert unforeseen["type"] == "internal"
    assert len(unforeseen["detail"]) < 400
    assert "\n" not in unforeseen["detail"]


def test_json_has_no_nan():
    """Numbers that JSON can't represent become null; arrays and numpy numbers become plain values."""
    values = {"a": math.nan, "b": [np.float64(1.5), math.inf], "c": np.array([1, 2]), 4: (None, True)}

    assert json_safe(values) == {"a": None, "b": [1.5, None], "c": [1, 2], "4": [None, True]}
