"""Kinds of noise of a sum of trees: what each name of the setting `noise` stands for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Noise:
    """A kind of noise.

    Attributes
    ----------
    forest
        Whether its size differs by row, by a second sum of trees.
    heavy_tails
        Whether it is Student's t with degrees of freedom that are drawn; else it is normal.

    """

    forest: bool = False
    heavy_tails: bool = False

    @property
    def weighs_rows(self) -> bool:
        """Whether rows have weights that change from draw to draw."""
        return self.forest or self.heavy_tails


NOISES = {
    "constant": Noise(),
    "forest": Noise(forest=True),
    "t": Noise(heavy_tails=True),
    "t-forest": Noise(forest=True, heavy_tails=True),
}
NOISE_TREES = 40  # trees in the forest of the noise
SPREAD = "noise_spread"  # name of the scalar of a draw with the prior sd of the logarithm of a row's noise
DEGREES = "degrees"  # name of the scalar of a draw with the degrees of freedom
# Values that degrees of freedom may have: variances exist, and beyond the last the noise is as good as normal
DEGREE_GRID = (2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 15.0, 20.0, 30.0, 50.0, 100.0)
