"""Kinds of noise of a sum of trees: what the names of the setting `noise` stand for, and a choice of one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Noise:
    """A kind of noise.

    Attributes
    ----------
    forest
        Whether its size differs by row, by a second sum of trees.
    heavy_tails
        Whether it is Student's t with degrees of freedom that are drawn.
    mixture
        Whether it is a mixture of normals, each with a mean and an sd of its own.

    """

    forest: bool = False
    heavy_tails: bool = False
    mixture: bool = False

    @property
    def is_normal(self) -> bool:
        """Whether it is normal."""
        return not (self.heavy_tails or self.mixture)

    @property
    def weighs_rows(self) -> bool:
        """Whether rows have weights that change from draw to draw."""
        return self.forest or not self.is_normal


NOISES = {
    "constant": Noise(),
    "forest": Noise(forest=True),
    "t": Noise(heavy_tails=True),
    "t-forest": Noise(forest=True, heavy_tails=True),
    "mixture": Noise(mixture=True),
    "auto": Noise(),  # until the data choose one of the others
}
CONSTANT, AUTO, HEAVIEST = "constant", "auto", "t-forest"
KINDS = (CONSTANT, "t", "mixture", "forest", HEAVIEST)  # the simplest first, which is also the fastest
NOISE_TREES = 40  # trees in the forest of the noise
SPREAD = "noise_spread"  # name of the scalar of a draw with the prior sd of the logarithm of a row's noise
DEGREES = "degrees"  # name of the scalar of a draw with the degrees of freedom
COMPONENTS = 10  # normals of a mixture, at most: those of no row weigh next to nothing
SCALE = "noise_scale"  # name of the scalar of a draw with the factor of the scale of its components' prior
# Values that degrees of freedom may have: variances exist, and beyond the last the noise is as good as normal
DEGREE_GRID = (2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 15.0, 20.0, 30.0, 50.0, 100.0)


def component_names() -> tuple[str, ...]:
    """Name the scalars of a draw with the shares, the means and the sds of a mixture's components."""
    return tuple(f"noise_{part}_{k}" for part in ("share", "mean", "sd") for k in range(COMPONENTS))


@dataclass(frozen=True)
class NoiseChoice:
    """Evidence by which the data chose a kind of noise (docs/maths.md#choice-of-noise).

    Attributes
    ----------
    rows
        Number of rows looked at.
    gain, gain_error
        Mean over rows of the log score of heavy tails and noise by row above that of normal noise of one
        size, around quick regressions that have not seen the row, and its standard error.
    losses
        Mean quantile losses of rows left out of short chains, in units of the outcome, by kind of noise;
        empty where the quick regressions sufficed.
    errors
        Standard errors of the losses' differences from that of constant noise, by kind.
    log_scores
        Mean log scores of the same rows, by kind.

    """

    rows: int
    gain: float
    gain_error: float
    losses: Mapping[str, float] | None = None
    errors: Mapping[str, float] | None = None
    log_scores: Mapping[str, float] | None = None

    def in_words(self) -> str:
        """Say by what the noise was chosen."""
        if not self.losses:
            return f"chosen by quick regressions on {self.rows} rows, which ask for no other"
        base = self.losses[CONSTANT] or math.inf
        shares = ", ".join(f"{name} {loss / base:.2f}" for name, loss in self.losses.items())
        return f"chosen by the loss of {self.rows} rows left out of short fits: {shares} (constant is 1)"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> NoiseChoice:
        """Read what `to_json` returned; raise ValueError for anything else."""
        choice = cls(**values)
        by_kind = [each for each in (choice.losses, choice.errors, choice.log_scores) if each is not None]
        numbers = [choice.gain, choice.gain_error, *(x for each in by_kind for x in each.values())]
        names = {name for each in by_kind for name in each}
        finite = all(isinstance(x, (int, float)) and math.isfinite(x) for x in numbers)
        if type(choice.rows) is not int or not finite or not names <= {*KINDS}:
            raise ValueError("the choice of its noise is invalid")
        if choice.losses and CONSTANT not in choice.losses:
            raise ValueError("the choice of its noise has no constant noise to compare with")
        return choice
