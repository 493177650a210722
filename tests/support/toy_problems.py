"""Tiny problems shared by tests: the published toy, gaps and dummies, missing values, weights."""

import numpy as np

from tests.reference.enumerator import Toy

GOLDEN_X = np.array([[0, 1, 3], [1, 0, 3], [1, 2, 3], [2, 2, 3], [3, 1, 3]])
# iterations after which the slowest mode of grow and prune alone decays to about a third (second eigenvalues
# .993, .997, .992): draws that far apart count as independent
FORGETS = {"golden": 150, "gapped": 350, "missing": 150, "weighted": 150}
PARTICLES_FORGET = 30  # the same for particle Gibbs
GOLDEN_Y = np.array([0.3, -0.4, 0.1, 0.45, -0.2])


def every_second(first, second):
    """Pair each entry of two lists with every second one of the other list."""
    return [(a, b) for i, a in enumerate(first) for j, b in enumerate(second) if (i + j) % 2 == 0]


def golden(scheme="C", **changes):
    """Five rows, ties, a constant third column; codes are the values."""
    return Toy(GOLDEN_X.T, GOLDEN_Y, scheme=scheme, **changes)


def gapped(**changes):
    """Five rows, codes with gaps, and two dummies."""
    codes = [[0, 4, 4, 7, 2], [0, 0, 1, 1, 0], [1, 0, 1, 0, 0]]
    return Toy(codes, [0.4, -0.3, 0.2, 0.5, -0.35], **changes)


def missing(**changes):
    """Four rows, missing values in both columns."""
    codes = [[0, 255, 2, 255], [1, 0, 255, 2]]
    return Toy(codes, [0.4, -0.3, 0.25, -0.1], **changes)


def equal_rows(**changes):
    """Four rows, the first two of which no rule parts: only three leaves at most."""
    return Toy([[0, 0, 2, 2], [1, 1, 0, 1]], [0.4, -0.3, 0.2, -0.1], **changes)


def weighted(**changes):
    """The golden rows with unequal weights."""
    return golden(weights=np.array([0.5, 1.0, 2.0, 1.5, 3.0]), **changes)
