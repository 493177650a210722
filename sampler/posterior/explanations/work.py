"""Work of explanations, in tenths of a nanosecond of a core: the rule for what is affordable.

`tests/unit/app/test_explanation_work.py` measures it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod

import numpy as np

from sampler.noise import NOISES
from sampler.posterior.explanations.contrasts import MOST_GROUPS, By
from sampler.posterior.explanations.effect_measures import CURVE_CELLS, FEWEST_DRAWS
from sampler.posterior.explanations.row_sets import AggregateRequest
from sampler.posterior.explanations.set_sums import OUTCOMES, needs_outcomes
from sampler.posterior.kernels.shapley import FEW_PLAYERS
from sampler.posterior.laws.law import Law

MOST = 2e10  # of one answer over HTTP: about two seconds of a core
CALL = 1e7  # of any answer, however small
SHAP_CELLS = 1 << 23  # draws times columns times rows that SHAP values hold at once: 64 MB
H_ROWS = 50  # of Friedman's H at most, since it needs their square
H_COLUMNS = 10  # by default
SUM = 60  # per draw at a row: to convert the sum of its trees and to add it up
TOGETHER = 0.7  # of the work of a row by itself, where all are added up at once
OUTCOME, REPEAT = 500, 5e6  # per simulated outcome, and per outcome of each draw, for all rows
OF_TABLE = 0.005  # of the work of a continuous ranked probability score, by the table of a recalibrated law
RECALIBRATED = 4.0  # times the work of an outcome where the law is recalibrated: its moments and its table
# Per set of what is expected, and of new outcomes; row of one; draw of a row for a population
SET, SET_OF_NEW, BY_ROW, POPULATION = 30_000, 160_000, 8_000, 250
# Of effects: per row, per answer, and for each two groups, where a number's quarters are four
EFFECT_ROW, EFFECTS, TWO_GROUPS, QUARTERS = 40_000, 1.5e8, 80_000, 4
FIGURE = 250  # per draw of a figure of which quantiles are taken
# Per leaf and draw: to compare the background rows with its path, and each row; each row where the path is
# too long for a table. A tree of more leaves than DEEP has mostly such paths.
LEAF, LEAF_ROW, DEEP_LEAF_ROW, DEEP = 8000, 10, 700, 16
# Per draw at a row, of a new outcome: its density or cdf at a value, a quantile, and the continuous ranked
# probability score; of normal noise, heavy tails, mixtures of normals, and counts.
NORMAL, TAILS, MIXTURE, COUNTS = (
    (200, 3_000, 18_000),
    (200, 4_500, 180_000),
    (700, 13_000, 200_000),
    (2_000, 100, 150),
)
STEP, STEPS = 300, 300  # of the third where normal noise differs by row: of its integral, or pair of draws
SEARCH = 1e8  # for a quantile, however few the rows are
# Per draw, row and unknown outcome of several: quantiles, and simulated outcomes for regions; given others.
# Where noise differs by row. Per pattern of known outcomes.
JOINT, JOINT_GIVEN, JOINT_UNEVEN, PATTERN = 4_000, 20_000, 12_000, 2e7
USED = 35  # per tree, draw and row: to find the rules that the row reaches
PAIRS = 10_000  # per tree and draw: to count pairs of rules
PLAIN, VARYING = 20, 0.4  # per draw at a row and point of a sum of trees, and share of trees that vary by it
# Of effects on times: per draw at a row, means up to a time in both arms; two curves of 30 times, and per row
UNTIL, CURVE_CELL, CURVE_ROW = 5_000, 9_000, 90_000
TIMES = 25  # of a survival curve, that its median and its mean take as long as


def num_figures(law: Law) -> int:
    """Return the number of figures at a row: one, or the probability of each of more than two classes."""
    return len(law.classes) if law.classes is not None and len(law.classes) > 2 else 1


def of_row(law: Law, draws: int) -> float:
    """Estimate the work of f at one row in each of the draws."""
    return law.row_work + draws * (law.tree_work + law.own_work + SUM * num_figures(law))


def of_figures(law: Law, draws: int) -> float:
    """Estimate the work of the quantiles of the figures of a row, from their draws."""
    return float(draws * FIGURE * num_figures(law))


def reading(law: Law, rows: int) -> float:
    """Estimate the work of an answer besides its figures: to read the rows, and once."""
    return CALL + rows * law.reading_work


def contrast_work(law: Law, draws: int, rows: int) -> float:
    """Estimate the work of a contrast: each row by two settings, its quantiles and weights."""
    return reading(law, rows) + 2 * rows * (of_row(law, draws) + of_figures(law, draws))


def effects_work(law: Law, draws: int, rows: int, *, by: By | None = None) -> float:
    """Estimate the work of effects: each row in two arms, for averages, for the tree and by further arm."""
    arms = max(2, len(law.draws.header.arms))
    alone = law.adds_effect and law.effects is not None and law.effects.design.kind == "bcf"
    further = 0 if alone else 4 + 2 * (arms - 1) * (arms > 2)  # evaluations that need propensities too
    groups = 0 if by is None else _most_groups(law, by)
    of_rows = rows * (EFFECT_ROW + (arms - 1 + further) * law.row_work)
    if "event" in law.draws.header.roles:
        cells = min(draws * rows, max(CURVE_CELLS, FEWEST_DRAWS * rows))
        of_rows += UNTIL * draws * rows + CURVE_CELL * cells + CURVE_ROW * rows
    return EFFECTS + TWO_GROUPS * groups**2 + of_rows + arms * contrast_work(law, draws, rows)


def _most_groups(law: Law, by: By) -> int:
    """Return how many groups there are at most: of a column that the model doesn't have, any number."""
    known = (*law.schema.columns, *law.schema.groups)
    levels = {each.name: len(each.levels) or QUARTERS for each in known}
    cuts = by if isinstance(by, Mapping) else dict.fromkeys([by] if isinstance(by, str) else by)
    parts = [levels.get(name, MOST_GROUPS) if at is None else len(at) + 1 for name, at in cuts.items()]
    return min(prod(parts), MOST_GROUPS)


def aggregate_work(
    law: Law, draws: int, request: AggregateRequest, rows: int, *, weighted: bool, sets: int | None = None
) -> float:
    """Estimate the work of figures of so many sets of rows; None: as many as rows, if any are named."""
    count = min(rows, (rows if request.by else 1) if sets is None else sets)
    each = of_row(law, draws) * (1.0 if request.by or request.population else TOGETHER)
    each += (BY_ROW if request.by else 0) + draws * POPULATION * request.population
    of_set = (SET_OF_NEW if request.predictive else SET) + 2 * of_figures(law, draws)
    work = reading(law, rows) + rows * each + count * of_set
    if needs_outcomes(law, request, weighted=weighted):
        once = of_row(law, draws) + draws * (law.noise_work + OUTCOME)
        once *= 1.0 if law.recalibration is None else RECALIBRATED
        arms = max(2, len(law.draws.header.arms))  # each but one has trees of its own, which are called apart
        work += ceil(OUTCOMES / draws) * (REPEAT * arms / 2 + rows * once)
    return work


def accumulation_work(law: Law, draws: int, rows: int) -> float:
    """Estimate the work of accumulated effects: each row at both ends of its step, added up."""
    return reading(law, rows) + rows * 2 * of_row(law, draws)


def rows_to_average(law: Law, draws: int, points: int, curves: int, most: float) -> float:
    """Estimate of how many rows the partial dependence at some points is affordable, with curves of some."""
    for_figures = points * (
        3 * of_figures(law, draws) + curves * (of_row(law, draws) + of_figures(law, draws))
    )
    plain = law.average_of(np.arange(1)) is not None  # trees that don't split on the features count once
    each = draws * (PLAIN + VARYING * law.tree_work) if plain else of_row(law, draws)
    return (most - CALL - for_figures) / (law.reading_work + points * each)


def interactions_work(law: Law, draws: int, features: int, rows: int) -> float:
    """Estimate the work of interactions: f at each row with the values of each, of a feature or of two.

    Rules are counted in all draws.
    """
    of_trees = draws * (law.tree_work + SUM)
    return CALL + PAIRS * law.leaf_counts.size + features * (features + 1) / 2 * rows * rows * of_trees


def usage_work(law: Law, draws: int, rows: int) -> float:
    """Estimate the work of inclusion by rows: the rules of each tree that a row reaches."""
    return CALL + rows * draws * (USED * law.tree_work + SUM)


def survival_work(law: Law, draws: int, rows: int, times: int) -> float:
    """Estimate the work of survival curves."""
    each = of_row(law, draws) + (times + TIMES) * 1.4 * of_figures(law, draws)
    return reading(law, rows) + rows * each


def distribution_work(law: Law, draws: int, rows: int, points: int, quantiles: int, scores: int) -> float:
    """Estimate the work of distributions at `points` values, of quantiles and of CRPS."""
    noise = NOISES.get(str(law.draws.header.settings.get("noise")))
    tails, mixture = (
        noise is not None and noise.heavy_tails,
        law.draws.header.settings.get("noise") == "mixture",
    )
    point, quantile, score = COUNTS if law.counts else MIXTURE if mixture else TAILS if tails else NORMAL
    score = STEP * min(draws, STEPS) if law.noise_differs else score
    by_table = 1.0 if law.recalibration is None else OF_TABLE
    each = point * points + quantile * quantiles + score * by_table * scores
    once = SEARCH if quantiles and not law.counts else 0
    return reading(law, rows) + once + rows * (of_row(law, draws) + draws * (law.noise_work + each))


def joint_work(
    law: Law,
    draws: int,
    rows: int,
    outcomes: int,
    *,
    given: bool,
    unknown: float | None = None,
    patterns: int = 1,
) -> float:
    """Estimate the work of predictions of several outcomes together, or of some given others.

    `unknown` are the outcomes of a row that aren't known, on average, in so many patterns.
    """
    each = JOINT_GIVEN if given else JOINT_UNEVEN if law.noise_differs else JOINT
    free = draws * each * (outcomes if unknown is None else unknown)
    of_patterns = PATTERN * min(patterns, rows)
    return of_patterns + outcomes * (reading(law, rows) + rows * of_row(law, draws)) + rows * free


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
    return float(reading(law, rows) + of_leaves + rows * columns * of_figures(law, draws))


def shap_block(draws: int, columns: int) -> int:
    """Return the number of rows whose SHAP values are computed at once."""
    return max(1, SHAP_CELLS // (draws * columns))
