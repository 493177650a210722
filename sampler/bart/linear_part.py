"""A linear part beside the trees (docs/maths.md#linear-part).

y = slopes' z + f(x) + e, with terms z of the coded columns and slopes ~ Normal(0, tau^2), tau half-Cauchy
(Chipman, George and McCulloch 2010, eq. 28, with a prior that shrinks).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import numpy as np

from sampler.array_types import Floats
from sampler.bart.forest_call import stored
from sampler.bart.kernels.leaf_models.normal import Normal
from sampler.bart.kernels.leaf_models.residual_bound import BOUND, measure_bound
from sampler.bart.kernels.state import BROKEN, GRID_LIMIT, Forest, Work
from sampler.bart.kernels.steps import linear_part as kernels
from sampler.bart.kernels.steps.linear_part import apply_slopes
from sampler.bart.part import ChainPart, HasParts
from sampler.data.linear_terms import slope_names
from sampler.kernels.jit import address, warm
from sampler.training import LinearTraining, Training

GROUP = "linear"  # group of compiled kernels, see `sampler.kernels.groups`
TAU = "slope_sd"
_DRAW = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3)  # without the GIL

_ROTATIONS: WeakKeyDictionary[LinearTraining, tuple[Floats, Floats]] = WeakKeyDictionary()


def rotation_of(training: LinearTraining) -> tuple[Floats, Floats]:
    """Find a rotation [term, term] that makes the terms orthogonal, and the rotated terms [term, n].

    The chains of a fit share them.
    """
    if training not in _ROTATIONS:
        warm(GROUP)
        count = len(training.z)
        gram, rotation, basis = np.empty((count, count)), np.empty((count, count)), np.empty_like(training.z)
        kernels.sum_products(training.z, gram)
        kernels.find_rotation(gram, rotation)
        kernels.turn_terms(training.z, rotation, basis)
        _ROTATIONS[training] = rotation, basis
    return _ROTATIONS[training]


class LinearSlopes(ChainPart):
    """The slopes of one chain: their state is among the scalars of its outcome."""

    is_compiled = True

    @classmethod
    def scalars(cls, training: Training) -> tuple[str, ...]:
        """Name the slopes and their standard deviation."""
        return (TAU, *slope_names(len(training.part(LinearTraining).z)))

    @classmethod
    def kernels(cls, training: Training) -> tuple[str, ...]:  # noqa: ARG003
        """Name the groups of compiled kernels."""
        return (GROUP,)

    def __init__(self, training: Training, host: HasParts) -> None:
        line = training.part(LinearTraining)
        rotation, basis = rotation_of(line)
        count, rows = basis.shape
        scale, outcome = line.terms.slope_scale, host.outcome
        outcome.scalars[kernels.TAU] = scale
        self._part: kernels.LinearPart = kernels.LinearPart(
            basis=basis,
            rotation=rotation,
            fit=np.zeros(rows),
            shift=np.zeros(rows, np.int32),
            rest=np.zeros(rows),
            turned=np.zeros(count),
            product=np.zeros(count),
            square=np.zeros(count),
            scale=scale / outcome.step,
            step=outcome.step,
            scalars=outcome.scalars,
        )
        kernels.sum_squares(self._part)
        self._room = stored(kernels.store_part, self._part)
        self.place = int(self._room[0])  # the address of the kernels' linear part
        self.draw_at = address(kernels.DRAW_LINE)
        self._draw = _DRAW(self.draw_at)
        host.outcome = outcome._replace(draw_line=self.draw_at, line=self.place)

    def fits(self, scalars: Mapping[str, float]) -> bool:
        """Tell whether the slopes' standard deviation is positive."""
        return scalars[TAU] > 0

    def take_out(self, model: Normal) -> None:
        """Take the linear part out of residuals that have it all."""
        self._part.shift[:] = 0
        apply_slopes(self._part, model.residual)

    def apply_again(self, model: Normal, work: Work) -> None:
        """Take the present slopes' part, instead of the former, out of the residual, and bound it anew."""
        apply_slopes(self._part, model.residual)
        measure_bound(model.residual, model.bound)
        if model.bound[BOUND] > GRID_LIMIT:
            work.pending.state[BROKEN] = 1

    def draw(self, forest: Forest, work: Work, places: Sequence[int]) -> None:  # noqa: ARG002
        """Draw the slopes and their standard deviation given trees and noise."""
        *_, at_model, at_work = places
        self._draw(self.place, at_model, at_work)
