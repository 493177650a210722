"""Linear parts of classes beside their forests (docs/maths.md#lines-of-classes)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart.intercepts import as_stumps
from sampler.bart.kernels.steps import class_lines as kernels
from sampler.bart.kernels.steps.class_lines import apply_lines, draw_lines
from sampler.bart.linear_part import rotation_of
from sampler.data.linear_terms import CLASS_FOREST
from sampler.families import class_line_period
from sampler.storage.draws import Draws
from sampler.training import LinearTraining

GROUP = "class-lines"  # group of compiled kernels, see `sampler.kernels.groups`


class ClassSlopes:
    """The slopes of one chain, int32 [class, term] in steps, and their standard deviation, float64 [1]."""

    def __init__(
        self, training: LinearTraining, is_class: NDArray[np.int32], num_trees: int, num_rows: int
    ) -> None:
        rotation, turned = rotation_of(training)
        (classes, _), terms = is_class.shape, len(turned)
        basis = np.zeros((terms, num_rows))
        basis[:, : turned.shape[1]] = turned
        self.period = class_line_period(turned.shape[1], terms, num_trees)
        self.slopes = np.zeros((classes, terms), np.int32)
        self.spread = np.array([training.terms.slope_scale])
        self._kept: list[NDArray[np.int32]] = []
        self._part: kernels.ClassLines = kernels.ClassLines(
            basis=basis,
            rotation=rotation,
            squares=np.zeros(terms),
            slope=self.slopes,
            shift=np.zeros((classes, num_rows), np.int32),
            is_class=is_class,
            spread=self.spread,
            base=np.zeros((classes, num_rows)),
            value=np.zeros((classes, num_rows)),
            at=np.zeros((classes, terms)),
            moved=np.zeros((classes, terms)),
            momentum=np.zeros((classes, terms)),
            slant=np.zeros((classes, terms)),
            largest=np.zeros(num_rows),
            total=np.zeros(num_rows),
            scale=training.terms.slope_scale,
        )
        kernels.sum_squares(self._part)

    def apply(self, log_values: NDArray[np.int32]) -> None:
        """Enter the linear parts into log f [class, row] that has none."""
        self._part.shift[:] = 0
        apply_lines(self._part, log_values)

    def draw(
        self, log_values: NDArray[np.int32], log_shares: Floats, power: float, random: NDArray[np.uint64]
    ) -> None:
        """Draw the slopes given the forests, the rows' latent rates integrated out."""
        draw_lines(self._part, log_values, log_shares, power, random)

    def keep(self) -> None:
        """Keep the present slopes."""
        self._kept.append(self.slopes.reshape(-1).copy())

    def take(self, sigma: Floats) -> dict[str, Draws]:
        """Hand over the slopes kept since the last take, as trees of one leaf, by the forest's name."""
        kept, self._kept = self._kept, []
        return {CLASS_FOREST: as_stumps(np.array(kept, np.int32), sigma)}
