"""The posterior of a single-tree method: leaves with their own parameters, classes, weighted draws."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.errors import PackedError
from sampler.methods import METHODS
from sampler.posterior import topology
from sampler.posterior.ensemble import Ensemble
from sampler.posterior.explanations.shap_values import ForestToExplain
from sampler.posterior.kinds.by_figure import FiguresPosterior
from sampler.posterior.posterior_draws import BOUND_BY_ROW
from sampler.posterior.weighting.draw_weights import EqualWeights, ImportanceWeights
from sampler.posterior.weighting.quantiles import noise_mixture
from sampler.storage.draws import LEAF, concatenate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.posterior.explanations.permutation import Loss
    from sampler.posterior.verdict.summary import Summary
    from sampler.storage.draws import Draws
    from sampler.storage.model_header import Header

    Floats = NDArray[np.float64]


class TreePosterior(FiguresPosterior):
    """Draws of one tree each.

    For classes, predictions are probabilities: of the second of two, else [row, class].
    """

    own_work = 1000  # leaves are looked up one by one

    def __init__(
        self,
        header: Header,
        chains: Sequence[Draws],
        blocks: Sequence[Sequence[bytes]],
        statistics: Sequence[dict[str, Any]],
    ) -> None:
        super().__init__(header, chains, blocks, statistics)
        values, weights = [], []
        for draws in chains:
            if draws.value is None or draws.log_weight is None or draws.num_trees != 1:
                raise PackedError("the draws are not of a method of one tree")
            values.append(draws.value)
            weights.append(draws.log_weight)
        own_noise = METHODS[header.settings["method"]].variant == "leaf-noise"
        width = len(self.schema.target.levels) or (2 if own_noise else 1)
        if any(value.shape[1] != width for value in values):
            raise PackedError("the leaves of the draws don't fit the model")
        self._value = np.concatenate(values)
        self.width = width
        if self.classes and (self._value.min() < 0 or self._value.max() > 1):
            raise PackedError("the draws hold probabilities outside 0 to 1")
        if width == 2 and not self.classes and self._value[:, 1].min() <= 0:
            raise PackedError("the draws of the leaves' noise are not all positive")
        self.draw_weights = EqualWeights(self.num_chains, as_weighted=True)
        if any(map(np.any, weights)):
            self.draw_weights = ImportanceWeights(np.array([log[: self.num_draws] for log in weights]))

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
    def nbytes(self) -> int:
        """Memory held, in bytes, roughly."""
        return super().nbytes + self._value.nbytes

    @property
    def evidence(self) -> dict[str, Any] | None:
        """Log marginal likelihood estimated by weighted draws, pooled and by run, and its sd; else None."""
        weights = self.draw_weights
        return weights.first(self.num_draws).to_json() if isinstance(weights, ImportanceWeights) else None

    def _leaves(self, codes: NDArray[np.uint8], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Look up the number of the leaf that each row reaches, int64 [draw, row]."""
        return self._ensemble.sums(codes, chosen).astype(np.int64)

    def _values(self, codes: NDArray[np.uint8], chosen: NDArray[np.int64]) -> Floats:
        """Look up the chosen draws' leaf parameters at each row, float64 [draw, row, k]."""
        return np.asarray(self._value[self._leaves(codes, chosen)])

    def _f_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        value = self._values(coded.codes, chosen)
        if self.classes is not None and len(self.classes) > 2:
            return value
        return np.asarray(value[..., 0 if self.classes is None else 1])

    def _noise_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        if self._value.shape[1] == 1 or self.classes:
            return super()._noise_of(coded, chosen)
        return np.asarray(self._value[self._leaves(coded.codes, chosen), 1])

    @property
    def usual_loss(self) -> Loss:
        """The loss by which `importance` ranks by default."""
        return "log_loss" if self.width > 1 else super().usual_loss

    def bound_work(self, coded: Coded | None = None) -> float:  # noqa: ARG002
        """Return the cost of a predictive bound by row and draw, in trees: that of a mixture by row."""
        return BOUND_BY_ROW

    def _outcomes(self, part: Coded, f: Floats, tails: Floats, used: int) -> tuple[Floats, Floats]:
        """Return the mean variance of a new outcome given a draw [row], and its quantiles [tail, row]."""
        share = self.draw_weights.shares(used)
        noise = self.sample_sigma(part, used).reshape(len(share), -1).T
        return (noise**2) @ share, noise_mixture(f, noise, share, tails)

    def forests_to_explain(self) -> tuple[str, list[ForestToExplain]]:
        """Return the figure that SHAP values add up to, in words, and the tree that gives it, by class."""
        draws = concatenate(self.chains())
        assert draws.value is not None
        is_leaf = draws.feature == LEAF
        places = [0] if self.classes is None else [1] if len(self.classes) == 2 else range(len(self.classes))
        forests = []
        for k in places:
            leaf = np.zeros(len(is_leaf))
            leaf[is_leaf] = draws.value[:, k]
            forests.append(ForestToExplain(draws, leaf, 0.0))
        if self.classes is None:
            return f"{self.schema.target.name}, in its own unit", forests
        which = f"of {self.classes[1]!r}" if len(self.classes) == 2 else "of each class"
        return f"the probability {which}", forests

    def _summarise(self) -> Summary:
        return replace(super()._summarise(), topologies=self.topologies())

    def topologies(self, most: int = topology.MOST) -> list[dict[str, Any]]:
        """Return the posterior probabilities of tree shapes, the most probable first.

        A ``topology`` is in pre-order, with "." for a leaf and "(" left right ")" for a split;
        ``probability`` is beside it. At most `most` are returned.
        """
        used = [draws[: self.num_draws] for draws in self.chains()]
        sizes = np.cumsum([0, *(draws.num_nodes for draws in used)])
        starts = [draws.tree_start[:-1] + size for draws, size in zip(used, sizes, strict=False)]
        splits = np.concatenate([draws.feature != LEAF for draws in used])
        shapes = topology.topologies(
            splits, np.concatenate([*starts, sizes[-1:]]), self.draw_weights.shares(self.num_draws)
        )
        return topology.report(shapes, most)
