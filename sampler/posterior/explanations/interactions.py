"""Interactions of two columns: Friedman's H, and splits on one right below the other.

See docs/maths.md#interactions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.errors import SettingsError, unknown_feature
from sampler.posterior.core.ensemble import columns_of_codes, rules_per_draw
from sampler.posterior.core.intervals import equal_tailed
from sampler.posterior.core.progress import track
from sampler.posterior.core.row_blocks import spaced
from sampler.posterior.explanations.work import H_COLUMNS, H_ROWS
from sampler.posterior.results.interactions import Interactions
from sampler.storage.draws import Draws
from sampler.storage.model_header import Header

MAX_CELLS = 1 << 22  # draws times rows of a block: 32 MB for each of a few arrays


def interactions(
    header: Header,
    draws: Draws,
    f: Callable[[Coded], Floats],
    coded: Coded,
    features: Sequence[str] | None,
    level: float,
    scale: str,
) -> Interactions:
    """Compute the interactions of each two of some columns.

    Parameters
    ----------
    header
        Header of the model.
    draws
        Trees of the draws used.
    f
        Function from rows to these draws of f, float64 [draw, row]; H takes these.
    coded
        Rows over which effects are averaged and compared; at most 50 are used.
    features
        Columns; None takes the ten that most rules use.
    level
        Probability of the intervals.
    scale
        Scale of f, in words.

    Returns
    -------
    Interactions
        The pairs, the strongest first, with intervals.

    Raises
    ------
    SettingsError
        For unknown columns, for fewer than two, and for a model of a single one.

    """
    names = [column.name for column in header.schema.columns]
    rules = rules_per_draw(draws, header)
    columns = _chosen(features, names, rules.sum(axis=0))
    pairs = list(combinations(columns, 2))
    strength, h = _h_statistics(header, f, coded.part(spaced(coded.num_rows, H_ROWS)), columns)
    neighbours = _neighbours(draws, header)
    counts = np.stack([neighbours.joining(draws.num_draws, pair) for pair in pairs], axis=1)
    ends = neighbours.ends(draws.num_draws, len(names))
    some = ends.sum(axis=1) > 0
    total = np.maximum(ends.sum(axis=1), 1)[:, None] / 2
    shares = (counts / total)[some] if some.any() else np.zeros((1, len(pairs)))
    apart = 1 - np.einsum("dj,dj->d", ends, ends) / (2 * total[:, 0]) ** 2  # that independent ends differ
    marginal = {j: ends[some, j] / (2 * total[some, 0]) for j in columns}
    expected = np.array([np.sum(2 * marginal[j] * marginal[k] / apart[some]) for j, k in pairs]) / max(
        int(some.sum()), 1
    )
    (h_lower, h_upper), (lower, upper) = equal_tailed(h, level), equal_tailed(shares, level)
    weakest, strongest = equal_tailed(strength, level)
    order = np.argsort(-strength.mean(axis=0), kind="stable")
    return Interactions(
        pairs=[(names[pairs[i][0]], names[pairs[i][1]]) for i in order],
        strength=strength.mean(axis=0)[order],
        strength_lower=weakest[order],
        strength_upper=strongest[order],
        h=h.mean(axis=0)[order],
        h_lower=h_lower[order],
        h_upper=h_upper[order],
        inclusion=shares.mean(axis=0)[order],
        inclusion_lower=lower[order],
        inclusion_upper=upper[order],
        expected=expected[order],
        level=level,
        draws=h.shape[0],
        draws_without_pairs=int((~some).sum()),
        scale=scale,
    )


class _Neighbours(NamedTuple):
    """Splits right below a split on another column: the draw and both columns, int64 [pair]."""

    draw: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    def joining(self, num_draws: int, pair: tuple[int, int]) -> NDArray[np.int64]:
        """Count the neighbours that join two columns, int64 [draw]."""
        joined = (self.low == min(pair)) & (self.high == max(pair))
        return np.bincount(self.draw[joined], minlength=num_draws)

    def ends(self, num_draws: int, num_columns: int) -> NDArray[np.int64]:
        """Count the neighbours that have each column at one end, int64 [draw, column]."""
        cell = np.concatenate([self.draw * num_columns + self.low, self.draw * num_columns + self.high])
        return np.bincount(cell, minlength=num_draws * num_columns).reshape(num_draws, num_columns)


def _neighbours(draws: Draws, header: Header) -> _Neighbours:
    column_of = columns_of_codes(header)
    parent = _parents(draws)
    nodes = np.flatnonzero((draws.feature >= 0) & (parent >= 0))
    below, above = column_of[draws.feature[nodes]], column_of[draws.feature[parent[nodes]]]
    draw = np.repeat(np.arange(draws.num_draws), np.diff(draws.tree_start[:: draws.num_trees]))[nodes]
    apart = below != above
    below, above = below[apart], above[apart]
    return _Neighbours(draw[apart], np.minimum(below, above), np.maximum(below, above))


def _parents(draws: Draws) -> NDArray[np.int64]:
    """Return each node's parent, int64 [node], -1 for a root; nodes are in pre-order."""
    split = draws.feature >= 0
    nodes = np.arange(len(split))
    parent = np.full(len(split), -1)
    parent[1:] = np.where(split[:-1], nodes[:-1], -1)
    # Subtrees still to come, after each node. When a left subtree ends there are as many as before its
    # parent: of the splits and right children of one such number the first belong together, and so on.
    waiting = np.cumsum(np.where(split, 1, -1))
    right = np.setdiff1d(np.flatnonzero(~split[:-1]) + 1, draws.tree_start)
    before, ended = nodes[split], waiting[right - 1] + 1
    parent[right[np.argsort(ended, kind="stable")]] = before[np.argsort(waiting[split], kind="stable")]
    return parent


def _chosen(features: Sequence[str] | None, names: list[str], use: NDArray[np.int64]) -> list[int]:
    if len(names) < 2:
        raise SettingsError(
            "interactions: the model has a single feature", field="features", code="not_accepted"
        )
    if features is None:
        return sorted(np.argsort(-use, kind="stable")[:H_COLUMNS].tolist())
    unknown = [name for name in features if name not in names]
    if unknown:
        raise unknown_feature("features", unknown[0], names)
    if isinstance(features, str) or len(set(features)) < 2:
        raise SettingsError(
            "features: interactions take a list of at least two different features",
            field="features",
            code="not_accepted",
        )
    return [names.index(name) for name in dict.fromkeys(features)]


def _h_statistics(
    header: Header, f: Callable[[Coded], Floats], rows: Coded, chosen: list[int]
) -> tuple[Floats, Floats]:
    """Compute the strength and H of each two columns on each draw, float64 [draw, pair]."""
    positions = {j: [i for i, (column, _) in enumerate(header.schema.coded) if column == j] for j in chosen}
    num_draws = len(f(rows.part(slice(0, 1))))
    alone = {j: _centred_effect(f, rows, positions[j], num_draws) for j in chosen}
    strengths, shares = [], []
    for j, k in track(list(combinations(chosen, 2)), "interactions"):
        joint = _centred_effect(f, rows, [*positions[j], *positions[k]], num_draws)
        size = joint.std(axis=1)
        strengths.append((joint - alone[j] - alone[k]).std(axis=1))
        shares.append(strengths[-1] / np.where(size > 0, size, 1))
    return np.array(strengths).T, np.array(shares).T


def _centred_effect(
    f: Callable[[Coded], Floats], rows: Coded, positions: list[int], num_draws: int
) -> Floats:
    """Average f over all rows with some columns from each row in turn, less its mean: float64 [draw, row]."""
    count = rows.num_rows
    width = max(1, MAX_CELLS // (num_draws * count))
    own = np.broadcast_to(np.arange(count)[:, None], (count, count))
    effect = np.concatenate(
        [
            f(rows.shuffled(positions, own[start : start + width])).reshape(num_draws, -1, count).mean(axis=2)
            for start in range(0, count, width)
        ],
        axis=1,
    )
    return np.asarray(effect - effect.mean(axis=1, keepdims=True))
