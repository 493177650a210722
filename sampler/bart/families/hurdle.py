"""Numbers many of which are one value exactly: a probit of that, and the others (docs/maths.md#hurdle)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart.families.gaussian import Gaussian
from sampler.bart.families.likelihood import Likelihood
from sampler.bart.families.probit import Probit
from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD
from sampler.bart.kernels.state import Forest, Work
from sampler.bart.prior import GRID_BITS, PROBIT_REACH
from sampler.bart.state import ForestPlan, make_data
from sampler.kernels.arrays import Data
from sampler.noise import CONSTANT
from sampler.prior import Constants, HurdleConstants
from sampler.storage.draws import Draws
from sampler.training import Training

FOREST = "at_point"
PROBIT_STEP = PROBIT_REACH * 2.0**-GRID_BITS


def of_point(constants: HurdleConstants) -> Constants:
    """Return the constants of the probit of whether an outcome is the point."""
    return Constants(
        offset=constants.point_offset,
        step=PROBIT_STEP,
        leaf_sd=constants.point_sd,
        nu=constants.nu,
        lambda_=1.0,
        sigma_start=1.0,
        sigma_fixed=True,
        alpha=constants.alpha,
        beta=constants.beta,
        trees=constants.trees,
    )


class Hurdle(Likelihood):
    """P(y = point) = Phi(offset + g(x)), by rows of all; other outcomes are f(x) + noise, by their own rows.

    Given the data the two are independent: each is the family of its own, with its own forests.
    """

    def __init__(self, training: Training) -> None:
        constants, at_point = training.constants, training.at_point
        assert isinstance(constants, HurdleConstants)
        assert at_point is not None, "a hurdle has a point"
        others, settings = np.flatnonzero(~at_point), training.settings
        self._others = replace(
            training,
            codes=np.ascontiguousarray(training.codes[:, others]),
            y=training.y[others],
            settings=replace(settings, family="gaussian"),
            at_point=None,
            parts={name: part.take(others) for name, part in training.parts.items()},
        )
        self._of_point = replace(
            training,
            y=at_point.astype(np.float64),
            constants=of_point(constants),
            settings=replace(settings, family="probit", noise=CONSTANT),
            at_point=None,
            parts={},
        )
        self._data = make_data(self._others)
        self._numbers, self._probit = Gaussian(self._others), Probit(self._of_point)
        self.plans = (*self._numbers.plans, replace(self._probit.plans[0], name=FOREST))
        self.models = [*self._numbers.models, *self._probit.models]
        self.scalar_names, self.scalars = self._numbers.scalar_names, self._numbers.scalars

    @property
    def noise_mean(self) -> float:  # type: ignore[override]
        """The mean of a mixture, in grid steps; 0 of other noise."""
        return self._numbers.noise_mean

    def state(self) -> list[NDArray[Any]]:
        """Return sigma and the other scalars of the numbers, as views."""
        return self._numbers.state()

    def fits(self) -> bool:
        """Tell whether the state of the numbers is one that a sweep leaves."""
        return self._numbers.fits()

    def clear(self, training: Training) -> None:  # noqa: ARG002  # each has its part of it
        """Let residuals be the other outcomes, and latent ones 0."""
        self._numbers.clear(self._others)
        self._probit.clear(self._of_point)

    def data_of(self, plan: ForestPlan, data: Data) -> Data:
        """Return all rows, or for forests of the numbers those that are not at the point."""
        return data if plan.name == FOREST else self._data

    def measure(self) -> None:
        """Complete the residuals of both."""
        self._numbers.measure()
        self._probit.measure()

    def sweep(self, data: Data, forests: Sequence[Forest], work: Work, iteration: int) -> None:
        """Do an iteration of the numbers, then one of the probit."""
        self._numbers.sweep(self._data, forests[:-1], work, iteration)
        probit, power = self._probit.models[0].noise, self._numbers.models[0].noise[LIKELIHOOD]
        probit[LIKELIHOOD] = power  # of an annealed start
        self._probit.sweep(data, forests[-1:], work, iteration)

    def complete(self, draws: Draws, scalars: Mapping[str, Floats]) -> Draws:
        """Return kept draws of the mean's forest: a mixture's mean goes to its first tree."""
        return self._numbers.complete(draws, scalars)
