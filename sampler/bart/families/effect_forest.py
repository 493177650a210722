"""The effect of a treatment as a forest beside the mean's (docs/maths.md#treatments).

y = m(x, p) + B h(x) + e with B = 1 for treated rows and -1 for the others: the effect is 2 h(x), and p the
probability of being treated (Hahn, Murray and Carvalho 2020, with this coding). h is a constant and trees,
for which the rows are ordinary ones whose residuals have the sign of B. Of several arms each has such a sum,
y = m(x, p) + h_arm(x) + e, which sees the rows of its arm; the effect is the difference of two of them.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, SIGMA2, UNIT
from sampler.bart.kernels.leaf_models.residual_bound import measure_bound
from sampler.bart.kernels.steps.effect_scale import draw_effect_scale
from sampler.bart.state import ForestPlan, make_data
from sampler.data.treatment.design import HALF_MEAN, ROLE, of_parts
from sampler.kernels.random import normal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sampler.bart.kernels.leaf_models.normal import Normal
    from sampler.bart.kernels.state import Forest, Outcome, Work
    from sampler.kernels.arrays import Data
    from sampler.training import EffectPrior, Training

NAME = "effect"
SCALAR = "effect_sd"  # prior standard deviation of the effect of a row, in units of y


def plan(prior: EffectPrior, mean: ForestPlan) -> tuple[ForestPlan, ...]:
    """Plan the forest of half the effect, or one for each of several arms; trees move as the mean's do."""
    leaf_sd = prior.start / (2.0 * math.sqrt(prior.num_trees))
    own = replace(
        mean, num_trees=prior.num_trees, alpha=prior.alpha, beta=prior.beta, leaf_sd=leaf_sd, of_effect=True
    )
    return tuple(replace(own, name=name) for name in of_parts(NAME, prior.parts))


def scalars(prior: EffectPrior) -> tuple[str, ...]:
    """Name the scalars of the forests: the standard deviation and half the mean of each."""
    names = (of_parts(name, prior.parts) for name in (SCALAR, HALF_MEAN))
    return tuple(name for pair in zip(*names, strict=True) for name in pair)


class EffectForest:
    """The forest of half the effect, or of an arm, of one chain; its sd and half its mean are scalars.

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
        self._signs: NDArray[np.int32] | None = None
        if prior.parts == 1:
            self._signs = np.where(treated == 1, 1, -1).astype(np.int32)
        self._inside = treated == arm
        self._effect = np.zeros(len(treated), np.int32)

    @contextmanager
    def seen(self) -> Iterator[None]:
        """Let residuals have the rows' signs meanwhile, or those of other arms no weight and no change."""
        rows = self._model.residual[: len(self._inside)]
        if self._signs is not None:
            rows *= self._signs
            yield
            rows *= self._signs
            return
        weights = self._mean_model.weights
        self._model.weights[:] = weights * self._inside if len(weights) else self._inside
        before = rows[~self._inside]
        yield
        rows[~self._inside] = before
        measure_bound(self._model.residual, self._model.bound)

    def take_out(self) -> None:
        """Take the constant part of the effect out of residuals that have it."""
        with self.seen():
            self._model.residual[: len(self._inside)] -= np.int32(np.rint(self._mean[0] / self._step))

    def draw(self, forest: Forest, work: Work) -> None:
        """Draw the constant part of the effect, then the standard deviation of the rest."""
        with self.seen():
            self._draw_mean(work)
            self._draw_scale(forest, work)

    def _draw_mean(self, work: Work) -> None:
        """Draw half the constant part, in whole grid steps, given all else."""
        if self._prior.mean_sd == 0:
            return
        model = self._model
        rows = model.residual[: len(self._inside)]
        old = int(np.rint(self._mean[0] / self._step))
        if len(model.weights):
            weights = model.weights * model.noise[UNIT]
            size = float(weights.sum())
            total = float(np.sum(weights * (rows.astype(np.float64) + old)))
        else:  # whole steps, whose sums are exact
            size, total = float(len(rows)), float(rows.sum(dtype=np.int64) + len(rows) * old)
        power = model.noise[LIKELIHOOD] / model.noise[SIGMA2]
        precision = power * size + (2.0 * self._step / self._prior.mean_sd) ** 2
        mean = power * total / precision
        new = int(np.rint(mean + float(normal(work.random)) / math.sqrt(precision)))
        rows -= np.int32(new - old)
        measure_bound(model.residual, model.bound)
        self._mean[0] = new * self._step

    def apply(self) -> None:
        """Give the leaves the variance that belongs to the scalar."""
        sd = self._scalar[0] / self._step
        self._model.variance[0] = sd * sd / (4.0 * self._prior.num_trees)

    def _draw_scale(self, forest: Forest, work: Work) -> None:
        """Draw the effect's standard deviation, unless it is known."""
        if not self._prior.drawn:
            return
        sd = draw_effect_scale(
            forest, self._model, self._effect, self._prior.scale / self._step, self._scalar[0] / self._step,
            work.random,
        )  # fmt: skip
        self._scalar[0] = sd * self._step
        self.apply()


def data_of(training: Training, prior: EffectPrior) -> Data:
    """Return the rows without the last columns; those barred have one code in all of them."""
    codes: NDArray[np.uint8] = training.codes[: prior.features]
    if prior.barred:
        codes = codes.copy()
        codes[list(prior.barred)] = 0
    data = make_data(replace(training, codes=codes, num_codes=training.num_codes[: prior.features]))
    return data if prior.barred else data._replace(codes=training.padded_codes[: prior.features])
