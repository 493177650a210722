"""Noise that is a mixture of normals, with means and sds of their own (docs/maths.md#mixtures-of-normals).

After George, Laud, Logan, McCulloch and Sparapani (2019), with a finite mixture in place of the Dirichlet
process. Labels of rows are drawn given the components, then these given the labels, both at the start of a
sweep: nothing by row is state. The components are scalars of a draw.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, SIGMA2, Normal
from sampler.bart.kernels.state import Outcome, Work
from sampler.bart.kernels.steps.noise_mixture import (
    BLOCK,
    MEAN,
    SD,
    SHARE,
    draw_components,
    draw_labels,
    put_back,
    sum_residuals,
    take_out,
)
from sampler.noise import COMPONENTS, component_names
from sampler.storage.draws import LEAF, Draws

GROUP = "noise-mixture"  # group of compiled kernels, see `sampler.kernels.groups`
CONCENTRATION = 1.0  # of the Dirichlet process that the mixture stands for
PULL = 0.25  # rows of residual 0 that the prior of a component's mean is worth
WIDEST = 8.0  # times sigma: the largest sd at the start, and one over the smallest


class MixtureNoise:
    """The components of one chain, scalars of its outcome, and the labels of its rows in a sweep."""

    def __init__(self, num_rows: int, place: int, sigma: float, first: int, outcome: Outcome) -> None:
        """Make room; `place` is that of the first component among the scalars, `sigma` the noise's estimate.

        Before iteration `first` noise is normal, so that the trees learn the signal.
        """
        self._first, self._step = first, outcome.step
        self._scalars = outcome.scalars[place : place + 3 * COMPONENTS].reshape(3, COMPONENTS)
        self._factor = outcome.scalars[place + 3 * COMPONENTS :][:1]
        self._factor[0] = 1.0
        self._parts = np.empty((3, COMPONENTS))
        self._sums, self._scores = np.empty((3, COMPONENTS)), np.empty((COMPONENTS + 2, BLOCK))
        self._labels, self._weights = np.zeros(num_rows, np.uint8), np.empty(num_rows)
        self._spread(sigma)

    def _spread(self, sigma: float) -> None:
        """Let the components have sds around sigma, means 0 and equal shares."""
        power = np.linspace(-1, 1, COMPONENTS)
        self._scalars[:] = np.array([np.full(COMPONENTS, 1 / COMPONENTS), 0 * power, sigma * WIDEST**power])

    @property
    def mean(self) -> float:
        """The mean of the present mixture, in grid steps."""
        return float(np.rint(mixture_moments(self._scalars)[0] / self._step))

    def draw(self, mean: Normal, outcome: Outcome, work: Work, iteration: int) -> Floats:
        """Draw labels and components; leave residuals about the components, and return the rows' weights."""
        power, sums, parts = float(mean.noise[LIKELIHOOD]), self._sums, self._parts
        parts[:] = self._scalars
        parts[[MEAN, SD]] /= self._step
        normal = iteration < self._first
        if normal:
            sum_residuals(mean.residual, self._labels, sums)
        else:
            draw_labels(mean.residual, parts, power, work.random, self._scores, self._labels, sums)
        self._factor[0] = draw_components(
            sums, power, outcome.nu, outcome.scale, self._factor[0], PULL, CONCENTRATION / COMPONENTS,
            work.random, parts,
        )  # fmt: skip
        if normal:
            parts[MEAN] = 0.0
            self._spread(parts[SD, 0] * self._step)
            mean.noise[SIGMA2] = parts[SD, 0] ** 2
        else:
            self._scalars[:] = parts
            self._scalars[[MEAN, SD]] *= self._step
            mean.noise[SIGMA2] = mixture_moments(parts)[1]
        take_out(mean.residual, parts, self._labels, mean.noise[SIGMA2], self._weights)
        return self._weights

    def put_back(self, residual: NDArray[np.int32]) -> None:
        """Let the residuals be about the trees again."""
        put_back(residual, self._parts, self._labels)


def mixture_moments(parts: Floats) -> tuple[Floats, Floats]:
    """Compute mean and variance of mixtures of shares, means and sds, [3, component, ..]."""
    mean = np.sum(parts[SHARE] * parts[MEAN], axis=0)
    squares = np.sum(parts[SHARE] * ((parts[MEAN] - mean) ** 2 + parts[SD] ** 2), axis=0)
    return mean, squares


def with_noise_mean(draws: Draws, scalars: Mapping[str, Floats], step: float) -> Draws:
    """Add the mean of each draw's noise to the leaves of its first tree: f is then the outcome's mean."""
    parts = np.array([scalars[name] for name in component_names()]).reshape(3, COMPONENTS, -1)
    shift = np.rint(mixture_moments(parts)[0] / step).astype(np.int32)
    first = draws.tree_start[:-1].reshape(draws.num_draws, draws.num_trees)[:, 0]
    ends = draws.tree_start[1:].reshape(draws.num_draws, draws.num_trees)[:, 0]
    change = np.zeros(draws.num_nodes + 1, np.int64)
    np.add.at(change, first, shift)
    np.add.at(change, ends, -shift)
    by_node = np.cumsum(change)[:-1].astype(np.int32)
    return draws.with_leaf(draws.leaf + np.where(draws.feature == LEAF, by_node, 0).astype(np.int32))
