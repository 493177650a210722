"""The effect of a treatment as a forest beside the mean's (docs/maths.md#treatments).

y = m(x, p) + B h(x) + e with B = 1 for treated rows and -1 for the others: the effect is 2 h(x), and p the
probability of being treated (Hahn, Murray and Carvalho 2020, with this coding). h is a constant and trees,
for which the rows are ordinary ones whose residuals have the sign of B. Of several arms each has such a sum,
y = m(x, p) + h_arm(x) + e, which sees the rows of its arm; the effect is the difference of two of them. Of a
dose that is B units from its centre it is y = m(x, p) + B h(x) + e with any whole B: its trees see residuals
divided by B, with weights in proportion to B^2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart import forest_call
from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, SIGMA2, UNIT, Normal
from sampler.bart.kernels.leaf_models.residual_bound import measure_bound
from sampler.bart.kernels.state import GRID_LIMIT, Forest, Outcome, Work
from sampler.bart.kernels.steps.effect_scale import draw_effect_scale
from sampler.bart.part import ChainPart, HasParts
from sampler.bart.state import ForestPlan, make_data, passes_of
from sampler.data.treatment.design import HALF_MEAN, ROLE, of_parts
from sampler.kernels.arrays import Data
from sampler.kernels.random import normal
from sampler.training import WEIGHT_BITS, EffectPrior, Training

LARGEST_BITS = 30  # of a weight in units
NAME = "effect"
PART = "treatment"  # its name in `sampler.definitions.parts`
SCALAR = "effect_sd"  # prior standard deviation of the effect of a row, in units of y


def plan(prior: EffectPrior, mean: ForestPlan) -> tuple[ForestPlan, ...]:
    """Plan the forest of the effect, or one for each of several arms; trees move as the mean's do."""
    leaf_sd = prior.share * prior.start / math.sqrt(prior.num_trees)
    own = replace(  # splits by depth, whatever trees of the mean do
        mean, num_trees=prior.num_trees, alpha=prior.alpha, beta=prior.beta, leaf_sd=leaf_sd, part=PART,
        trees={},
    )  # fmt: skip
    return tuple(replace(own, name=name) for name in of_parts(NAME, prior.parts))


class View(Protocol):
    """Rows as the trees of an effect see them."""

    def clear(self) -> None:
        """Note that the forest is empty."""

    def enter(self, mean: Normal, own: Normal) -> None:
        """Let residuals and weights be those that the trees see."""

    def leave(self, own: Normal) -> None:
        """Let residuals be those of the outcomes again."""


class Signs:
    """Two arms: residuals have the sign of the row's arm."""

    def __init__(self, treated: Floats) -> None:
        self._signs = np.where(treated == 1, 1, -1).astype(np.int32)

    def clear(self) -> None:
        """Nothing: the rows' arms are all it knows."""

    def enter(self, mean: Normal, own: Normal) -> None:  # noqa: ARG002
        """Give the residuals the signs."""
        own.residual[: len(self._signs)] *= self._signs

    def leave(self, own: Normal) -> None:
        """Give them the signs once more."""
        own.residual[: len(self._signs)] *= self._signs


class RowsOfArm:
    """Several arms: rows of others have no weight, and no change."""

    def __init__(self, inside: NDArray[np.bool_]) -> None:
        self._inside = inside
        self._before = np.zeros(0, np.int32)

    def clear(self) -> None:
        """Nothing: the rows' arms are all it knows."""

    def enter(self, mean: Normal, own: Normal) -> None:
        """Take other rows' weights."""
        own.weights[:] = mean.weights * self._inside if len(mean.weights) else self._inside
        self._before = own.residual[: len(self._inside)][~self._inside]

    def leave(self, own: Normal) -> None:
        """Put other rows' residuals back."""
        own.residual[: len(self._inside)][~self._inside] = self._before
        measure_bound(own.residual, own.bound)


class Units:
    """A dose: residuals are divided by its distance from the centre, in whole units, and weigh its square.

    What the forest and its constant part add up to is held by row, so that residuals are whole, and the
    outcomes' less the product of two whole numbers: nothing drifts.
    """

    def __init__(self, units: NDArray[np.int64]) -> None:
        self._units, self._squares = units, (units * units).astype(np.float64)
        self._divisor = np.where(units == 0, 1, units)
        self._unit = 0.0  # of the weights
        self._sums = np.zeros(len(units), np.int64)  # of the forest, by row
        self._outcome = self._seen = self._sums

    def clear(self) -> None:
        """Note that the forest is empty."""
        self._sums = np.zeros_like(self._sums)

    def enter(self, mean: Normal, own: Normal) -> None:
        """Divide the residuals, and weigh the rows."""
        if len(mean.weights) or not self._unit:  # else they stay as they are
            weights = self._squares * mean.weights if len(mean.weights) else self._squares
            bits = math.log2(weights.sum()) - WEIGHT_BITS, math.log2(weights.max()) - LARGEST_BITS
            self._unit = 2.0 ** max(0, math.ceil(max(bits)))
            own.weights[:] = np.rint(weights / self._unit)
        own.noise[:] = mean.noise
        own.noise[UNIT] *= self._unit
        rows = own.residual[: len(self._units)]
        self._outcome = rows + self._units * self._sums
        self._seen = np.rint(self._outcome / self._divisor).astype(np.int64) * (self._units != 0)
        rows[:] = self._seen - self._sums

    def leave(self, own: Normal) -> None:
        """Take the forest's share in each row out of the outcomes."""
        rows = own.residual[: len(self._units)]
        self._sums = self._seen - rows
        # one far outside of the grid is found there by the next update of the mean
        rows[:] = np.clip(self._outcome - self._units * self._sums, -4 * GRID_LIMIT, 4 * GRID_LIMIT)
        measure_bound(own.residual, own.bound)


class EffectForest:
    """The forest of the effect, or of an arm, of one chain; its sd and its constant part are scalars.

    Attributes
    ----------
    data
        The rows with the columns that its trees may split on.

    """

    def __init__(
        self,
        training: Training,
        prior: EffectPrior,
        arm: int,
        models: tuple[Normal, Normal],
        outcome: Outcome,
        place: int,
    ) -> None:
        """Make the rows as the forest sees them; `models`: the mean's and its own, `place`: its scalars'."""
        self.data = data_of(training, prior)
        self._prior, self._step = prior, outcome.step
        self._mean_model, self._model = models
        self._scalar = outcome.scalars[place : place + 1]
        self._scalar[0] = prior.start
        self._mean = outcome.scalars[place + 1 : place + 2]
        treated = training.by_role[ROLE]
        self._view: View
        if prior.dose is not None:
            self._view = Units(np.rint(prior.dose.units(treated)).astype(np.int64))
        else:
            self._view = Signs(treated) if prior.parts == 1 else RowsOfArm(treated == arm)
        self._effect = np.zeros(len(treated), np.int32)

    @contextmanager
    def seen(self) -> Iterator[None]:
        """Let residuals and weights be meanwhile as the forest's trees see them."""
        self._view.enter(self._mean_model, self._model)
        yield
        self._view.leave(self._model)

    def clear(self) -> None:
        """Begin without trees: the leaves have the variance that belongs to the scalar."""
        self._view.clear()
        self.apply()

    def take_out(self) -> None:
        """Take the constant part of the effect out of residuals that have it."""
        with self.seen():
            self._model.residual[: len(self._effect)] -= np.int32(np.rint(self._mean[0] / self._step))

    def draw(self, forest: Forest, work: Work) -> None:
        """Draw the constant part of the effect, then the standard deviation of the rest."""
        with self.seen():
            self._draw_mean(work)
            self._draw_scale(forest, work)

    def _draw_mean(self, work: Work) -> None:
        """Draw the constant part, in whole grid steps, given all else."""
        if self._prior.mean_sd == 0:
            return
        model = self._model
        rows = model.residual[: len(self._effect)]
        old = int(np.rint(self._mean[0] / self._step))
        if len(model.weights):
            weights = model.weights * model.noise[UNIT]
            size = float(weights.sum())
            total = float(np.sum(weights * (rows.astype(np.float64) + old)))
        else:  # whole steps, whose sums are exact
            size, total = float(len(rows)), float(rows.sum(dtype=np.int64) + len(rows) * old)
        power = model.noise[LIKELIHOOD] / model.noise[SIGMA2]
        precision = power * size + (self._step / (self._prior.share * self._prior.mean_sd)) ** 2
        mean = power * total / precision
        new = int(np.rint(mean + float(normal(work.random)) / math.sqrt(precision)))
        rows -= np.int32(new - old)
        measure_bound(model.residual, model.bound)
        self._mean[0] = new * self._step

    def apply(self) -> None:
        """Give the leaves the variance that belongs to the scalar."""
        sd = self._prior.share * self._scalar[0] / self._step
        self._model.variance[0] = sd * sd / self._prior.num_trees

    def _draw_scale(self, forest: Forest, work: Work) -> None:
        """Draw the effect's standard deviation, unless it is known."""
        if not self._prior.drawn:
            return
        sd = draw_effect_scale(
            forest, self._model, self._effect, self._prior.share, self._prior.scale / self._step,
            self._scalar[0] / self._step, work.random,
        )  # fmt: skip
        self._scalar[0] = sd * self._step
        self.apply()


class EffectForests(ChainPart):
    """The forest of the effect of one chain, or one of each of several arms."""

    @classmethod
    def plan(cls, training: Training, mean: ForestPlan) -> tuple[ForestPlan, ...]:
        """Plan the forests."""
        return plan(training.part(EffectPrior), mean)

    @classmethod
    def scalars(cls, training: Training) -> tuple[str, ...]:
        """Name the standard deviation and half the mean of each forest."""
        names = (of_parts(name, training.part(EffectPrior).parts) for name in (SCALAR, HALF_MEAN))
        return tuple(name for pair in zip(*names, strict=True) for name in pair)

    @classmethod
    def kernels(cls, training: Training) -> tuple[str, ...]:
        """Name the groups of compiled kernels; each of several arms weighs the rows of its own."""
        weights = ("weights",) if training.part(EffectPrior).parts > 1 else ()
        return (*weights, forest_call.GROUP, "effect-scale")

    @classmethod
    def model_of(cls, training: Training, plan: ForestPlan, mean: Normal) -> Normal:
        """Make the leaf model of a forest, with weights and noise of its own where it sees rows otherwise."""
        prior = training.part(EffectPrior)
        variance = np.array([(plan.leaf_sd / training.constants.step) ** 2])
        if not prior.weighs:
            return mean._replace(variance=variance)
        # the weights of a dose have another unit
        noise = mean.noise if prior.dose is None else mean.noise.copy()
        weights = np.zeros(len(training.y), np.int32)
        return mean._replace(variance=variance, weights=weights, noise=noise, passes=passes_of(weighted=True))

    def __init__(self, training: Training, host: HasParts) -> None:
        prior = training.part(EffectPrior)
        place = host.scalar_names.index(self.scalars(training)[0])
        self._effects: dict[str, EffectForest] = {}
        for forest, model in zip(host.plans, host.models, strict=True):
            if forest.part == PART:
                arm, models = len(self._effects), (host.models[0], model)
                self._effects[forest.name] = EffectForest(
                    training, prior, arm, models, host.outcome, place + 2 * arm
                )

    def fits(self, scalars: Mapping[str, float]) -> bool:
        """Tell whether the effects' standard deviations are positive."""
        return all(value > 0 for name, value in scalars.items() if name.startswith(SCALAR))

    def clear(self) -> None:
        """Begin without trees."""
        for effect in self._effects.values():
            effect.clear()

    def take_out(self, model: Normal) -> None:  # noqa: ARG002  # which shares its residuals
        """Take the constant parts of the effects out of residuals that have them."""
        for effect in self._effects.values():
            effect.take_out()

    def data_of(self, plan: ForestPlan, data: Data) -> Data:  # noqa: ARG002
        """Return the rows with the columns that the effect's trees may split on."""
        return self._effects[plan.name].data

    def seen_by(self, plan: ForestPlan) -> AbstractContextManager[None]:
        """Let the rows be meanwhile as the trees of a forest see them."""
        return self._effects[plan.name].seen()

    def end(self, data: Data, forests: Sequence[Forest], work: Work, iteration: int) -> None:  # noqa: ARG002
        """Draw the constant parts and the standard deviations of the rest."""
        for effect, forest in zip(self._effects.values(), forests, strict=True):
            effect.draw(forest, work)


def data_of(training: Training, prior: EffectPrior) -> Data:
    """Return the rows without the last columns; those barred have one code in all of them."""
    codes: NDArray[np.uint8] = training.codes[: prior.features]
    if prior.barred:
        codes = codes.copy()
        codes[list(prior.barred)] = 0
    data = make_data(replace(training, codes=codes, num_codes=training.num_codes[: prior.features]))
    return data if prior.barred else data._replace(codes=training.padded_codes[: prior.features])
