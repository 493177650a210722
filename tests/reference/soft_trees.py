"""Soft trees by the model's formulas, in plain numpy and scipy."""

import numpy as np
from scipy import special, stats

from sampler.soft.kernels import state
from sampler.soft.kernels.state import SoftRows, SoftShape
from sampler.trees.soft import tree
from sampler.trees.soft.tree import with_common

GOLDEN_X = np.array([0.1, 0.3, 0.5, 0.6, 0.8, 0.9])
GOLDEN_Y = np.array([-0.2, -0.4, -0.1, 1.1, 0.9, 1.0])
GOLDEN_CLASS = np.array([0, 0, 0, 1, 1, 1])
LAW = {"mean": 0.0, "sd": 1.0, "sigma_shape": 1.5, "sigma_scale": 1.5, "concentration": 1.0}


def make_rows(x, y, classes=0, likelihood=True, **law):
    """Return rows [row, p] as the kernels take them, equal ones joined."""
    law = LAW | law
    distinct, group = np.unique(x, axis=0, return_inverse=True)
    group = group.reshape(-1)
    prior = np.zeros(state.STICKS)
    prior[: state.LIKELIHOOD] = [law[name] for name in LAW]
    prior[state.LIKELIHOOD] = likelihood
    many = np.bincount(group)
    mean = np.zeros(len(distinct))
    if classes:
        count = np.zeros((classes, len(distinct)))
        np.add.at(count, (np.asarray(y, int), group), 1)
    else:
        count = many[None].astype(float)
        mean = np.bincount(group, y) / many
        prior[state.WITHIN] = np.sum((y - mean[group]) ** 2)
    prior[state.TOTAL] = len(y)
    prior = with_common(prior, x.shape[1], classes)
    return SoftRows(np.ascontiguousarray(distinct.T), count, mean, classes, prior)


def make_shape(is_split, axis=None):
    """Return a topology from its bits in pre-order."""
    right, slot, counts = [0] * len(is_split), [], [0, 0]

    def walk(node):
        if not is_split[node]:
            return node + 1
        right[node] = walk(node + 1)
        return walk(right[node])

    assert walk(0) == len(is_split)
    for bit in is_split:
        slot.append(counts[bit])
        counts[bit] += 1
    axis = [-1] * counts[1] if axis is None else axis
    return SoftShape(*(np.array(values, np.int64) for values in (right, slot, axis)))


def make_room(rows, shape):
    """Return a workspace for the kernels."""
    return tree.make_room(rows, len(shape.axis))


def take_apart(u, columns, shape, classes):
    """Return thresholds, directions, means, sigma, and the log Jacobian."""
    splits = len(shape.axis)
    threshold, at = special.expit(u[:splits]), splits
    log_jacobian = np.sum(np.log(threshold * (1 - threshold)))
    direction = np.zeros((splits, columns))
    for j, axis in enumerate(shape.axis):
        if axis >= 0:
            direction[j, axis] = 1
            continue
        left = 1.0
        for k in range(1, columns):
            z = special.expit(u[at] - np.log(columns - k))
            direction[j, k - 1] = left * z
            log_jacobian += np.log(z) + (columns - k) * np.log(1 - z)
            left *= 1 - z
            at += 1
        direction[j, -1] = left
    if classes:
        return threshold, direction, None, None, log_jacobian
    return threshold, direction, u[at:-1], np.exp(u[-1]), log_jacobian + u[-1]


def memberships(x, shape, threshold, direction, width):
    """Return the probability of each leaf at each row, [row, leaf]."""
    shares = []

    def walk(node, log_share):
        if not shape.right[node]:
            shares.append(np.exp(log_share))
            return
        j = shape.slot[node]
        a = (x @ direction[j] - threshold[j]) / width
        walk(node + 1, log_share - np.logaddexp(0, a))
        walk(shape.right[node], log_share - np.logaddexp(0, -a))

    walk(0, np.zeros(len(x)))
    return np.stack(shares, axis=1)


def slow_density(x, y, classes, shape, width, u, **law):
    """Return the log density at u, row by row, from named distributions."""
    law, columns = LAW | law, x.shape[1]
    threshold, direction, mean, sigma, total = take_apart(u, columns, shape, classes)
    for axis in shape.axis:
        total += special.gammaln(columns) if axis < 0 else -np.log(columns)
    share = memberships(x, shape, threshold, direction, width)
    if not classes:
        total += np.sum(stats.norm.logpdf(mean, law["mean"], law["sd"]))
        total += stats.invgamma.logpdf(sigma, law["sigma_shape"], scale=law["sigma_scale"])
        return total + np.sum(stats.norm.logpdf(y, share @ mean, sigma))
    alpha = np.full(classes, law["concentration"])
    for leaf in range(share.shape[1]):
        count = np.array([share[np.asarray(y) == k, leaf].sum() for k in range(classes)])
        total += special.gammaln(alpha.sum()) - special.gammaln(alpha).sum()
        total += special.gammaln(count + alpha).sum() - special.gammaln((count + alpha).sum())
    return total
