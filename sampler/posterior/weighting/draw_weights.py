"""Weights of a posterior's draws, with the Monte Carlo errors and verdicts that depend on them.

Draws of Markov chains have equal weights; draws of particle filters and of searches over topologies have
weights of their own (`sampler.posterior.weighting.importance_weights`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.posterior.verdict.agreement import Agreement, judge
from sampler.posterior.verdict.effects import EffectsUse
from sampler.posterior.verdict.reasons import Reason, Verdict
from sampler.posterior.verdict.rhat_ess import (
    mcse_mean,
    mcse_quantile,
    reproducibility_of_quantile,
    rhat,
)
from sampler.posterior.verdict.summary import Summary, summarise
from sampler.posterior.weighting import importance_weights
from sampler.posterior.weighting.quantiles import of_draws


class DrawWeights(ABC):
    """Weights of the draws of all chains.

    `used` is always the number of draws used per chain: the first ones. Figures f are float64 [figure, chain,
    draw].
    """

    @abstractmethod
    def unequal(self, used: int) -> Floats | None:
        """Return the weights, float64 [chain, draw], with sum 1; None where all are equal."""

    @abstractmethod
    def shares(self, used: int) -> Floats:
        """Return the weights, float64 [draw of any chain], with sum 1."""

    @abstractmethod
    def spaced(self, used: int, count: int) -> NDArray[np.int64]:
        """Choose `count` of all chains' draws, evenly spaced by weight: their positions, int64.

        Draws so chosen have equal weights; a draw may be chosen several times.
        """

    @abstractmethod
    def agreement(self, f: Floats, used: int) -> Agreement:
        """Measure how well the chains (or runs of weighted draws) agree on f."""

    @abstractmethod
    def mean_of(self, f: Floats, used: int) -> Floats:
        """Return the means of f, float64 [figure]."""

    @abstractmethod
    def mean_error(self, f: Floats, used: int) -> Floats:
        """Return the Monte Carlo standard errors of means of f, float64 [figure]."""

    @abstractmethod
    def quantile_error(self, f: Floats, level: float, used: int) -> Floats:
        """Return the Monte Carlo standard errors of quantiles of f, float64 [figure]."""

    @abstractmethod
    def quantiles(self, values: Floats, tails: Floats, used: int) -> Floats:
        """Return quantiles [level, row] of values [row, draw of any chain]; a negative level is 1 + level."""

    @abstractmethod
    def judge(
        self, agreement: Agreement, scalars: Mapping[str, Floats], used: int
    ) -> tuple[Verdict, list[Reason]]:
        """Return the verdict on figures with that agreement and on scalars [chain, draw], and its reasons."""

    @abstractmethod
    def summary(
        self,
        f: Floats,
        scalars: Mapping[str, Floats],
        leaf_counts: NDArray[np.int64],
        statistics: Sequence[Mapping[str, Any]],
        noise: Floats | None,
        effects: Sequence[EffectsUse] = (),
    ) -> Summary:
        """Judge all draws by f and the noise's sd, float64 [row], at the reference rows, and by scalars."""


@dataclass(frozen=True)
class EqualWeights(DrawWeights):
    """Equal weights of the draws of Markov chains."""

    num_chains: int
    as_weighted: bool = False  # means are computed as those of weighted draws are, which rounds differently

    def unequal(self, used: int) -> None:
        """Return None."""

    def shares(self, used: int) -> Floats:
        """Return equal weights, float64 [draw of any chain], with sum 1."""
        return np.full(self.num_chains * used, 1 / (self.num_chains * used))

    def spaced(self, used: int, count: int) -> NDArray[np.int64]:
        """Choose `count` evenly spaced draws."""
        return np.rint(np.linspace(0, self.num_chains * used - 1, count)).astype(np.int64)

    def agreement(self, f: Floats, used: int) -> Agreement:  # noqa: ARG002
        """Measure how well the chains agree on f."""
        return Agreement.of(f)

    def mean_of(self, f: Floats, used: int) -> Floats:
        """Return the means of f."""
        if self.as_weighted:
            return np.asarray(np.tensordot(f, self.shares(used).reshape(f.shape[1:]), 2))
        return np.asarray(f.mean(axis=(1, 2)))

    def mean_error(self, f: Floats, used: int) -> Floats:  # noqa: ARG002
        """Return the Monte Carlo standard errors of means of f."""
        return mcse_mean(f)

    def quantile_error(self, f: Floats, level: float, used: int) -> Floats:  # noqa: ARG002
        """Return the Monte Carlo standard errors of quantiles of f, no less than chains differ by."""
        return np.fmax(mcse_quantile(f, level), reproducibility_of_quantile(f, level))

    def quantiles(self, values: Floats, tails: Floats, used: int) -> Floats:  # noqa: ARG002
        """Return quantiles with linear interpolation."""
        return of_draws(values, None, tails)

    def judge(
        self, agreement: Agreement, scalars: Mapping[str, Floats], used: int
    ) -> tuple[Verdict, list[Reason]]:
        """Return the verdict on figures with that agreement and on scalars, and its reasons."""
        rhats = {name: float(rhat(each[None, :, :used])[0]) for name, each in scalars.items()}
        return judge(agreement, rhats, self.num_chains)

    def summary(
        self,
        f: Floats,
        scalars: Mapping[str, Floats],
        leaf_counts: NDArray[np.int64],
        statistics: Sequence[Mapping[str, Any]],
        noise: Floats | None,
        effects: Sequence[EffectsUse] = (),
    ) -> Summary:
        """Judge whether the chains agree."""
        return summarise(f, scalars, leaf_counts, statistics, noise, effects)


@dataclass(frozen=True)
class ImportanceWeights(DrawWeights):
    """Weights of independent runs' draws, from their logarithms, float64 [run, draw].

    `apart` is how far chains of one topology are apart, of searches over topologies (`apart` of the module).
    """

    log: Floats
    apart: float = 0.0

    def first(self, used: int) -> importance_weights.Weights:
        """Return the weights of the first draws of each run."""
        return importance_weights.Weights(self.log[:, :used])

    def unequal(self, used: int) -> Floats:
        """Return the weights, float64 [run, draw], with sum 1."""
        return self.first(used).share

    def shares(self, used: int) -> Floats:
        """Return the weights, float64 [draw of any run], with sum 1."""
        return self.unequal(used).reshape(-1)

    def spaced(self, used: int, count: int) -> NDArray[np.int64]:
        """Choose `count` draws, evenly spaced by weight."""
        total = np.cumsum(self.shares(used))
        places = np.searchsorted(total, (np.arange(count) + 0.5) / count * total[-1])
        return np.asarray(places, np.int64)

    def agreement(self, f: Floats, used: int) -> Agreement:
        """Measure how well the runs agree on f."""
        return importance_weights.agreement(f, self.unequal(used))

    def mean_of(self, f: Floats, used: int) -> Floats:
        """Return the weighted means of f."""
        return np.asarray(np.tensordot(f, self.unequal(used), 2))

    def mean_error(self, f: Floats, used: int) -> Floats:
        """Return the Monte Carlo standard errors of weighted means of f."""
        return importance_weights.mean_error(f, self.unequal(used))

    def quantile_error(self, f: Floats, level: float, used: int) -> Floats:
        """Return the Monte Carlo standard errors of weighted quantiles of f."""
        return importance_weights.quantile_error(f, self.unequal(used), level)

    def quantiles(self, values: Floats, tails: Floats, used: int) -> Floats:
        """Return the smallest values whose cumulative weights reach the levels."""
        return of_draws(values, self.shares(used), tails)

    def judge(
        self,
        agreement: Agreement,
        scalars: Mapping[str, Floats],  # noqa: ARG002
        used: int,
    ) -> tuple[Verdict, list[Reason]]:
        """Return the verdict, which depends on the evidence's spread over runs too, and its reasons."""
        return importance_weights.judge_weighted(agreement, self.first(used), len(self.log), self.apart)

    def summary(
        self,
        f: Floats,
        scalars: Mapping[str, Floats],  # noqa: ARG002
        leaf_counts: NDArray[np.int64],
        statistics: Sequence[Mapping[str, Any]],
        noise: Floats | None,  # noqa: ARG002
        effects: Sequence[EffectsUse] = (),  # noqa: ARG002
    ) -> Summary:
        """Judge whether the runs agree."""
        return importance_weights.summarise_weighted(
            f, self.first(f.shape[2]), leaf_counts, statistics, self.apart
        )
