"""The methods of a posterior that assess it: diagnostics, scores, calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sampler.data.rows import named, one_by_name
from sampler.data.splits.split_plan import Split, SplitPlan
from sampler.data.table import read_rows
from sampler.definitions.new_rows import NewRows
from sampler.errors import SettingsError
from sampler.posterior.assessment.calibration import row_by_row
from sampler.posterior.assessment.conformal import conformity
from sampler.posterior.assessment.convergence import growth
from sampler.posterior.assessment.density import Density, PredictiveDistribution, density
from sampler.posterior.assessment.diagnostics import diagnose
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.assessment.row_scores import row_scores
from sampler.posterior.assessment.scoring import log_likelihood, score
from sampler.posterior.explanations.aggregates import total_scores
from sampler.posterior.laws.law import Law
from sampler.posterior.results.comparison import ModelComparison
from sampler.posterior.results.diagnosis import Diagnosis
from sampler.posterior.results.scores import (
    Convergence,
    Scores,
)
from sampler.posterior.verdict.use import Use
from sampler.storage.calibration_size import MAX_ROWS, check_calibration_size, kept_rows, kept_rows_of
from sampler.storage.conformal_table import CalibrationKind
from sampler.subgroups.declaration import Subgroup, Subgroups
from sampler.subgroups.membership import Membership, resolve
from sampler.subgroups.table import MAX_ROWS as MAX_ROWS_OF_SUBGROUPS


class AssessablePosterior:
    """Methods of a posterior: diagnostics, and scores on rows of known outcomes."""

    law: Law

    def diagnostics(self, max_points: int = 500) -> Diagnosis:
        """Report on the agreement of the chains, with traces of at most `max_points` points."""
        return diagnose(self.law, max_points)

    def use(self, scores: Mapping[str, Any] | None = None) -> Use:
        """Say what can be used: predictions, their intervals, credible ones, effects of a treatment.

        Parameters
        ----------
        scores
            What `score` returned for held-out rows; None: nothing says whether predictive intervals hold.

        Returns
        -------
        Use
            Do the chains agree, do held-out rows say that predictive intervals hold, would another fit say
            the same: three answers with their figures, what they allow, and ``text``, a sentence for each.

        """
        return self.law.summary.use(scores)

    def score(
        self, X: Any, y: Any, weights: Any = None, *, groups: Any = None, quick: bool = False
    ) -> Scores:
        """Score the posterior on rows that it was not fitted to (`holdout_rows` chooses such rows).

        Parameters
        ----------
        X
            A table with the model's columns, in any order; n rows.
        y
            n outcomes.
        weights
            n positive precision weights, the name of their column of X, or None: row i has variance
            sigma^2 / weight.
        groups
            Column of X, by name or values, whose values the fit has not seen, a subject or a site: rows of
            one value resemble each other, and count as one in the ranges and the verdict on intervals. None
            for the one that the model was calibrated by, if X has it.
        quick
            Leave out `crps` and `pinball`, which take most of the time.

        Returns
        -------
        Scores
            A dict, which `to_pandas` arranges as a table: ``rows``, n. For numbers: ``rmse`` of the posterior
            mean, in units of the outcome; ``log_score``, the mean log density of the outcomes under the
            posterior predictive distribution; ``crps``, the mean continuous ranked probability score, and
            ``pinball``, the mean loss of its quantiles 0.05, 0.25, 0.5, 0.75 and 0.95, both in units of the
            outcome, less is better; ``coverage``, a dict for each level (0.5, 0.8, 0.9, 0.95) with the share
            of outcomes inside predictive intervals and that share's own 95% interval; ``intervals_verdict``,
            whether those intervals hold all in all and in each quarter of the prediction and of each numeric
            feature: ``verdict`` ("held", "not_held" or "unknown"), ``text``, ``others`` (on other levels),
            ``advice``, ``reasons``, ``refused`` (quarters) and the shares. For classes: ``log_loss`` and
            ``brier`` of the mean probabilities, ``accuracy`` of the most probable class beside the
            ``majority_rate``, that of always naming the most frequent class of these rows; ``confusion``, the
            numbers of rows [class][most probable class]; of ordered classes ``rps``, the ranked probability
            score: the squared error of the probability of each class or a lower one, averaged over all but
            the last class (Epstein 1969), less is better; of two classes ``auc``, the area under the ROC
            curve with its 95% interval (``value, lower, upper``), and ``confusion_by_threshold`` of the
            second's probability.

        Raises
        ------
        DataError
            For rows or outcomes that don't fit the model, with each cell named; for rows without the
            exposures, weights or events that it was fitted with.
        SettingsError
            For weights with classes.

        """
        rows = LabelledRows.read_groups(self.law, X, y, weights, groups)
        return Scores(score(self.law, rows, quick=quick))

    def log_likelihood(self, X: Any, y: Any, weights: Any = None) -> NDArray[np.float64]:
        """Compute how probable each draw finds each outcome.

        Parameters
        ----------
        X, y, weights
            Rows, outcomes and weights, as for `score`.

        Returns
        -------
        ndarray
            float64 [chain, draw, row], the log density of the outcome; of a count, class or censored outcome
            the log probability.

        Raises
        ------
        DataError, SettingsError
            As `score`.

        """
        draws = self.law.draws
        logs = log_likelihood(self.law, LabelledRows.read(self.law, X, y, weights), draws.choose(None)[0])
        return logs.reshape(draws.num_chains, draws.num_draws, -1)

    def calibration(self, X: Any, y: Any, weights: Any = None) -> list[dict[str, Any]]:
        """Compare levels of intervals with the shares of outcomes inside them.

        At most 2,000 of the rows are used, evenly spaced.

        Parameters
        ----------
        X, y, weights
            Rows, outcomes and weights, as for `score`.

        Returns
        -------
        list of dict
            For numbers: for each ``level`` of predictive intervals (0.05 to 0.95 and 0.99) the share of
            outcomes inside (``observed``). For two classes: for each tenth of the predicted probability, its
            mean (``level``) and the share of the second class. For more classes: for each tenth of the
            largest probability, the share of rows that are of that class. For more than two ordered classes:
            for each class but the last (``up_to``), for each tenth of the probability of it or a lower one,
            the share of rows that are. Each with its 95% binomial interval (``lower``, ``upper``) and the
            number of ``rows`` used.

        Raises
        ------
        DataError, SettingsError
            As `score`.

        """
        rows = LabelledRows.read(self.law, X, y, weights)
        bins: list[dict[str, Any]] = row_by_row(self.law, rows, np.arange(len(rows.y)))["calibration"]
        return bins

    def compare(self, other: AssessablePosterior, X: Any, y: Any, weights: Any = None) -> ModelComparison:
        """Compare with another model on rows that neither was fitted to.

        Parameters
        ----------
        other
            The other model, of the same outcome.
        X, y, weights
            Rows with columns that both know, outcomes and weights, as for `score`.

        Returns
        -------
        ModelComparison
            Log score and RMSE (of classes Brier score) of both, with the difference (this less the other) and
            its standard error from the differences of the rows, which is smaller than the scores' own.

        Raises
        ------
        DataError, SettingsError
            As `score`; for models of censored outcomes and of other classes.

        """
        if self.law.classes != other.law.classes:
            raise SettingsError(
                f"the models have other classes: {self.law.classes} and {other.law.classes}",
                field=None,
                code="not_applicable",
            )
        scored = [row_scores(law, LabelledRows.read(law, X, y, weights)) for law in (self.law, other.law)]
        first, second = scored
        return ModelComparison.of(first, second)

    def calibrate(
        self,
        X: Any,
        y: Any,
        weights: Any = None,
        *,
        groups: Any = None,
        subgroups: Sequence[Any] | None = None,
    ) -> Self:
        """Calibrate by rows that the posterior was not fitted to (`holdout_rows` chooses such).

        Of new rows like these, the calibrated intervals cover at least the share asked for, on average,
        whatever is wrong with the model (split-conformal prediction); of classes, so do prediction sets.

        Parameters
        ----------
        X, y, weights
            Rows, outcomes and weights, as for `score`. At most 10,000 of the rows are used, evenly spaced.
        groups
            A column of `X`, by name or values, of which new rows have other values (subjects, sites): each
            value then counts once, and the claim is of rows of a new one. None where new rows are like these.
        subgroups
            Subgroups in each of which the share asked for is covered, named before their outcomes are looked
            at: columns (a category's levels, a number's quarters);
            ``{"name": "old", "where": [{"column": "age", "at_least": 65}]}``, with at_least, below, in,
            not_in or missing, all of which must be true; "missing", rows by what they lack; "by_class", each
            class by itself. Columns may be others than the model's: rows to predict then need them too. At
            most 4,000 rows are used.

        Returns
        -------
        Posterior
            The same draws with calibrated intervals: `predict(X, interval="calibrated")`. They are saved with
            it; `extend` drops them, since they are those of these draws.

        Raises
        ------
        DataError, SettingsError
            As `score`; for fewer than nine groups, and subgroups with fewer than nine of these rows.

        """
        table, draws = read_rows(X), self.law.draws
        if groups is not None:
            table, groups = one_by_name(table, "groups", groups)
        declared = Subgroups.read(subgroups, table.names)
        own: tuple[Subgroup, ...] = ()
        if not declared.are_none:
            kinds, cuts, of_classes = self.law.schema.kinds, draws.header.quarters, draws.classes is not None
            own = resolve(declared, table, kinds, cuts, of_classes=of_classes)
        beside = [*declared.columns, *named(groups), *named(weights)]
        coded = draws.encode(table, subgroups=own, beside=beside)
        rows = LabelledRows.read(self.law, table, y, weights, coded)
        most = MAX_ROWS if declared.are_none else MAX_ROWS_OF_SUBGROUPS
        plan, kept = None, kept_rows(len(rows.y), most)
        if groups is not None:
            new_rows = NewRows.read({"groups": groups}, table.names)
            plan = SplitPlan.of(new_rows, table.column, table.num_rows, 0)
            check_calibration_size(plan.num_units, new_rows, "holdout")
            kept = kept_rows_of(plan.unit, most)
        members = None
        if not declared.are_none:
            classes = rows.y.astype(np.int32) if declared.by_class else None
            bits = coded.subgroups if coded.subgroups is not None else np.zeros(len(rows.y), np.uint64)
            members = Membership(own, bits, classes, rows.classes or ()).take(kept)
        split = Split(np.zeros(0, np.int64), kept)
        scores = conformity(self.law, rows.part(kept))
        totals = None if plan is None else total_scores(self.law, rows, plan.unit)
        return self.calibrated_by("holdout", scores, plan, [split], members, totals=totals)

    def calibrated_by(
        self,
        kind: CalibrationKind,
        scores: NDArray[np.float64],
        plan: SplitPlan | None = None,
        splits: Sequence[Split] = (),
        members: Membership | None = None,
        before: Callable[[], None] = lambda: None,
        totals: NDArray[np.float64] | None = None,
    ) -> Self:
        """Return the same draws, calibrated by scores of rows that fits have not seen (`conformity`).

        With a plan of rows, the scores are of the rows that its splits tested, one after another; `members`,
        their subgroups, are in the same order; `before` is called while their ends are found;
        `totals` are scores of groups (`total_scores`). Raises SettingsError for subgroups with too few rows.
        """
        raise NotImplementedError

    def convergence(self) -> Convergence:
        """Compute R-hat and effective sample sizes of sigma and f for growing numbers of draws.

        Returns
        -------
        Convergence
            A dict, which `to_pandas` arranges as a table. Weights of draws are ignored here.

        """
        return growth(self.law, self.law.draws.num_draws)

    def distribution(self, X: Any) -> PredictiveDistribution:
        """Return the predictive distribution of a new outcome (of weight 1) of each row of X.

        It has ``log_prob(y)``, ``prob(y)``, ``cdf(y)``, ``crps(y)``, ``quantile(q)``, ``interval(level)`` and
        ``mean``, for scores and decisions of any kind: ``posterior.distribution(X).cdf(25)``.

        Raises
        ------
        DataError
            For rows that don't fit the model.
        SettingsError
            For classes.

        """
        return PredictiveDistribution(self.law, self.law.draws.coded(X))

    def density(self, row: Any) -> Density:
        """Compute the densities of the regression function and of a new outcome (of weight 1) at one row.

        Parameters
        ----------
        row
            Values by column name, or a table of one row.

        Returns
        -------
        Density
            The densities at 240 points, the posterior mean and the intervals at 90%, also read by name.

        Raises
        ------
        DataError
            For a row that doesn't fit the model, or several rows.
        SettingsError
            For a model of more than two classes.

        """
        return density(self.law, self.law.draws.coded(row), self.law.draws.num_draws)
