"""The law of methods with one tree of soft splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler import interrupt
from sampler.array_types import Floats
from sampler.errors import PackedError
from sampler.kernels.jit import warm
from sampler.posterior.core.ensemble import Ensemble, chosen_of
from sampler.posterior.core.stored_draws import StoredDraws
from sampler.soft.kernels.predict import SoftTrees, soft_values
from sampler.storage.draws import Draws
from sampler.storage.model_header import Header
from sampler.trees.cart.law import TreeLaw
from sampler.trees.soft.draws import SoftDraws
from sampler.trees.soft.prior import CODES
from sampler.trees.soft.tree import scale_codes


class SoftLaw(TreeLaw):
    """Draws of one tree of soft splits each; a prediction is a weighted average over its leaves."""

    def __init__(self, draws: StoredDraws, chains: Sequence[Draws]) -> None:
        soft, header = [each for each in chains if isinstance(each, SoftDraws)], draws.header
        if len(soft) < len(chains):
            raise PackedError("the draws are not of trees of soft splits")
        self._values_of_codes = _values_of_codes(header)
        columns = len(header.grid.cuts)
        if any(each.direction.shape[1] != columns for each in soft):
            raise PackedError("the draws split on columns that the model doesn't have")
        super().__init__(draws, chains)

    def _make_ensemble(self, chains: Sequence[Draws], num_features: int) -> SoftEnsemble:
        soft = [draws for draws in chains if isinstance(draws, SoftDraws)]
        ensemble = SoftEnsemble(SoftDraws.join(soft), num_features)
        self._soft_ensemble = ensemble
        return ensemble

    def _values(self, codes: NDArray[np.uint8], chosen: NDArray[np.int64]) -> Floats:
        """Compute the expected leaf values of the chosen draws, float64 [draw, row, k]."""
        x = np.ascontiguousarray(scale_codes(self._values_of_codes, codes).T)
        return self._soft_ensemble.values(x, chosen)

    def rules(self, part: str) -> NDArray[Any]:  # noqa: ARG002
        """Return each feature's share of the splits' directions [draw, feature], indicators added up."""
        schema = self.draws.header.schema
        column_of = np.array([column for column, _ in schema.coded])
        draws = self._soft_ensemble.draws
        shares = np.zeros((len(schema.columns), len(draws.direction)))
        np.add.at(shares, column_of, draws.direction.T)
        draw_of = np.repeat(np.arange(draws.num_draws), np.diff(self._soft_ensemble.first_split))
        by_draw = np.zeros((draws.num_draws, len(schema.columns)))
        np.add.at(by_draw, draw_of, shares.T)
        return np.asarray(by_draw[self.alike(None)])


class SoftEnsemble(Ensemble):
    """Draws of all chains, one chain after the other, as the kernel reads them."""

    def __init__(self, draws: SoftDraws, num_features: int) -> None:
        self.draws, self.num_features, self.num_draws = draws, num_features, draws.num_draws
        self.right = _right_children(draws)
        splits = np.concatenate([np.zeros(1, np.int64), np.cumsum(draws.is_split)])
        self.first_split = splits[draws.tree_start]
        self._most_nodes = int(np.diff(draws.tree_start).max())

    def values(self, x: Floats, chosen: NDArray[np.int64]) -> Floats:
        """Compute the expected leaf values of the chosen draws at rows x [row, p], float64 [draw, row, k]."""
        interrupt.look()
        draws, value = self.draws, np.ascontiguousarray(self.draws.part("value"))
        if x.shape[1] != draws.direction.shape[1]:
            raise ValueError(f"rows have {x.shape[1]} columns, the trees {draws.direction.shape[1]}")
        means = np.empty((len(chosen), len(x), value.shape[1]))
        warm("soft-prediction")
        trees = SoftTrees(
            draws.is_split, draws.tree_start, self.first_split, self.right, draws.threshold,
            np.ascontiguousarray(draws.direction), value, draws.sharpness,
        )  # fmt: skip
        soft_values(trees, x, chosen_of(chosen, self.num_draws), np.empty(self._most_nodes), means)
        return means


def _values_of_codes(header: Header) -> list[list[float]]:
    """Read the numbers that the codes of each column stand for; raise PackedError for invalid ones."""
    values = header.constants.get("values")
    if not isinstance(values, list) or len(values) != len(header.grid.cuts):
        raise PackedError("the model's header doesn't say what the codes of soft splits stand for")
    for column in values:
        numbers = isinstance(column, list) and all(isinstance(value, int | float) for value in column)
        if not numbers or not 1 <= len(column) <= CODES or not all(0 <= value <= 1 for value in column):
            raise PackedError("the model's header doesn't say what the codes of soft splits stand for")
    return values


def _right_children(draws: SoftDraws) -> NDArray[np.int64]:
    """Find the right child of every split, counted from its tree's first node, int64 [node]."""
    right = np.zeros(draws.num_nodes, np.int64)
    waiting: list[int] = []
    for node, splits in enumerate(draws.is_split.tolist()):
        if splits:
            waiting.append(node)
        elif waiting:
            right[waiting.pop()] = node + 1
        # after the last leaf of a tree no split is waiting
    trees = np.repeat(np.arange(len(draws.tree_start) - 1), np.diff(draws.tree_start))
    return np.where(right > 0, right - draws.tree_start[trees], 0)
