"""Tables of the priors of trees (docs/maths.md#other-tree-priors), which their kernels read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.definitions.tree_laws import find_law
from sampler.kernels.jit import address


def drawn_by(trees: Mapping[str, Any]) -> tuple[int, Floats]:
    """Return the address of the kernel that draws from a prior of trees, of such entries, and its table."""
    law = find_law(trees)
    table = resolve_name(law.table)(trees) if law.table else np.zeros((0, 0))
    return address(resolve_name(law.kernel)), table


def uniform_shapes(trees: Mapping[str, Any]) -> Floats:
    """Poisson leaves, at least one, and every shape of as many leaves alike: Catalan(k - 1) of k leaves."""
    from scipy.special import gammaln  # noqa: PLC0415  # slow to import

    leaves = _numbers_of_leaves(trees)
    of_shapes = gammaln(2 * leaves - 1) - gammaln(leaves) - gammaln(leaves + 1)
    return _table(leaves * math.log(trees["num_leaves"]) - gammaln(leaves + 1), of_shapes)


def pinballs(trees: Mapping[str, Any]) -> Floats:
    """1 + Poisson leaves; of k, 1 + BetaBinomial(k - 2; c, c) go to the left, where c is the evenness."""
    from scipy.special import gammaln  # noqa: PLC0415  # slow to import

    leaves = _numbers_of_leaves(trees)
    of_share = gammaln(leaves - 1 + trees["evenness"]) - gammaln(leaves)
    return _table((leaves - 1) * math.log(trees["num_leaves"] - 1) - gammaln(leaves), of_share)


def tries(trees: Mapping[str, Any]) -> Floats:
    """Return the number of rules that are tried."""
    return np.full((1, 1), float(trees.get("tries", 1)))


def _numbers_of_leaves(trees: Mapping[str, Any]) -> Floats:
    """1, 2, .. up to where less than 1e-12 of a Poisson law is left."""
    mean = trees["num_leaves"]
    return np.arange(1.0, math.ceil(mean + 10 * math.sqrt(mean)) + 21)


def _table(log_weight: Floats, log_part: Floats) -> Floats:
    """Tabulate a law of the number of leaves, and of their shares, float64 [3, leaves + 1].

    1, 2, .. leaves have probabilities in proportion to exp(log_weight), and of k leaves l go left in
    proportion to exp(log_part of l + log_part of k - l). Column k, of k leaves, has the distribution function
    of their number, log_part, and the log normaliser of shares.
    """
    from scipy.special import logsumexp  # noqa: PLC0415  # slow to import

    table = np.zeros((3, len(log_weight) + 1))
    table[0, 1:] = np.cumsum(np.exp(log_weight - logsumexp(log_weight)))
    table[1, 1:] = log_part
    for leaves in range(2, table.shape[1]):
        table[2, leaves] = logsumexp(log_part[: leaves - 1] + log_part[leaves - 2 :: -1])
    return table
