"""One tree: growing, pruning, and looking at whole subtrees whose rules or rows have changed."""

from __future__ import annotations

import math

import numpy as np

from sampler.cart.kernels.rows import (
    count_columns,
    is_valid,
    log_rule,
    log_split,
    partition,
    settle_leaf,
    span_of,
    splittable,
    tally,
)
from sampler.cart.kernels.state import (
    CHILD,
    CUT,
    DEPTH,
    EXPLAINED,
    FEATURE,
    LEAF,
    NODE_SIZE,
    OWN,
    PARENT,
    SIDE,
    SPLITTABLE,
    Room,
    Tree,
    TreeRows,
)
from sampler.kernels.arrays import Bool, Float, Int
from sampler.kernels.jit import kernel


@kernel(inline=True, allocates=False)
def is_prunable(tree: Tree, at: Int) -> Bool:
    """Whether a node is a split above two leaves."""
    if tree.node[at, FEATURE] == LEAF:
        return False
    child = tree.node[at, CHILD]
    return tree.node[child, FEATURE] == LEAF and tree.node[child + 1, FEATURE] == LEAF


@kernel(allocates=False, entry=True)
def totals(tree: Tree) -> tuple[Float, Float]:
    """Sum the leaves' terms."""
    own, explained = 0.0, 0.0
    for at in range(tree.size[0]):
        if tree.node[at, FEATURE] == LEAF:
            own += tree.term[at, OWN]
            explained += tree.term[at, EXPLAINED]
    return own, explained


@kernel(allocates=False)
def copy_node(source: Tree, old: Int, into: Tree, new: Int) -> None:
    """Copy one node with its figures; element by element, since numba allocates to copy slices."""
    for k in range(NODE_SIZE):
        into.node[new, k] = source.node[old, k]
    for k in range(2):
        into.span[new, k] = source.span[old, k]
        into.term[new, k] = source.term[old, k]
    for k in range(source.stat.shape[1]):
        into.stat[new, k] = source.stat[old, k]


@kernel(allocates=False)
def split(rows: TreeRows, tree: Tree, room: Room, at: Int) -> None:
    """Make a leaf a split by `room.rule`; its children's statistics are in `room.left` and `room.right`."""
    node, span, rule = tree.node, tree.span, room.rule
    child = tree.size[0]
    tree.size[0] += 2
    node[at, FEATURE], node[at, CUT], node[at, SIDE], node[at, CHILD] = rule[0], rule[1], rule[2], child
    middle = partition(rows, tree.order, span[at, 0], span[at, 1], room.shelf, rule[0], rule[1], rule[2])
    span[child, 0], span[child, 1] = span[at, 0], middle
    span[child + 1, 0], span[child + 1, 1] = middle, span[at, 1]
    for below in range(child, child + 2):
        node[below, FEATURE], node[below, PARENT] = LEAF, at
        node[below, DEPTH] = node[at, DEPTH] + 1
        node[below, SPLITTABLE] = splittable(rows, tree.order, span[below, 0], span[below, 1], -1, 0, 0, True)
    for k in range(len(room.left)):
        tree.stat[child, k], tree.stat[child + 1, k] = room.left[k], room.right[k]
    settle_leaf(rows, tree.stat[child], tree.term, child)
    settle_leaf(rows, tree.stat[child + 1], tree.term, child + 1)


@kernel(allocates=False)
def join(rows: TreeRows, tree: Tree, at: Int) -> None:
    """Make a split above two leaves a leaf; the last pair of nodes takes the place that became free."""
    node, child = tree.node, tree.node[at, CHILD]
    for k in range(tree.stat.shape[1]):
        tree.stat[at, k] = tree.stat[child, k] + tree.stat[child + 1, k]
    settle_leaf(rows, tree.stat[at], tree.term, at)
    node[at, FEATURE], node[at, CUT], node[at, SIDE], node[at, CHILD] = LEAF, 0, 0, 0
    last = tree.size[0] - 2
    tree.size[0] = last
    if child == last:
        return
    for k in range(2):
        new = child + k
        copy_node(tree, last + k, tree, new)
        if node[new, FEATURE] != LEAF:
            node[node[new, CHILD], PARENT] = new
            node[node[new, CHILD] + 1, PARENT] = new
    node[node[child, PARENT], CHILD] = child


@kernel(allocates=False, entry=True)
def plant(rows: TreeRows, tree: Tree) -> None:
    """Make the tree a lone leaf of all rows; `order` is kept as it is."""
    tree.size[0] = 1
    for k in range(NODE_SIZE):
        tree.node[0, k] = 0
    tree.node[0, FEATURE] = LEAF
    tree.span[0, 0], tree.span[0, 1] = 0, len(tree.order)
    tree.node[0, SPLITTABLE] = splittable(rows, tree.order, 0, len(tree.order), -1, 0, 0, True)
    tally(rows, tree.order, 0, len(tree.order), tree.stat[0])
    settle_leaf(rows, tree.stat[0], tree.term, 0)


@kernel(allocates=False)
def copy_tree(source: Tree, into: Tree, start: Int, end: Int) -> None:
    """Copy all nodes, and the rows listed from `start` to `end`."""
    size = source.size[0]
    into.size[0] = size
    for at in range(size):
        copy_node(source, at, into, at)
    for k in range(start, end):
        into.order[k] = source.order[k]


@kernel(allocates=False, entry=True)
def look_below(rows: TreeRows, tree: Tree, room: Room, top: Int, with_top: Bool) -> tuple[Bool, Float]:
    """Route the rows of `top` down by the rules as they are, and bring all figures below up to date.

    Returns whether every rule is valid, and the log prior of all nodes below `top` (and of `top` itself,
    when `with_top`). Stops at the first rule that is not; the figures are then of no use.
    """
    node, span, stack, code_span = tree.node, tree.span, room.stack, room.code_span
    total = 0.0
    stack[0] = top
    waiting = 1
    while waiting > 0:
        waiting -= 1
        at = np.int64(stack[waiting])
        start, end = span[at, 0], span[at, 1]
        counted = with_top or at != top
        if at != top:
            node[at, SPLITTABLE] = splittable(rows, tree.order, start, end, -1, 0, 0, True)
        if node[at, FEATURE] == LEAF:
            if counted and node[at, SPLITTABLE]:
                total += log_split(rows.constants, node[at, DEPTH])[1]
            tally(rows, tree.order, start, end, tree.stat[at])
            settle_leaf(rows, tree.stat[at], tree.term, at)
            continue
        column, cut, side = np.int64(node[at, FEATURE]), np.int64(node[at, CUT]), np.int64(node[at, SIDE])
        number = span_of(rows, tree.order, start, end, column, code_span)
        if number == 0 or not is_valid(code_span, cut, side):
            return False, 0.0
        if counted:
            total += log_split(rows.constants, node[at, DEPTH])[0] + log_rule(code_span)
            total -= math.log(float(count_columns(rows, tree.order, start, end, code_span)))
        middle = partition(rows, tree.order, start, end, room.shelf, column, cut, side)
        child = np.int64(node[at, CHILD])
        span[child, 0], span[child, 1], span[child + 1, 0], span[child + 1, 1] = start, middle, middle, end
        stack[waiting], stack[waiting + 1] = child + 1, child
        waiting += 2
    return True, total
