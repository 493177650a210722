"""Arrays of one tree of soft splits, and the names of their columns.

Nodes are numbered in pre-order: the left child of split node i is i + 1, the right one `right[i]`. Parameters
live in one vector u without bounds: the logit of each split's threshold, the stick-breaking logits of each
split's direction (none where a split uses one column), each leaf's mean, the log of sigma
(docs/maths.md#soft-trees). Rows of equal codes count as one row with a weight.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types as _types

from sampler.kernels.arrays import Floats, Floats2, Int, Longs

# SoftRows.constants: priors of leaf means, of sigma (inverse gamma), of class probabilities; the power of the
# likelihood (0 or 1)
MEAN, SD, SHAPE, SCALE, CONCENTRATION, LIKELIHOOD = 0, 1, 2, 3, 4, 5
# what grouped rows leave out: their squares about their own mean, and how many there are
WITHIN, TOTAL = 6, 7
# what the densities of all points have in common, as logarithms take long: of a leaf, of the rest, of a
# direction, of a column's choice; from STICKS on the shifts of a direction's logits
OF_LEAF, OF_TREE, OF_DIRECTION, OF_AXIS, STICKS = 8, 9, 10, 11, 12

# what a run of transitions counts and tunes
LOG_STEP, PROBABILITY, PROPOSED, ACCEPTED, RATE = 0, 1, 2, 3, 4
TUNE_SIZE = 5

LINE = 8  # numbers in a cache line, and in the widest registers


class SoftRows(NamedTuple):
    """Training rows, equal ones joined, and constants of the prior and the rows."""

    x: Floats2  # [p, n], scaled to [0, 1]
    count: Floats2  # type: ignore[assignment]  # [k, n]: rows (k = 1), or rows of each class
    mean: Floats  # [n], of the outcomes of the rows joined; zeros for classes
    classes: Int  # 0 for numbers
    constants: Floats  # STICKS numbers, and one for each logit of a direction


class SoftShape(NamedTuple):
    """A topology: its nodes in pre-order."""

    right: Longs  # [node], the right child of a split, 0 at a leaf
    slot: Longs  # [node], the number of the split, or of the leaf
    axis: Longs  # [split], the column of a split that uses one, else -1


class SoftRoom(NamedTuple):
    """Scratch arrays of the density."""

    right: Floats2  # [split, n], the probability of going right, and its complement
    left: Floats2
    flow: Floats2  # [node, n], what comes there of what each row has at the root
    below: Floats2  # [node, n], expectations over the leaves below
    threshold: Floats  # [split]
    direction: Floats2  # [split, p]
    slope: Floats  # [p]
    table: Floats2  # [leaf, k]


def zeros(*shape: int) -> Floats:
    """Make an array of zeros that begins at a cache line, so that registers are filled from one, not two."""
    size = math.prod(shape)
    cells = np.zeros(size + LINE)
    return cells[-(cells.ctypes.data // cells.itemsize) % LINE :][:size].reshape(shape)


types: Any = _types
