"""Inclusion by the number of trees: which columns the rules use in fits of few trees, and of many.

With few trees columns compete for the rules, and irrelevant ones drop out; with many, each is used (CGM10,
section 3.2 and figure 5).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from sampler.array_types import Axes, Floats
from sampler.data.rows import Rows
from sampler.data.scalars import cells_to_text, counted
from sampler.data.splits.split_plan import without_new_groups
from sampler.definitions.new_rows import NewRows
from sampler.definitions.several import are_several
from sampler.errors import SettingsError
from sampler.methods import METHODS
from sampler.posterior.core.intervals import Interval, Request
from sampler.posterior.explanations.inclusion import inclusion
from sampler.posterior.results.answer import Answer, plot
from sampler.posterior.results.columns import ends_of, percent
from sampler.preparation import prepare_rows
from sampler.preparation.several import check_several, families_of
from sampler.prepared_fit import PreparedFit
from sampler.running import run
from sampler.settings import SETTINGS
from sampler.studies.selection import OnProgress
from sampler.studies.tuning import Tuning, tune

NUM_TREES = (10, 20, 50, 100, 200)  # those of figure 5
MOST_NUMBERS = 20
NAMED = 10  # features in a sentence
ByTrees = Annotated[Floats, Axes("number", "feature")]


@dataclass(frozen=True)
class FitShares:
    """Shares of the split rules by feature in one fit, as `InclusionByTrees` has them of several fits."""

    names: list[str]
    mean: list[float]
    lower: list[float]
    upper: list[float]
    between_chains: list[float] | None
    seconds: float


@dataclass(frozen=True, repr=False)
class InclusionByTrees(Answer):
    """Share of the split rules that use each feature, by the number of trees: [number, feature]."""

    names: Annotated[list[str], "The features."]
    num_trees: Annotated[list[int], "Numbers of trees, the smallest first."]
    mean: Annotated[ByTrees, "Share of the rules by number of trees and feature, the mean over draws."]
    lower: ByTrees
    upper: ByTrees
    between_chains: Annotated[
        ByTrees | None, "Standard deviation of the shares of single chains; null where there is one."
    ]
    level: Annotated[float, "The level of the intervals, which are over draws."]
    seconds: Annotated[list[float], "Duration of each fit."]
    scores: Annotated[Tuning | None, "Comparison by rows left out; null unless asked for."] = None

    @classmethod
    def of(
        cls, num_trees: Sequence[int], fits: Sequence[FitShares], level: float, scores: Any = None
    ) -> InclusionByTrees:
        """Put the shares of fits together."""
        names = ("mean", "lower", "upper", "between_chains")
        mean, lower, upper, spread = (np.array([getattr(each, name) for each in fits]) for name in names)
        between = None if fits[0].between_chains is None else spread
        seconds = [each.seconds for each in fits]
        return cls(fits[0].names, [*num_trees], mean, lower, upper, between, level, seconds, scores)

    @property
    def order(self) -> list[int]:
        """Positions of the features, the largest share with the fewest trees first."""
        return [int(j) for j in np.argsort(-self.mean[0], kind="stable")]

    @property
    def reading(self) -> Annotated[str, "What the shares with the fewest trees say, and what they don't."]:
        """Sentences on the shares with the fewest trees: what they say, and what they don't."""
        equal = 1 / max(len(self.names), 1)
        above = [self.names[j] for j in self.order if self.lower[0, j] > equal]
        below = [self.names[j] for j in self.order if self.upper[0, j] < equal]
        return (
            f"With {counted(self.num_trees[0], 'tree')} the {percent(self.level)}% interval of the share is "
            f"above an equal share, {equal:.1%}, for {_named(above)}, and below it for {_named(below)}. "
            "That is no test: chance uses columns of other kinds more or less often. A selection "
            "(select_features, a study of kind selection) compares shares with those for permuted outcomes."
        )

    def columns(self) -> dict[str, Any]:
        """Arrange it by name, a row for each feature and number of trees."""
        named = {"mean": self.mean, **ends_of([Interval(self.level, self.lower, self.upper)])}
        return {
            "feature": self.names * len(self.num_trees),
            "num_trees": np.repeat(self.num_trees, len(self.names)),
            **{name: figures.ravel() for name, figures in named.items()},
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the shares with matplotlib, a line for each feature, on `ax` or a new figure; return axes."""
        figures = (self.num_trees, self.names, self.mean, self.lower, self.upper)
        return plot("rankings:inclusion_by_trees", ax, *figures)

    def __str__(self) -> str:
        width = max([5, *map(len, self.names)]) + 2
        head = f"{'trees':{width}}" + "".join(f"{number:8}" for number in self.num_trees)
        rows = [f"{self.names[j]:{width}}{cells_to_text(self.mean[:, j], 8, 3)}" for j in self.order]
        return "\n".join([head, *rows, self.reading, *([] if self.scores is None else [str(self.scores)])])


def inclusion_by_trees(
    X: Any,
    y: Any,
    weights: Any = None,
    *,
    num_trees: Iterable[int] = NUM_TREES,
    level: float = 0.9,
    folds: int | None = None,
    new_rows: Any = None,
    seed: int = 0,
    num_threads: int | None = None,
    executor: Executor | None = None,
    progress: OnProgress | None = None,
    **settings: Any,
) -> InclusionByTrees | dict[str, InclusionByTrees]:
    """Fit with few trees and with many, and find each feature's share of the split rules (CGM10, figure 5).

    Each is the same fit to all rows but for its number of trees. No linear part stands beside the trees
    unless `linear` is True: what it says of a feature, splits would not say.

    Parameters
    ----------
    X, y, weights
        Rows and outcomes, as `fit` takes them. With a treatment, shares are of the mean's trees.
    num_trees
        Numbers of trees, up to 20.
    level
        Probability of the intervals of shares, over draws.
    folds
        Number of folds by which the numbers of trees are compared too, as `tune` does; None leaves it out.
    new_rows, seed, num_threads, executor, progress, settings
        As `tune` takes them; settings are those of all fits.

    Returns
    -------
    InclusionByTrees
        The shares by number of trees; of several outcomes one for each, by name.

    Raises
    ------
    DataError
        For unusable data, with column and row.
    SettingsError
        For an invalid setting, such as a method of one tree.

    """
    numbers, level = check_numbers(num_trees, settings), Request.check_level(level)
    settings["weights"] = weights
    if are_several(y):
        check_several(settings)
    running: dict[str, Any] = {"num_threads": num_threads, "executor": executor}
    tell, scores, scored = progress or (lambda *_: None), None, len(numbers) * (folds or 0)
    if folds is not None:
        scores = tune(
            X, y, candidates=[{"num_trees": number} for number in numbers], folds=folds, new_rows=new_rows,
            seed=seed, progress=lambda done, _: tell(done, scored + len(numbers)), **running, **settings,
        )  # fmt: skip
    of_data = settings | {"linear": settings.get("linear") is True, "seed": seed}
    rows = Rows.of_arguments(X, y, of_data, of_data.pop("target_name", None))
    if rows.others:
        of_data["families"] = families_of(rows.outcomes, of_data.get("family"))
    rows = without_new_groups(rows, NewRows.read(new_rows, rows.table.names), of_data)
    fits = []
    for done, number in enumerate(numbers, scored + 1):
        problem = prepare_rows(rows, **of_data | {"num_trees": number})
        fits.append(fit_shares(problem, [*rows.outcomes], level, **running))
        tell(done, scored + len(numbers))
    found = {
        name: InclusionByTrees.of(numbers, [each[name] for each in fits], level, scores)
        for name in rows.outcomes
    }
    return found if rows.others else found[rows.outcome.name]


def check_numbers(num_trees: Any, settings: Mapping[str, Any]) -> list[int]:
    """Check numbers of trees of fits with settings, and return the smallest first; raise SettingsError."""
    method, prior = settings.get("method"), settings.get("prior")
    if isinstance(prior, Mapping) and prior.get("num_trees"):
        message = "the prior draws the number of trees: leave prior.num_trees out to compare fixed ones"
        raise SettingsError(message, field="prior.num_trees", code="contradiction")
    if method in METHODS and "num_trees" in METHODS[method].absent:
        message = f"method {method} fits one tree: fit by method bart, or see inclusion, of the one tree"
        raise SettingsError(message, field="method", code="not_applicable")
    listed = [*num_trees] if isinstance(num_trees, Iterable) and not isinstance(num_trees, str) else []
    if not 1 <= len(listed) <= MOST_NUMBERS:
        message = f"num_trees must be from 1 to {MOST_NUMBERS} numbers of trees, such as 10, 50 and 200"
        raise SettingsError(message, field="num_trees", code="not_accepted")
    return sorted({SETTINGS["num_trees"].check("num_trees", each) for each in listed})


def fit_shares(
    problem: PreparedFit, outcomes: Sequence[str], level: float, **running: Any
) -> dict[str, FitShares]:
    """Run a fit, with further arguments of `run`, and return the shares of its rules by outcome."""
    start = time.perf_counter()
    posterior: Any = run(problem, **running)
    seconds, found = time.perf_counter() - start, {}
    for name in outcomes:
        part = posterior[name] if len(outcomes) > 1 else posterior
        own, rules = part.inclusion(level), np.split(part.law.rules("mean"), part.num_chains)
        chains = np.array([inclusion(own.names, each, level).mean for each in rules])
        spread = chains.std(axis=0, ddof=1).tolist() if len(chains) > 1 else None
        ends = own.lower.tolist(), own.upper.tolist()
        found[name] = FitShares(own.names, own.mean.tolist(), *ends, spread, seconds)
    return found


def _named(names: Sequence[str]) -> str:
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    *first, last = [*names[:NAMED], *more] or ["no feature"]
    return f"{', '.join(first)} and {last}" if first else last
