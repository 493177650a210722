"""Arms of a treatment whose outcomes are counts: a log-linear forest for each (docs/maths.md#treatments).

A row's rate is multiplied by that of its arm. The forest of an arm sees the rows of the arm: those of others
have count 0 and rate 0, so that leaves are Gamma given all else, as ever.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sampler.array_types import Floats
from sampler.bart.families.effect_forest import data_of
from sampler.bart.forest_call import ForestCall
from sampler.bart.kernels.state import Forest, Work
from sampler.bart.log_linear import STEP, LeafScale, gamma_prior, make_log_linear, scale_for
from sampler.data.treatment.design import ROLE
from sampler.training import EffectPrior, Training

SPAN, GRID = (0.02, 5.0), 200  # of the standard deviation of an arm's logarithm


class CountArms:
    """The forests of the arms of one chain.

    Attributes
    ----------
    data
        The rows with the columns that their trees may split on.
    models
        Their leaf models.
    scales
        The drawn scales of their leaves; none where these are known.

    """

    def __init__(self, training: Training, prior: EffectPrior, noise: Floats) -> None:
        self.data = data_of(training, prior)
        rows, treated = training.padded_codes.shape[1], training.by_role[ROLE]
        self._inside = [treated == arm for arm in range(prior.parts)]
        start = 0.5 * prior.start
        leaves = gamma_prior(start / math.sqrt(prior.num_trees), 1)
        self.models = [
            make_log_linear(leaves, 1.0, noise, np.zeros(len(treated), np.int32), rows) for _ in self._inside
        ]
        self._calls = [ForestCall() for _ in self.models]
        log_sd = np.geomspace(*SPAN, GRID)
        law = np.log(log_sd) - 0.5 * (log_sd / (0.5 * prior.scale)) ** 2  # half-normal, on an even logarithm
        self.scales = [
            LeafScale(log_sd, law, start, prior.num_trees, model)
            for model in (self.models if prior.drawn else [])
        ]

    def clear(self, y: Floats) -> None:
        """Take the counts [n], and let every arm's rate be 1."""
        for inside, model in zip(self._inside, self.models, strict=True):
            model.weights[:] = y * inside
            model.log_value[:] = 0
        for scale in self.scales:
            scale.apply()

    def rates(self) -> Floats:
        """Return the rate of each row's own arm, float64 [n]."""
        values = sum(
            inside * model.log_value[: len(inside)]
            for inside, model in zip(self._inside, self.models, strict=True)
        )
        return np.asarray(np.exp(STEP * values))

    def sweep(self, forests: Sequence[Forest], part: Floats, work: Work) -> None:
        """Update the forests and their scales, given the rows' parts: means times gamma variables."""
        for k, (inside, model) in enumerate(zip(self._inside, self.models, strict=True)):
            model.part[: len(inside)] = part[: len(inside)] * inside
            model.scale[0] = scale_for(float(model.part.sum()))
            self._calls[k](self.data, forests[k], model, work)
            if self.scales:
                self.scales[k].draw(forests[k : k + 1], work.random)
