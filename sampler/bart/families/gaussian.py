"""Numbers with normal noise, of one size or different by row, or censored (docs/maths.md#the-model)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart.families.likelihood import Likelihood
from sampler.bart.forest_call import ForestCall
from sampler.bart.kernels.leaf_models import normal
from sampler.bart.kernels.leaf_models.residual_bound import BOUND_SIZE, measure_bound
from sampler.bart.kernels.row_latents.latent_outcomes import DRAW_LATENT, draw_latent_outcomes
from sampler.bart.kernels.state import Forest, KeptDraws, Outcome, Schedule, Work
from sampler.bart.kernels.sweep import draw_leaf_variance, draw_sigma2, sweep
from sampler.bart.part import ChainPart, parts_of
from sampler.bart.state import ForestPlan, passes_of
from sampler.kernels.arrays import Data
from sampler.kernels.jit import address
from sampler.noise import NOISES
from sampler.prior import Constants
from sampler.storage.draws import Draws
from sampler.training import Training


class Gaussian(Likelihood):
    """y = f(x) + noise; with parts beside the mean's trees, such as a treatment's effect or noise by row.

    Attributes
    ----------
    parts
        The parts by name, in the order of `sampler.definitions.parts.PARTS`.

    """

    def __init__(self, training: Training) -> None:
        self.plans = plan_forests(training)
        self.scalar_names = self._name_scalars(training)
        self.outcome = self._make_outcome(training, len(self.scalar_names))
        self.scalars = self.outcome.scalars
        self.models = make_models(training, self.plans)
        self._calls = [ForestCall() for _ in self.models]
        self._noise = self.models[0].noise  # the models share one array
        self.parts: dict[str, ChainPart] = {}
        for name, part in parts_of(training).items():
            self.parts[name] = part(training, self)
        self._places = {
            name: [k for k, plan in enumerate(self.plans) if plan.part == name] for name in self.parts
        }

    @property
    def alone(self) -> bool:
        """Whether the compiled sweep does all: one forest, and no part that it doesn't know."""
        return all(part.is_compiled for part in self.parts.values())

    @property
    def noise_mean(self) -> float:  # type: ignore[override]
        """The mean of a mixture, in grid steps; 0 of other noise."""
        return sum(part.noise_mean for part in self.parts.values())

    @staticmethod
    def _name_scalars(training: Training) -> tuple[str, ...]:
        """Name the scalars kept with each draw."""
        return name_scalars(training)

    @staticmethod
    def _make_outcome(training: Training, num_scalars: int) -> Outcome:
        """Make the grid and the prior of the noise."""
        constants = training.constants
        rows = training.padded_codes.shape[1] if len(training.censored) else 0
        return Outcome(
            labels=np.zeros(0, np.uint8),
            latent=np.zeros(rows, np.int32),
            censored=training.censored,
            limits=training.grid_limits,
            offset=constants.offset,
            step=constants.step,
            nu=constants.nu,
            scale=constants.lambda_ / constants.step**2,
            sigma_fixed=constants.sigma_fixed or NOISES[training.settings.noise].mixture,
            num_seen=training.num_counted,
            scalars=np.zeros(num_scalars),
            draw_latent=address_of_draw() if len(training.censored) else 0,
            draw_line=0,
            line=0,
        )

    def count_rows(self, training: Training) -> None:
        """Let sigma be drawn by the rows that have a weight in `training`."""
        self.outcome = self.outcome._replace(num_seen=training.num_counted)

    def hold_latent(self) -> None:
        """Leave latent outcomes as they are from now on, since they are drawn elsewhere."""
        self.outcome = self.outcome._replace(draw_latent=0)

    def state(self) -> list[NDArray[Any]]:
        """Return sigma, the other scalars and the states of the parts, as views."""
        of_parts = [array for part in self.parts.values() for array in part.state()]
        return [self._noise[:1], self.outcome.scalars[1:], *of_parts]

    def fits(self) -> bool:
        """Tell whether sigma is positive, and the scalars of every part in their ranges."""
        named = dict(zip(self.scalar_names[1:], self.outcome.scalars[1:].tolist(), strict=True))
        return bool(self._noise[0] > 0) and all(part.fits(named) for part in self.parts.values())

    def clear(self, training: Training) -> None:
        """Let residuals be the outcomes, and every part have no trees."""
        self.models[0].residual[: len(training.y)] = training.grid_y
        self.outcome.latent[:] = 0
        if len(self.outcome.censored):
            self.outcome.latent[: len(training.y)] = training.grid_y
        for part in self.parts.values():
            part.clear()

    def seen_by(self, plan: ForestPlan) -> AbstractContextManager[None]:
        """Let the rows be as a forest's trees see them meanwhile."""
        return self.parts[plan.part].seen_by(plan) if plan.part else super().seen_by(plan)

    def data_of(self, plan: ForestPlan, data: Data) -> Data:
        """Return the rows with the columns that a forest's trees may split on."""
        return self.parts[plan.part].data_of(plan, data) if plan.part else data

    def measure(self) -> None:
        """Take what stands beside the trees out of the residuals, and bound them."""
        for part in self.parts.values():
            part.take_out(self.models[0])
        measure_bound(self.models[0].residual, self.models[0].bound)

    def run(
        self, data: Data, forests: Sequence[Forest], work: Work, kept: Sequence[KeptDraws], schedule: Schedule
    ) -> tuple[int, int]:
        """Iterate by a schedule, in one compiled call where that does all."""
        if len(forests) > 1 or not self.alone or forests[0].prior.swarm:
            return super().run(data, forests, work, kept, schedule)
        reached, need = sweep(data, forests[0], self.models[0], self.outcome, work, kept[0], schedule)
        return int(reached), int(need)

    def sweep(self, data: Data, forests: Sequence[Forest], work: Work, iteration: int) -> None:
        """Draw latent outcomes, what comes before the trees, these, sigma, what comes after, and k."""
        for part in self.parts.values():
            part.begin(work, iteration)
        if self.outcome.draw_latent:
            draw_latent_outcomes(self.outcome, self.models[0], work.random)
        self.draw_beside(forests[0], work, self._calls[0].places_of(data, forests[0], self.models[0], work))
        squares = 0.0
        for sweep_one, plan, forest, model in zip(self._calls, self.plans, forests, self.models, strict=True):
            if plan.leaves == "normal":
                with self.seen_by(plan):
                    squares = sweep_one(self.data_of(plan, data), forest, model, work)
        draw_sigma2(self.outcome, self._noise, self._squares(squares), work.random)
        for name, part in reversed(self.parts.items()):
            part.end(data, [forests[k] for k in self._places[name]], work, iteration)
        draw_leaf_variance(forests[0], self.models[0].variance, work.random)

    def draw_beside(self, forest: Forest, work: Work, places: Sequence[int]) -> None:
        """Draw what comes before the trees, given by addresses as well; see `ChainPart.draw`."""
        for part in self.parts.values():
            part.draw(forest, work, places)

    def _squares(self, of_last: float) -> float:
        """Sum the squares of the residuals, by weight; the last forest may have weighed them otherwise."""
        model = self.models[0]
        last = next(
            each
            for plan, each in zip(reversed(self.plans), reversed(self.models), strict=True)
            if plan.leaves == "normal"
        )
        if last.weights is model.weights:
            return of_last
        squares = model.residual[: len(last.weights)].astype(np.float64) ** 2
        return float(
            np.sum(squares * (model.weights * self._noise[normal.UNIT] if len(model.weights) else 1))
        )

    def keep(self) -> None:
        """Keep what parts have with a draw besides trees and scalars."""
        for part in self.parts.values():
            part.keep()

    def complete(self, draws: Draws, scalars: Mapping[str, Floats]) -> Draws:
        """Return kept draws of the mean's forest as they are stored."""
        for part in self.parts.values():
            draws = part.complete(draws, scalars)
        return draws

    def take(self, sigma: Floats) -> dict[str, Draws]:
        """Hand over what parts kept, as draws of forests by name."""
        taken: dict[str, Draws] = {}
        for part in self.parts.values():
            taken |= part.take(sigma)
        return taken


def plan_forests(training: Training) -> tuple[ForestPlan, ...]:
    """List the forest of the mean, and those of the parts in the order in which a sweep meets them."""
    constants, settings = training.constants, training.settings
    mean = ForestPlan(
        "mean", settings.num_trees, constants.alpha, constants.beta, constants.leaf_sd, settings.moves,
        trees=constants.trees,
    )  # fmt: skip
    parts = reversed(parts_of(training).values())
    return (mean, *(plan for part in parts for plan in part.plan(training, mean)))


def name_scalars(training: Training) -> tuple[str, ...]:
    """Name the scalars kept with each draw; all but sigma are copied to checkpoints as they are."""
    return ("sigma", *(name for part in parts_of(training).values() for name in part.scalars(training)))


def address_of_draw() -> int:
    """Return the address of the kernel that draws latent outcomes."""
    return address(DRAW_LATENT)


def make_models(training: Training, plans: tuple[ForestPlan, ...]) -> list[Any]:
    """Make the forests' leaf models, which share rows, weights and noise."""
    step = training.constants.step
    noise = np.zeros(normal.NOISE_SIZE)
    noise[normal.SIGMA2] = (training.constants.sigma_start / step) ** 2
    noise[normal.LIKELIHOOD] = not training.settings.prior_only
    noise[normal.UNIT] = training.weight_unit
    weights = np.array(training.grid_weights)
    if NOISES[training.settings.noise].weighs_rows and len(weights) == 0:
        weights = np.ones(len(training.y), np.int32)
    first = normal.Normal(
        variance=np.zeros(1),
        noise=noise,
        residual=np.zeros(training.padded_codes.shape[1], np.int32),
        weights=weights,
        bound=np.zeros(BOUND_SIZE, np.int64),
        passes=passes_of(weighted=len(weights) > 0),
    )
    parts = parts_of(training)
    return [
        parts[plan.part].model_of(training, plan, first)
        if plan.part
        else first._replace(variance=_leaf_variance(training.constants, plan))
        for plan in plans
    ]


def _leaf_variance(constants: Constants, plan: ForestPlan) -> NDArray[np.float64]:
    """Return `Normal.variance`: tau^2, and where k is drawn its prior and tau^2 of k = 1."""
    tau2 = (plan.leaf_sd / constants.step) ** 2
    if constants.k_df == 0:
        return np.array([tau2])
    return np.array([tau2, tau2 * constants.k**2, constants.k_df, constants.k_scale**2])
