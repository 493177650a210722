"""Heavy tails: Student's t noise, its degrees of freedom drawn (docs/maths.md#heavy-tails).

The noise of row i is sigma (a_i omega_i)^(-1/2) e_i with omega_i ~ Gamma(nu / 2, rate nu / 2): t with nu
degrees of freedom. The degrees are drawn with the omegas integrated out, then the omegas given them, so that
nothing by row is state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, SIGMA2, Normal
from sampler.bart.kernels.state import Outcome, Work
from sampler.bart.kernels.steps.student import draw_degrees, draw_scales, measure_errors
from sampler.noise import DEGREE_GRID

GROUP = "student"  # group of compiled kernels, see `sampler.kernels.groups`
EVERY = 5  # iterations from one draw of the degrees to the next
FIRST = 10.0  # degrees at the start
SHAPE, RATE = 2.0, 0.1  # gamma prior of the degrees (Juárez and Steel 2010)


def log_prior() -> Floats:
    """Compute the log prior of the degrees on their grid: the gamma law's mass around each point."""
    from scipy.special import gammainc  # noqa: PLC0415  # slow to import

    grid = np.array(DEGREE_GRID)
    edges = np.array([2.0, *(0.5 * (grid[1:] + grid[:-1])), np.inf])
    mass = np.diff(gammainc(SHAPE, RATE * edges))
    return np.asarray(np.log(mass / mass.sum()))


class StudentScales:
    """The rows' scales and the degrees of freedom of one chain; the degrees are a scalar of its outcome."""

    def __init__(self, num_rows: int, place: int, outcome: Outcome) -> None:
        """Make room; `place` is that of the degrees among the scalars."""
        self._place = place
        self._grid, self._log_prior = np.array(DEGREE_GRID), log_prior()
        self._scores = np.empty(len(DEGREE_GRID))
        self._squares, self._weights = np.empty(num_rows), np.empty(num_rows)
        outcome.scalars[place] = FIRST

    def draw(
        self,
        mean: Normal,
        log_value: NDArray[np.int32],
        precision: Floats,
        outcome: Outcome,
        work: Work,
        iteration: int,
    ) -> Floats:
        """Draw the degrees and the rows' scales; return the given weights times the scales."""
        power = float(mean.noise[LIKELIHOOD])
        seen = measure_errors(
            log_value, precision, mean.residual, mean.noise[SIGMA2], len(self._squares), self._squares
        )
        if iteration % EVERY == 0:
            place = draw_degrees(
                self._squares, seen, power, self._grid, self._log_prior, self._scores, work.random
            )
            outcome.scalars[self._place] = self._grid[place]
        degrees = float(outcome.scalars[self._place])
        draw_scales(self._squares, precision, power, degrees, work.random, self._weights)
        return self._weights
