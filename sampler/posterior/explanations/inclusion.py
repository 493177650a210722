"""Inclusion proportions: the share of split rules that use each feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.errors import PackedError
from sampler.posterior.display.tabular import ranked_columns, ranking_card, to_pandas
from sampler.posterior.intervals import equal_tailed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.storage.draws import Draws
    from sampler.storage.model_header import Header

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Inclusion:
    """Share of split rules that use each feature: mean and interval over draws, float64 [feature]."""

    names: list[str]
    mean: Floats
    lower: Floats
    upper: Floats
    level: float
    draws_without_rules: int

    @property
    def order(self) -> list[int]:
        """Positions of the features, the largest share first."""
        return [int(j) for j in np.argsort(-self.mean, kind="stable")]

    def to_pandas(self) -> Any:
        """Return a data frame, the largest share first: feature, mean, lower, upper."""
        return to_pandas(ranked_columns(self, self.order))

    def _repr_html_(self) -> str:
        return ranking_card(self, self.order, "Share of the split rules")

    def __str__(self) -> str:
        width = max(len(name) for name in self.names) + 2
        rows = (
            f"{self.names[j]:{width}}{self.mean[j]:8.3f}{self.lower[j]:8.3f}{self.upper[j]:8.3f}"
            for j in self.order
        )
        return "\n".join([f"{'':{width}}{'mean':>8}{'lower':>8}{'upper':>8}", *rows])


def inclusion(names: list[str], counts: NDArray[np.int32] | Floats, level: float) -> Inclusion:
    """Compute inclusion proportions from the number of rules by draw and feature.

    Draws without any rule are left out of the mean; their number is reported.

    Parameters
    ----------
    names
        Names of the features.
    counts
        Number of rules, [draw, feature].
    level
        Probability of the interval.

    Returns
    -------
    Inclusion
        Shares by feature, with intervals.

    """
    total = counts.sum(axis=1)
    if not np.any(total):
        nothing = np.zeros(len(names))
        return Inclusion(names, nothing, nothing, nothing, level, len(total))
    shares = counts[total > 0] / total[total > 0, None]
    lower, upper = equal_tailed(shares, level)
    return Inclusion(names, shares.mean(axis=0), lower, upper, level, int(np.sum(total == 0)))


def rules_per_draw(draws: Draws, header: Header) -> NDArray[np.int32]:
    """Count the rules of each draw that use each feature, int32 [draw, feature]."""
    column_of = np.array([column for column, _ in header.schema.coded])
    num_columns = len(header.schema.columns)
    if int(draws.feature.max(initial=-1)) >= len(column_of):
        raise PackedError("the draws split on columns that the model doesn't have")
    nodes = np.diff(draws.tree_start[:: draws.num_trees])
    draw_of = np.repeat(np.arange(draws.num_draws), nodes)
    splits = draws.feature >= 0
    cell = draw_of[splits] * num_columns + column_of[draws.feature[splits]]
    counts = np.bincount(cell, minlength=draws.num_draws * num_columns)
    return counts.reshape(draws.num_draws, num_columns).astype(np.int32)
