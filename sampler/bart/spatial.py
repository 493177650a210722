"""A smooth surface over two coordinates beside the trees (docs/maths.md#a-surface-over-places).

y = f(x) + s(place) + e, with a Gaussian process s: the spatially adjusted BART of Zhang, Shih and Müller
(2007), which Chipman, George and McCulloch (2010, section 7) name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sampler.bart.kernels.leaf_models.normal import Normal
from sampler.bart.kernels.state import Forest, Work
from sampler.bart.kernels.steps import spatial as kernels
from sampler.bart.part import ChainPart, HasParts
from sampler.data.spatial import SCALARS, cosines, wave_names
from sampler.training import SpatialTraining, Training

GROUP = "spatial"  # group of compiled kernels, see `sampler.kernels.groups`


class SpatialSurface(ChainPart):
    """The surface of one chain: its state is among the scalars of its outcome."""

    @classmethod
    def scalars(cls, training: Training) -> tuple[str, ...]:  # noqa: ARG003
        """Name the standard deviation, the range and the amplitudes."""
        return (*SCALARS, *wave_names())

    @classmethod
    def kernels(cls, training: Training) -> tuple[str, ...]:  # noqa: ARG003
        """Name the groups of compiled kernels."""
        return (GROUP,)

    def __init__(self, training: Training, host: HasParts) -> None:
        own = training.part(SpatialTraining)
        surface, placed = own.surface, own.placed
        self._host, self._first = host, host.scalar_names.index(SCALARS[0])
        host.outcome.scalars[self._first : self._first + 2] = surface.sd, kernels.TYPICAL
        terms, count = len(surface.squares) + 1, len(placed.missing)
        first, second = surface.sines(placed)
        most = [2 * each.shape[1] for each in (first, second)]
        of_first, of_second = (cosines(own, k) for own, k in zip(placed.angle, most, strict=True))
        self._part = kernels.Waves(
            place=np.array(own.place, np.int32),
            first=first,
            second=second,
            first_cosines=of_first,
            second_cosines=of_second,
            missing=placed.missing.astype(np.int32),
            numbers=surface.numbers,
            squares=surface.squares,
            height=surface.height,
            amplitude=np.zeros(terms),
            shift=np.zeros(len(own.place), np.int32),
            at=np.zeros(count),
            weight=np.zeros(count),
            transform=np.zeros((of_first.shape[1], of_second.shape[1])),
            gram=np.zeros((terms, terms)),
            pull=np.zeros(terms),
            factor=np.zeros((2, terms, terms)),
            solved=np.zeros((2, terms)),
            root=np.zeros((2, terms)),
            figures=np.zeros(2),
            power=np.zeros(1),
            scale=surface.sd / host.outcome.step,
        )

    def fits(self, scalars: Mapping[str, float]) -> bool:
        """Tell whether the standard deviation and the range are positive."""
        return all(scalars[name] > 0 for name in SCALARS)

    def take_out(self, model: Normal) -> None:
        """Take the surface out of residuals that have it all."""
        kernels.read_amplitudes(self._part, self._host.outcome, self._first)
        self._part.shift[:] = 0
        kernels.apply_surface(self._part, model.residual)

    def draw(self, forest: Forest, work: Work, places: Sequence[int]) -> None:  # noqa: ARG002
        """Draw the surface given the trees, the other parts and the noise."""
        kernels.draw_surface(self._part, self._host.models[0], self._host.outcome, work, self._first)
