"""Log density of a tree of soft splits and its gradient, in the space without bounds.

The mathematics: docs/maths.md#soft-trees.

Linero and Yang (2018); Cochrane, Wills and Johnson (2023). Everything is computed column by column: of each
split over all rows, so that the loops over rows run on whole vector registers.
"""

from __future__ import annotations

import math

from sampler.kernels.arrays import Float, Floats, Floats2, Int
from sampler.kernels.jit import kernel
from sampler.soft.kernels import state
from sampler.soft.kernels.state import SoftRoom, SoftRows, SoftShape
from sampler.soft.kernels.vector_math import (
    LOG_2PI,
    SATURATED,
    digamma,
    dot,
    exp_of_negative,
    sigmoid,
    total_of,
)


@kernel(allocates=False, entry=True)
def break_stick(shifts: Floats, u: Floats, direction: Floats) -> Float:
    """Turn logits into a point of the simplex, `direction`, by stick-breaking; return the log Jacobian.

    `shifts` [len(u)] are log(logits still to come, and this one): so zeros stand for the middle.
    """
    left, log_jacobian, columns = 1.0, 0.0, len(direction)
    for k in range(columns - 1):
        a = u[k] - shifts[k]
        e = math.exp(-abs(a))
        near = 1.0 / (1.0 + e)
        direction[k] = left * (near if a >= 0 else e * near)
        left *= e * near if a >= 0 else near
        above = max(a, 0.0) + math.log1p(e)
        log_jacobian -= above - a + (columns - 1 - k) * above
    direction[columns - 1] = left
    return log_jacobian


@kernel(allocates=False)
def stick_gradient(shifts: Floats, u: Floats, direction: Floats, slope: Floats, into: Floats) -> None:
    """Turn a slope by the simplex into the gradient by the logits, that of the log Jacobian included."""
    columns = len(direction)
    after = slope[columns - 1] * direction[columns - 1]
    for k in range(columns - 2, -1, -1):
        z = sigmoid(u[k] - shifts[k])
        here = slope[k] * direction[k]
        into[k] = here * (1 - z) - z * after + (1 - z) - (columns - 1 - k) * z
        after += here


@kernel(inline=True, allocates=False)
def route(rows: SoftRows, shape: SoftShape, width: Float, room: SoftRoom) -> None:
    """Find the probabilities of going right and left at every split of the room for every row."""
    columns, n = rows.x.shape
    narrow = 1.0 / width
    for j in range(len(shape.axis)):
        at, other, axis, direction = room.right[j], room.left[j], shape.axis[j], room.direction[j]
        first, share = (axis, narrow) if axis >= 0 else (0, direction[0] * narrow)
        column, far_right = rows.x[first], room.threshold[j] * narrow
        for i in range(n):
            at[i] = share * column[i] - far_right
        for d in range(1, 0 if axis >= 0 else columns):
            share, column = direction[d] * narrow, rows.x[d]
            for i in range(n):
                at[i] += share * column[i]
        for i in range(n):
            a = at[i]
            e = exp_of_negative(-min(abs(a), SATURATED))
            near = 1.0 / (1.0 + e)
            far = e * near if abs(a) < SATURATED else 0.0
            at[i] = near if a >= 0 else far
            other[i] = far if a >= 0 else near


@kernel(inline=True, allocates=False)
def flow_down(shape: SoftShape, room: SoftRoom, leaves: Int) -> None:
    """Send each row's flow from the root down to each split, and to each leaf if asked."""
    for node in range(len(shape.right)):
        if shape.right[node]:
            slot, right = shape.slot[node], shape.right[node]
            if leaves or shape.right[right]:
                _share(room.flow[node], room.right[slot], room.flow[right])
            if leaves or shape.right[node + 1]:
                _share(room.flow[node], room.left[slot], room.flow[node + 1])


@kernel(inline=True, allocates=False)
def _share(here: Floats, share: Floats, into: Floats) -> None:
    for i in range(len(into)):
        into[i] = here[i] * share[i]


@kernel(inline=True, allocates=False)
def start_alike(room: SoftRoom) -> None:
    """Start a flow of 1 at the root for each row: a node's flow is the probability of coming there."""
    root = room.flow[0]
    for i in range(len(root)):
        root[i] = 1.0


@kernel(inline=True, allocates=False)
def count_classes(rows: SoftRows, shape: SoftShape, room: SoftRoom) -> None:
    """Find the expected count of each class in each leaf, into `table`."""
    for node in range(len(shape.right)):
        if shape.right[node]:
            continue
        leaf = shape.slot[node]
        for k in range(rows.classes):
            room.table[leaf, k] = dot(room.flow[node], rows.count[k])


@kernel(allocates=False)
def _class_likelihood(rows: SoftRows, leaves: Int, room: SoftRoom) -> Float:
    """Log likelihood of the class counts in `table`, which become the slopes by them."""
    alpha = rows.constants[state.CONCENTRATION]
    all_of_them = alpha * rows.classes
    total = leaves * rows.constants[state.OF_LEAF]
    for leaf in range(leaves):
        size = all_of_them
        for k in range(rows.classes):
            size += room.table[leaf, k]
        common = digamma(size)
        total -= math.lgamma(size)
        for k in range(rows.classes):
            count = room.table[leaf, k] + alpha
            total += math.lgamma(count)
            room.table[leaf, k] = digamma(count) - common
    return total


@kernel(inline=True, allocates=False)
def average_below(rows: SoftRows, shape: SoftShape, u: Floats, room: SoftRoom) -> None:
    """Average over the leaves below each node: means, or the slopes of the classes."""
    n = rows.x.shape[1]
    splits = len(shape.axis)
    first = splits + (len(u) - splits - (0 if rows.classes else splits + 2))
    for node in range(len(shape.right) - 1, -1, -1):
        here, slot = room.below[node], shape.slot[node]
        if shape.right[node]:
            right, left = room.below[shape.right[node]], room.below[node + 1]
            go, stay = room.right[slot], room.left[slot]
            for i in range(n):
                here[i] = stay[i] * left[i] + go[i] * right[i]
            continue
        constant = 0.0 if rows.classes else u[first + slot]
        for i in range(n):
            here[i] = constant
        for k in range(rows.classes):
            count, value = rows.count[k], room.table[slot, k]
            for i in range(n):
                here[i] += count[i] * value


@kernel(inline=True, allocates=False)
def _prior(rows: SoftRows, shape: SoftShape, u: Floats, slope: Floats, room: SoftRoom) -> Float:
    """Log prior with Jacobians; its gradient by thresholds, means and sigma; the number of splits."""
    sticks, splits, law = rows.x.shape[0] - 1, len(shape.axis), rows.constants
    total, at, apart = law[state.OF_TREE], splits, 1.0
    for j in range(splits):
        e = math.exp(-abs(u[j]))
        near = 1.0 / (1.0 + e)
        room.threshold[j] = near if u[j] >= 0 else e * near
        slope[j] = 1 - 2 * room.threshold[j]
        total -= abs(u[j])
        apart *= 1.0 + e  # at most 2 each: one log for all
        if shape.axis[j] < 0:
            total += law[state.OF_DIRECTION]
            total += break_stick(law[state.STICKS :], u[at : at + sticks], room.direction[j])
            at += sticks
        else:
            total += law[state.OF_AXIS]
    total -= 2 * math.log(apart)
    if rows.classes:
        return total
    centre, sd = law[state.MEAN], law[state.SD]
    for leaf in range(splits + 1):
        z = (u[at + leaf] - centre) / sd
        total += law[state.OF_LEAF] - 0.5 * z * z
        slope[at + leaf] = -z / sd
    at += splits + 1
    a, share = law[state.SHAPE], law[state.SCALE] * math.exp(-u[at])
    slope[at] = share - a
    return total - a * u[at] - share  # -(a + 1) u from the density, + u


@kernel(inline=True, allocates=False)
def _likelihood(rows: SoftRows, shape: SoftShape, width: Float, u: Floats, room: SoftRoom) -> Float:
    """Log likelihood; each row's pull, its residual over the variance or 1, becomes the root's flow.

    Of numbers, the squares over sigma squared are left in `table`, for the slope by sigma.
    """
    n, splits = rows.x.shape[1], len(shape.axis)
    route(rows, shape, width, room)
    if rows.classes:
        start_alike(room)
        flow_down(shape, room, 1)
        count_classes(rows, shape, room)
        return _class_likelihood(rows, splits + 1, room)
    average_below(rows, shape, u, room)
    log_sigma = u[len(u) - 1]
    precision = math.exp(-2 * log_sigma)
    pull, losses, count = room.flow[0], room.below[0], rows.count[0]
    for i in range(n):  # what is found gives way to each row's part of the squares
        off = rows.mean[i] - losses[i]
        pull[i] = count[i] * off * precision
        losses[i] = count[i] * off * off
    room.table[0, 0] = (rows.constants[state.WITHIN] + total_of(losses)) * precision
    return -rows.constants[state.TOTAL] * (0.5 * LOG_2PI + log_sigma) - 0.5 * room.table[0, 0]


@kernel(inline=True, allocates=False)
def _leaf_slopes(rows: SoftRows, shape: SoftShape, u: Floats, slope: Floats, room: SoftRoom) -> None:
    """Add the likelihood's part to the slopes by means and sigma; of classes, the leaves' slopes at rows."""
    if rows.classes:
        average_below(rows, shape, u, room)
        return
    flow_down(shape, room, 0)
    last = len(u) - 1
    slope[last] += room.table[0, 0] - rows.constants[state.TOTAL]
    first = last - len(shape.axis) - 1
    for node in range(len(shape.right)):
        right = shape.right[node]
        if right:
            here, slot = room.flow[node], shape.slot[node]
            if not shape.right[right]:
                slope[first + shape.slot[right]] += dot(here, room.right[slot])
            if not shape.right[node + 1]:
                slope[first + shape.slot[node + 1]] += dot(here, room.left[slot])


@kernel(inline=True, allocates=False)
def _tilt(rows: SoftRows, shape: SoftShape, node: Int, room: SoftRoom) -> Float:
    """Slope of the likelihood as rows move right of a split by its width; by its direction, in `slope`."""
    j = shape.slot[node]
    right, left, gain = room.below[shape.right[node]], room.below[node + 1], room.below[node]
    go, stay, flow = room.right[j], room.left[j], room.flow[node]
    for i in range(len(gain)):
        gain[i] = flow[i] * go[i] * stay[i] * (right[i] - left[i])
    if shape.axis[j] < 0:
        for d in range(len(room.slope)):
            room.slope[d] = dot(gain, rows.x[d])
    return total_of(gain)


@kernel(allocates=False, entry=True)
def density(
    rows: SoftRows, shape: SoftShape, width: Float, u: Floats, slope: Floats, room: SoftRoom
) -> Float:
    """Log density at u: likelihood, priors (but the topology's) and Jacobians; its gradient into `slope`.

    `width` is h, the sharpness of the splits in units of the scaled columns.
    """
    sticks, shifts = rows.x.shape[0] - 1, rows.constants[state.STICKS :]
    total = _prior(rows, shape, u, slope, room)
    counted = rows.constants[state.LIKELIHOOD] != 0.0
    if counted:
        total += _likelihood(rows, shape, width, u, room)
        _leaf_slopes(rows, shape, u, slope, room)
    at, tilt = len(shape.axis), room.slope
    for node in range(len(shape.right)):  # splits come in their order
        if not shape.right[node]:
            continue
        j = shape.slot[node]
        for d in range(sticks + 1):
            tilt[d] = 0.0
        if counted:
            threshold = room.threshold[j]
            slope[j] -= _tilt(rows, shape, node, room) / width * threshold * (1 - threshold)
        if shape.axis[j] < 0:
            for d in range(sticks + 1):
                tilt[d] /= width
            here = slope[at : at + sticks]
            stick_gradient(shifts, u[at : at + sticks], room.direction[j], tilt, here)
            at += sticks
    return total


@kernel(
    allocates=False,
    entry=True,
)
def densities(
    rows: SoftRows,
    shape: SoftShape,
    width: Float,
    points: Floats2,
    room: SoftRoom,
    slope: Floats,
    into: Floats,
) -> None:
    """Log density at each of the points [point, u], without gradient; `slope` [u] is scratch."""
    for i in range(len(points)):
        into[i] = _prior(rows, shape, points[i], slope, room)
        if rows.constants[state.LIKELIHOOD] != 0.0:
            into[i] += _likelihood(rows, shape, width, points[i], room)
