"""Hamiltonian transitions on one topology of soft splits: plain, reversible, all in one call.

Each transition draws a momentum, a number of leapfrog steps and a step size, whatever the state: so it leaves
the density at the last width invariant and is reversible, and so is a number of them (the exact
variant of docs/maths.md#jumps-between-topologies). Where splits use one column each, a transition may instead
propose another column for one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from sampler.kernels.arrays import Float, Floats, Floats2, Int, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import below, gamma, normal, uniform
from sampler.soft.kernels import state
from sampler.soft.kernels.density import count_classes, density, flow_down, route, start_alike
from sampler.soft.kernels.state import SoftRoom, SoftRows, SoftShape

WANTED = 0.8  # acceptance that the step size is tuned to
WILDEST = 1000.0  # growth of the energy that ends a trajectory


class Leapfrog(NamedTuple):
    """Steps of trajectories."""

    scale: Floats  # [u], rough standard deviations
    most_steps: Int
    tune: Floats  # [TUNE_SIZE], the log step, counts, and the rate at which the step is tuned (0: not at all)


@kernel(allocates=False)
def _change_axis(
    rows: SoftRows,
    shape: SoftShape,
    width: Float,
    u: Floats,
    now: Float,
    room: SoftRoom,
    random: Words,
    work: Floats2,
) -> Float:
    """Propose a column for one split, at times a threshold from its prior; return the log density then."""
    j = below(random, len(shape.axis))
    before, threshold = shape.axis[j], u[j]
    shape.axis[j] = below(random, rows.x.shape[0])
    log_back = 0.0
    if uniform(random) < 0.5:
        fresh = uniform(random)
        u[j] = math.log(fresh / (1 - fresh))
        old = 1 / (1 + math.exp(-threshold))
        log_back = math.log(old * (1 - old)) - math.log(fresh * (1 - fresh))
    then = density(rows, shape, width, u, work[3], room)
    if math.log(uniform(random)) < then - now + log_back:
        for i in range(len(u)):
            work[2, i] = work[3, i]
        return then
    shape.axis[j], u[j] = before, threshold
    return now


@kernel(allocates=False, entry=True)
def transitions(
    rows: SoftRows,
    shape: SoftShape,
    widths: Floats,
    u: Floats,
    steps: Leapfrog,
    room: SoftRoom,
    random: Words,
    work: Floats2,
) -> Float:
    """Make one transition at each of the widths in turn; return the log density at u for the last of them.

    `work` [4, u] is room to work. The step is tuned towards an acceptance of .8.
    """
    scale, most_steps, tune = steps
    size = len(u)
    momentum, trial, slope = work[0], work[1], work[2]
    by_axis = shape.axis[0] >= 0
    now, known = 0.0, 0.0
    for width in widths:
        if known != width:
            now = density(rows, shape, width, u, slope, room)
            known = width
        if by_axis and uniform(random) < 0.5:
            now = _change_axis(rows, shape, width, u, now, room, random, work)
            continue
        step = math.exp(tune[state.LOG_STEP]) * (0.4 + uniform(random))
        length = 1 + below(random, most_steps)
        energy = -now
        for i in range(size):
            momentum[i] = normal(random)
            energy += 0.5 * momentum[i] * momentum[i]
            trial[i] = u[i]
            work[3, i] = slope[i]
        then, ended = now, energy
        for _ in range(length):
            for i in range(size):
                momentum[i] += 0.5 * step * scale[i] * work[3, i]
                trial[i] += step * scale[i] * momentum[i]
            then = density(rows, shape, width, trial, work[3], room)
            ended = -then
            for i in range(size):
                momentum[i] += 0.5 * step * scale[i] * work[3, i]
                ended += 0.5 * momentum[i] * momentum[i]
            if not ended - energy < WILDEST:
                break
        probability = min(1.0, math.exp(energy - ended)) if ended - energy < WILDEST else 0.0
        if uniform(random) < probability:
            now = then
            for i in range(size):
                u[i] = trial[i]
                slope[i] = work[3, i]
            tune[state.ACCEPTED] += 1
        tune[state.PROPOSED] += 1
        tune[state.PROBABILITY] += probability
        tune[state.LOG_STEP] += tune[state.RATE] * (probability - WANTED)
    return now


@kernel(allocates=False, entry=True)
def draw_classes(
    rows: SoftRows, shape: SoftShape, width: Float, room: SoftRoom, random: Words, into: Floats2
) -> None:
    """Draw each leaf's probabilities of the classes from their Dirichlet law, given the splits."""
    for leaf in range(len(into)):
        for k in range(rows.classes):
            room.table[leaf, k] = 0.0
    if rows.constants[state.LIKELIHOOD] != 0.0:
        route(rows, shape, width, room)
        start_alike(room)
        flow_down(shape, room, 1)
        count_classes(rows, shape, room)
    for leaf in range(len(into)):
        total = 0.0
        for k in range(rows.classes):
            into[leaf, k] = gamma(random, room.table[leaf, k] + rows.constants[state.CONCENTRATION])
            total += into[leaf, k]
        for k in range(rows.classes):
            into[leaf, k] /= total
