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
CONSTANT, AUTO, FOREST, HEAVIEST = "constant", "auto", "forest", "t-forest"
KINDS = (CONSTANT, "t", "mixture", "forest", HEAVIEST)  # the simplest first, which is also the fastest
NOISE_TREES = 40  # trees in the forest of the noise
LEAST_GAIN, CLEARLY = 0.03, 2.0  # share of the loss, and errors of it, by which a kind is clearly better
FOREST_ROWS = 400  # from which on noise differs by row unless something speaks against it:
WORSE, WORSE_RMSE = 1.0, 1.05  # errors by which its loss is larger, and times its RMSE, than constant noise's
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
    rmse
        Root of the mean squared difference between their outcomes and means, by kind; weights count.
    missed
        Kinds whose mean misses that of these rows where another's misses it less.
    mass
        Share of outcomes that are the least or the largest value, where they are too many for any noise.

    """

    rows: int
    gain: float
    gain_error: float
    losses: Mapping[str, float] | None = None
    errors: Mapping[str, float] | None = None
    log_scores: Mapping[str, float] | None = None
    rmse: Mapping[str, float] | None = None
    missed: tuple[str, ...] = ()
    mass: float | None = None

    def saves(self, name: str) -> bool:
        """Tell whether a kind of noise is clearly better than constant noise in short fits."""
        if self.losses is None or self.errors is None:
            return False
        saved = self.losses[CONSTANT] - self.losses[name]
        return saved >= max(LEAST_GAIN * self.losses[CONSTANT], CLEARLY * self.errors[name])

    def against_forest(self) -> str | None:
        """Say what speaks against noise by row, in words; None where nothing does."""
        losses, errors, rmse = self.losses, self.errors, self.rmse
        if self.rows < FOREST_ROWS:
            return f"{FOREST} takes {FOREST_ROWS} rows"
        if not losses or FOREST not in losses or errors is None or rmse is None:
            return f"no short fit of {FOREST} was possible"
        if FOREST in self.missed:
            return f"the mean of {FOREST} misses that of the rows left out"
        if losses[FOREST] - losses[CONSTANT] > WORSE * errors[FOREST]:
            return f"the loss of {FOREST} is {_share(losses, FOREST)} of constant's"
        if rmse[FOREST] > WORSE_RMSE * rmse[CONSTANT]:
            return f"the RMSE of {FOREST} is {_share(rmse, FOREST)} of constant's"
        return None

    def in_words(self, noise: str) -> str:
        """Say in one sentence which noise was chosen, and why."""
        if self.mass is not None:
            share = f"{self.mass:.0%} of the outcomes are one value at an end"
            return f"{noise}: {share}, where other noise gives no mean (family hurdle is for them)"
        if not self.losses:
            return f"{noise}: quick regressions on {self.rows} rows ask for no other"
        left_out = f"{self.rows:,} rows left out of short fits"
        if noise == FOREST and not self.saves(FOREST):
            share = _share(self.losses, FOREST)
            return f"{noise}: nothing speaks against it: its loss on {left_out} is {share} of constant's"
        shares = ", ".join(f"{name} {_share(self.losses, name)}" for name in self.losses)
        why = "" if noise != CONSTANT or self.rmse is None else f"; {self.against_forest()}"
        return f"{noise}: by the loss of {left_out}: {shares} (constant is 1){why}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: value for name, value in asdict(self).items() if value not in (None, ())}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> NoiseChoice:
        """Read what `to_json` returned; raise ValueError for anything else."""
        choice = cls(**{**values, "missed": tuple(values.get("missed", ()))})
        tables = choice.losses, choice.errors, choice.log_scores, choice.rmse
        by_kind = [each for each in tables if each is not None]
        numbers = [
            choice.gain,
            choice.gain_error,
            choice.mass or 0.0,
            *(x for each in by_kind for x in each.values()),
        ]
        names = {*choice.missed, *(name for each in by_kind for name in each)}
        finite = all(isinstance(x, (int, float)) and math.isfinite(x) for x in numbers)
        if type(choice.rows) is not int or not finite or not names <= {*KINDS}:
            raise ValueError("the choice of its noise is invalid")
        if choice.losses and CONSTANT not in choice.losses:
            raise ValueError("the choice of its noise has no constant noise to compare with")
        return choice


def _share(of: Mapping[str, float], name: str) -> str:
    """Return the ratio to constant noise's, in words."""
    return f"{of[name] / (of[CONSTANT] or math.inf):.2f}"
