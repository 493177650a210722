"""SHAP values: how much each column moves the prediction of a row, exact on every draw, with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.scalars import days_to_text
from sampler.data.schema import Schema
from sampler.data.table import read_rows
from sampler.errors import SettingsError
from sampler.kernels.jit import warm
from sampler.posterior.core.ensemble import chosen_of, columns_of_codes
from sampler.posterior.core.intervals import equal_tailed
from sampler.posterior.core.progress import track
from sampler.posterior.core.row_blocks import spaced
from sampler.posterior.explanations.work import shap_block
from sampler.posterior.kernels.shapley import MOST_PLAYERS, Trees, shapley_values
from sampler.posterior.laws.law import Law
from sampler.posterior.parts.forest_to_explain import ForestToExplain
from sampler.posterior.protocol import GameKind
from sampler.posterior.results.shap_values import ShapValues

GAMES = ("interventional", "path-dependent")
BACKGROUND_ROWS = 100


@dataclass(frozen=True)
class RowsToExplain:
    """Rows to explain, the background rows, and each coded column's column."""

    coded: Coded
    background: Coded
    column_of: NDArray[np.int64]
    num_columns: int


def explain(
    law: Law,
    coded: Coded,
    data: list[list[Any]],
    background: Coded,
    draws: NDArray[np.int64],
    level: float,
    game: GameKind,
    max_draws: int | None,
) -> ShapValues:
    """Compute the SHAP values of a posterior at rows with these cells, from some of the draws.

    See `Posterior.shap`, also for the SettingsError that it raises.
    """
    if game not in GAMES:
        raise SettingsError(
            f"game must be one of {', '.join(GAMES)}, not {game!r}", field="game", code="not_accepted"
        )
    if not background.num_rows:
        raise SettingsError(
            "background: there must be at least one row", field="background", code="not_accepted"
        )
    chosen = some_of(draws, max_draws)
    rows = RowsToExplain(
        law.with_columns(coded),
        law.with_columns(background.part(spaced(background.num_rows, BACKGROUND_ROWS))),
        columns_of_codes(law.draws.header),
        len(law.schema.columns),
    )
    scale, forests = law.forests_to_explain()
    by_class = [shap_values(forest, chosen, rows, game, level) for forest in track(forests, "SHAP values")]
    mean, lower, upper, base = (np.stack(part, axis=-1) for part in zip(*by_class, strict=True))
    base_lower, base_upper = equal_tailed(base, level)
    only = 0 if len(forests) == 1 else slice(None)
    return ShapValues(
        names=[column.name for column in law.schema.columns],
        values=mean[..., only],
        lower=lower[..., only],
        upper=upper[..., only],
        base_values=base.mean(axis=0)[only],
        base_lower=base_lower[only],
        base_upper=base_upper[only],
        data=data,
        level=level,
        draws=len(chosen),
        game=game,
        scale=scale,
        warnings=[*coded.warnings, *_of_some_draws(len(chosen), len(draws))],
        classes=law.classes,
        labels=coded.labels,
        inverse_link=law.inverse_link if only == 0 else None,
    )


def _of_some_draws(used: int, all_draws: int) -> list[str]:
    if used == all_draws:
        return []
    return [
        f"the values are of {used:,} of {all_draws:,} draws: with the base they add up to the mean of these "
        "(f), which differs a little from the prediction"
    ]


def some_of(draws: NDArray[np.int64], most: int | None) -> NDArray[np.int64]:
    """Choose at most so many draws, evenly spaced, or all; raise SettingsError for what is no number."""
    if most is None:
        return draws
    if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1:
        raise SettingsError(
            f"max_draws must be a whole number from 1, or None for all, not {most!r}",
            field="max_draws",
            code="out_of_range",
        )
    return draws[spaced(len(draws), most)]


def cells(X: Any, schema: Schema) -> list[list[Any]]:
    """List the cells of each of a model's columns in checked rows: numbers, text, None for missing."""
    table = read_rows(X)
    columns = []
    for column in schema.columns:
        raw = table.column(column.name)
        values = raw.cells if raw.numbers is None else raw.numbers.tolist()
        if column.kind == "date" and raw.numbers is not None:
            values = [None if math.isnan(value) else days_to_text(value) for value in raw.numbers.tolist()]
        columns.append(list(values or []))
    return columns


def shap_values(
    forest: ForestToExplain, chosen: NDArray[np.int64], rows: RowsToExplain, game: GameKind, level: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Compute SHAP values of one sum of trees.

    Parameters
    ----------
    forest
        The sum of trees.
    chosen
        Positions of the draws, int64.
    rows
        Rows to explain and background rows.
    game
        "interventional": a column outside a coalition takes its values from the background rows; or
        "path-dependent": it goes both ways at its splits, by the shares of background rows there.
    level
        Probability of the intervals.

    Returns
    -------
    tuple
        Mean, lower and upper ends, float64 [row, column], and the base of each draw, float64 [draw]: f
        averaged over the background rows.

    Raises
    ------
    SettingsError
        For trees with a path of more than 62 distinct columns.
    ValueError
        For rows or leaf values that don't fit the trees.
    InterruptedWorkError
        When the computation was cancelled (`sampler.interrupt`).

    """
    forest.draws.check(len(rows.column_of))
    chosen = chosen_of(chosen, forest.draws.num_draws)
    if not len(forest.leaf) == forest.draws.num_nodes or {len(rows.column_of)} != {
        len(rows.coded.codes),
        len(rows.background.codes),
    }:
        raise ValueError("rows or leaves don't fit the trees")
    trees = Trees(
        forest.draws.num_trees,
        forest.draws.tree_start,
        forest.draws.feature,
        forest.draws.cut,
        forest.draws.missing_left,
        np.ascontiguousarray(forest.leaf),
        rows.column_of,
    )
    background, num_rows = rows.background.codes, rows.coded.num_rows
    line = None if forest.slopes is None else forest.slopes.apart(rows.coded, rows.background, chosen)
    mean = np.empty((num_rows, rows.num_columns))
    lower, upper = np.empty_like(mean), np.empty_like(mean)
    base = np.zeros(len(chosen))
    width = shap_block(len(chosen), rows.num_columns)
    warm("shapley")
    for start in track(range(0, num_rows, width), "SHAP values"):
        block = slice(start, min(start + width, num_rows))
        codes = np.require(rows.coded.codes[:, block], np.uint8, ["C", "W"])
        phi = np.zeros((len(chosen), rows.num_columns, codes.shape[1]))
        base = np.zeros(len(chosen))
        if not shapley_values(trees, chosen, codes, background, game == "path-dependent", phi, base):
            raise SettingsError(
                f"a tree tests more than {MOST_PLAYERS} different columns on the way to a leaf: there are no "
                "SHAP values of such trees",
                field=None,
                code="not_applicable",
            )
        if line is not None:  # a straight line's value is its distance from that of the background
            for column, slope, z in zip(line.columns, line.slopes.T, line.apart[:, block], strict=True):
                phi[:, rows.column_of[column]] += np.multiply.outer(slope, z)
            base += line.base
        mean[block] = phi.mean(axis=0).T
        ends = equal_tailed(phi, level, own=True)
        lower[block], upper[block] = ends[0].T, ends[1].T
    return mean, lower, upper, forest.offset + base
