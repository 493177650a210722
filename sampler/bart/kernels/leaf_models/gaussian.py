"""The conjugate leaf: evidence, tree prior by depth, and draws of leaf values and noise, in grid steps."""

from __future__ import annotations

import math

from sampler.bart.kernels.state import ALPHA, BETA, LAMBDA, LIKELIHOOD, NU, SIGMA2, SIGMA_FIXED, TAU2
from sampler.kernels.arrays import Float, Floats, Floats2, Int, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import gamma, normal


@kernel(inline=True, allocates=False)
def log_evidence(prior: Floats, size: Float, total: Float) -> Float:
    """l(node) of docs/maths.md#leaf-prior for weight `size` and weighted partial residual sum `total`."""
    spread = prior[SIGMA2] + size * prior[TAU2]
    return 0.5 * (math.log(prior[SIGMA2] / spread) + prior[TAU2] * total * total / (prior[SIGMA2] * spread))


@kernel(inline=True, allocates=False)
def split_gain(
    prior: Floats, left_size: Float, left_total: Float, right_size: Float, right_total: Float
) -> Float:
    """l(left) + l(right) - l(both), with one logarithm."""
    sigma2, tau2 = prior[SIGMA2], prior[TAU2]
    left = sigma2 + left_size * tau2
    right = sigma2 + right_size * tau2
    both = sigma2 + (left_size + right_size) * tau2
    total = left_total + right_total
    fit = left_total * left_total / left + right_total * right_total / right - total * total / both
    return 0.5 * (math.log(sigma2 * both / (left * right)) + tau2 / sigma2 * fit)


@kernel(inline=True, allocates=False)
def log_stay(prior: Floats, depths: Floats2, depth: Int) -> Float:
    """log(1 - p) at a depth, p = alpha (1 + depth)^-beta; shallow depths are tabled."""
    if depth < depths.shape[1]:
        return depths[0, depth]
    return math.log1p(-prior[ALPHA] * (1.0 + depth) ** -prior[BETA])


@kernel(inline=True, allocates=False)
def log_split(prior: Floats, depths: Floats2, depth: Int) -> Float:
    """Log p at a depth."""
    if depth < depths.shape[1]:
        return depths[1, depth]
    return math.log(prior[ALPHA]) - prior[BETA] * math.log1p(depth)


@kernel(inline=True, allocates=False)
def draw_leaf(prior: Floats, size: Float, total: Float, random: Words) -> Float:
    """A leaf value from its conditional (docs/maths.md#leaf-prior), not yet rounded to the grid."""
    spread = prior[SIGMA2] + size * prior[TAU2]
    return (prior[TAU2] * total + math.sqrt(prior[SIGMA2] * prior[TAU2] * spread) * normal(random)) / spread


@kernel(inline=True, allocates=False)
def draw_sigma2(prior: Floats, squares: Float, num_rows: Float, random: Words) -> Float:
    """sigma^2 from its conditional: (nu lambda + sum of squares) / chi-square(nu + n)."""
    if prior[SIGMA_FIXED] != 0.0:
        return prior[SIGMA2]
    seen = prior[LIKELIHOOD]
    scale = prior[NU] * prior[LAMBDA] + seen * squares
    return scale / (2.0 * gamma(random, 0.5 * (prior[NU] + seen * num_rows)))
