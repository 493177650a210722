"""SHAP values: how much each column moves the prediction of a row, exact on every draw, with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sampler import interrupt
from sampler.data.scalars import days_to_text, number_to_text
from sampler.data.table import read_rows
from sampler.errors import SettingsError
from sampler.kernels.jit import warm
from sampler.posterior.display.shap_plots import draw_beeswarm, draw_waterfall
from sampler.posterior.display.tabular import shap_columns, to_pandas
from sampler.posterior.explanations.partial_dependence import spaced
from sampler.posterior.intervals import equal_tailed
from sampler.posterior.kernels.shapley import MOST_PLAYERS, Trees, shapley_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.data.schema import Schema
    from sampler.posterior.kinds.slopes import Slopes
    from sampler.posterior.posterior_draws import PosteriorDraws
    from sampler.storage.draws import Draws

    Floats = NDArray[np.float64]

GameKind = Literal["interventional", "path-dependent"]
GAMES = ("interventional", "path-dependent")
BACKGROUND_ROWS = 100
MAX_CELLS = 1 << 21  # draws times columns times rows of a block: 16 MB


@dataclass(frozen=True)
class ShapValues:
    """SHAP values of rows: means and intervals over draws; a row's values and the base add up to f.

    Attributes
    ----------
    names
        Names of the columns.
    values, lower, upper
        float64 [row, column]; for more than two classes [row, column, class].
    base_values, base_lower, base_upper
        float64 [], or [class]: f averaged over the background rows.
    data
        The rows as given, a list for each column; of reference rows each number is the middle of those that
        the model doesn't tell from it.
    level
        Probability of the intervals.
    draws
        Number of draws used, of all chains.
    game
        "interventional" or "path-dependent".
    scale
        What the values add up to, in words.
    warnings
        Warnings about the rows.
    classes
        Names of the classes; None for numbers.
    labels
        Labels of the rows (an index of pandas), which `to_pandas` keeps; None for rows without.

    """

    names: list[str]
    values: Floats
    lower: Floats
    upper: Floats
    base_values: Floats
    base_lower: Floats
    base_upper: Floats
    data: list[list[Any]]
    level: float
    draws: int
    game: GameKind
    scale: str
    warnings: list[str]
    classes: tuple[str, ...] | None = None
    labels: Any = field(default=None, repr=False, compare=False)

    def to_pandas(self) -> Any:
        """Return a data frame [row] with each feature's mean value, of several classes each class's."""
        return to_pandas(shap_columns(self), self.labels)

    @property
    def f(self) -> Floats:
        """Posterior mean at each row over these draws, float64 [row], or [row, class]: base plus values."""
        return np.asarray(self.base_values + self.values.sum(axis=1))

    def waterfall(self, row: int = 0, ax: Any = None) -> Any:
        """Draw with matplotlib how the columns of a row lead from the base to f, and return the axes."""
        return draw_waterfall(self, row, ax)

    def beeswarm(self, ax: Any = None) -> Any:
        """Draw all rows' values by feature with matplotlib, and return the axes."""
        return draw_beeswarm(self, ax)

    def explanation(self) -> Any:
        """Convert to the `shap.Explanation` that shap's plots take; needs the package shap.

        Its `lower_bounds` and `upper_bounds` are the ends of the intervals. Raises ImportError without shap.
        """
        try:
            shap = import_module("shap")
        except ImportError:
            raise ImportError("explanation() needs the package shap: pip install shap") from None
        data = np.empty((len(self.values), len(self.names)), dtype=object)
        for j, column in enumerate(self.data):
            data[:, j] = column
        return shap.Explanation(
            values=self.values,
            base_values=np.broadcast_to(self.base_values, (len(self.values), *self.base_values.shape)).copy(),
            data=data,
            feature_names=list(self.names),
            lower_bounds=self.lower,
            upper_bounds=self.upper,
        )

    def __str__(self) -> str:
        size = np.abs(self.values).mean(axis=tuple(i for i in range(self.values.ndim) if i != 1))
        width = max(map(len, self.names)) + 2
        rows = (
            f"{self.names[j]:{width}}{number_to_text(size[j]):>12}" for j in np.argsort(-size, kind="stable")
        )
        return "\n".join([f"{'':{width}}{'mean |SHAP|':>12}", *rows])


@dataclass(frozen=True)
class ForestToExplain:
    """A sum of trees to explain.

    Attributes
    ----------
    draws
        Trees of all draws.
    leaf
        float64 [node], leaf values in the unit of the answer, anything at splits.
    offset
        What f has besides the trees and the linear part.
    slopes
        Of the linear part beside the trees; None without one.

    """

    draws: Draws
    leaf: Floats
    offset: float
    slopes: Slopes | None = None


@dataclass(frozen=True)
class RowsToExplain:
    """Rows to explain, the background rows, and each coded column's column."""

    coded: Coded
    background: Coded
    column_of: NDArray[np.int64]
    num_columns: int


def explain(
    posterior: PosteriorDraws,
    coded: Coded,
    data: list[list[Any]],
    background: Coded,
    draws: NDArray[np.int64],
    level: float,
    game: GameKind,
    max_draws: int,
) -> ShapValues:
    """Compute the SHAP values of a posterior at rows with these cells, from some of the draws.

    See `Posterior.shap`, also for the SettingsError that it raises.
    """
    if game not in GAMES:
        raise SettingsError(
            f"game must be one of {', '.join(GAMES)}, not {game!r}", field="game", code="not_accepted"
        )
    if isinstance(max_draws, bool) or not isinstance(max_draws, int | np.integer) or max_draws < 1:
        raise SettingsError(
            f"max_draws must be a whole number from 1, not {max_draws!r}",
            field="max_draws",
            code="out_of_range",
        )
    if not background.num_rows:
        raise SettingsError(
            "background: there must be at least one row", field="background", code="not_accepted"
        )
    chosen = draws[spaced(len(draws), max_draws)]
    rows = RowsToExplain(
        coded,
        background.part(spaced(background.num_rows, BACKGROUND_ROWS)),
        np.array([column for column, _ in posterior.schema.coded], dtype=np.int64),
        len(posterior.schema.columns),
    )
    scale, forests = posterior.forests_to_explain()
    by_class = [shap_values(forest, chosen, rows, game, level) for forest in forests]
    mean, lower, upper, base = (np.stack(part, axis=-1) for part in zip(*by_class, strict=True))
    base_lower, base_upper = equal_tailed(base, level)
    only = 0 if len(forests) == 1 else slice(None)
    return ShapValues(
        names=[column.name for column in posterior.schema.columns],
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
        warnings=list(coded.warnings),
        classes=posterior.classes,
        labels=coded.labels,
    )


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
    InterruptedWorkError
        When the computation was cancelled (`sampler.interrupt`).

    """
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
    width = max(1, MAX_CELLS // (len(chosen) * rows.num_columns))
    warm("shapley")
    for start in range(0, num_rows, width):
        interrupt.look()
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
        ends = equal_tailed(phi, level)
        lower[block], upper[block] = ends[0].T, ends[1].T
    return mean, lower, upper, forest.offset + base
