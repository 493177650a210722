"""Selection of features by a permutation null (Bleich, Kapelner, George and Jensen 2014).

A feature is selected when the share of the split rules that use it is larger than outcomes unrelated to the
features would give. Such outcomes are the observed ones, permuted; a small sum of trees (20) makes features
compete for the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, get_args

import numpy as np

from sampler.array_types import Floats
from sampler.data.censoring.outcomes import refuse_censoring
from sampler.data.groupings import group_names
from sampler.data.rows import Rows
from sampler.definitions.setting import Setting
from sampler.definitions.several import are_several
from sampler.errors import SettingsError
from sampler.noise import AUTO
from sampler.posterior.charts.cards import first_lines, table_card
from sampler.posterior.charts.fit_progress import Report
from sampler.posterior.results.answer import plot
from sampler.preparation import prepare_rows
from sampler.preparation.several import check_several, families_of
from sampler.prepared_fit import PreparedFit
from sampler.running import run, tasks_of

OnProgress = Callable[[int, int], None]

SelectionRule = Literal["max", "se", "local"]
RULES: tuple[SelectionRule, ...] = get_args(SelectionRule)
NUM_PERMUTATIONS, NUM_CHAINS, NUM_TREES = 100, 10, 20  # the defaults of the paper's software
NUM_BURNIN, NUM_DRAWS = 250, 500
PERMUTATIONS = Setting(
    "whole",
    "model",
    "Permutations of the outcomes, each fitted with one chain.",
    NUM_PERMUTATIONS,
    limits=(20, 1000),
)
LEVEL = Setting(
    "number",
    "model",
    "Probability of selecting anything though nothing is related to the outcome.",
    0.05,
    limits=(0.0, 1.0),
    ends="()",
)


@dataclass(frozen=True)
class SelectedFeature:
    """A feature's share of the split rules, compared with what unrelated outcomes would give."""

    name: str
    share: float
    thresholds: Annotated[
        dict[str, float],
        "The share that the feature must exceed, by rule: local, from the feature's own null shares; max, "
        "from the largest of all features; se, in standard deviations of its own.",
    ]
    selected_by: Annotated[list[str], "The rules by which it is selected."]


@dataclass(frozen=True, repr=False)
class Selection:
    """Features whose share of the split rules exceeds what unrelated outcomes would give.

    Attributes
    ----------
    names
        Names of the features.
    share
        Mean share of the split rules that use each feature, float64 [feature].
    null
        Shares for permuted outcomes, float64 [permutation, feature].
    level
        The level of the thresholds.

    """

    names: list[str]
    share: Floats
    null: Floats
    level: Annotated[
        float,
        "Probability that each rule allows for a feature (local), or for any (max, se), to be selected "
        "though nothing is related to the outcome.",
    ]

    @classmethod
    def of(cls, shares: Mapping[str, float], null: Sequence[Mapping[str, float]], level: float) -> Selection:
        """Compare shares by feature with those of each permutation; a feature that it left out has none."""
        permuted = [[each.get(name, 0.0) for name in shares] for each in null]
        return cls([*shares], np.array([*shares.values()]), np.array(permuted), level)

    def threshold(self, rule: SelectionRule = "max") -> Floats:
        """Return the share that each feature must exceed, float64 [feature].

        Parameters
        ----------
        rule
            "local": the 1 - level quantile of the feature's own null shares. "max": that of the largest null
            share of all features, the same for all. "se": the mean of the feature's own null shares and C of
            their standard deviations, with the smallest C for which 1 - level of the permutations have no
            feature above its threshold. "max" is the strictest for features of equal kind; "se" allows for
            features that get more rules by their nature.

        Raises
        ------
        SettingsError
            For any other rule.

        """
        if rule not in RULES:
            raise SettingsError(
                f"rule must be one of {', '.join(RULES)}, not {rule!r}", field="rule", code="unknown"
            )
        if rule == "local":
            return np.asarray(_upper(self.null, self.level))
        if rule == "max":
            return np.full(len(self.names), _upper(self.null.max(axis=1), self.level))
        mean, sd = self.null.mean(axis=0), self.null.std(axis=0, ddof=1)
        apart = np.divide(self.null - mean, sd, out=np.zeros_like(self.null), where=sd > 0)
        return np.asarray(mean + _upper(apart.max(axis=1), self.level) * sd)

    def selected(self, rule: SelectionRule = "max") -> list[str]:
        """Return the names of the selected features, the largest share first; see `threshold`."""
        above = self.share > self.threshold(rule)
        return [self.names[j] for j in np.argsort(-self.share, kind="stable") if above[j]]

    def plot(self, rule: SelectionRule = "max", ax: Any = None) -> Any:
        """Draw the shares beside those by chance, and bars up to the thresholds; return matplotlib's axes."""
        return plot("rankings:selection", ax, self.names, self.share, self.null, self.threshold(rule))

    @property
    def features(self) -> list[SelectedFeature]:
        """The features with their thresholds, the largest share first."""
        thresholds = {rule: self.threshold(rule) for rule in RULES}
        return [
            SelectedFeature(
                self.names[j],
                float(self.share[j]),
                {rule: float(values[j]) for rule, values in thresholds.items()},
                [rule for rule, values in thresholds.items() if self.share[j] > values[j]],
            )
            for j in np.argsort(-self.share, kind="stable")
        ]

    def __repr__(self) -> str:
        return first_lines(str(self))

    def _repr_html_(self) -> str:
        rows = [
            [e.name, *(f"{part:.1%}" for part in (e.share, *e.thresholds.values())), ", ".join(e.selected_by)]
            for e in self.features
        ]
        title = "Shares of the split rules, and the thresholds that they exceed where a feature is selected"
        return table_card(title, ["feature", "share", *RULES, "selected by"], rows)

    def __str__(self) -> str:
        width = max(map(len, self.names)) + 2
        lines = [f"{'':{width}}{'share':>8}" + "".join(f"{rule:>8}" for rule in RULES) + "  selected by"]
        for each in self.features:
            cells = "".join(f"{figure:8.4f}" for figure in (each.share, *each.thresholds.values()))
            lines.append(f"{each.name:{width}}{cells}  {', '.join(each.selected_by)}".rstrip())
        return "\n".join(lines)


@dataclass(frozen=True)
class NullFits:
    """Fits whose shares of the split rules a selection compares: to the outcomes, and to permuted ones.

    Attributes
    ----------
    rows
        The rows. What columns with a role say of one goes with its outcome.
    num_chains
        Chains of the fit to the outcomes themselves.
    seed
        Seed of the permutations and of all chains.
    settings
        Further settings of `fit`.

    """

    rows: Rows
    num_chains: int
    seed: int
    settings: Mapping[str, Any]

    def shares(
        self, permutation: int | None = None, report: Report | None = None
    ) -> dict[str, dict[str, float]]:
        """Return the mean share of the rules of each feature, by outcome; of a permutation, or of none.

        `report` is called as `sampler.running.run` does.
        """
        settings = {**self.settings, **self._chosen}
        if permutation is None:
            prepared = self._prepare(None, settings, self.num_chains, self.seed)
        else:
            prepared = self._prepare(permutation, settings, 1, self.seed + 1 + permutation)
        found: Any = run(prepared, num_threads=1, report=report)
        name, *others = self.rows.outcomes
        parts = {each: found[each] for each in (name, *others)} if others else {name: found}
        inclusions = {each: part.inclusion() for each, part in parts.items()}
        return {each: dict(zip(i.names, i.mean.tolist(), strict=True)) for each, i in inclusions.items()}

    @cached_property
    def _chosen(self) -> dict[str, Any]:
        """Settings in place of those left to the outcomes, the same for permuted ones.

        The transform is chosen by the outcomes. No linear part stands beside the trees: what it says of a
        feature, splits would not say.
        """
        linear = self.settings.get("linear") is True
        if self.rows.others:  # which have no transform, and noise of one kind
            return {"linear": linear}
        chosen = {"transform": self.settings.get("transform") or AUTO, "linear": linear}
        noise = {"noise": AUTO} if self.settings.get("noise") == AUTO else {}
        if AUTO in (chosen | noise).values():
            found = self._prepare(None, {**self.settings, "linear": linear}, 1, self.seed).training.settings
            chosen["transform"], noise = found.transform, {"noise": found.noise} if noise else {}
        return chosen | noise

    def _prepare(
        self, permutation: int | None, settings: Mapping[str, Any], num_chains: int, seed: int
    ) -> PreparedFit:
        rows = self.rows
        if permutation is not None:
            order = np.random.default_rng([self.seed, permutation]).permutation(rows.num_rows)
            mixed = rows.take(order)
            groups = {name: mixed.table.column(name) for name in group_names(settings.get("groups"))}
            rows = replace(mixed, table=rows.table.with_columns(groups))
        return prepare_rows(rows, num_chains=num_chains, seed=seed, **settings)


def select_features(
    X: Any,
    y: Any,
    weights: Any = None,
    *,
    level: float = 0.05,
    num_permutations: int = NUM_PERMUTATIONS,
    num_chains: int = NUM_CHAINS,
    num_trees: int = NUM_TREES,
    num_burnin: int = NUM_BURNIN,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
    num_threads: int | None = None,
    executor: Executor | None = None,
    progress: OnProgress | None = None,
    **settings: Any,
) -> Selection | dict[str, Selection]:
    """Select the features that a sum of trees uses more than it would for unrelated outcomes.

    Parameters
    ----------
    X, y, weights
        Rows and outcomes, as `fit` takes them. What columns with a role say of a row goes with its outcome,
        and several outcomes of a row stay together.
    level
        Probability of selecting anything though nothing is related to the outcome (see `Selection`).
    num_permutations
        Permutations of the outcomes, each fitted with one chain.
    num_chains
        Chains of the fit to the outcomes themselves, whose shares are averaged.
    num_trees, num_burnin, num_draws
        Of every chain; few trees, so that features compete.
    seed
        Seed of the permutations and of all chains.
    num_threads
        Number of chains run at once; None takes one per core. The result is the same.
    executor
        A `concurrent.futures.Executor` in which the fits run instead of threads; the result is the same.
    progress
        Called with the number of fits that are done, and of all.
    settings
        Further columns of rows and settings, as `fit` takes them.

    Returns
    -------
    Selection
        The features, with their shares, thresholds and the null distribution; of several outcomes one for
        each, by name, since each has its own trees.

    Raises
    ------
    DataError
        For unusable data, with column and row.
    SettingsError
        For an invalid setting.

    """
    refuse_censoring(settings, "feature selection")
    level = LEVEL.check("level", level)
    num_permutations = PERMUTATIONS.check("num_permutations", num_permutations)
    common = {"num_trees": num_trees, "num_burnin": num_burnin, "num_draws": num_draws, "thin": 1}
    settings["weights"] = weights
    if are_several(y):
        check_several(settings)
    rows = Rows.of_arguments(X, y, settings, settings.pop("target_name", None))
    if rows.others:
        settings["families"] = families_of(rows.outcomes, settings.get("family"))
    fits = NullFits(rows if executor is None else rows.apart(), num_chains, seed, common | settings)
    own, null = fits.shares(), {}
    if progress is not None:
        progress(1, num_permutations + 1)
    with tasks_of(executor, num_threads) as tasks:
        waiting = {tasks.submit(fits.shares, p): p for p in range(num_permutations)}
        for done, each in enumerate(as_completed(waiting), 2):
            null[waiting[each]] = each.result()
            if progress is not None:
                progress(done, num_permutations + 1)
    found = {
        name: Selection.of(shares, [null[p][name] for p in range(num_permutations)], level)
        for name, shares in own.items()
    }
    return found if rows.others else found[rows.outcome.name]


def _upper(values: Floats, level: float) -> Any:
    """Return the smallest value that at least 1 - level of the values (first axis) don't exceed."""
    return np.quantile(values, 1 - level, axis=0, method="inverted_cdf")
