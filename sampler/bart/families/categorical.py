"""Classes by a multinomial logit of log-linear forests (docs/maths.md#classes-by-log-linear-forests)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart.class_lines import ClassSlopes
from sampler.bart.families.likelihood import Likelihood
from sampler.bart.forest_call import ForestCall
from sampler.bart.kernels.leaf_models import normal
from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD
from sampler.bart.kernels.row_latents.classes import begin_classes
from sampler.bart.kernels.state import Forest, Work
from sampler.bart.log_linear import (
    STEP,
    gamma_prior,
    make_log_linear,
    prior_of_logarithms,
    scale_by_k,
    scale_for,
)
from sampler.bart.state import ForestPlan
from sampler.kernels.arrays import Data
from sampler.prior import Constants
from sampler.settings import Settings
from sampler.storage.draws import Draws
from sampler.training import LinearTraining, Training

LOG_SD = 7.22  # prior sd of the log of a class's f times k; log odds have twice probit's sd, times 1.702


@dataclass(frozen=True)
class CategoricalConstants(Constants):
    """Prior in absolute constants.

    A leaf value's logarithm has mean 0 and standard deviation `leaf_sd`; the probability of class k is in
    proportion to shares[k] times f_k.
    """

    shares: tuple[float, ...] = ()


def calibrate(
    y: Floats, _design: Floats, _weights: Floats | None, settings: Settings, entries: Mapping[str, Any]
) -> CategoricalConstants:
    """Compute the prior's constants.

    Parameters
    ----------
    y
        Class indices from 0, float64 [n].
    settings
        Number of trees.
    entries
        Entries of the prior, complete.

    Returns
    -------
    CategoricalConstants
        The constants.

    """
    counts = np.maximum(np.bincount(y.astype(np.int64), minlength=2), 0.5)
    return CategoricalConstants(
        **prior_of_logarithms(LOG_SD, settings.num_trees, entries),
        shares=tuple((counts / counts.sum()).tolist()),
    )


class Categorical(Likelihood):
    """P(y = k) in proportion to the class's share times f_k(x), with a forest for each class."""

    def __init__(self, training: Training) -> None:

        constants, settings = training.constants, training.settings
        assert isinstance(constants, CategoricalConstants)
        self.plans = tuple(
            ForestPlan(
                f"class {number}", settings.num_trees, constants.alpha, constants.beta, constants.leaf_sd,
                settings.moves, "log-linear", trees=constants.trees,
            )
            for number, _ in enumerate(constants.shares, 1)
        )  # fmt: skip
        classes, rows = len(constants.shares), training.padded_codes.shape[1]
        self._log_shares = np.log(constants.shares)
        self._noise = np.zeros(normal.NOISE_SIZE)
        self._noise[normal.SIGMA2] = STEP**-2.0
        self._noise[normal.LIKELIHOOD] = not settings.prior_only
        self._log_values, self._parts = np.zeros((classes, rows), np.int32), np.zeros((classes, rows))
        self._is_class = np.zeros((classes, len(training.y)), np.int32)
        self._room, self._sums = np.zeros((2, rows)), np.zeros(classes)
        leaves = gamma_prior(constants.leaf_sd, 1)
        first = make_log_linear(leaves, 1.0, self._noise, self._is_class[0], rows)
        self.models = [
            first._replace(
                log_value=log_value, part=part, weights=is_class, counted=is_class, scale=np.ones(1)
            )
            for log_value, part, is_class in zip(self._log_values, self._parts, self._is_class, strict=True)
        ]
        self._calls = [ForestCall() for _ in self.models]
        self.scalars = np.ones(1)
        self._scale = scale_by_k(constants, settings.num_trees, first)
        self._lines = None
        if "line" in training.parts:
            self._lines = ClassSlopes(training.part(LinearTraining), self._is_class, settings.num_trees, rows)

    def state(self) -> list[NDArray[Any]]:
        """Return the place of the leaves' scale, slopes and their spread, as views, where they are drawn."""
        scale = [] if self._scale is None else [self._scale.place]
        lines = [] if self._lines is None else [self._lines.slopes.reshape(-1), self._lines.spread]
        return [*scale, *lines]

    def fits(self) -> bool:
        """Tell whether the leaves' scale is on its grid, and the slopes' spread positive."""
        spread = 1.0 if self._lines is None else float(self._lines.spread[0])
        return (self._scale is None or self._scale.fits()) and spread > 0

    def clear(self, training: Training) -> None:
        """Mark the rows of each class, and let every f be 1."""
        self._is_class[:] = training.y == np.arange(len(self._is_class))[:, None]
        self._log_values[:] = 0
        if self._scale:
            self._scale.apply()

    def measure(self) -> None:
        """Enter the linear parts beside the trees, where there are any."""
        if self._lines:
            self._lines.apply(self._log_values)

    def sweep(self, data: Data, forests: Sequence[Forest], work: Work, iteration: int) -> None:
        """Draw lines, and the rows' latent rates; given both the classes' forests are independent."""
        if self._lines and iteration % self._lines.period == 0:
            power = float(self._noise[LIKELIHOOD])
            self._lines.draw(self._log_values, self._log_shares, power, work.random)
        begin_classes(
            self._log_values, self._log_shares, self._noise[LIKELIHOOD], data.num_rows, work.random,
            self._parts, self._room[0], self._room[1], self._sums,
        )  # fmt: skip
        for sweep_one, forest, model, total in zip(
            self._calls, forests, self.models, self._sums.tolist(), strict=True
        ):
            model.scale[0] = scale_for(total)
            sweep_one(data, forest, model, work)
        if self._scale:
            self._scale.draw(forests, work.random)

    def keep(self) -> None:
        """Keep the present slopes with a draw."""
        if self._lines:
            self._lines.keep()

    def take(self, sigma: Floats) -> dict[str, Draws]:
        """Hand over the slopes kept, as draws of a forest by its name."""
        return self._lines.take(sigma) if self._lines else {}
