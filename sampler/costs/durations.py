"""Estimated duration of a fit on one core, by a formula compared with real fits in `lab/fit_cost.py`.

Constants are seconds, measured on Friedman's function with 10 to 300 columns and 300 to a million rows. They
exclude waiting in the queue and, once per machine, the compilation of the kernels (docs/benchmarks.md, "Cold
start").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampler.costs.part import costs, trees_of_parts
from sampler.definitions.data import CENSORING
from sampler.definitions.tree_laws import entries_of_law
from sampler.families import FAMILIES, class_line_period
from sampler.methods import METHODS
from sampler.noise import AUTO, CONSTANT, FOREST, FOREST_ROWS, NOISE_TREES, NOISES
from sampler.posterior.recalibration.learning import FEWEST
from sampler.posterior.stop_rules import next_look
from sampler.preparation.encode import KEPT_CELLS
from sampler.preparation.quick_choice import MOST_CELLS
from sampler.preparation.quick_regression import MOST_TERMS

# Per tree update, and per row of it, by move. `rule` comes on top of the others; a restructure searches for
# every new split of each node, with a particle at every row of the tree.
MOVE_SECONDS: dict[str, tuple[float, float]] = {
    "grow": (4.3e-7, 1.7e-10),
    "prune": (4.3e-7, 1.7e-10),
    "change_nog": (5e-7, 4e-10),
    "change": (7e-7, 1.8e-9),
    "swap": (7e-7, 1.8e-9),
    "rule": (2.9e-6, 1.1e-9),
    "restructure": (1e-4, 4.5e-7),  # with ten columns
}
UNKNOWN = MOVE_SECONDS["change"]  # for a move without a measured time
LOG_LINEAR = (1.5e-6, 7e-10)  # a log-linear tree's update
LINEAR_CELL = 3e-9  # linear part: per iteration, row and term (and class)
LINES_ROW = 2.5e-8  # linear parts of classes: per iteration that draws slopes, row and class
LABEL_ROW = 3e-8  # a mixture: drawing a row's component
SCALE_ROW = 8e-8  # heavy tails: drawing a row's scale, and its share of drawing the degrees of freedom
PARTICLE_ROW = 3.4e-9  # particle Gibbs, per tree update, particle and row
USUAL_LEAVES, TRIED = 2.5, 0.2  # of trees by depth; what a rule tried takes of an update
SHORT_FITS = 800  # iterations with noise by row that take as long as the short fits that choose the noise
SHORT_ROWS = 667  # rows of each, at most
WEIGHTED = 2.0  # factor on the time per row when rows have weights
# Single trees: per iteration; per iteration that changes rules, column, and cell (row and column), with an
# extra cost while the tree is young and its nodes are large; per iteration that grows or prunes, and cell.
SINGLE, CHANGED_COLUMN, CHANGED_CELL, GROWN_CELL = 3e-6, 8e-7, 4.6e-10, 4e-11
MANY_COLUMNS = 20  # with fewer, nodes are smaller: a cell takes less, by the root of their share
RESTRUCTURED_ROW, RESTRUCTURED_CELL = 1.9e-7, 3.2e-8  # per restructure of one tree
YOUNG, YOUNG_CELL = 3000, 1.2e-9  # number of first iterations, and their extra time per cell
# Soft splits: per iteration and row; of any direction also per split and column, these and ten more.
SOFT_ROW, DIRECTED_COLUMNS = {"rjhmc-df": 1.8e-6, "rjhmc-dfi": 1.5e-8}, 10
# Splits of any direction: their number with 1,000 rows and one column, the powers of the rows and of the
# columns by which it grows and shrinks, and the largest.
SPLITS, SPLITS_GROWTH, SPLITS_COLUMNS, MOST_SPLITS = 35.0, 0.34, 0.75, 13.0
SOFT_SEARCH = 4.6  # duration of a burn-in iteration relative to a later one
SEARCH_ROW, TUNED = 1e-6, 200  # per draw of a search and row; additional tuning draws
FILTERED = (2e-4, 3.9e-7)  # per particle of a filter, and per cell (row and column) of it
# Per row, iteration and sum of trees, by the kind of outcomes.
LATENT_ROW = {"two": 4e-8, "classes": 2e-8, "ordered": 4e-7, "counts": 2e-8}
PREPARE, GRAM = 1.9e-7, 1.1e-10  # per row and coded column, per row and columns squared
PREPARE_LARGE = 4.2e-7  # the former where columns are read again whenever they are needed
HAND_OVER = 0.2  # from one unit of work to the next of a fit when its stop rules are checked
BEGIN, KEEP = 0.05, 2e-5  # per unit of work, and per kept draw
JUDGE, JUDGE_TREE = 1.2e-4, 5e-8  # per kept draw at the reference rows, and per tree of it
SCORE, SCORE_TREE = 8e-8, 7e-10  # per held-out row and kept draw, and per tree of it
# For the recalibration: besides, per row and column, and training rows that are left out in turn.
RECALIBRATE, RECALIBRATE_CELL, LEFT_OUT = 0.2, 1.5e-5, 1200
NOT_RECALIBRATED = ("groups", "treatment", "adoption", "new_rows", "outcomes")  # of which there is none
CHECK, CHECK_TREE, CHECKED = 3e-7, 3.5e-10, 2000  # for calibration: the same, and its most rows


def prepare_seconds(settings: Mapping[str, Any], rows: int, columns: int) -> float:
    """Estimate the seconds a worker process takes to prepare the data, once for all its chains."""
    of_cell = PREPARE_LARGE if rows * (columns + 1) > KEPT_CELLS else PREPARE
    beside = sum(own.prepare_seconds(settings, rows) for own in costs(settings))
    if settings.get("noise") == AUTO and likely_noise(settings, rows) == FOREST:
        lengths = {"noise": FOREST, "num_burnin": SHORT_FITS, "num_draws": 0}
        beside += chain_seconds({**settings, **lengths}, min(2 * rows // 3, SHORT_ROWS), columns)
    return rows * (of_cell * (columns + 1) + GRAM * columns**2) + beside


def likely_noise(settings: Mapping[str, Any], rows: int) -> str:
    """Return the kind of noise, where the data choose it the one that they mostly choose."""
    noise: str = settings.get("noise") or CONSTANT
    if noise != AUTO:
        return noise
    apart = any(settings.get(role) for role in ("groups", "treatment", "prior_only", *CENSORING))
    return CONSTANT if apart or rows < FOREST_ROWS else FOREST


def tree_seconds(settings: Mapping[str, Any]) -> tuple[float, float]:
    """Estimate the seconds of a tree's update, and of a row of it, by family and moves."""
    kernels = FAMILIES[settings.get("family") or "gaussian"].kernels
    return LOG_LINEAR if "log-linear-trees" in kernels else update_seconds(settings)


def num_forests(settings: Mapping[str, Any]) -> int:
    """Return the number of sums of trees of num_trees trees each: one for each class or outcome."""
    return int(settings.get("classes") or len(settings.get("outcomes") or ()) or 1)


def chain_seconds(settings: Mapping[str, Any], rows: int, columns: int) -> float:
    """Estimate the seconds of one chain (or one filter run) on prepared data."""
    settings = {**settings, "noise": likely_noise(settings, rows)}
    draws, moves = int(settings["num_draws"]), settings["moves"]
    if {"optimal", "prior"} & set(moves):
        each, of_cell = FILTERED
        return BEGIN + draws * (each + of_cell * rows * columns)
    if search := settings.get("search"):
        steps: float = search["iterations"] * search["chains"] * (search["draws"] + TUNED)
        return BEGIN + steps * SEARCH_ROW * rows
    burnin, kept = int(settings["num_burnin"]), draws * int(settings["thin"])
    if settings["method"] in SOFT_ROW:
        each = _soft_row_seconds(settings["method"], rows, columns)
        return BEGIN + KEEP * draws + (SOFT_SEARCH * burnin + kept) * each * rows
    if METHODS[settings["method"]].engine.update_seconds is None:
        return BEGIN + KEEP * draws + _tree_seconds(settings, rows, columns, burnin + kept)
    family = FAMILIES[settings.get("family") or "gaussian"]
    update, of_row = tree_seconds(settings)
    update += sum(own.update_seconds(settings, columns) for own in costs(settings))
    forests, trees = num_forests(settings), int(settings["num_trees"])
    latent = 0.0 if family.target == "numbers" else LATENT_ROW[family.target] * rows * forests
    of_point = trees if family.point else 0
    each = (forests * trees + family.more_trees + of_point) * (update + of_row * rows) + latent
    of_noise = NOISES[settings["noise"]]
    if of_noise.heavy_tails:
        each += SCALE_ROW * rows
    if of_noise.mixture:
        each += LABEL_ROW * rows
    if of_noise.forest:
        own, own_row = LOG_LINEAR
        each += NOISE_TREES * (own + own_row * rows)
    if may_have_line(settings, rows, columns):  # half of what it takes where it isn't sure
        sure = settings["linear"] is True or forests > 1 or settings.get("groups")
        lines = LINEAR_CELL * rows * columns * forests * (1.0 if sure else 0.5)
        if forests > 1:
            lines = (lines + LINES_ROW * rows * forests) / class_line_period(rows, columns, trees)
        each += lines
    each += sum(own.sweep_seconds(settings, rows, columns) for own in costs(settings))
    return BEGIN + KEEP * draws + (burnin + kept) * each


def may_have_line(settings: Mapping[str, Any], rows: int, columns: int) -> bool:
    """Tell whether a fit to such rows may have a linear part."""
    linear = settings.get("linear") or False
    return linear is True or (linear == "auto" and columns <= MOST_TERMS and rows * columns <= MOST_CELLS)


def _soft_row_seconds(method: str, rows: int, columns: int) -> float:
    """Estimate the seconds that a row takes in an iteration of one tree with soft splits."""
    if METHODS[method].variant == "one-column":
        return SOFT_ROW[method]
    splits = float(SPLITS * (rows / 1000) ** SPLITS_GROWTH / columns**SPLITS_COLUMNS)
    splits = min(max(splits, 1.0), MOST_SPLITS)
    return SOFT_ROW[method] * splits * (DIRECTED_COLUMNS + columns)


def _tree_seconds(settings: Mapping[str, Any], rows: int, columns: int, iterations: int) -> float:
    """Estimate the seconds that `iterations` iterations of one tree with sharp splits take."""
    share = settings["moves"].get
    changing, growing = share("change", 0) + share("swap", 0), share("grow", 0) + share("prune", 0)
    weighed = rows * (WEIGHTED if settings.get("weights") else 1.0)
    cells = weighed * columns * min(1.0, columns / MANY_COLUMNS) ** 0.5
    each = (
        SINGLE + changing * (CHANGED_COLUMN * columns + CHANGED_CELL * cells) + growing * GROWN_CELL * cells
    )
    restructured = weighed * (RESTRUCTURED_ROW + RESTRUCTURED_CELL * columns)
    each += share("restructure", 0) * (MOVE_SECONDS["restructure"][0] + restructured)
    return float(iterations * each + min(iterations, YOUNG) * changing * YOUNG_CELL * cells)


def update_seconds(settings: Mapping[str, Any]) -> tuple[float, float]:
    """Return the seconds of one tree update in a sum of trees, and of each row of it, with a fit's moves."""
    update, of_row = 0.0, 0.0
    for name, share in settings["moves"].items():
        known = (
            (0.0, PARTICLE_ROW * int(settings["particles"]) * law_factor(settings.get("prior") or {}))
            if name == "pg"
            else MOVE_SECONDS.get(name, UNKNOWN)
        )
        update, of_row = update + share * known[0], of_row + share * known[1]
    weighted = settings.get("weights") or NOISES[settings.get("noise") or "constant"].weighs_rows
    return update, of_row * (WEIGHTED if weighted else 1.0)


def law_factor(prior: Mapping[str, Any]) -> float:
    """Return how much longer particles take with a prior of trees than with that by depth."""
    trees = entries_of_law(prior)
    leaves = (trees.get("num_leaves", USUAL_LEAVES) / USUAL_LEAVES) ** 0.5  # the data have a say too
    return float(leaves + TRIED * trees.get("tries", 0))


def looks_seconds(stop: Mapping[str, Any], chains: int, slots: int) -> float:
    """Estimate the seconds between units when the stop rules are checked until the maximum of draws.

    Each check is a unit of its own, after which every chain is claimed again.
    """
    draws, looks = stop["first_look"], 1
    while draws < stop["max_draws"]:
        draws, looks = next_look(draws, stop["max_draws"]), looks + 1
    return HAND_OVER * looks * (-(-chains // max(slots, 1)) + 1)


def _may_recalibrate(settings: Mapping[str, Any]) -> bool:
    """Tell whether held-out rows may recalibrate the law; see `assessment.recalibrating.why_not`."""
    apart = any(settings.get(name) for name in (*CENSORING, *NOT_RECALIBRATED))
    numbers = settings.get("family") == "gaussian" and settings.get("noise") != "mixture"
    return settings.get("recalibrate", "auto") == "auto" and numbers and not apart


def finish_seconds(settings: Mapping[str, Any], rows: int, columns: int) -> float:
    """Estimate the seconds of the verdict and of the scores on held-out rows."""
    trees = num_forests(settings) * int(settings["num_trees"]) + trees_of_parts(settings)
    held = rows * float(settings.get("holdout") or 0.0)
    draws = int(settings["num_chains"]) * int(settings["num_draws"])
    judging = BEGIN + draws * (JUDGE + JUDGE_TREE * trees)
    if not held:
        return judging
    checked = min(held, CHECKED)
    of_draw = held * (SCORE + SCORE_TREE * trees) + checked * (CHECK + CHECK_TREE * trees)
    if held >= FEWEST and _may_recalibrate(settings):
        left_out = min(rows - held, LEFT_OUT)
        of_draw += left_out * (SCORE + SCORE_TREE * trees)
        judging += RECALIBRATE + RECALIBRATE_CELL * (left_out + min(held, CHECKED)) * min(columns, 60)
    return judging + prepare_seconds({}, rows, columns) + draws * of_draw
