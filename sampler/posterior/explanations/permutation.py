"""Permutation importance: how much a loss on held-out rows grows when one feature is shuffled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.errors import DataError, DataProblem, SettingsError
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.assessment.scoring import TINY
from sampler.posterior.core.intervals import Request, equal_tailed
from sampler.posterior.core.progress import track
from sampler.posterior.laws.law import Law
from sampler.posterior.laws.likelihood import own_probabilities
from sampler.posterior.protocol import Loss
from sampler.posterior.results.rankings import PermutationImportance

LOSSES: tuple[Loss, ...] = get_args(Loss)
MOST_DRAWS = 200  # evenly spaced among all
MOST_ROWS, FEWEST_ROWS = 1_000, 100
FEWEST_DRAWS = 20
MAX_WORK = 2e10  # tree evaluations: some seconds of a core
MAX_CELLS = 1 << 20  # draws times rows evaluated at once


def permutation_importance(
    law: Law,
    rows: LabelledRows,
    losses: Sequence[str] | None = None,
    *,
    level: float = 0.9,
    permutations: int = 10,
    seed: int = 0,
    before: Callable[[], None] | None = None,
) -> list[PermutationImportance]:
    """Compute the increase of each loss when one feature at a time is shuffled among the rows.

    A category's indicators are shuffled together; exposures stay with their rows. All features meet the same
    permutations. Where groups count once, a feature that is constant within each is shuffled between groups,
    each of which takes another's value: shuffled by row, it would meet rows that no group can have. At most
    1,000 rows and 200 draws are used, evenly spaced, and fewer where features are many. Rows whose outcome
    the model's transform can't take are left out.

    Parameters
    ----------
    law
        Law of the draws fitted without these rows.
    rows
        At least two rows with their outcomes.
    losses
        "rmse" (not for classes and censored outcomes) and "log_loss", in the order of the result; None takes
        all that apply, "rmse" first, which is in the unit of the outcome.
    level
        Probability of the intervals.
    permutations
        Number of permutations.
    seed
        Seed of the permutations.
    before
        Called before each evaluation, which takes less than about a second; None shows progress instead.

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
    ranked_by = _check(losses, known) or list(known)
    _check_number("permutations", permutations, 1, 1000)
    _check_number("seed", seed, 0, 2**63 - 1)
    if law.transform:
        rows = rows.part(np.flatnonzero(np.isfinite(law.transform.forward(rows.y))))
    if len(rows.y) < 2:
        raise DataError([DataProblem(None, None, "shuffling needs at least two rows")])
    num_features = len(law.schema.columns)
    num_draws, num_rows = _sizes(law, len(rows.y), permutations)
    examined = rows.part(np.unique(np.linspace(0, len(rows.y) - 1, num_rows).astype(np.int64)))
    chosen = law.spaced(num_draws)
    if before:
        before()
    base = _losses(law, examined, examined.coded, chosen)
    orders = np.array([np.random.default_rng([seed, k]).permutation(num_rows) for k in range(permutations)])
    groups = None if examined.unit is None else _Groups.of(examined.unit, seed, permutations)
    growth = {loss: np.zeros((num_features, permutations, num_draws)) for loss in ranked_by}
    size = max(1, MAX_CELLS // (num_draws * num_rows * max(1, len(law.classes or ()))))
    for j in range(num_features) if before else track(range(num_features), "importance"):
        own = [i for i, (column, _) in enumerate(law.schema.coded) if column == j]
        ordered = orders
        if groups is not None and groups.is_constant(examined.coded.codes[own]):
            ordered = groups.orders
        for start in range(0, permutations, size):
            part = ordered[start : start + size]
            if before:
                before()
            after = _losses(law, examined, examined.coded.shuffled(own, part), chosen)
            for loss in ranked_by:
                growth[loss][j, start : start + len(part)] = after[loss] - base[loss]
    names = [column.name for column in law.schema.columns]
    facts = (level, num_rows, num_draws, permutations, None if groups is None else groups.number)
    importances = []
    for loss in ranked_by:
        by_feature = growth[loss].reshape(num_features, -1).T
        lower, upper = equal_tailed(by_feature, level)
        mean = by_feature.mean(axis=0)
        importances.append(
            PermutationImportance(names, mean, lower, upper, loss, float(base[loss].mean()), *facts)
        )
    return importances


class _Groups(NamedTuple):
    """Groups of rows in several orders: the number, and of each row the first row of its own and others'."""

    number: int
    own: NDArray[np.int64]  # [row]
    orders: NDArray[np.int64]  # [permutation, row]

    @classmethod
    def of(cls, unit: NDArray[np.int64], seed: int, permutations: int) -> _Groups:
        """Let each group take the place of another, in as many ways."""
        _, firsts, place = np.unique(unit, return_index=True, return_inverse=True)
        generators = (np.random.default_rng([seed, k]) for k in range(permutations))
        orders = [firsts[generator.permutation(len(firsts))[place]] for generator in generators]
        return cls(len(firsts), firsts[place], np.array(orders))

    def is_constant(self, codes: NDArray[np.uint8]) -> bool:
        """Tell whether codes, uint8 [column, row], are the same for all rows of a group."""
        return bool((codes == codes[:, self.own]).all())


def _sizes(law: Law, most_rows: int, permutations: int) -> tuple[int, int]:
    """Choose the numbers of draws and rows."""
    trees = law.tree_work + law.own_work + law.noise_work
    bound = MAX_WORK / (len(law.schema.columns) * trees)  # on rows x draws x permutations
    total = law.draws.num_chains * law.draws.num_draws
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


def _losses(law: Law, rows: LabelledRows, coded: Coded, chosen: NDArray[np.int64]) -> dict[Loss, Floats]:
    """Compute each loss of each chosen draw on one or several copies of rows, float64 [copy, draw]."""
    copies, shape = coded.num_rows // len(rows.y), (len(chosen), -1, len(rows.y))
    if rows.classes is not None:
        p = law.probabilities_by_draw(coded, chosen)
        mine = own_probabilities(p.reshape(*shape, p.shape[2]), rows.y)
        return {"log_loss": -np.log(np.clip(mine, TINY, 1 - TINY)).mean(axis=2).T}
    weights = None if rows.weights is None else np.tile(rows.weights, copies)
    mean, density = law.outcomes_by_draw(coded, np.tile(rows.y, copies), weights, chosen)
    squares = (mean.reshape(shape) - rows.y) ** 2
    return {
        "rmse": np.sqrt(squares.mean(axis=2)).T,
        "log_loss": -density.reshape(shape).mean(axis=2).T,
    }
