"""Decision of a node of a stump, compiled."""

import numpy as np

from sampler.bart.kernels.particles.growth import draw_rule_of_rows, rows_differ
from sampler.bart.kernels.particles.laws import DECISION
from sampler.bart.kernels.particles.layout import Swarm
from sampler.bart.kernels.tree_prior import TreePrior
from sampler.kernels.arrays import Data, Int, Words
from sampler.kernels.jit import kernel, pointer_kernel
from sampler.kernels.random import uniform


def table(trees):
    """Return the probability of a split."""
    return np.full((1, 1), trees["split_chance"])


@kernel(allocates=False)
def split_root(data: Data, prior: TreePrior, swarm: Swarm, random: Words, particle: Int, at: Int) -> Int:
    """Split the root of a tree, by any rule."""
    rows = swarm.rows[particle, : data.num_rows]
    if at > 0 or uniform(random) >= prior.table[0, 0] or not rows_differ(data, rows):
        return 0
    draw_rule_of_rows(data, rows, random, prior.shares, swarm.columns, swarm.span, swarm.rule)
    return 1


def decide(at_data, at_prior, at_swarm, at_random, particle, at):
    """Decide a node."""
    return split_root(at_data[0], at_prior[0], at_swarm[0], at_random[0], particle, at)


DECIDE = pointer_kernel(__name__, DECISION, decide)
