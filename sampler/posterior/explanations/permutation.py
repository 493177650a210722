"""Permutation importance: how much a loss on held-out rows grows when one feature is shuffled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from sampler.data.scalars import cells_to_text, number_to_text
from sampler.errors import DataError, DataProblem, SettingsError
from sampler.posterior.assessment.scoring import TINY
from sampler.posterior.display.plots import draw_importance
from sampler.posterior.display.tabular import ranked_columns, ranking_card, to_pandas
from sampler.posterior.intervals import Request, equal_tailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.posterior.assessment.scoring import LabelledRows
    from sampler.posterior.posterior_draws import PosteriorDraws

    Floats = NDArray[np.float64]

Loss = Literal["rmse", "log_loss"]
LOSSES: tuple[Loss, ...] = get_args(Loss)
MOST_DRAWS = 200  # evenly spaced among all
MOST_ROWS, FEWEST_ROWS = 1_000, 100
FEWEST_DRAWS = 20
MAX_WORK = 2e10  # tree evaluations: some seconds of a core
MAX_CELLS = 1 << 20  # draws times rows evaluated at once


@dataclass(frozen=True)
class PermutationImportance:
    """Increase of the loss on rows with known outcomes when one feature at a time is shuffled.

    Attributes
    ----------
    names
        The features, in the order of the model.
    mean, lower, upper
        float64 [feature]: mean and interval of the increase over draws and permutations.
    loss
        "rmse", the root mean square error of the mean by a draw, in units of the outcome; or "log_loss", the
        mean of minus the log density (of classes and counts: log probability) that a draw gives the outcomes.
    baseline
        Mean over draws of that loss with nothing shuffled.
    level
        Probability of the interval.
    rows, draws, permutations
        Numbers of rows, draws and permutations used.

    """

    names: list[str]
    mean: Floats
    lower: Floats
    upper: Floats
    loss: Loss
    baseline: float
    level: float
    rows: int
    draws: int
    permutations: int

    @property
    def order(self) -> list[int]:
        """Positions of the features, the most important first."""
        return [int(j) for j in np.argsort(-self.mean, kind="stable")]

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values; ``features`` is a list, the most important first."""
        return {
            "loss": self.loss,
            "baseline": self.baseline,
            "level": self.level,
            "rows": self.rows,
            "draws": self.draws,
            "permutations": self.permutations,
            "features": [
                {
                    "name": self.names[j],
                    "mean": float(self.mean[j]),
                    "lower": float(self.lower[j]),
                    "upper": float(self.upper[j]),
                }
                for j in self.order
            ],
        }

    @property
    def headline(self) -> str:
        """Description of the figures, in a phrase."""
        return f"increase of {self.loss} (from {number_to_text(self.baseline)}) when the feature is shuffled"

    def to_pandas(self) -> Any:
        """Return a data frame, the most important first: feature, mean, lower, upper."""
        return to_pandas(ranked_columns(self, self.order))

    def plot(self, ax: Any = None) -> Any:
        """Draw the importances with matplotlib, on `ax` or a new figure, and return the axes."""
        return draw_importance(self, ax)

    def _repr_html_(self) -> str:
        return ranking_card(self, self.order, self.headline)

    def __str__(self) -> str:
        width = max(len(name) for name in self.names) + 2
        rows = (
            f"{self.names[j]:{width}}{cells_to_text((self.mean[j], self.lower[j], self.upper[j]), 10)}"
            for j in self.order
        )
        return "\n".join([self.headline, f"{'':{width}}{'mean':>10}{'lower':>10}{'upper':>10}", *rows])


def permutation_importance(
    posterior: PosteriorDraws,
    rows: LabelledRows,
    losses: Sequence[str] | None = None,
    *,
    level: float = 0.9,
    permutations: int = 10,
    seed: int = 0,
    before: Callable[[], None] = lambda: None,
) -> list[PermutationImportance]:
    """Compute the increase of each loss when one feature at a time is shuffled among the rows.

    A category's indicators are shuffled together; exposures stay with their rows. All features meet the same
    permutations. At most 1,000 rows and 200 draws are used, evenly spaced, and fewer where features are many.
    Rows whose outcome the model's transform can't take are left out.

    Parameters
    ----------
    posterior
        Posterior fitted without these rows.
    rows
        At least two rows with their outcomes.
    losses
        "rmse" (not for classes and censored outcomes) and "log_loss", in the order of the result; None takes
        all that apply, the posterior's usual one first.
    level
        Probability of the intervals.
    permutations
        Number of permutations.
    seed
        Seed of the permutations.
    before
        Called before each evaluation, which takes less than about a second.

    Returns
    -------
    list of PermutationImportance
        The importance by each loss.

    Raises
    ------
    DataError
        For fewer than two rows.
    SettingsError
        For a loss that doesn't apply, or an invalid level or number.

    """
    level = Request.check_level(level)
    known = LOSSES if rows.classes is None and rows.coded.limits is None else LOSSES[1:]
    ranked_by = _check(losses, known) or sorted(known, key=lambda loss: loss != posterior.usual_loss)
    _check_number("permutations", permutations, 1, 1000)
    _check_number("seed", seed, 0, 2**63 - 1)
    if posterior.transform is not None:
        rows = rows.part(np.flatnonzero(np.isfinite(posterior.transform.forward(rows.y))))
    if len(rows.y) < 2:
        raise DataError([DataProblem(None, None, "shuffling needs at least two rows")])
    num_features = len(posterior.schema.columns)
    num_draws, num_rows = _sizes(posterior, len(rows.y), permutations)
    examined = rows.part(np.unique(np.linspace(0, len(rows.y) - 1, num_rows).astype(np.int64)))
    chosen = posterior.spaced_draws(num_draws)
    before()
    base = _losses(posterior, examined, examined.coded, chosen)
    orders = np.array([np.random.default_rng([seed, k]).permutation(num_rows) for k in range(permutations)])
    growth = {loss: np.zeros((num_features, permutations, num_draws)) for loss in ranked_by}
    size = max(1, MAX_CELLS // (num_draws * num_rows * max(1, len(posterior.classes or ()))))
    for j in range(num_features):
        own = [i for i, (column, _) in enumerate(posterior.schema.coded) if column == j]
        for start in range(0, permutations, size):
            part = orders[start : start + size]
            before()
            after = _losses(posterior, examined, examined.coded.shuffled(own, part), chosen)
            for loss in ranked_by:
                growth[loss][j, start : start + len(part)] = after[loss] - base[loss]
    names = [column.name for column in posterior.schema.columns]
    facts = (level, num_rows, num_draws, permutations)
    importances = []
    for loss in ranked_by:
        by_feature = growth[loss].reshape(num_features, -1).T
        lower, upper = equal_tailed(by_feature, level)
        mean = by_feature.mean(axis=0)
        importances.append(
            PermutationImportance(names, mean, lower, upper, loss, float(base[loss].mean()), *facts)
        )
    return importances


def _sizes(posterior: PosteriorDraws, most_rows: int, permutations: int) -> tuple[int, int]:
    """Choose the numbers of draws and rows."""
    trees = posterior.leaf_counts.shape[2] + posterior.own_work
    bound = MAX_WORK / (len(posterior.schema.columns) * trees)  # on rows x draws x permutations
    total = posterior.num_chains * posterior.num_draws
    draws = int(min(total, MOST_DRAWS, max(FEWEST_DRAWS, bound / (FEWEST_ROWS * permutations))))
    return draws, int(min(most_rows, MOST_ROWS, max(FEWEST_ROWS, bound / (draws * permutations))))


def _check(losses: Sequence[str] | None, known: Sequence[Loss]) -> list[Loss]:
    losses_of: list[Loss] = []
    for name in losses or ():
        loss = next((each for each in known if each == name), None)
        if loss is None:
            many = " or ".join(repr(each) for each in known)
            raise SettingsError(f"loss must be {many} here, not {name!r}", field="loss", code="not_accepted")
        losses_of.append(loss)
    return losses_of


def _check_number(field: str, value: int, low: int, high: int) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise SettingsError(
            f"{field} must be a whole number from {low} to {high}, not {value!r}",
            field=field,
            code="out_of_range",
        )


def _losses(
    posterior: PosteriorDraws, rows: LabelledRows, coded: Coded, chosen: NDArray[np.int64]
) -> dict[Loss, Floats]:
    """Compute each loss of each chosen draw on one or several copies of rows, float64 [copy, draw]."""
    copies, shape = coded.num_rows // len(rows.y), (len(chosen), -1, len(rows.y))
    if rows.classes is not None:
        own = rows.y.astype(np.int64)
        p = posterior.probabilities_by_draw(coded, chosen)
        p = p.reshape(*shape, p.shape[2])
        known = own < p.shape[3]  # any other class has no probability
        mine = np.where(known, p[..., np.arange(len(own)), np.where(known, own, 0)], 0.0)
        return {"log_loss": -np.log(np.clip(mine, TINY, 1 - TINY)).mean(axis=2).T}
    weights = None if rows.weights is None else np.tile(rows.weights, copies)
    mean, density = posterior.outcomes_by_draw(coded, np.tile(rows.y, copies), weights, chosen)
    squares = (mean.reshape(shape) - rows.y) ** 2
    return {
        "rmse": np.sqrt(squares.mean(axis=2)).T,
        "log_loss": -density.reshape(shape).mean(axis=2).T,
    }
