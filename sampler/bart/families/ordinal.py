"""Ordered classes by a normal latent outcome between thresholds (docs/maths.md#ordered-classes)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from sampler.array_types import Floats
from sampler.bart.families.gaussian import Gaussian, address_of_draw, name_scalars
from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, TAU2
from sampler.bart.kernels.row_latents.ordered import ROOM, draw_thresholds, shift_level
from sampler.bart.kernels.state import Forest, Work
from sampler.bart.prior import calibrate_probit
from sampler.families import threshold_names
from sampler.kernels.arrays import Data
from sampler.prior import Constants
from sampler.settings import Settings
from sampler.training import Training

PROPOSAL = 2.4  # sds of a threshold given the others, in one dimension best (Roberts and Rosenthal 2001)


@dataclass(frozen=True)
class OrdinalConstants(Constants):
    """Prior in absolute constants; `thresholds` are those of the classes' shares, where chains start."""

    thresholds: tuple[float, ...] = ()


def calibrate(
    y: Floats, design: Floats, weights: Floats | None, settings: Settings, knobs: Mapping[str, Any]
) -> OrdinalConstants:
    """Compute the prior's constants; the arguments are those of `sampler.bart.prior.calibrate_probit`.

    The thresholds have the place of an offset.
    """
    counts = np.maximum(np.bincount(y.astype(np.int64), minlength=2), 0.5)
    starts = ndtri(np.cumsum(counts)[:-1] / counts.sum())
    of_two = calibrate_probit(y, design, weights, settings, {"offset": 0.0, **knobs})
    plain = {each.name: getattr(of_two, each.name) for each in fields(of_two)}
    return OrdinalConstants(**plain, thresholds=tuple(starts.tolist()))


class Ordinal(Gaussian):
    """P(y <= k) = Phi(threshold k+1 - f(x)); thresholds are drawn with latent outcomes integrated out."""

    alone = False  # the compiled sweep doesn't draw thresholds

    def __init__(self, training: Training) -> None:
        constants = training.constants
        assert isinstance(constants, OrdinalConstants)
        super().__init__(training)
        rows = len(training.y)
        self.outcome = self.outcome._replace(  # all outcomes are between limits
            latent=np.zeros(training.padded_codes.shape[1], np.int32),
            censored=np.arange(rows, dtype=np.int32),
            limits=np.zeros((2, rows)),
            draw_latent=address_of_draw(),
        )
        inner = np.array(constants.thresholds)
        self._own = slice(1, 1 + len(inner))  # among the scalars
        self._thresholds = np.array([-np.inf, *inner, np.inf])
        self.scalars[self._own] = inner
        shares = np.diff(ndtr(self._thresholds))
        density = np.exp(-0.5 * inner**2) / math.sqrt(2 * math.pi)
        known = density * np.sqrt(rows * (1 / shares[:-1] + 1 / shares[1:]))
        self._sds = np.array([0.0, *(PROPOSAL / known), 0.0])
        self._by_class = np.zeros(rows, np.int32)
        self._room = np.zeros((ROOM, rows))
        self._starts = np.zeros(len(shares) + 1, np.int32)

    @staticmethod
    def _name_scalars(training: Training) -> tuple[str, ...]:
        """Put the thresholds after sigma."""
        sigma, *others = name_scalars(training)
        return (sigma, *threshold_names(len(training.constants.thresholds)), *others)  # type: ignore[attr-defined]

    def fits(self) -> bool:
        """Tell whether the thresholds increase, besides what `Gaussian` looks at."""
        return super().fits() and bool(np.all(np.diff(self.scalars[self._own]) > 0))

    def clear(self, training: Training) -> None:
        """Sort the rows by class, and let latent outcomes be 0."""
        super().clear(training)
        classes = training.y.astype(np.int64)
        self._by_class[:] = np.argsort(classes, kind="stable")
        self._starts[1:] = np.cumsum(np.bincount(classes, minlength=len(self._starts) - 1))

    def sweep(self, data: Data, forests: Sequence[Forest], work: Work, iteration: int) -> None:
        """Draw the thresholds, all that Gaussian does, and the level that thresholds and leaves share."""
        model, outcome = self.models[0], self.outcome
        self._thresholds[1:-1] = self.scalars[self._own]
        draw_thresholds(
            self._thresholds, self._sds, self._by_class, self._starts, model.residual, outcome.latent,
            outcome.step, model.noise[LIKELIHOOD], self._room, outcome.limits, work.random,
        )  # fmt: skip
        super().sweep(data, forests, work, iteration)
        variance = float(model.variance[TAU2])
        shift_level(forests[0], self._thresholds, variance, outcome.latent, outcome.step, work.random)
        self.scalars[self._own] = self._thresholds[1:-1]
