"""Work of explanations, in tenths of a nanosecond of a core: the rule for what is affordable.

`tests/unit/app/test_explanation_work.py` measures it.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from sampler.noise import NOISES
from sampler.posterior.explanations.set_sums import OUTCOMES, needs_outcomes
from sampler.posterior.kernels.shapley import FEW_PLAYERS

if TYPE_CHECKING:
    from sampler.posterior.explanations.row_sets import AggregateRequest
    from sampler.posterior.laws.law import Law

MOST = 2e10  # of one answer over HTTP: about two seconds of a core
SHAP_CELLS = 1 << 23  # draws times columns times rows that SHAP values hold at once: 64 MB
H_ROWS = 50  # of Friedman's H at most, since it needs their square
H_COLUMNS = 10  # by default
SUM = 60  # per draw at a row: to convert the sum of its trees and to add it up
OUTCOME = 500  # per simulated outcome
FIGURE = 250  # per draw of a figure of which quantiles are taken
# Per leaf and draw: to compare the background rows with its path, and each row; each row where the path is
# too long for a table. A tree of more leaves than DEEP has mostly such paths.
LEAF, LEAF_ROW, DEEP_LEAF_ROW, DEEP = 8000, 10, 2000, 16
# Per draw at a row, of a new outcome: its density or cdf at a value, a quantile, the continuous ranked
# probability score, and that of heavy tails.
POINT, QUANTILE, CRPS, CRPS_OF_TAILS = 500, 20_000, 20_000, 260_000
# Per draw, row and outcome of several: quantiles, and simulated outcomes for regions; given others
JOINT, JOINT_GIVEN = 4_000, 20_000
TIMES = 25  # of a survival curve, that its median and its mean take as long as


def num_figures(law: Law) -> int:
    """Return the number of figures at a row: one, or the probability of each of more than two classes."""
    return len(law.classes) if law.classes is not None and len(law.classes) > 2 else 1


def of_row(law: Law, draws: int) -> float:
    """Estimate the work of f at one row in each of the draws."""
    return draws * (law.tree_work + law.own_work + SUM * num_figures(law))


def of_figures(law: Law, draws: int) -> float:
    """Estimate the work of the quantiles of the figures of a row, from their draws."""
    return float(draws * FIGURE * num_figures(law))


def contrast_work(law: Law, draws: int, rows: int) -> float:
    """Estimate the work of a contrast: each row by two settings, its quantiles and weights."""
    return 2 * rows * (of_row(law, draws) + of_figures(law, draws))


def effects_work(law: Law, draws: int, rows: int) -> float:
    """Estimate the work of effects: each row in two arms, for averages, for the tree and by further arm."""
    return max(2, len(law.draws.header.arms)) * contrast_work(law, draws, rows)


def aggregate_work(law: Law, draws: int, request: AggregateRequest, rows: int, *, weighted: bool) -> float:
    """Estimate the work of figures of sets of rows, as many as there are rows if any are named."""
    each = of_row(law, draws) + (2 * of_figures(law, draws) if request.by else 0)
    if needs_outcomes(law, request, weighted=weighted):
        each += ceil(OUTCOMES / draws) * (of_row(law, draws) + draws * OUTCOME)
    return rows * each


def accumulation_work(law: Law, draws: int, rows: int) -> float:
    """Estimate the work of accumulated effects: each row at both ends of its step, added up."""
    return rows * (2 * of_row(law, draws) + of_figures(law, draws))


def rows_to_average(law: Law, draws: int, points: int, curves: int, most: float) -> float:
    """Estimate of how many rows the partial dependence at some points is affordable, with curves of some."""
    for_figures = points * (
        3 * of_figures(law, draws) + curves * (of_row(law, draws) + of_figures(law, draws))
    )
    return (most - for_figures) / (points * of_row(law, draws))


def interactions_work(law: Law, draws: int, features: int, rows: int) -> float:
    """Estimate the work of interactions: f at each row with the values of each, of a feature or of two."""
    return features * (features + 1) / 2 * rows * rows * of_row(law, draws)


def usage_work(law: Law, draws: int, rows: int) -> float:
    """Estimate the work of inclusion by rows: the rules of each tree that a row reaches."""
    return rows * of_row(law, draws)


def survival_work(law: Law, draws: int, rows: int, times: int) -> float:
    """Estimate the work of survival curves."""
    return rows * (of_row(law, draws) + (times + TIMES) * 1.4 * of_figures(law, draws))


def distribution_work(law: Law, draws: int, rows: int, points: int, quantiles: int, scores: int) -> float:
    """Estimate the work of distributions at `points` values, of quantiles and of CRPS."""
    noise = NOISES.get(str(law.draws.header.settings.get("noise")))
    scored = CRPS_OF_TAILS if noise is not None and noise.heavy_tails else CRPS
    each = POINT * points + QUANTILE * quantiles + scored * scores
    return rows * (of_row(law, draws) + draws * each)


def joint_work(law: Law, draws: int, rows: int, outcomes: int, *, given: bool) -> float:
    """Estimate the work of predictions of several outcomes together, or of some given others."""
    return rows * outcomes * (of_row(law, draws) + draws * (JOINT_GIVEN if given else JOINT))


def shap_work(law: Law, draws: int, rows: int) -> float:
    """Estimate the work of SHAP values: each leaf for each block of rows, each row at it, and quantiles."""
    columns, figures = len(law.schema.columns), num_figures(law)
    trees = law.num_trees * figures / law.leaf_counts.shape[2]  # explained, of those that are counted
    leaves, deep = (
        float(np.sum(law.leaf_counts, where=where)) * trees / law.leaf_counts[:, :, 0].size
        for where in (True, law.leaf_counts > DEEP)
    )
    each = LEAF_ROW * leaves + (DEEP_LEAF_ROW * deep if columns > FEW_PLAYERS else 0)
    blocks = ceil(rows / shap_block(draws, columns))
    of_leaves = draws * (blocks * LEAF * leaves + rows * each)
    return float(of_leaves + rows * columns * of_figures(law, draws))


def shap_block(draws: int, columns: int) -> int:
    """Return the number of rows whose SHAP values are computed at once."""
    return max(1, SHAP_CELLS // (draws * columns))
