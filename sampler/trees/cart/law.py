"""The law of a single-tree method: leaves with their own parameters, classes, weighted draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.errors import PackedError
from sampler.methods import METHODS
from sampler.posterior.core import topology
from sampler.posterior.core.ensemble import Ensemble
from sampler.posterior.core.intervals import IntervalFigures
from sampler.posterior.core.stored_draws import StoredDraws
from sampler.posterior.core.topology import TreeShape
from sampler.posterior.laws import normal
from sampler.posterior.laws.by_figure import fill_by_figure
from sampler.posterior.laws.law import Law
from sampler.posterior.laws.predictive import Predictive
from sampler.posterior.parts.forest_to_explain import ForestToExplain
from sampler.posterior.protocol import ExactSums
from sampler.posterior.weighting.draw_weights import EqualWeights, ImportanceWeights
from sampler.posterior.weighting.importance_weights import apart
from sampler.posterior.weighting.quantiles import noise_mixture
from sampler.storage.draws import LEAF, Draws, concatenate


class TreeLaw(Law):
    """Draws of one tree each.

    For classes, predictions are probabilities: of the second of two, else [row, class].
    """

    own_work, noise_work = 100, 900  # leaves, and their noise, are looked up one by one

    def __init__(self, draws: StoredDraws, chains: Sequence[Draws]) -> None:
        super().__init__(draws, chains)
        header = draws.header
        values, weights = [], []
        for each in chains:
            if each.value is None or each.log_weight is None or each.num_trees != 1:
                raise PackedError("the draws are not of a method of one tree")
            values.append(each.value)
            weights.append(each.log_weight)
        own_noise = METHODS[header.settings["method"]].variant == "leaf-noise"
        width = len(self.draws.header.schema.target.levels) or (2 if own_noise else 1)
        if any(value.shape[1] != width for value in values):
            raise PackedError("the leaves of the draws don't fit the model")
        self._value = np.concatenate(values)
        self.width = width
        if self.draws.classes and (self._value.min() < 0 or self._value.max() > 1):
            raise PackedError("the draws hold probabilities outside 0 to 1")
        if width == 2 and not self.draws.classes and self._value[:, 1].min() <= 0:
            raise PackedError("the draws of the leaves' noise are not all positive")
        self.weights = EqualWeights(self.draws.num_chains, as_weighted=True)
        if any(map(np.any, weights)):
            log = np.array([log[: self.draws.num_draws] for log in weights])
            self.weights = ImportanceWeights(log, apart(self.draws.statistics))

    def _make_ensemble(self, chains: Sequence[Draws], num_features: int) -> Ensemble:
        """Make an ensemble whose value at a row is the number of the leaf that the row reaches."""
        numbered, first = [], 0
        for draws in chains:
            is_leaf = draws.feature == LEAF
            leaf = np.zeros(len(is_leaf), np.int32)
            leaf[is_leaf] = first + np.arange(np.count_nonzero(is_leaf))
            first += int(np.count_nonzero(is_leaf))
            numbered.append(draws.with_leaf(leaf))
        return Ensemble(numbered, num_features)

    @property
    def evidence(self) -> dict[str, Any] | None:
        """Log marginal likelihood estimated by weighted draws, pooled and by run, and its sd; else None."""
        weights = self.weights
        return (
            weights.first(self.draws.num_draws).to_json() if isinstance(weights, ImportanceWeights) else None
        )

    def _leaves(self, codes: NDArray[np.uint8], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Look up the number of the leaf that each row reaches, int64 [draw, row]."""
        return self.ensemble.sums(codes, chosen).astype(np.int64)

    def _values(self, codes: NDArray[np.uint8], chosen: NDArray[np.int64]) -> Floats:
        """Look up the chosen draws' leaf parameters at each row, float64 [draw, row, k]."""
        return np.asarray(self._value[self._leaves(codes, chosen)])

    def f_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute f of the chosen draws, float64 [draw, row], or [draw, row, class] with several classes."""
        value = self._values(coded.codes, chosen)
        if self.draws.classes is not None and len(self.draws.classes) > 2:
            return value
        return np.asarray(value[..., 0 if self.draws.classes is None else 1])

    @property
    def exact_sums(self) -> ExactSums | None:
        """Law that sums of outcomes have given the draw; see `Law.exact_sums`."""
        return None if self.draws.classes else "normal"

    @property
    def noise_by_row(self) -> bool:
        """Whether leaves have noise of their own."""
        return self.width > 1 and not self.draws.classes

    def noise_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Return the noise sd in the chosen draws, float64 [draw, row]: the leaf's, where leaves have one."""
        if self._value.shape[1] == 1 or self.draws.classes:
            return super().noise_of(coded, chosen)
        return np.asarray(self._value[self._leaves(coded.codes, chosen), 1])

    def outcome_law(
        self, coded: Coded, weights: Floats | None = None, num_draws: int | None = None
    ) -> Predictive:
        """Make the predictive distribution of the outcomes of rows with such weights (1 for None)."""
        return normal.predictive_of(self, coded, weights, num_draws)

    def sample_outcomes(
        self, coded: Coded, weights: Floats | None, chosen: NDArray[np.int64], rng: np.random.Generator
    ) -> Floats:
        """Draw an outcome of each row from each chosen draw; see `Law.sample_outcomes`."""
        if self.classes is not None:
            return super().sample_outcomes(coded, weights, chosen, rng)
        return normal.sample_outcomes(self, coded, weights, chosen, rng)

    def outcomes_by_draw(
        self, coded: Coded, y: Floats, weights: Floats | None, chosen: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """Compute what each chosen draw says of known outcomes; see `Law.outcomes_by_draw`."""
        return normal.outcomes_by_draw(self, coded, y, weights, chosen)

    def bound_errors(self, part: Coded, used: int) -> Callable[[Floats], Floats]:
        """Return a function from predictive bounds [row] to their Monte Carlo errors."""
        return normal.bound_errors(self, part, used)

    def fill(self, figures: IntervalFigures, coded: Coded, num_draws: int | None) -> int:
        """Compute the figures of the rows; return the number of draws per chain used."""
        return fill_by_figure(self, figures, coded, num_draws, width=self.width, outcomes=self._outcomes)

    def _outcomes(self, part: Coded, f: Floats, tails: Floats, used: int) -> tuple[Floats, Floats, None]:
        """Return the variance of a new outcome and its quantiles; see `fill_by_figure`."""
        share = self.weights.shares(used)
        noise = self.noise(part, used).reshape(len(share), -1).T
        return (noise**2) @ share, noise_mixture(f, noise, share, tails), None

    def forests_to_explain(self) -> tuple[str, list[ForestToExplain]]:
        """Return the figure that SHAP values add up to, in words, and the tree that gives it, by class."""
        draws = concatenate(self.draws.chains())
        assert draws.value is not None
        is_leaf = draws.feature == LEAF
        places = (
            [0]
            if self.draws.classes is None
            else [1]
            if len(self.draws.classes) == 2
            else range(len(self.draws.classes))
        )
        forests = []
        for k in places:
            leaf = np.zeros(len(is_leaf))
            leaf[is_leaf] = draws.value[:, k]
            forests.append(ForestToExplain(draws, leaf, 0.0))
        if self.draws.classes is None:
            return f"{self.draws.header.schema.target.name}, in its own unit", forests
        which = f"of {self.draws.classes[1]!r}" if len(self.draws.classes) == 2 else "of each class"
        return f"the probability {which}", forests

    def topologies(self, most: int) -> list[TreeShape]:
        """Return the posterior probabilities of tree shapes, the most probable first.

        A ``topology`` is in pre-order, with "." for a leaf and "(" left right ")" for a split;
        ``probability`` is beside it. At most `most` are returned.
        """
        used = [draws[: self.draws.num_draws] for draws in self.draws.chains()]
        sizes = np.cumsum([0, *(draws.num_nodes for draws in used)])
        starts = [draws.tree_start[:-1] + size for draws, size in zip(used, sizes, strict=False)]
        splits = np.concatenate([draws.feature != LEAF for draws in used])
        shapes = topology.topologies(
            splits, np.concatenate([*starts, sizes[-1:]]), self.weights.shares(self.draws.num_draws)
        )
        return topology.report(shapes, most)
