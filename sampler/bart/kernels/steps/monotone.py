"""Updates of trees that rise or fall with some columns: leaves of rows in order keep their order.

Leaf l is below leaf m where their boxes of codes meet in every column but one monotone column, in which l's
lies wholly below m's (docs/maths.md#monotone-features). Trees that split on such a column keep their leaf
values, of which only those concerned are integrated out of a move; others are updated as ever.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sampler.bart.kernels.leaf_models.normal import SIGMA2, TAU2
from sampler.bart.kernels.row_latents.censored import normal_between
from sampler.bart.kernels.state import (
    ABOVE,
    BROKEN,
    GRID_LIMIT,
    GROW,
    PRUNE,
    VALUE,
    Forest,
    Work,
    step_signature,
)
from sampler.bart.kernels.tree_tables import nth_bottom, num_bottom
from sampler.bart.kernels.tree_update import (
    decide_grow,
    draw_leaves,
    draw_move,
    grow_ratio,
    leave_change,
    left_of_grown,
    load_leaves,
    pass_rows,
    propose_grow,
    prune_at,
    prune_ratio,
)
from sampler.kernels.arrays import (
    ABSENT,
    CUT,
    FEATURE,
    LEFT,
    PARENT,
    RIGHT,
    SIDE,
    Bool,
    Data,
    Float,
    Int,
    Ints2,
    Longs,
    Longs2,
    Model,
    Words,
)
from sampler.kernels.jit import kernel, pointer_kernel
from sampler.kernels.random import below, normal, uniform

MOST = 12  # leaves of a tree that splits on a monotone column; larger ones have no prior probability
# Places in the room: a number for each set of leaves, then for each leaf its child number, which part of it a
# proposed rule makes (0: all, 1: the left, 2: the right), and the set of leaves below it; that set of the
# tree as it is while a move is proposed.
CODE, PART, MASK, KEPT = 1 << MOST, (1 << MOST) + 16, (1 << MOST) + 32, (1 << MOST) + 48
ROOM = KEPT + 16
REACH, TRIES, CELLS = 7.0, 100, 400  # of an integral in sds; draws by rejection, and of its inverse cdf
FAINTEST = 1e-300
HALF_STEP = 0.499  # by which bounds are wider than the values on the grid that they allow
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(24)
POINTS, WEIGHTS = tuple(_POINTS.tolist()), tuple(_WEIGHTS.tolist())
Bounded = tuple[Float, Float, Float, Float]  # bounds of a leaf's value, and its mean and sd without them
ROOT_HALF, ROOT_TAU = math.sqrt(0.5), math.sqrt(2 * math.pi)


@kernel(allocates=False)
def narrowed(span: tuple[Int, Int, Int], cut: Int, missing_left: Int, is_left: Bool) -> tuple[Int, Int, Int]:
    """Narrow lowest and highest code and whether there are missing ones to one side of a rule."""
    low, high, missing = span
    if is_left:
        return low, min(high, cut), missing * np.int64(missing_left != 0)
    return max(low, cut + 1), high, missing * np.int64(missing_left == 0)


@kernel(allocates=False)
def span_of(
    node: Ints2, leaf: Ints2, child: Int, part: Int, column: Int, rule: Longs
) -> tuple[Int, Int, Int]:
    """Find the codes of a column at a node: its lowest, its highest, and whether it may be missing.

    `child` is a split, or ~slot of a leaf, of which `part` is the side of a rule (0: all, 1: left, 2: right).
    """
    span = (np.int64(0), np.int64(254), np.int64(1))
    if part != 0 and rule[0] == column:
        span = narrowed(span, rule[1], rule[2], part == 1)
    at = np.int64(leaf[~child, ABOVE]) if child < 0 else np.int64(node[child, PARENT])
    while at != ABSENT:
        if node[at, FEATURE] == column:
            is_left = np.int64(node[at, LEFT]) == child
            span = narrowed(span, np.int64(node[at, CUT]), np.int64(node[at, SIDE]), is_left)
        child = at
        at = np.int64(node[at, PARENT])
    return span


@kernel(allocates=False)
def order_of(
    node: Ints2, leaf: Ints2, first: Int, first_part: Int, second: Int, second_part: Int, rule: Longs,
    directions: Longs2,
) -> Int:  # fmt: skip
    """Return -1 where the first of two leaves is below the second, 1 where it is above, else 0."""
    apart, sign = np.int64(-1), np.int64(0)
    for which in range(2):
        child, part = (first, first_part) if which == 0 else (second, second_part)
        at = np.int64(leaf[~child, ABOVE]) if child < 0 else np.int64(node[child, PARENT])
        column = np.int64(rule[0]) if part != 0 else np.int64(-1)
        while True:
            if column >= 0 and column != apart:
                low, high, missing = span_of(node, leaf, first, first_part, column, rule)
                other_low, other_high, other_missing = span_of(node, leaf, second, second_part, column, rule)
                both_missing = directions[1, column] * missing * other_missing != 0
                if max(low, other_low) > min(high, other_high) and not both_missing:
                    if apart >= 0 or low > high or other_low > other_high:
                        return np.int64(0)
                    apart = column
                    sign = directions[0, column] * (-1 if high < other_low else 1)
                    if sign == 0:
                        return np.int64(0)
            if at == ABSENT:
                break
            column, at = np.int64(node[at, FEATURE]), np.int64(node[at, PARENT])
    return sign


@kernel(allocates=False)
def list_below(node: Ints2, leaf: Ints2, count: Int, rule: Longs, directions: Longs2, room: Longs) -> Bool:
    """Find the set of leaves below each; return whether any is."""
    for k in range(count):
        room[MASK + k] = 0
    related = False
    for k in range(count):
        for m in range(k):
            order = order_of(
                node, leaf, room[CODE + k], room[PART + k], room[CODE + m], room[PART + m], rule, directions
            )
            if order > 0:
                room[MASK + k] |= 1 << m
            elif order < 0:
                room[MASK + m] |= 1 << k
            related = related or order != 0
    return related


@kernel(allocates=False)
def log_orders(node: Ints2, leaf: Ints2, count: Int, rule: Longs, directions: Longs2, room: Longs) -> Float:
    """Find the sets of leaves below each; return log(count! / number of orders that respect them).

    The number of orders of a set of leaves is the sum over its members that may come last.
    """
    if not list_below(node, leaf, count, rule, directions, room):
        return 0.0
    room[0] = 1
    for group in range(1, 1 << count):
        orders = np.int64(0)
        for k in range(count):
            without = group & ~(1 << k)
            if without != group and room[MASK + k] & ~without == 0:
                orders += room[without]
        room[group] = orders
    return math.lgamma(count + 1.0) - math.log(float(room[(1 << count) - 1]))


@kernel(allocates=False)
def bounds_of(leaf: Ints2, count: Int, own: Int, other: Int, room: Longs) -> tuple[Float, Float]:
    """Find between which values of other leaves a leaf's has to be; `other` is left out."""
    low, high = -math.inf, math.inf
    for k in range(count):
        if k in (own, other):
            continue
        if room[MASK + own] >> k & 1:
            low = max(low, float(leaf[~room[CODE + k], VALUE]) - HALF_STEP)
        if room[MASK + k] >> own & 1:
            high = min(high, float(leaf[~room[CODE + k], VALUE]) + HALF_STEP)
    return low, high


@kernel(allocates=False)
def list_leaves(count: Int, room: Longs) -> None:
    """List the leaves of a tree as it is."""
    for k in range(count):
        room[CODE + k], room[PART + k] = ~k, 0


@kernel(inline=True, allocates=False)
def law_of(model: Model, size: Float, total: Float) -> tuple[Float, Float]:
    """Return mean and sd of a leaf's value given its rows, unless it is bounded, in grid steps."""
    sigma2, tau2 = model.noise[SIGMA2], model.variance[TAU2]
    spread = sigma2 + size * tau2
    return tau2 * total / spread, math.sqrt(sigma2 * tau2 / spread)


@kernel(allocates=False)
def log_between(low: Float, high: Float) -> Float:
    """Compute log P(low < z < high) of a standard normal, also far out; -inf where high is not above low."""
    if low >= high:
        return -math.inf
    if high < 0.0:
        low, high = -high, -low
    if low > 0.0:
        inside = 0.5 * (math.erfc(ROOT_HALF * low) - math.erfc(ROOT_HALF * high))
        if inside > FAINTEST:
            return math.log(inside)
        share = -math.expm1(-0.5 * (high - low) * (high + low))
        return -0.5 * low * low - math.log(ROOT_TAU * low) + math.log(share)
    return math.log(0.5 * (math.erfc(-ROOT_HALF * high) - math.erfc(-ROOT_HALF * low)))


@kernel(allocates=False)
def log_inside(bounded: Bounded) -> Float:
    """Compute the log probability of a leaf's value being within its bounds."""
    low, high, mean, sd = bounded
    if low == -math.inf and high == math.inf:
        return 0.0
    return log_between((low - mean) / sd, (high - mean) / sd)


@kernel(allocates=False)
def log_density_of_lower(value: Float, lower: Bounded, upper: Bounded) -> Float:
    """Compute the log density of the lower leaf's value, and of the upper one being above it."""
    place = (value - lower[2]) / lower[3]
    above = log_between((max(value, upper[0]) - upper[2]) / upper[3], (upper[1] - upper[2]) / upper[3])
    return above - 0.5 * place * place - math.log(ROOT_TAU * lower[3])


@kernel(allocates=False)
def range_of_lower(lower: Bounded, upper: Bounded) -> tuple[Float, Float]:
    """Return where the lower leaf's value is, all but surely: near its mean, or near that of both."""
    low, high = lower[0], min(lower[1], upper[1])
    mean, sd = lower[2], lower[3]
    if mean > upper[2]:
        share = sd * sd / (sd * sd + upper[3] * upper[3])
        mean = max(mean + share * (upper[2] - mean), min(mean, upper[0]))
    if mean < low:
        return low, min(high, low + REACH * sd / (1.0 + (low - mean) / sd))
    if mean > high:
        return max(low, high - REACH * sd / (1.0 + (mean - high) / sd)), high
    return max(low, mean - REACH * sd), min(high, mean + REACH * sd)


@kernel(allocates=False)
def turned(bounded: Bounded) -> Bounded:
    """Change the sign of a leaf's value."""
    return -bounded[1], -bounded[0], -bounded[2], bounded[3]


@kernel(allocates=False)
def most_in_order(lower: Bounded, upper: Bounded) -> Float:
    """Bound the log probability that two leaves are within their bounds and in order, from above."""
    apart = (upper[2] - lower[2]) / math.sqrt(lower[3] * lower[3] + upper[3] * upper[3])
    return min(log_between(-math.inf, apart), log_inside(lower), log_inside(upper))


@kernel(allocates=False)
def log_in_order(lower: Bounded, upper: Bounded) -> Float:
    """Compute the log probability that two leaves are within their bounds and in order.

    Known where neither has bounds, or these keep them in order. Else the one that is known better is
    integrated over: the other's probability is smooth on its scale.
    """
    if lower[1] <= upper[0]:
        return log_inside(lower) + log_inside(upper)
    if lower[0] == upper[0] == -math.inf and lower[1] == upper[1] == math.inf:
        return most_in_order(lower, upper)
    if lower[3] > upper[3]:
        lower, upper = turned(upper), turned(lower)
    start, stop = range_of_lower(lower, upper)
    if start >= stop:
        return -math.inf
    half, total = 0.5 * (stop - start), 0.0
    scale, shift = ROOT_HALF / upper[3], ROOT_HALF / upper[3] * upper[2]
    end = scale * upper[1] - shift
    sign = -1.0 if end < 0.0 else 1.0  # the tail that is small
    last = math.erfc(sign * end)
    for k in range(len(POINTS)):
        value = start + half * (1.0 + POINTS[k])
        place = (value - lower[2]) / lower[3]
        above = math.erfc(sign * (scale * max(value, upper[0]) - shift)) - last
        total += WEIGHTS[k] * math.exp(-0.5 * place * place) * above
    total *= 0.5 * sign * half / (ROOT_TAU * lower[3])
    return math.log(total) if total > FAINTEST else log_in_order_far_out(lower, upper, start, stop)


@kernel(allocates=False)
def log_in_order_far_out(lower: Bounded, upper: Bounded, start: Float, stop: Float) -> Float:
    """Compute the integral of `log_in_order` by logarithms, where densities vanish."""
    half, largest, total = 0.5 * (stop - start), -math.inf, 0.0
    for k in range(len(POINTS)):
        term = log_density_of_lower(start + half * (1.0 + POINTS[k]), lower, upper)
        if term > largest:
            total *= math.exp(largest - term)
            largest = term
        if term > -math.inf:
            total += WEIGHTS[k] * math.exp(term - largest)
    return largest + math.log(half * total) if total > 0.0 else -math.inf


@kernel(allocates=False)
def draw_in_order(random: Words, lower: Bounded, upper: Bounded) -> tuple[Float, Float]:
    """Draw two leaves within their bounds and in order: by rejection, else one by its distribution."""
    for _ in range(TRIES):
        a = draw_between(random, lower)
        b = draw_between(random, upper)
        if a <= b:
            return a, b
    if lower[3] > upper[3]:
        b = -draw_lower(random, turned(upper), turned(lower))
        return draw_between(random, (lower[0], min(b, lower[1]), lower[2], lower[3])), b
    a = draw_lower(random, lower, upper)
    return a, draw_between(random, (max(a, upper[0]), upper[1], upper[2], upper[3]))


@kernel(allocates=False)
def draw_lower(random: Words, lower: Bounded, upper: Bounded) -> Float:
    """Draw the lower of two leaves in order, by its density in many narrow cells."""
    start, stop = range_of_lower(lower, upper)
    width, largest, total = (stop - start) / CELLS, -math.inf, 0.0
    for k in range(CELLS):
        largest = max(largest, log_density_of_lower(start + width * (k + 0.5), lower, upper))
    for k in range(CELLS):
        total += math.exp(log_density_of_lower(start + width * (k + 0.5), lower, upper) - largest)
    left = uniform(random) * total
    for k in range(CELLS):
        left -= math.exp(log_density_of_lower(start + width * (k + 0.5), lower, upper) - largest)
        if left <= 0.0:
            return start + width * (k + uniform(random))
    return stop


@kernel(allocates=False)
def draw_between(random: Words, bounded: Bounded) -> Float:
    """Draw a leaf's value within its bounds."""
    low, high, mean, sd = bounded
    if low >= high:
        return low
    if low == -math.inf and high == math.inf:
        return mean + sd * normal(random)
    drawn = mean + sd * normal_between(random, (low - mean) / sd, (high - mean) / sd)
    return min(max(drawn, low), high)


@kernel(allocates=False)
def is_monotone(node: Ints2, num_leaves: Int, directions: Longs2) -> Bool:
    """Whether a tree splits on a monotone column."""
    many = 0
    for at in range(num_leaves - 1):
        many += directions[0, node[at, FEATURE]] != 0
    return many > 0


@kernel(inline=True, allocates=False)
def set_value(forest: Forest, work: Work, tree: Int, slot: Int, value: Float) -> None:
    """Set the value of a leaf, on the grid: rounding keeps values in order."""
    rounded = np.rint(value)
    if abs(rounded) > GRID_LIMIT:
        work.pending.state[BROKEN] = 1
        rounded = 0.0
    forest.leaf[tree, slot, VALUE] = np.int32(rounded)


@kernel(allocates=False)
def keep_orders(count: Int, room: Longs) -> None:
    """Keep which leaves are below which, while a move is proposed."""
    for k in range(count):
        room[KEPT + k] = room[MASK + k]


@kernel(allocates=False)
def restore_orders(count: Int, room: Longs) -> None:
    """Restore which leaves are below which, after a move that was rejected."""
    list_leaves(count, room)
    for k in range(count):
        room[MASK + k] = room[KEPT + k]


@kernel(inline=True, allocates=False)
def find_orders(forest: Forest, work: Work, tree: Int) -> None:
    """Find which leaves of a tree are below which."""
    room, count = forest.prior.orders, np.int64(forest.num_leaves[tree])
    list_leaves(count, room)
    list_below(forest.node[tree], forest.leaf[tree], count, work.proposal.rule, forest.prior.directions, room)


@kernel(inline=True, allocates=False)
def redraw_in_order(forest: Forest, model: Model, work: Work, tree: Int) -> None:
    """Draw each leaf's value in turn between those of the leaves below and above it, which are known."""
    room, leaf = forest.prior.orders, forest.leaf[tree]
    count = np.int64(forest.num_leaves[tree])
    list_leaves(count, room)
    for k in range(count):
        low, high = bounds_of(leaf, count, k, -1, room)
        mean, sd = law_of(model, work.leaves.size[k], work.leaves.total[k])
        set_value(forest, work, tree, k, draw_between(work.random, (low, high, mean, sd)))


@kernel(inline=True, allocates=False)
def grow_in_order(forest: Forest, model: Model, work: Work, data: Data, tree: Int, slot: Int) -> Bool:
    """Accept or reject the split of a leaf, as `decide_grow`, and draw the new leaves' values."""
    room, directions, rule = forest.prior.orders, forest.prior.directions, work.proposal.rule
    node, leaf = forest.node[tree], forest.leaf[tree]
    count = np.int64(forest.num_leaves[tree])
    ratio, threshold = grow_ratio(forest, model, work, tree, slot), math.log(uniform(work.random))
    if not is_monotone(node, count, directions) and directions[0, rule[0]] == 0:
        return decide_grow(data, forest, model, work, tree, slot, ratio, threshold)
    list_leaves(count, room)
    gain = -log_orders(node, leaf, count, rule, directions, room)
    keep_orders(count, room)
    if count + 1 > MOST:
        return False
    low, high = bounds_of(leaf, count, slot, -1, room)
    mean, sd = law_of(model, work.leaves.size[slot], work.leaves.total[slot])
    gain -= log_inside((low, high, mean, sd))
    room[CODE + count], room[PART + count], room[PART + slot] = ~slot, 2, 1
    gain += log_orders(node, leaf, count + 1, rule, directions, room)
    size, total = left_of_grown(model, work, slot)
    low, high = bounds_of(leaf, count + 1, slot, count, room)
    mean, sd = law_of(model, size, total)
    left = (low, high, mean, sd)
    low, high = bounds_of(leaf, count + 1, count, slot, room)
    mean, sd = law_of(model, work.leaves.size[slot] - size, work.leaves.total[slot] - total)
    right = (low, high, mean, sd)
    rises, falls = room[MASK + count] >> slot & 1, room[MASK + slot] >> count & 1
    if rises or falls:
        lower, upper = (left, right) if rises else (right, left)
        if threshold >= ratio + gain + most_in_order(lower, upper):
            restore_orders(count, room)
            return False
        gain += log_in_order(lower, upper)
    else:
        gain += log_inside(left)
        gain += log_inside(right)
    if not decide_grow(data, forest, model, work, tree, slot, ratio + gain, threshold):
        restore_orders(count, room)
        return False
    if rises:
        a, b = draw_in_order(work.random, left, right)
    elif falls:
        b, a = draw_in_order(work.random, right, left)
    else:
        a, b = draw_between(work.random, left), draw_between(work.random, right)
    set_value(forest, work, tree, slot, a)
    set_value(forest, work, tree, count, b)
    return True


@kernel(inline=True, allocates=False)
def prune_in_order(forest: Forest, model: Model, work: Work, tree: Int, at: Int) -> Bool:
    """Accept or reject making a leaf of a split, as `decide_prune`, and draw its value."""
    room, directions, rule = forest.prior.orders, forest.prior.directions, work.proposal.rule
    node, leaf = forest.node[tree], forest.leaf[tree]
    count = np.int64(forest.num_leaves[tree])
    ratio, threshold = prune_ratio(forest, model, work, tree, at), math.log(uniform(work.random))
    if not is_monotone(node, count, directions):
        if threshold < ratio:
            prune_at(forest, work, tree, at)
        return threshold < ratio
    list_leaves(count, room)
    gain = -log_orders(node, leaf, count, rule, directions, room)
    keep_orders(count, room)
    a, b = np.int64(~node[at, LEFT]), np.int64(~node[at, RIGHT])
    low, high = bounds_of(leaf, count, a, b, room)
    mean, sd = law_of(model, work.leaves.size[a], work.leaves.total[a])
    left = (low, high, mean, sd)
    low, high = bounds_of(leaf, count, b, a, room)
    mean, sd = law_of(model, work.leaves.size[b], work.leaves.total[b])
    right = (low, high, mean, sd)
    rises, falls = room[MASK + b] >> a & 1, room[MASK + a] >> b & 1
    if not rises and not falls:
        gain -= log_inside(left)
        gain -= log_inside(right)
    keep, drop = min(a, b), max(a, b)
    room[CODE + keep] = at
    room[CODE + drop] = ~(count - 1)  # the last leaf takes the other's place, as in `prune_node`
    gain += log_orders(node, leaf, count - 1, rule, directions, room)
    low, high = bounds_of(leaf, count - 1, keep, -1, room)
    mean, sd = law_of(
        model, work.leaves.size[a] + work.leaves.size[b], work.leaves.total[a] + work.leaves.total[b]
    )
    gain += log_inside((low, high, mean, sd))
    if rises or falls:
        lower, upper = (left, right) if rises else (right, left)
        most = most_in_order(lower, upper)
        gain -= most if threshold < ratio + gain - most else log_in_order(lower, upper)
    if threshold >= ratio + gain:
        restore_orders(count, room)
        return False
    prune_at(forest, work, tree, at)
    set_value(forest, work, tree, keep, draw_between(work.random, (low, high, mean, sd)))
    return True


@kernel(inline=True, allocates=False)
def update_one(data: Data, forest: Forest, model: Model, work: Work, tree: Int) -> None:
    """Update one tree by a grow or a prune, then draw its leaves."""
    move = draw_move(work.random, forest.prior.moves)
    forest.counters[move, 0] += 1
    slot = at = np.int64(-1)
    if move == GROW:
        slot = np.int64(propose_grow(data, forest, work, tree))
    elif move == PRUNE:
        count = np.int64(forest.num_leaves[tree])
        bottoms = num_bottom(forest.node[tree], count)
        if bottoms > 0:
            at = np.int64(nth_bottom(forest.node[tree], count, below(work.random, bottoms)))
    pass_rows(data, forest, model, work, tree, slot)
    load_leaves(forest, model, work, tree)
    changed = False
    if slot >= 0:
        changed = grow_in_order(forest, model, work, data, tree, slot)
    elif at >= 0:
        changed = prune_in_order(forest, model, work, tree, at)
    forest.counters[move, 1] += changed
    if is_monotone(forest.node[tree], np.int64(forest.num_leaves[tree]), forest.prior.directions):
        if slot < 0 and at < 0:
            find_orders(forest, work, tree)
        redraw_in_order(forest, model, work, tree)
        leave_change(forest, model, work, tree)
    else:
        draw_leaves(forest, model, work, tree, changed)


def update_monotone_trees(at_data: Any, at_forest: Any, at_model: Any, at_work: Any, _tree: Int) -> Int:
    """Update every tree of a forest once, as `tree_update.update_trees`."""
    data: Data = at_data[0]
    forest: Forest = at_forest[0]
    model: Model = at_model[0]
    work: Work = at_work[0]
    for tree in range(len(forest.num_leaves)):
        update_one(data, forest, model, work, tree)
    return 0


UPDATE_TREES = pointer_kernel(__name__, step_signature, update_monotone_trees)
