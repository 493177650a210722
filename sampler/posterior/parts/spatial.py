"""Draws of a smooth surface over two coordinates (docs/maths.md#a-surface-over-places)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.spatial import SCALARS, Surface, shares, wave_names
from sampler.errors import PackedError
from sampler.posterior.kernels.moments import add_lines
from sampler.posterior.parts.part import LawPart
from sampler.storage.draws import Draws

WORK = 600  # see `LawPart.work`
LARGEST = 1e150  # largest amplitude, in units of y: its square is still finite


class SurfaceDraws(LawPart):
    """Figures float64 [draw, 2] and amplitudes [draw, wave] of all draws, one chain after the other.

    The last two amplitudes are the surface at rows without a coordinate, and what it is beyond the training
    rows besides its waves, which end there.
    """

    work = WORK
    not_explained = ", the surface over places left out"

    def __init__(self, surface: Surface, chains: Sequence[Draws]) -> None:
        names = (*SCALARS, *wave_names())
        if not all(name in draws.scalars for draws in chains for name in names):
            raise PackedError("the draws don't have the amplitudes of the model's surface")
        drawn = np.concatenate([np.stack([d.scalars[name] for name in names], axis=1) for d in chains])
        self.surface = surface
        self.figures, self.amplitudes = np.split(drawn, [len(SCALARS)], axis=1)
        if not np.max(np.abs(drawn)) < LARGEST or not np.min(self.figures) > 0:
            raise PackedError("the draws of the surface are out of range")

    def add_to(self, f: Floats, coded: Coded, chosen: NDArray[np.int64]) -> None:
        """Add the surface to draws of f [draw, row]; a row's sum doesn't depend on the other rows."""
        assert coded.values is not None, "rows of a model with a surface keep their values"
        placed = self.surface.of(coded.values)
        waves, own = self.surface.waves(placed), self.amplitudes[chosen]
        terms = np.concatenate([waves, placed.missing[None].astype(np.float64)])
        add_lines(f, np.ascontiguousarray(own[:, :-1]), np.ascontiguousarray(terms))
        beyond = np.flatnonzero(placed.beyond)
        if len(beyond):
            reached = np.zeros((len(chosen), len(beyond)))
            of_waves = shares(self.surface.squares, self.figures[chosen, 1])
            add_lines(reached, of_waves, np.ascontiguousarray(waves[:, beyond] ** 2))
            f[:, beyond] += np.sqrt(np.maximum(0.0, 1 - reached)) * own[:, -1:]
