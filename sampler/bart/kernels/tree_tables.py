"""Operations on one tree's tables of splits and leaves.

`node` int32 [capacity, 6] has a row for each split, `leaf` int32 [capacity, 4] one for each leaf slot; their
columns are named in `sampler.kernels.arrays` and `state`. A tree of `num_leaves` leaves uses the first
num_leaves - 1 and num_leaves rows. `at` is the number of a split, `slot` that of a leaf.
"""

from __future__ import annotations

import numpy as np

from sampler.bart.kernels.state import ABOVE, DEPTH, GROWABLE, VALUE, Forest, Slots
from sampler.kernels.arrays import (
    ABSENT,
    BYTE_LEAVES,
    CUT,
    FEATURE,
    LEFT,
    PARENT,
    RIGHT,
    SIDE,
    Bool,
    Bytes,
    Int,
    Ints,
    Ints2,
    Longs,
)
from sampler.kernels.jit import kernel


@kernel(inline=True, allocates=False)
def plane_of(forest: Forest, tree: Int) -> Int:
    """Return the row of `high` with the high bytes of a tree's slots (any row if it has none)."""
    return max(np.int64(forest.plane[tree]), 0)


@kernel(inline=True, allocates=False)
def slots_of(forest: Forest, tree: Int, leaves: Int) -> Slots:
    """Collect the rows' slots in a tree of `leaves` leaves."""
    high = forest.high[plane_of(forest, tree)]
    return Slots(forest.slots[tree], high, leaves > BYTE_LEAVES, leaves, forest.count[tree])


@kernel(inline=True, allocates=False)
def num_present(forest: Forest) -> Int:
    """Count the trees that are present: all but those without leaves (`number_of_trees`)."""
    present = 0
    for tree in range(len(forest.num_leaves)):
        present += forest.num_leaves[tree] > 0
    return present


@kernel(inline=True, allocates=False)
def grow_leaf(
    node: Ints2,
    leaf: Ints2,
    num_leaves: Int,
    slot: Int,
    rule: Longs,
    left_growable: Bool,
    right_growable: Bool,
) -> None:
    """Split a leaf: the left child keeps its slot, the right one is `num_leaves`, both with its value."""
    new = num_leaves - 1
    parent = leaf[slot, ABOVE]
    node[new, FEATURE], node[new, CUT], node[new, SIDE] = rule[0], rule[1], rule[2]
    node[new, LEFT], node[new, RIGHT], node[new, PARENT] = ~slot, ~num_leaves, parent
    if parent != ABSENT:
        _replace_child(node, parent, ~slot, new)
    leaf[slot, ABOVE] = leaf[num_leaves, ABOVE] = new
    leaf[slot, DEPTH] += 1
    leaf[num_leaves, DEPTH] = leaf[slot, DEPTH]
    leaf[num_leaves, VALUE] = leaf[slot, VALUE]
    leaf[slot, GROWABLE] = left_growable
    leaf[num_leaves, GROWABLE] = right_growable


@kernel(inline=True, allocates=False)
def prune_node(node: Ints2, leaf: Ints2, num_leaves: Int, at: Int) -> None:
    """Make a leaf of a split whose children are leaves.

    The lower of their slots stays; the last slot takes the other's number, and the last split this one's.
    """
    keep = min(~node[at, LEFT], ~node[at, RIGHT])
    drop = max(~node[at, LEFT], ~node[at, RIGHT])
    parent = node[at, PARENT]
    if parent != ABSENT:
        _replace_child(node, parent, at, ~keep)
    leaf[keep, ABOVE] = parent
    leaf[keep, DEPTH] -= 1
    leaf[keep, GROWABLE] = True
    last = num_leaves - 1
    if drop != last:
        _copy_row(leaf, last, drop)
        _replace_child(node, leaf[last, ABOVE], ~last, ~drop)
    last_node = num_leaves - 2
    if at != last_node:
        _copy_row(node, last_node, at)
        _replace_child(node, node[last_node, PARENT], last_node, at)
        _set_parent(node, leaf, node[at, LEFT], at)
        _set_parent(node, leaf, node[at, RIGHT], at)


@kernel(inline=True, allocates=False)
def _copy_row(table: Ints2, source: Int, target: Int) -> None:
    for k in range(table.shape[1]):
        table[target, k] = table[source, k]


@kernel(inline=True, allocates=False)
def _replace_child(node: Ints2, parent: Int, before: Int, after: Int) -> None:
    if node[parent, LEFT] == before:
        node[parent, LEFT] = after
    else:
        node[parent, RIGHT] = after


@kernel(inline=True, allocates=False)
def _set_parent(node: Ints2, leaf: Ints2, child: Int, parent: Int) -> None:
    if child >= 0:
        node[child, PARENT] = parent
    else:
        leaf[~child, ABOVE] = parent


@kernel(inline=True, allocates=False)
def is_bottom(node: Ints2, at: Int) -> Bool:
    """Whether both children of a split are leaves (it is in W(T))."""
    return node[at, LEFT] < 0 and node[at, RIGHT] < 0


@kernel(inline=True, allocates=False)
def num_bottom(node: Ints2, num_leaves: Int) -> Int:
    """|W(T)|, splits whose children are both leaves."""
    count = 0
    for at in range(num_leaves - 1):
        count += is_bottom(node, at)
    return count


@kernel(inline=True, allocates=False)
def nth_bottom(node: Ints2, num_leaves: Int, n: Int) -> Int:
    """Return the n-th split (from 0) whose children are both leaves."""
    for at in range(num_leaves - 1):
        if is_bottom(node, at):
            if n == 0:
                return at
            n -= 1
    return -1


@kernel(inline=True, allocates=False)
def num_growable(leaf: Ints2, num_leaves: Int) -> Int:
    """|G(T)|, leaves that hold two rows that differ."""
    count = 0
    for slot in range(num_leaves):
        count += leaf[slot, GROWABLE]
    return count


@kernel(inline=True, allocates=False)
def nth_growable(leaf: Ints2, num_leaves: Int, n: Int) -> Int:
    """Return the slot of the n-th growable leaf (from 0)."""
    for slot in range(num_leaves):
        if leaf[slot, GROWABLE]:
            if n == 0:
                return slot
            n -= 1
    return -1


@kernel(allocates=False)
def write_tree(
    node: Ints2, leaf: Ints2, num_leaves: Int, stack: Ints,
    feature: Ints, cut: Bytes, missing_left: Bytes, value: Ints, start: Int,
) -> Int:  # fmt: skip
    """Write a tree in pre-order from position `start`; return the position after it."""
    stack[0] = 0 if num_leaves > 1 else ~0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        at = stack[waiting]
        if at < 0:
            feature[start], cut[start], missing_left[start], value[start] = -1, 0, 0, leaf[~at, VALUE]
        else:
            feature[start], cut[start] = node[at, FEATURE], node[at, CUT]
            missing_left[start], value[start] = node[at, SIDE], 0
            stack[waiting] = node[at, RIGHT]
            stack[waiting + 1] = node[at, LEFT]
            waiting += 2
        start += 1
    return start
