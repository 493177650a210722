"""Numbers with normal noise, of one size or different by row, or censored (docs/maths.md#the-model)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.bart import linear_part, noise_forest
from sampler.bart.families import effect_forest
from sampler.bart.families.effect_forest import EffectForest
from sampler.bart.families.likelihood import Likelihood
from sampler.bart.forest_call import ForestCall
from sampler.bart.group_slopes import InterceptsAndSlopes
from sampler.bart.intercepts import GroupIntercepts
from sampler.bart.kernels.leaf_models import normal
from sampler.bart.kernels.leaf_models.residual_bound import BOUND_SIZE, measure_bound
from sampler.bart.kernels.leaf_models.residual_pass import FUSED
from sampler.bart.kernels.leaf_models.weighted_pass import WEIGHTED
from sampler.bart.kernels.row_latents.latent_outcomes import DRAW_LATENT, draw_latent_outcomes
from sampler.bart.kernels.state import Outcome
from sampler.bart.kernels.sweep import draw_leaf_variance, draw_sigma2, sweep
from sampler.bart.linear_part import LinearSlopes
from sampler.bart.noise_mixture import with_noise_mean
from sampler.bart.row_noise import RowNoise
from sampler.bart.state import ForestPlan, make_data
from sampler.data.groupings import all_scalars
from sampler.data.linear_terms import slope_names
from sampler.kernels.jit import address
from sampler.noise import DEGREE_GRID, DEGREES, NOISE_TREES, NOISES, SCALE, SPREAD, component_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from sampler.bart.kernels.state import Forest, KeptDraws, Schedule, Work
    from sampler.kernels.arrays import Data
    from sampler.prior import Constants
    from sampler.storage.draws import Draws
    from sampler.training import Training

    Floats = NDArray[np.float64]


# how scalars are named that are positive, at least 0, or between -1 and 1
POSITIVE = ("slope_sd", "group_sd", "noise_sd", SCALE, SPREAD, effect_forest.SCALAR)
SHARE, PARTIAL = "noise_share", "group_partial"


class Gaussian(Likelihood):
    """y = f(x) + noise; with further forests for a treatment's effect, and where noise differs by row."""

    def __init__(self, training: Training) -> None:
        self.plans = plan_forests(training)
        self.scalar_names = self._name_scalars(training)
        self.outcome = self._make_outcome(training, len(self.scalar_names))
        self._slopes = LinearSlopes(training.linear, self.outcome) if training.linear else None
        if self._slopes:
            self.outcome = self.outcome._replace(draw_line=self._slopes.draw_at, line=self._slopes.place)
        self.scalars = self.outcome.scalars
        self.models = make_models(training, self.plans)
        self._calls = [ForestCall() for _ in self.models]
        self._noise = self.models[0].noise  # the models share one array
        noise = NOISES[training.settings.noise]
        self._row_noise, self._mixture = None, noise.mixture
        if noise.weighs_rows:
            precision = self.models[-1] if noise.forest else None
            self._row_noise = RowNoise(training, (self.models[0], precision), self.scalar_names, self.outcome)
        self._of_noise = data_of_noise(training)
        self._effects: dict[str, EffectForest] = {}
        if training.effect:
            place = self.scalar_names.index(effect_forest.scalars(training.effect)[0])
            for arm, plan in enumerate(plan for plan in self.plans if plan.of_effect):
                models = self.models[0], self.models[1 + arm]
                self._effects[plan.name] = EffectForest(
                    training, training.effect, arm, models, self.outcome, place + 2 * arm
                )
        self._intercepts: GroupIntercepts | InterceptsAndSlopes | None = None
        if training.groups:
            of_groups = InterceptsAndSlopes if training.groups.num_slopes else GroupIntercepts
            self._intercepts = of_groups(training.groups, self.scalar_names, self.outcome)

    @property
    def alone(self) -> bool:
        """Whether the compiled sweep does all: one forest, without intercepts, noise the same in all rows."""
        return not (self._row_noise or self._intercepts or self._effects)

    @property
    def noise_mean(self) -> float:  # type: ignore[override]
        """The mean of a mixture, in grid steps; 0 of other noise."""
        return self._row_noise.mean if self._row_noise else 0.0

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
        """Return sigma, the other scalars and the intercepts, as views."""
        intercepts = [self._intercepts.effects] if self._intercepts else []
        return [self._noise[:1], self.outcome.scalars[1:], *intercepts]

    def fits(self) -> bool:
        """Tell whether standard deviations are positive, and the degrees of freedom among those known."""
        named = dict(zip(self.scalar_names[1:], self.outcome.scalars[1:].tolist(), strict=True))
        positive = all(value > 0 for name, value in named.items() if name.startswith(POSITIVE))
        known = all(value >= 0 for name, value in named.items() if name.startswith(SHARE))
        partial = all(abs(value) < 1 for name, value in named.items() if name.startswith(PARTIAL))
        degrees = named.get(DEGREES, DEGREE_GRID[0]) in DEGREE_GRID
        return self._noise[0] > 0 and positive and known and partial and degrees

    def clear(self, training: Training) -> None:
        """Let residuals be the outcomes, and every precision 1."""
        self.models[0].residual[: len(training.y)] = training.grid_y
        self.outcome.latent[:] = 0
        if len(self.outcome.censored):
            self.outcome.latent[: len(training.y)] = training.grid_y
        for plan, model in zip(self.plans, self.models, strict=True):
            if plan.leaves == "log-linear":
                model.log_value[:] = 0
        if self._row_noise:
            self._row_noise.apply()
        for effect in self._effects.values():
            effect.clear()

    def seen_by(self, plan: ForestPlan) -> AbstractContextManager[None]:
        """Let the rows be as a forest's trees see them meanwhile."""
        return self._effects[plan.name].seen() if plan.of_effect else super().seen_by(plan)

    def data_of(self, plan: ForestPlan, data: Data) -> Data:
        """Return the rows with the columns that a forest's trees may split on."""
        if plan.leaves == "log-linear" and self._of_noise is not None:
            return self._of_noise
        return self._effects[plan.name].data if plan.of_effect else data

    def measure(self) -> None:
        """Take the linear part and the intercepts out of the residuals, if there are any, and bound them."""
        if self._slopes:
            self._slopes.apply(self.models[0].residual)
        for effect in self._effects.values():
            effect.take_out()
        if self._intercepts:
            self._intercepts.apply(self.models[0].residual)
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
        """Draw latent outcomes, linear part, intercepts, the trees, sigma and k, whichever there are."""
        if self._row_noise:
            self._row_noise.weigh(work, iteration)
        if self.outcome.draw_latent:
            draw_latent_outcomes(self.outcome, self.models[0], work.random)
        if self._slopes:
            *_, at_model, at_work = self._calls[0].places_of(data, forests[0], self.models[0], work)
            self._slopes.draw(at_model, at_work)
        if self._intercepts:
            self._intercepts.draw(self.models[0], forests[0], self.outcome, work, self._slopes)
        squares = 0.0
        for sweep_one, plan, forest, model in zip(self._calls, self.plans, forests, self.models, strict=True):
            if plan.leaves == "normal":
                with self.seen_by(plan):
                    squares = sweep_one(self.data_of(plan, data), forest, model, work)
        draw_sigma2(self.outcome, self._noise, self._squares(squares), work.random)
        for effect, forest in zip(self._effects.values(), forests[1:], strict=False):
            effect.draw(forest, work)
        if self._row_noise:
            self._row_noise.end()
        if self._row_noise and self.plans[-1].leaves == "log-linear":
            self._row_noise.sweep(self.data_of(self.plans[-1], data), forests[-1], work, iteration)
        draw_leaf_variance(forests[0], self.models[0].variance, work.random)

    def _squares(self, of_last: float) -> float:
        """Sum the squares of the residuals, by weight; an effect's forest may have weighed them otherwise."""
        if not self._effects or self.models[1].weights is self.models[0].weights:
            return of_last
        model, rows = self.models[0], len(self.models[1].weights)
        squares = model.residual[:rows].astype(np.float64) ** 2
        return float(
            np.sum(squares * (model.weights * self._noise[normal.UNIT] if len(model.weights) else 1))
        )

    @property
    def has_line(self) -> bool:
        """Whether there is a linear part."""
        return self._slopes is not None

    def draw_line(self, at_model: int, at_work: int) -> None:
        """Draw the linear part, if there is one; the leaf model and the work are given by address."""
        if self._slopes:
            self._slopes.draw(at_model, at_work)

    def keep(self) -> None:
        """Keep the present intercepts with a draw."""
        if self._intercepts:
            self._intercepts.keep()

    def complete(self, draws: Draws, scalars: Mapping[str, Floats]) -> Draws:
        """Return kept draws of the mean's forest: a mixture's mean goes to its first tree."""
        return with_noise_mean(draws, scalars, self.outcome.step) if self._mixture else draws

    def take(self, sigma: Floats) -> dict[str, Draws]:
        """Hand over the intercepts kept, as draws of a forest by its name."""
        return self._intercepts.take(sigma) if self._intercepts else {}


def data_of_noise(training: Training) -> Data | None:
    """Return the rows for trees of precisions that may not split on all columns, else None."""
    if training.same_noise is None:
        return None
    codes = training.codes.copy()
    codes[training.same_noise] = 0  # one code is no rule
    return make_data(replace(training, codes=codes))


def plan_forests(training: Training) -> tuple[ForestPlan, ...]:
    """List the forest of the mean, of a treatment's effect, and of precisions where noise differs by row."""
    constants, settings = training.constants, training.settings
    mean = ForestPlan(
        "mean", settings.num_trees, constants.alpha, constants.beta, constants.leaf_sd, settings.moves
    )
    learnt = (mean,) if training.effect is None else (mean, *effect_forest.plan(training.effect, mean))
    if not NOISES[settings.noise].forest:
        return learnt
    moves = noise_forest.MOVES if settings.moves.get("rule") else {"grow": 0.5, "prune": 0.5}
    precision = ForestPlan(
        noise_forest.NAME, NOISE_TREES, constants.alpha, constants.beta, 0.0, moves, "log-linear"
    )
    return *learnt, precision


def name_scalars(training: Training) -> tuple[str, ...]:
    """Name the scalars kept with each draw; all but sigma are copied to checkpoints as they are."""
    linear = training.linear
    slopes = () if linear is None else (linear_part.TAU, *slope_names(len(linear.z)))
    noise = NOISES[training.settings.noise]
    degrees = (DEGREES,) if noise.heavy_tails else (*component_names(), SCALE) if noise.mixture else ()
    spread = (SPREAD,) if noise.forest else ()
    groups = training.groups
    of_groups = () if groups is None else all_scalars(len(groups.sizes), groups.num_slopes)
    of_effect = () if training.effect is None else effect_forest.scalars(training.effect)
    return ("sigma", *slopes, *degrees, *spread, *of_effect, *of_groups)


def address_of_draw() -> int:
    """Return the address of the kernel that draws latent outcomes."""
    return address(DRAW_LATENT)


def passes_of(*, weighted: bool) -> NDArray[np.int64]:
    """List the addresses of the passes over rows of normal leaves."""
    of_weights = [address(entry) if weighted else 0 for entry in WEIGHTED]
    return np.array([address(FUSED), *of_weights], np.int64)


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
    models = [
        noise_forest.make_model(training, first)
        if plan.leaves == "log-linear"
        else first._replace(variance=_leaf_variance(training.constants, plan))
        for plan in plans
    ]
    if training.effect is None or not training.effect.weighs:
        return models
    own, passes = np.zeros(len(training.y), np.int32), passes_of(weighted=True)
    own_noise = noise if training.effect.dose is None else noise.copy()  # whose weights have another unit
    return [
        model._replace(weights=own, noise=own_noise, passes=passes) if plan.of_effect else model
        for plan, model in zip(plans, models, strict=True)
    ]


def _leaf_variance(constants: Constants, plan: ForestPlan) -> NDArray[np.float64]:
    """Return `Normal.variance`: tau^2, and where k is drawn its prior and tau^2 of k = 1."""
    tau2 = (plan.leaf_sd / constants.step) ** 2
    if constants.k_df == 0 or plan.of_effect:
        return np.array([tau2])
    return np.array([tau2, tau2 * constants.k**2, constants.k_df, constants.k_scale**2])
