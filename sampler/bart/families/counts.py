"""Counts by log-linear forests, with or without structural zeros (docs/maths.md#counts)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart.families import effect_forest
from sampler.bart.families.count_arms import CountArms
from sampler.bart.families.likelihood import Likelihood
from sampler.bart.forest_call import ForestCall
from sampler.bart.kernels.leaf_models import normal
from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD
from sampler.bart.kernels.leaf_models.residual_bound import BOUND_SIZE, measure_bound
from sampler.bart.kernels.row_latents import counts
from sampler.bart.kernels.row_latents.counts import CountRows
from sampler.bart.kernels.row_latents.latent_outcomes import draw_latent_outcomes
from sampler.bart.kernels.state import Forest, Outcome, Work
from sampler.bart.log_linear import (
    STEP,
    LeafScale,
    gamma_prior,
    make_log_linear,
    prior_of_logarithms,
    scale_by_k,
    scale_for,
)
from sampler.bart.state import ForestPlan, passes_of
from sampler.families import FAMILIES, ZERO_TREES
from sampler.kernels.arrays import Data
from sampler.prior import Constants
from sampler.settings import Settings
from sampler.training import EffectPrior, Training

LOG_SD = 2.0  # prior sd of the log rate times k
ZERO_SD = 1.5  # prior sd of that forest
ZERO_MOVES = {"grow": 0.5, "prune": 0.5, "rule": 0.1}
DISPERSION_STEPS = 2  # steps of the random walk in a sweep
FIRST_DISPERSION = 1.0


@dataclass(frozen=True)
class CountConstants(Constants):
    """Prior in absolute constants.

    The mean of a count is its exposure times `rate` times f; the logarithm of a leaf value of f has mean 0
    and standard deviation `leaf_sd`. The dispersion is `dispersion`, or drawn where that is 0. A zero is
    structural with probability Phi(zero_offset + g), and a leaf value of g is Normal(0, zero_sd^2).
    """

    rate: float = 1.0
    dispersion: float = 0.0
    zero_offset: float = 0.0
    zero_sd: float = 0.0


def calibrate(
    y: Floats, _design: Floats, _weights: Floats | None, settings: Settings, entries: Mapping[str, Any]
) -> CountConstants:
    """Compute the prior's constants.

    Parameters
    ----------
    y
        Counts, float64 [n].
    settings
        Family and number of trees.
    entries
        Entries of the prior, complete.

    Returns
    -------
    CountConstants
        The constants.

    """
    return CountConstants(
        **prior_of_logarithms(LOG_SD, settings.num_trees, entries),
        rate=math.fsum(y) / len(y),
        zero_offset=_excess_of_zeros(y) if FAMILIES[settings.family].zeros else 0.0,
        zero_sd=ZERO_SD / math.sqrt(ZERO_TREES),
    )


def with_exposure(constants: Constants, y: Floats, exposure: Floats) -> CountConstants:
    """Return constants whose mean rate is that of rows with such exposures."""
    assert isinstance(constants, CountConstants)
    return replace(constants, rate=math.fsum(y) / math.fsum(exposure))


def _excess_of_zeros(y: Floats) -> float:
    """Guess the probit of the share of structural zeros: half of the share of zeros, between bounds."""
    from scipy.special import ndtri  # noqa: PLC0415  # slow to import

    return float(ndtri(min(max(0.5 * float(np.mean(y == 0)), 0.02), 0.5)))


class CountLikelihood(Likelihood):
    """y ~ Poisson(exposure x rate x f(x) x xi), xi Gamma with mean 1 where the counts are negative binomial.

    With structural zeros a second forest, a probit of normal leaves, says how probable these are.
    """

    def __init__(self, training: Training) -> None:

        constants, settings = training.constants, training.settings
        assert isinstance(constants, CountConstants)
        self._constants, self._settings = constants, settings
        family = FAMILIES[settings.family]
        self._dispersed, self._zeros = family.dispersed, family.zeros
        shared = constants.alpha, constants.beta
        rate = ForestPlan(
            "rate", settings.num_trees, *shared, constants.leaf_sd, settings.moves, "log-linear",
            trees=constants.trees,
        )  # fmt: skip
        moves = {name: share for name, share in ZERO_MOVES.items() if settings.moves.get(name)}
        zeros = ForestPlan("zeros", ZERO_TREES, *shared, constants.zero_sd, moves, trees=constants.trees)
        self._arms = None
        self.plans = (rate, zeros) if self._zeros else (rate,)
        self.scalar_names = ("sigma", "dispersion") if self._dispersed else ("sigma",)
        self.scalars = np.ones(len(self.scalar_names))
        rows, count = training.padded_codes.shape[1], len(training.y)
        self._noise = np.zeros(normal.NOISE_SIZE)
        self._noise[normal.SIGMA2] = STEP**-2.0
        self._noise[normal.LIKELIHOOD] = not settings.prior_only
        self._noise[normal.UNIT] = 1.0
        self._weights = np.zeros(count, np.int32)
        structural = np.zeros(count if self._zeros else 0, np.uint8)
        self._rows = CountRows(np.zeros(count), np.zeros(count), structural)
        self._exposure = np.ones(count)
        self._values, self._group, self._tally = np.zeros(0), np.zeros(count, np.int32), np.zeros(0, np.int64)
        self._width = min(max(0.3 * math.sqrt(2000 / count), 0.02), 1.0)
        leaves = gamma_prior(constants.leaf_sd, 1)
        self.models = [make_log_linear(leaves, 1.0, self._noise, self._weights, rows)]
        self._scale = scale_by_k(constants, settings.num_trees, self.models[0])
        if "treatment" in training.parts:
            effect = training.part(EffectPrior)
            self._arms = CountArms(training, effect, self._noise)
            self.plans = (rate, *effect_forest.plan(effect, rate))
            self.models += self._arms.models
        if self._zeros:
            self.models.append(_probit_leaves(zeros, self._noise, rows))
            self._zero_outcome = _probit_outcome(constants, count, rows)
        self._calls = [ForestCall() for _ in self.models]
        if self._dispersed:
            self.scalars[1] = constants.dispersion or FIRST_DISPERSION

    def state(self) -> list[NDArray[Any]]:
        """Return the dispersion and, where they are drawn, the places of the leaves' scales, as views."""
        return [self.scalars[1:], *(scale.place for scale in self._scales)]

    @property
    def _scales(self) -> list[LeafScale]:
        """The scales of leaves that are drawn."""
        return ([] if self._scale is None else [self._scale]) + (self._arms.scales if self._arms else [])

    def fits(self) -> bool:
        """Tell whether the dispersion is positive, and the leaves' scales are on their grids."""
        return bool(np.all(self.scalars > 0)) and all(scale.fits() for scale in self._scales)

    def clear(self, training: Training) -> None:
        """Take the counts and exposures, and let every rate be its mean."""
        self._rows.y[:] = training.y
        self._weights[:] = training.y
        self._exposure[:] = self._constants.rate
        self._exposure *= training.by_role.get("exposure", 1.0)
        self._values, group = np.unique(training.y, return_inverse=True)
        self._group[:] = group
        self._tally = np.zeros(len(self._values), np.int64)
        self.models[0].log_value[:] = 0
        if self._scale:
            self._scale.apply()
        if self._arms:
            self._arms.clear(training.y)
        if self._zeros:
            self.models[1].residual[:] = 0
            self._zero_outcome.latent[:] = 0

    def data_of(self, plan: ForestPlan, data: Data) -> Data:
        """Return the rows with the columns that a forest's trees may split on."""
        return self._arms.data if plan.part and self._arms else data

    def _exposures(self) -> Floats:
        """Return what multiplies the rows' f: exposure, mean rate, and the rate of the row's arm."""
        return self._exposure * self._arms.rates() if self._arms else self._exposure

    def measure(self) -> None:
        """Bound the residuals of the forest of structural zeros."""
        if self._zeros:
            measure_bound(self.models[1].residual, self.models[1].bound)

    def sweep(self, data: Data, forests: Sequence[Forest], work: Work, iteration: int) -> None:  # noqa: ARG002
        """Draw structural zeros and the rows' gamma variables; update the forests; draw the dispersion."""
        power, model, rows = float(self._noise[LIKELIHOOD]), self.models[0], self._rows
        dispersion = float(self.scalars[1]) if self._dispersed else math.inf
        counts.set_means(model.log_value, self._exposures(), data.num_rows, rows.mean)
        if self._zeros:
            outcome, zeros = self._zero_outcome, self.models[1]
            counts.draw_zeros(
                rows, dispersion, outcome.latent, zeros.residual, outcome.offset, STEP, power, work.random
            )
        total = counts.set_parts(rows, dispersion, power, work.random, model.part)
        model.scale[0] = scale_for(total)
        if self._arms:  # parts lack the change of a sweep's last tree, which log f has
            log_value, part = model.log_value.copy(), model.part.copy()
        self._calls[0](data, forests[0], model, work)
        if self._scale:
            self._scale.draw(forests[:1], work.random)
        if self._arms:
            part *= np.exp(STEP * (model.log_value.astype(np.float64) - log_value))
            self._arms.sweep(forests[1:], part, work)
        if self._zeros:
            outcome.labels[:] = rows.structural
            draw_latent_outcomes(outcome, zeros, work.random)
            self._calls[1](data, forests[1], zeros, work)
        if self._dispersed and not self._constants.dispersion:
            counts.set_means(model.log_value, self._exposures(), data.num_rows, rows.mean)
            self.scalars[1] = counts.draw_dispersion(
                dispersion, rows, self._group, self._values, self._tally, power, self._width,
                DISPERSION_STEPS, work.random,
            )  # fmt: skip


def _probit_leaves(plan: ForestPlan, noise: Floats, rows: int) -> Any:
    """Make the leaf model of the forest of structural zeros."""
    return normal.Normal(
        variance=np.array([(plan.leaf_sd / STEP) ** 2]),
        noise=noise,
        residual=np.zeros(rows, np.int32),
        weights=np.zeros(0, np.int32),
        bound=np.zeros(BOUND_SIZE, np.int64),
        passes=passes_of(weighted=False),
    )


def _probit_outcome(constants: CountConstants, count: int, rows: int) -> Outcome:
    """Make the labels and latent outcomes of the forest of structural zeros."""
    return Outcome(
        labels=np.zeros(count, np.uint8),
        latent=np.zeros(rows, np.int32),
        censored=np.zeros(0, np.int32),
        limits=np.zeros((2, 0)),
        offset=constants.zero_offset,
        step=STEP,
        nu=1.0,
        scale=1.0,
        sigma_fixed=True,
        num_seen=count,
        scalars=np.ones(1),
        draw_latent=0,  # drawn before the forests are swept
        draw_line=0,
        line=0,
    )
