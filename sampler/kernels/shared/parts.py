"""Parts of passes over rows that the threads of a chain do."""

from __future__ import annotations

from typing import Any

import numpy as np

from sampler.kernels.arrays import Int, Longs
from sampler.kernels.function_pointers import call_step
from sampler.kernels.jit import kernel, pointer_kernel
from sampler.kernels.rows import code_range, relabel_grown, relabel_pruned
from sampler.kernels.shared.rows import GAPS, HIGH, LOW, GrownLeaf, LeafCodes, PrunedLeaf
from sampler.kernels.shared.team import (
    CALL,
    DONE,
    LEAVE,
    LINE,
    PLACE,
    ROWS,
    STEP,
    begin_of_part,
    part_signature,
    wait_a_little,
)
from sampler.kernels.shared.words import seen, show


@kernel(allocates=False, entry=True)
def follow(words: Longs, number: Int, members: Int) -> None:
    """Do part `number` of `members` of every pass until the leader lets go."""
    last, looks = np.int64(0), 0
    while True:
        call = seen(words, CALL)
        if call == LEAVE:
            return
        if call == last:
            wait_a_little(looks)
            looks += 1
            continue
        rows = words[ROWS]
        start, stop = begin_of_part(rows, number, members), begin_of_part(rows, number + 1, members)
        call_step(words[STEP], (words[PLACE], number, start, stop))
        show(words, DONE + (number - 1) * LINE, call)
        last, looks = call, 0


def grown_part(at: Any, _number: Int, start: Int, stop: Int) -> Int:
    """Relabel a part of the rows after a leaf was split."""
    of: GrownLeaf = at[0]
    relabel_grown(of.slots[start:stop], of.column[start:stop], of.leaf, of.cut, of.side, of.new)
    return 0


def pruned_part(at: Any, _number: Int, start: Int, stop: Int) -> Int:
    """Relabel a part of the rows after two leaves were joined."""
    of: PrunedLeaf = at[0]
    relabel_pruned(of.slots[start:stop], of.keep, of.drop, of.last)
    return 0


def codes_part(at: Any, number: Int, start: Int, stop: Int) -> Int:
    """Find the codes of a leaf among a part of the rows."""
    of: LeafCodes = at[0]
    found = of.team.sums[number]
    found[LOW], found[HIGH], found[GAPS] = code_range(of.slots[start:stop], of.column[start:stop], of.leaf)
    return 0


GROWN_PART = pointer_kernel(__name__, part_signature(GrownLeaf), grown_part)
PRUNED_PART = pointer_kernel(__name__, part_signature(PrunedLeaf), pruned_part)
CODES_PART = pointer_kernel(__name__, part_signature(LeafCodes), codes_part)
