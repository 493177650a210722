"""Linear parts of classes beside their forests (docs/maths.md#lines-of-classes)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sampler.bart.intercepts import as_stumps
from sampler.bart.linear_part import rotation_of
from sampler.data.linear_terms import CLASS_FOREST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.bart.kernels.steps import class_lines as kernels
    from sampler.storage.draws import Draws
    from sampler.training import LinearTraining

    Floats = NDArray[np.float64]

GROUP = "class-lines"  # group of compiled kernels, see `sampler.kernels.groups`
SLOPE_SD = 3.61  # prior scale of a line's log f, that of the trees where k is 2
# Slopes are drawn so rarely that they take a quarter of the trees' time, at most. An update of a tree takes
# as long as so many cells (rows times terms) of a draw of slopes, and as these for each row.
UPDATE, UPDATE_ROW, SHARE, LONGEST_PERIOD = 200.0, 0.1, 0.25, 8


class ClassSlopes:
    """The slopes of one chain, int32 [class, term] in steps, and their standard deviation, float64 [1]."""

    def __init__(
        self, training: LinearTraining, is_class: NDArray[np.int32], num_trees: int, num_rows: int
    ) -> None:
        from sampler.bart.kernels.steps import class_lines as kernels  # noqa: PLC0415  # kernels load late

        rotation, turned = rotation_of(training)
        (classes, _), terms = is_class.shape, len(turned)
        basis = np.zeros((terms, num_rows))
        basis[:, : turned.shape[1]] = turned
        self.period = period_of(turned.shape[1], terms, num_trees)
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
        from sampler.bart.kernels.steps.class_lines import apply_lines  # noqa: PLC0415

        self._part.shift[:] = 0
        apply_lines(self._part, log_values)

    def draw(
        self, log_values: NDArray[np.int32], log_shares: Floats, power: float, random: NDArray[np.uint64]
    ) -> None:
        """Draw the slopes given the forests, the rows' latent rates integrated out."""
        from sampler.bart.kernels.steps.class_lines import draw_lines  # noqa: PLC0415

        draw_lines(self._part, log_values, log_shares, power, random)

    def keep(self) -> None:
        """Keep the present slopes."""
        self._kept.append(self.slopes.reshape(-1).copy())

    def take(self, sigma: Floats) -> dict[str, Draws]:
        """Hand over the slopes kept since the last take, as trees of one leaf, by the forest's name."""
        kept, self._kept = self._kept, []
        return {CLASS_FOREST: as_stumps(np.array(kept, np.int32), sigma)}


def period_of(rows: int, terms: int, num_trees: int) -> int:
    """Choose the number of iterations from one draw of slopes to the next."""
    trees = num_trees * (UPDATE + UPDATE_ROW * rows)
    return min(math.ceil(rows * terms / (SHARE * trees)), LONGEST_PERIOD)
