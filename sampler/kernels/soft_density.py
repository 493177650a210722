"""The log density of a tree of soft splits and its gradient, in the space without bounds (`sampler_math` 7).

Linero and Yang (2018); Cochrane, Wills and Johnson (2023). Everything is computed column by column: of each
split over all rows, so that the loops over rows run on whole vector registers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sampler.compile import kernel
from sampler.kernels import soft_state as state
from sampler.kernels.shapes import f8, floats_1, floats_2, i8, void
from sampler.kernels.soft_math import (
    LOG_2PI,
    SATURATED,
    digamma,
    dot,
    exp_of_negative,
    sigmoid,
    softplus,
    total_of,
)
from sampler.kernels.soft_state import soft_room_t, soft_rows_t, soft_shape_t

if TYPE_CHECKING:
    from sampler.kernels.shapes import Float, Floats, Int
    from sampler.kernels.soft_state import SoftRoom, SoftRows, SoftShape


@kernel(f8(i8, floats_1, floats_1), allocates=False, entry=True)
def break_stick(columns: Int, u: Floats, direction: Floats) -> Float:
    """The simplex that columns - 1 logits stand for, into `direction`; log of its density and Jacobian."""
    left, log_jacobian = 1.0, math.lgamma(float(columns))
    for k in range(columns - 1):
        a = u[k] - math.log(float(columns - 1 - k))
        e = math.exp(-abs(a))
        near = 1.0 / (1.0 + e)
        direction[k] = left * (near if a >= 0 else e * near)
        left *= e * near if a >= 0 else near
        above = max(a, 0.0) + math.log1p(e)
        log_jacobian -= above - a + (columns - 1 - k) * above
    direction[columns - 1] = left
    return log_jacobian


@kernel(void(i8, floats_1, floats_1, floats_1, floats_1), allocates=False)
def stick_gradient(columns: Int, u: Floats, direction: Floats, slope: Floats, into: Floats) -> None:
    """The gradient by the logits, of a function with this slope by the simplex plus the log Jacobian."""
    after = slope[columns - 1] * direction[columns - 1]
    for k in range(columns - 2, -1, -1):
        z = sigmoid(u[k] - math.log(float(columns - 1 - k)))
        here = slope[k] * direction[k]
        into[k] = here * (1 - z) - z * after + (1 - z) - (columns - 1 - k) * z
        after += here


@kernel(void(soft_rows_t, soft_shape_t, f8, floats_1, soft_room_t), inline=True, allocates=False)
def route(rows: SoftRows, shape: SoftShape, width: Float, u: Floats, room: SoftRoom) -> None:
    """Directions, and the probabilities of going right and left, of every split at every row."""
    columns, n = rows.x.shape
    splits, narrow = len(shape.axis), 1.0 / width
    for j in range(splits):
        threshold = sigmoid(u[j])
        at, other = room.right[j], room.left[j]
        axis = shape.axis[j]
        if axis >= 0:
            for i in range(n):
                at[i] = rows.x[axis, i]
        else:
            direction = room.direction[j]
            for i in range(n):
                at[i] = direction[0] * rows.x[0, i]
            for d in range(1, columns):
                share = direction[d]
                for i in range(n):
                    at[i] += share * rows.x[d, i]
        for i in range(n):
            a = (at[i] - threshold) * narrow
            e = exp_of_negative(-min(abs(a), SATURATED))
            near = 1.0 / (1.0 + e)
            far = e * near if abs(a) < SATURATED else 0.0
            at[i] = near if a >= 0 else far
            other[i] = far if a >= 0 else near


@kernel(void(soft_shape_t, soft_room_t), inline=True, allocates=False)
def reach_nodes(shape: SoftShape, room: SoftRoom) -> None:
    """The probability that each row comes to each node."""
    n, root = room.reach.shape[1], room.reach[0]
    for i in range(n):
        root[i] = 1.0
    for node in range(len(shape.right)):
        if shape.right[node]:
            here, right, left = room.reach[node], room.reach[shape.right[node]], room.reach[node + 1]
            go, stay = room.right[shape.slot[node]], room.left[shape.slot[node]]
            for i in range(n):
                right[i] = here[i] * go[i]
                left[i] = here[i] * stay[i]


@kernel(void(soft_rows_t, soft_shape_t, soft_room_t), inline=True, allocates=False)
def count_classes(rows: SoftRows, shape: SoftShape, room: SoftRoom) -> None:
    """The expected count of each class in each leaf, into `table`."""
    for node in range(len(shape.right)):
        if shape.right[node]:
            continue
        leaf = shape.slot[node]
        for k in range(rows.classes):
            room.table[leaf, k] = dot(room.reach[node], rows.count[k])


@kernel(f8(soft_rows_t, i8, soft_room_t), allocates=False)
def _class_likelihood(rows: SoftRows, leaves: Int, room: SoftRoom) -> Float:
    """Of the counts in `table`, which become the slopes by them."""
    alpha = rows.prior[state.CONCENTRATION]
    all_of_them = alpha * rows.classes
    total = leaves * (math.lgamma(all_of_them) - rows.classes * math.lgamma(alpha))
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


@kernel(void(soft_rows_t, soft_shape_t, floats_1, soft_room_t), inline=True, allocates=False)
def average_below(rows: SoftRows, shape: SoftShape, u: Floats, room: SoftRoom) -> None:
    """Expectations over the leaves below each node: of means, or of the slopes of the classes."""
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


@kernel(f8(soft_rows_t, soft_shape_t, floats_1, floats_1, soft_room_t), inline=True, allocates=False)
def _prior(rows: SoftRows, shape: SoftShape, u: Floats, slope: Floats, room: SoftRoom) -> Float:
    """The log prior with Jacobians; its gradient by the thresholds, means and sigma; the directions."""
    columns, splits = rows.x.shape[0], len(shape.axis)
    total, at = 0.0, splits
    for j in range(splits):
        threshold = sigmoid(u[j])
        total -= 2 * softplus(u[j]) - u[j]
        slope[j] = 1 - 2 * threshold
        if shape.axis[j] < 0:
            total += break_stick(columns, u[at : at + columns - 1], room.direction[j])
            at += columns - 1
        else:
            total -= math.log(float(columns))
    if rows.classes:
        return total
    centre, sd = rows.prior[state.MEAN], rows.prior[state.SD]
    for leaf in range(splits + 1):
        z = (u[at + leaf] - centre) / sd
        total -= 0.5 * z * z + 0.5 * LOG_2PI + math.log(sd)
        slope[at + leaf] = -z / sd
    at += splits + 1
    a, b = rows.prior[state.SHAPE], rows.prior[state.SCALE]
    share = b * math.exp(-u[at])
    total += a * math.log(b) - math.lgamma(a) - a * u[at] - share  # -(a + 1) u from the density, + u
    slope[at] = share - a
    return total


@kernel(f8(soft_rows_t, soft_shape_t, f8, floats_1, soft_room_t), inline=True, allocates=False)
def _likelihood(rows: SoftRows, shape: SoftShape, width: Float, u: Floats, room: SoftRoom) -> Float:
    """The log likelihood; each row's residual over the variance, or one, into `residual`.

    Of numbers, the squares over sigma squared are left in `table`, for the slope by sigma.
    """
    n, splits = rows.x.shape[1], len(shape.axis)
    route(rows, shape, width, u, room)
    if rows.classes:
        reach_nodes(shape, room)
        count_classes(rows, shape, room)
        for i in range(n):
            room.residual[i] = 1.0
        return _class_likelihood(rows, splits + 1, room)
    average_below(rows, shape, u, room)
    log_sigma = u[len(u) - 1]
    precision = math.exp(-2 * log_sigma)
    residual, found, count = room.residual, room.below[0], rows.count[0]
    for i in range(n):  # what is found gives way to each row's part of the squares
        off = rows.mean[i] - found[i]
        residual[i] = count[i] * off * precision
        found[i] = count[i] * off * off
    room.table[0, 0] = (rows.prior[state.WITHIN] + total_of(found)) * precision
    return -rows.prior[state.TOTAL] * (0.5 * LOG_2PI + log_sigma) - 0.5 * room.table[0, 0]


@kernel(void(soft_rows_t, soft_shape_t, floats_1, floats_1, soft_room_t), inline=True, allocates=False)
def _leaf_slopes(rows: SoftRows, shape: SoftShape, u: Floats, slope: Floats, room: SoftRoom) -> None:
    """What the likelihood adds to the slopes by means and sigma; of classes, the leaves' slopes at rows."""
    if rows.classes:
        average_below(rows, shape, u, room)
        return
    reach_nodes(shape, room)
    last = len(u) - 1
    slope[last] += room.table[0, 0] - rows.prior[state.TOTAL]
    first = last - len(shape.axis) - 1
    for node in range(len(shape.right)):
        if not shape.right[node]:
            slope[first + shape.slot[node]] += dot(room.residual, room.reach[node])


@kernel(f8(soft_rows_t, soft_shape_t, f8, floats_1, floats_1, soft_room_t), allocates=False, entry=True)
def density(
    rows: SoftRows, shape: SoftShape, width: Float, u: Floats, slope: Floats, room: SoftRoom
) -> Float:
    """The log of likelihood, priors (but the topology's) and Jacobians at u; its gradient into `slope`.

    `width` is h, the sharpness of the splits in units of the scaled columns.
    """
    columns, n = rows.x.shape
    total = _prior(rows, shape, u, slope, room)
    counted = rows.prior[state.LIKELIHOOD] != 0.0
    if counted:
        total += _likelihood(rows, shape, width, u, room)
        _leaf_slopes(rows, shape, u, slope, room)
    at = len(shape.axis)
    for node in range(len(shape.right)):  # splits come in their order
        if not shape.right[node]:
            continue
        j = shape.slot[node]
        for d in range(columns):
            room.slope[d] = 0.0
        if counted:
            right, left = room.below[shape.right[node]], room.below[node + 1]
            go, stay, reach, gain = room.right[j], room.left[j], room.reach[node], room.below[node]
            for i in range(n):
                gain[i] = room.residual[i] * reach[i] * go[i] * stay[i] * (right[i] - left[i])
            threshold = sigmoid(u[j])
            slope[j] -= total_of(gain) / width * threshold * (1 - threshold)
            if shape.axis[j] < 0:
                for d in range(columns):
                    room.slope[d] = dot(gain, rows.x[d]) / width
        if shape.axis[j] < 0:
            stick_gradient(
                columns, u[at : at + columns - 1], room.direction[j], room.slope, slope[at : at + columns - 1]
            )
            at += columns - 1
    return total


@kernel(
    void(soft_rows_t, soft_shape_t, f8, floats_2, soft_room_t, floats_1, floats_1),
    allocates=False,
    entry=True,
)
def densities(
    rows: SoftRows,
    shape: SoftShape,
    width: Float,
    points: Floats,
    room: SoftRoom,
    slope: Floats,
    into: Floats,
) -> None:
    """The log density at each of the points [point, u], no gradient; `slope` [u] is room to work."""
    for i in range(len(points)):
        into[i] = _prior(rows, shape, points[i], slope, room)
        if rows.prior[state.LIKELIHOOD] != 0.0:
            into[i] += _likelihood(rows, shape, width, points[i], room)
