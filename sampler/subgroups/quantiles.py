"""Quantiles of scores that hold in every subgroup at once (Gibbs, Cherian and Candès 2025, arXiv 2305.12616).

A row's cell is the vector of its subgroups' indicators, the first of which is always 1. The threshold of a
cell is that of the full conformal set: the quantile regression on the indicators in which the new row lies
at plus infinity. It is a linear programme; where cells and dimensions are as many, each cell has ranks of
its own.
docs/maths.md#subgroups has the derivation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats

LESS = 1e-7  # of a row's mass, by which the new row counts less: of all solutions the smallest is found
FEASIBLE = 1e-10  # tolerances of the solver, smaller than that
ACTIVE = 1e-8  # residuals of rows on the fitted plane
ROUNDING = 1e-9  # of sums of weights


class ScoredRows(NamedTuple):
    """Calibration rows: scores and weights float64 [row], cells intp [row], indicators float64 [cell, d]."""

    scores: Floats
    weights: Floats
    cell: NDArray[np.intp]
    indicators: Floats


def independent_columns(matrix: Floats) -> NDArray[np.intp]:
    """Choose the columns that are not in the span of earlier ones, at most as many as there are rows."""
    chosen: list[int] = []
    for column in range(matrix.shape[1]):
        if np.linalg.matrix_rank(matrix[:, [*chosen, column]]) > len(chosen):
            chosen.append(column)
    return np.array(chosen, np.intp)


def threshold(rows: ScoredRows, wanted: Floats, share: float, new: float = 1.0) -> float:
    """Compute the largest score that a new row of a cell is allowed; infinite where none is too large.

    Parameters
    ----------
    rows
        Calibration rows.
    wanted
        float64 [d], the new row's indicators.
    share
        Share of new rows, in every subgroup, with a score up to their threshold.
    new
        Weight of the new row.

    Returns
    -------
    float
        The smallest value of the fitted plane at the new row, over all planes that minimise the weighted
        pinball loss with the new row at plus infinity.

    """
    kept = independent_columns(rows.indicators)
    if np.linalg.matrix_rank(np.vstack([rows.indicators, wanted])) > len(kept):
        return math.inf  # no row tells of this cell
    if len(kept) == len(rows.indicators):
        own = np.flatnonzero((rows.indicators == wanted).all(axis=1))
        if len(own):  # a partition: the other cells have coefficients of their own
            mine = rows.cell == own[0]
            return smallest(rows.scores[mine], rows.weights[mine], share, new)
    return _by_programme(rows._replace(indicators=rows.indicators[:, kept]), wanted[kept], share, new)


def smallest(scores: Floats, weights: Floats, share: float, new: float = 1.0) -> float:
    """Find the smallest score up to which the share of all weight lies, with the new row's at infinity."""
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weights[order]) >= share * (weights.sum() + new) - ROUNDING
    return float(scores[order][np.argmax(reached)]) if len(scores) and reached[-1] else math.inf


def _by_programme(rows: ScoredRows, wanted: Floats, share: float, new: float) -> float:
    """Solve the dual of the regression: each row's mass between -(1 - share) and share of its weight."""
    from scipy.optimize import linprog  # noqa: PLC0415  takes a third of a second

    plane = rows.indicators[rows.cell]
    solution = linprog(
        -rows.scores,
        A_eq=plane.T,
        b_eq=-(share - LESS) * new * wanted,
        bounds=np.stack([(share - 1) * rows.weights, share * rows.weights], axis=1),
        method="highs",
        options={"primal_feasibility_tolerance": FEASIBLE, "dual_feasibility_tolerance": FEASIBLE},
    )
    if solution.status == 2:
        return math.inf
    coefficients = -np.asarray(solution.eqlin.marginals)
    active = _active_rows(rows, coefficients)
    if len(active) == len(wanted):  # the same bits from every solver
        coefficients = np.linalg.solve(rows.indicators[rows.cell[active]], rows.scores[active])
    return float(wanted @ coefficients)


def _active_rows(rows: ScoredRows, coefficients: Floats) -> NDArray[np.intp]:
    """Choose rows on the fitted plane, one of each cell, whose indicators are independent."""
    away = np.abs(rows.scores - (rows.indicators @ coefficients)[rows.cell])
    near = np.flatnonzero(away <= ACTIVE * (1 + np.abs(rows.scores)))
    near = near[np.unique(rows.cell[near], return_index=True)[1]]
    return near[independent_columns(rows.indicators[rows.cell[near]].T)]
