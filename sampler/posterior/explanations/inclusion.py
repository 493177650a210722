"""Inclusion proportions: the share of split rules that use each feature."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.kernels.jit import warm
from sampler.posterior.core.ensemble import columns_of_codes
from sampler.posterior.core.intervals import equal_tailed
from sampler.posterior.core.progress import track
from sampler.posterior.kernels.usage import count_rows
from sampler.posterior.laws.law import Law
from sampler.posterior.results.rankings import Inclusion

ROWS = 64  # of a block: a fraction of a second by a million trees


def inclusion(
    names: list[str], counts: NDArray[np.int32] | NDArray[np.int64] | Floats, level: float
) -> Inclusion:
    """Compute inclusion proportions from the number of rules by draw and feature.

    Draws without any rule are left out of the mean; their number is reported.

    Parameters
    ----------
    names
        Names of the features.
    counts
        Number of rules, or of rows at them, [draw, feature].
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


def rows_at_rules(law: Law, coded: Coded) -> NDArray[np.int64]:
    """Count the rows that reach rules on each feature (CGM10, the end of section 3.2).

    Parameters
    ----------
    law
        Law of the draws.
    coded
        The rows.

    Returns
    -------
    ndarray
        int64 [draw, feature], over all trees of a draw; weighted draws are repeated in proportion. Of a model
        with a treatment they are the mean's trees, and rules on what these have beside the features are
        left out.

    """
    schema = law.draws.header.schema
    column_of, num_columns = columns_of_codes(law.draws.header), len(schema.columns)
    codes = np.require(law.with_columns(coded).codes, np.uint8, ["C", "W"])
    warm("usage")
    total = np.zeros((0, 0), np.int64)
    for forest in law.forests_to_explain()[1]:
        draws = forest.draws
        draws.check(len(codes))
        count = np.zeros((draws.num_draws, num_columns + 1), np.int64)
        scratch = np.empty((2, int(np.diff(draws.tree_start).max())), np.int64)
        arrays = (draws.feature, draws.cut, draws.missing_left)
        for start in track(range(0, codes.shape[1], ROWS), "inclusion"):
            part = np.ascontiguousarray(codes[:, start : start + ROWS])
            count_rows(draws.tree_start, draws.num_trees, *arrays, column_of, part, scratch, count)
        total = total + count[:, :-1] if total.size else count[:, :-1]
    return total[law.weights.spaced(law.draws.num_draws, len(total))]
