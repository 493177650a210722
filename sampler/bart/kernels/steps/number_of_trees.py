"""Updates of trees whose number is drawn: places enter the forest and leave it, else trees change as ever.

An absent tree has no leaves; its first row in the table is a root's of value 0, as which it is kept
(docs/maths.md#number-of-trees).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sampler.bart.kernels.leaf_models.operations import log_evidence, split_gain, widen
from sampler.bart.kernels.state import (
    ABOVE,
    DEPTH,
    GROWABLE,
    KEEP,
    PENDING_LEAVES,
    VALUE,
    Forest,
    Work,
    step_signature,
)
from sampler.bart.kernels.tree_prior import log_stay
from sampler.bart.kernels.tree_tables import num_present
from sampler.bart.kernels.tree_update import (
    decide_grow,
    draw_leaves,
    leave_change,
    left_of_grown,
    load_leaves,
    pass_rows,
    propose_grow,
    update_tree,
)
from sampler.kernels.arrays import ABSENT, Bool, Data, Float, Int, Model
from sampler.kernels.function_pointers import places_of
from sampler.kernels.jit import kernel, pointer_kernel
from sampler.kernels.random import uniform

FEW = 2  # leaves of a tree that may enter or leave, at most


@kernel(inline=True, allocates=False)
def enter(data: Data, forest: Forest, model: Model, work: Work, tree: Int, log_odds: Float) -> Bool:
    """Propose a tree from the prior, but for splits below its first, for the place of an absent one.

    Its leaf values are integrated out; `log_odds` are the prior's, of its being present. Whether it entered.
    """
    forest.slots[tree, : data.num_rows] = 0  # they may be those of a tree that has left
    forest.num_leaves[tree] = 1
    slot = np.int64(-1)
    if uniform(work.random) < forest.prior.alpha:
        slot = np.int64(propose_grow(data, forest, work, tree))
    pass_rows(data, forest, model, work, tree, slot)
    load_leaves(forest, model, work, tree)
    size, total = work.leaves.size[0], work.leaves.total[0]
    ratio, threshold = log_odds + log_evidence(model, size, total), math.log(uniform(work.random))
    if slot >= 0:
        left_size, left_total = left_of_grown(model, work, slot)
        ratio += split_gain(model, left_size, left_total, size - left_size, total - left_total)
        entered = decide_grow(data, forest, model, work, tree, slot, ratio, threshold)
    else:
        entered = threshold < ratio
    if entered:
        draw_leaves(forest, model, work, tree, True)
    else:
        leave_change(forest, model, work, tree)
        forest.num_leaves[tree] = 0
    return entered


@kernel(inline=True, allocates=False)
def leave(forest: Forest, model: Model, work: Work, tree: Int, log_odds: Float) -> Bool:
    """Propose that a tree leaves which may have entered as it is, its leaf values integrated out.

    It has just been updated, so that the sums of its leaves are known. Whether it left.
    """
    leaf, state, delta = forest.leaf[tree], work.pending.state, work.pending.delta
    leaves = np.int64(forest.num_leaves[tree])
    if leaves > FEW:
        return False
    ratio = log_odds
    for k in range(leaves):
        ratio += log_evidence(model, work.leaves.size[k], work.leaves.total[k])
        if leaves == FEW:
            ratio += float(leaf[k, GROWABLE]) * log_stay(forest.prior, 1)
    if math.log(uniform(work.random)) >= -ratio:
        return False
    largest = np.int64(0)
    for k in range(state[PENDING_LEAVES]):  # all that the rows still have of it, by the slots they still have
        delta[k] = work.leaves.old[k]
        largest = max(largest, abs(np.int64(delta[k])))
    widen(model, largest)
    state[KEEP] = -1
    if leaves == FEW:
        forest.count[tree, 0] += forest.count[tree, 1]
        leaf[0, GROWABLE] = 1
    leaf[0, VALUE], leaf[0, ABOVE], leaf[0, DEPTH] = 0, ABSENT, 0
    forest.num_leaves[tree] = 0
    return True


def update_some_trees(at_data: Any, at_forest: Any, at_model: Any, at_work: Any, _tree: Int) -> Int:
    """Update every place of a forest once, as `tree_update.update_trees`, and note how many trees there are.

    In its turn an absent tree may enter; one that is present is updated and then may leave.
    """
    data: Data = at_data[0]
    forest: Forest = at_forest[0]
    model: Model = at_model[0]
    work: Work = at_work[0]
    places = places_of((data, forest, model, work))
    present = num_present(forest)
    for tree in range(len(forest.num_leaves)):
        if forest.num_leaves[tree] == 0:
            present += enter(data, forest, model, work, tree, forest.prior.log_odds[present])
        else:
            update_tree(data, forest, model, work, places, tree)
            present -= leave(forest, model, work, tree, forest.prior.log_odds[present - 1])
    forest.prior.number[0] = present
    return 0


UPDATE_TREES = pointer_kernel(__name__, step_signature, update_some_trees)
