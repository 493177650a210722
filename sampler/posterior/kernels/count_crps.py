"""Continuous ranked probability scores of mixtures of counts, by adding up their probabilities.

Each component's probabilities follow from one another, outwards from its most probable count. Counts up to
`FINE` have a cell each; beyond, cells grow with the counts, and a component has one value in each.
"""

from __future__ import annotations

import math

import numpy as np

from sampler.kernels.arrays import Float, Floats, Floats2
from sampler.kernels.jit import kernel

FINE, CELLS = 2048, 256  # counts with a cell of their own; cells of each doubling beyond
DOUBLINGS = 24  # to 3.4e10
STARTS = np.concatenate(
    [np.arange(FINE), *(FINE * 2**i * (1 + np.arange(CELLS) / CELLS) for i in range(DOUBLINGS))]
)
LARGEST = FINE * 2.0**DOUBLINGS  # first count beyond all cells
WIDTHS = np.diff(STARTS, append=LARGEST)
MIDDLES = STARTS + (WIDTHS - 1) / 2
LOG_FACTORIALS = np.array([math.lgamma(each + 1) for each in MIDDLES])
LEAST = 1e-16  # of the largest probability: smaller ones are left out


@kernel(allocates=False)
def _log_probability(count: Float, size: Float, log_ratio: Float) -> Float:
    """Compute the log probability of a count but for a constant; `size` is 0 for Poisson counts."""
    log_p = count * log_ratio - math.lgamma(count + 1)
    return log_p + math.lgamma(count + size) if size > 0 else log_p


@kernel(allocates=False)
def _log_gamma(z: Float) -> Float:
    """Compute log Gamma(z) of z >= `FINE` by Stirling's series, exact to rounding there."""
    return (z - 0.5) * math.log(z) - z + 0.9189385332046727 + (1 - 1 / (30 * z * z)) / (12 * z)


@kernel(allocates=False)
def _squares(first: Float, step: Float, terms: Float) -> Float:
    """Add up (first + step j)^2 over j = 1 ... terms."""
    return terms * (first**2 + (terms + 1) * step * (first + step * (2 * terms + 1) / 6))


@kernel(allocates=False, entry=True)
def count_crps(
    mean: Floats2,
    size: Floats,
    structural: Floats2,
    y: Floats,
    cells: Floats2,
    room: Floats2,
    mass: Floats2,
    scores: Floats,
) -> None:
    """Compute the sum over counts k of (F(k) - [y <= k])^2 of some rows, float64 [row].

    Parameters
    ----------
    mean, size, structural
        As in `count_quantiles`.
    y
        Observed counts, float64 [row], inside the cells.
    cells
        `STARTS`, `WIDTHS`, `MIDDLES` and `LOG_FACTORIALS` of as many cells as probabilities matter in,
        float64 [4, cell].
    room, mass
        For the terms of one draw, float64 [2, cell], and for the probabilities of the cells, [row, cell].
    scores
        The result.

    """
    num_rows, num_draws = mean.shape
    start, width, middle, log_factorial = cells[0], cells[1], cells[2], cells[3]
    num_cells, fine = len(start), min(len(start), FINE)
    own, term = room[0], room[1]
    mass[:] = 0.0
    for d in range(num_draws):
        dispersion = size[d] if len(size) > 0 else 0.0
        for c in range(fine, num_cells):
            term[c] = -log_factorial[c]
            if dispersion > 0:
                term[c] += _log_gamma(middle[c] + dispersion)
        for i in range(num_rows):
            ratio, mode = mean[i, d], mean[i, d]
            if dispersion > 0:
                ratio = mean[i, d] / (mean[i, d] + dispersion)
                mode = max(mean[i, d] * (dispersion - 1) / dispersion, 0.0)
            mode = math.floor(mode)
            log_ratio = math.log(max(ratio, 1e-300))
            low, high, p, at = num_cells, -1, 1.0, int(min(mode, fine - 1))
            if mode >= fine:
                p = math.exp(
                    _log_probability(fine - 1.0, dispersion, log_ratio)
                    - _log_probability(mode, dispersion, log_ratio)
                )
            total, last = 0.0, p
            if p > LEAST:
                low = at
                while True:
                    own[low] = last
                    total += last
                    if low == 0 or last < LEAST:
                        break
                    more = low - 1 + dispersion if dispersion > 0 else 1.0
                    last *= low / (more * ratio)
                    low -= 1
                high, last = at, p
                while high + 1 < fine and last >= LEAST:
                    more = high + dispersion if dispersion > 0 else 1.0
                    high += 1
                    last *= more * ratio / high
                    own[high] = last
                    total += last
            if num_cells > fine and (mode >= fine or last >= LEAST):
                peak = _log_probability(mode, dispersion, log_ratio)
                at = fine
                while at + 1 < num_cells and start[at + 1] <= mode:
                    at += 1
                high = at - 1
                while high + 1 < num_cells:
                    high += 1
                    p = math.exp(term[high] + middle[high] * log_ratio - peak)
                    own[high] = p * width[high]
                    total += own[high]
                    if p < LEAST:
                        break
                for c in range(at - 1, fine - 1, -1):
                    p = math.exp(term[c] + middle[c] * log_ratio - peak)
                    own[c] = p * width[c]
                    total += own[c]
                    low = min(low, c)
                    if p < LEAST:
                        break
                low = min(low, at)
            zero = structural[i, d] if len(structural) > 0 else 0.0
            share = (1 - zero) / (total * num_draws)
            mass[i, 0] += zero / num_draws
            for c in range(low, high + 1):
                mass[i, c] += share * own[c]
    for i in range(num_rows):
        score, below = 0.0, 0.0
        for c in range(num_cells):
            step = mass[i, c] / width[c]
            less = min(max(y[i] - start[c], 0.0), width[c])
            score += _squares(below, step, less)
            score += _squares(below + less * step - 1, step, width[c] - less)
            below += mass[i, c]
        scores[i] = score
