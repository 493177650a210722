"""Noise whose size differs by row: by a forest of precisions, by heavy tails, both, or a mixture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sampler.array_types import Floats
from sampler.bart import forest_call, noise_forest, noise_mixture, student
from sampler.bart.kernels.leaf_models.log_linear import LogLinear
from sampler.bart.kernels.leaf_models.log_linear_pass import weigh
from sampler.bart.kernels.leaf_models.normal import UNIT, Normal
from sampler.bart.kernels.state import Forest, Work
from sampler.bart.noise_mixture import MixtureNoise, with_noise_mean
from sampler.bart.part import ChainPart, HasParts
from sampler.bart.state import ForestPlan, make_data
from sampler.bart.student import StudentScales
from sampler.kernels.arrays import Data
from sampler.noise import DEGREE_GRID, DEGREES, NOISE_TREES, NOISES, SCALE, SPREAD, component_names
from sampler.storage.draws import Draws
from sampler.training import Training

PART = "noise"  # its name in `sampler.definitions.parts`
WEIGHT_SUM_BITS = 36  # of the sum of the rows' weights; a residual takes up to 26 of 62
LATEST_START = 100  # iterations that the mean has alone at first, before the precisions, at most


def data_of_noise(training: Training) -> Data | None:
    """Return the rows for trees of precisions that may not split on all columns, else None."""
    if training.same_noise is None:
        return None
    codes = training.codes.copy()
    codes[training.same_noise] = 0  # one code is no rule
    return make_data(replace(training, codes=codes))


class RowNoise(ChainPart):
    """The steps of a sweep that let the noise differ by row."""

    @classmethod
    def of(cls, training: Training) -> type[RowNoise] | None:
        """Return the class where the noise weighs rows."""
        return cls if NOISES[training.settings.noise].weighs_rows else None

    @classmethod
    def plan(cls, training: Training, mean: ForestPlan) -> tuple[ForestPlan, ...]:
        """Plan the forest of precisions, if the noise has one."""
        if not NOISES[training.settings.noise].forest:
            return ()
        moves = noise_forest.MOVES if mean.moves.get("rule") else {"grow": 0.5, "prune": 0.5}
        shared = mean.alpha, mean.beta, 0.0, moves
        own = ForestPlan(noise_forest.NAME, NOISE_TREES, *shared, "log-linear", part=PART, trees=mean.trees)
        return (own,)

    @classmethod
    def model_of(cls, training: Training, plan: ForestPlan, mean: Normal) -> LogLinear:  # noqa: ARG003
        """Make the leaf model of the precisions."""
        seen = (noise_forest.given_weights(training) > 0).astype(np.int32)
        return noise_forest.make_model(training, mean.noise, seen[: 0 if np.all(seen) else None])

    @classmethod
    def scalars(cls, training: Training) -> tuple[str, ...]:
        """Name the degrees of freedom or the components, and the spread of the precisions."""
        noise = NOISES[training.settings.noise]
        shape = (DEGREES,) if noise.heavy_tails else (*component_names(), SCALE) if noise.mixture else ()
        return (*shape, SPREAD) if noise.forest else shape

    @classmethod
    def kernels(cls, training: Training) -> tuple[str, ...]:
        """Name the groups of compiled kernels."""
        noise = NOISES[training.settings.noise]
        forest = noise_forest.groups_of(training.settings) if noise.forest else ("log-linear",)
        own = (student.GROUP,) if noise.heavy_tails else (noise_mixture.GROUP,) if noise.mixture else ()
        return (forest_call.GROUP, "weights", *forest, *own)

    def __init__(self, training: Training, host: HasParts) -> None:
        """Make the rows' scales, and note the leaf models of the mean and of the precisions, if any."""
        scalars, outcome = host.scalar_names, host.outcome
        of_forest = [model for plan, model in zip(host.plans, host.models, strict=True) if plan.part == PART]
        self._data = data_of_noise(training)
        self._given = noise_forest.given_weights(training)
        self._num_rows = len(training.y)
        self._mean: Normal = host.models[0]
        self._log_value = np.zeros(self._num_rows, np.int32)
        self._first = min(LATEST_START, training.settings.num_burnin // 4)
        self._outcome = outcome
        self._precisions: noise_forest.Precisions | None = None
        if of_forest:
            self._log_value, place = of_forest[0].log_value, scalars.index(SPREAD)
            scalar = outcome.scalars[place : place + 1]
            self._precisions = noise_forest.Precisions(of_forest[0], self._mean.residual, scalar)
        self._scales = (
            StudentScales(self._num_rows, scalars.index(DEGREES), outcome) if DEGREES in scalars else None
        )
        self._mixture = None
        if NOISES[training.settings.noise].mixture:
            place, sigma = scalars.index(component_names()[0]), training.constants.sigma_start
            self._mixture = MixtureNoise(self._num_rows, place, sigma, self._first, outcome)
        self._weights = self._given
        self._values = np.ones(self._num_rows)  # of the precisions at a sweep's start

    @property
    def noise_mean(self) -> float:  # type: ignore[override]
        """The mean of a mixture, in grid steps; 0 of other noise."""
        return self._mixture.mean if self._mixture else 0.0

    def fits(self, scalars: Mapping[str, float]) -> bool:
        """Tell whether sizes are positive, shares at least 0 and the degrees among those known."""
        sizes = ("noise_sd", SCALE, SPREAD)
        positive = all(value > 0 for name, value in scalars.items() if name.startswith(sizes))
        shares = all(value >= 0 for name, value in scalars.items() if name.startswith("noise_share"))
        return positive and shares and scalars.get(DEGREES, DEGREE_GRID[0]) in DEGREE_GRID

    def clear(self) -> None:
        """Let precisions be 1, with the prior that the scalars say."""
        if self._precisions is not None:
            self._log_value[:] = 0
            self._precisions.apply()

    def data_of(self, plan: ForestPlan, data: Data) -> Data:  # noqa: ARG002
        """Return the rows with the columns that trees of precisions may split on."""
        return data if self._data is None else self._data

    def begin(self, work: Work, iteration: int) -> None:
        """Draw the rows' scales or labels, if any, and weigh the rows."""
        if self._scales:
            self._weights = self._scales.draw(
                self._mean, self._log_value, self._given, self._outcome, work, iteration
            )
        if self._mixture:
            self._weights = self._mixture.draw(self._mean, self._outcome, work, iteration)
        self._mean.noise[UNIT] = weigh(
            self._log_value, self._weights, self._num_rows, WEIGHT_SUM_BITS, self._values, self._mean.weights
        )

    def end(self, data: Data, forests: Sequence[Forest], work: Work, iteration: int) -> None:
        """Give residuals the components' means again; update the precisions, if any, and their spread.

        Not in the first iterations: the mean comes first.
        """
        if self._mixture:
            self._mixture.put_back(self._mean.residual)
        if self._precisions is None or iteration < self._first:
            return
        (forest,) = forests
        data = data if self._data is None else self._data
        self._precisions.draw(data, forest, work, self._values, self._weights, self._num_rows)

    def complete(self, draws: Draws, scalars: Mapping[str, Floats]) -> Draws:
        """Return kept draws of the mean's forest: a mixture's mean goes to its first tree."""
        return with_noise_mean(draws, scalars, self._outcome.step) if self._mixture else draws
