"""The posterior of a fit: its draws, everything computed from them, and model files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.rows import named, named_column
from sampler.data.scalars import counted
from sampler.data.splits.split_plan import Split, SplitPlan
from sampler.data.table import read_rows
from sampler.data.target import read_weights
from sampler.definitions.new_rows import LIKE_TRAINING
from sampler.errors import PackedError, SettingsError
from sampler.methods import method_of
from sampler.posterior.assessable_posterior import AssessablePosterior
from sampler.posterior.assessment.conformal import levels_to_claim, predict_calibrated
from sampler.posterior.assessment.labelled_rows import check_weighted
from sampler.posterior.core.intervals import CALIBRATED
from sampler.posterior.core.memory import held_bytes
from sampler.posterior.core.stored_draws import StoredDraws
from sampler.posterior.described_posterior import DescribedPosterior
from sampler.posterior.explainable_posterior import ExplainablePosterior
from sampler.posterior.explanations.aggregates import aggregate
from sampler.posterior.explanations.row_sets import AggregateRequest, RowSets
from sampler.posterior.explanations.survival_curves import survival_curves
from sampler.posterior.laws.law import Law
from sampler.posterior.predicting import draw_outcomes, predict
from sampler.posterior.recalibration.recalibration import Recalibration
from sampler.posterior.refusals import check
from sampler.posterior.results.aggregates import Aggregate
from sampler.posterior.results.answer import draw
from sampler.posterior.results.card_document import ModelCard
from sampler.posterior.results.prediction import Prediction
from sampler.posterior.results.survival import SurvivalCurves
from sampler.posterior.treated_posterior import Origin, TreatedPosterior
from sampler.storage.conformal_table import CalibratedLevel, CalibrationKind, ConformalTable
from sampler.storage.draw_codec import pack, unpack
from sampler.storage.draws import concatenate
from sampler.storage.model_file import read_parts, save_bytes, write_model
from sampler.storage.model_header import Header
from sampler.subgroups.membership import Membership

# Members for services and other modules, which completion of a notebook leaves out.
INTERNAL = frozenset({
    "calibrated_by", "conformal_table", "drawn", "from_blocks", "grid", "header", "inputs", "law", "match",
    "nbytes", "noise_differs", "origin", "recalibrated_by", "reference", "sample_learnt", "several",
    "usual_interval", "with_table",
})  # fmt: skip


class Posterior(DescribedPosterior, ExplainablePosterior, TreatedPosterior, AssessablePosterior):
    """Draws of all chains, with the schema of their data.

    A posterior has stored draws, and the law that its family, noise and method make of them. What it consists
    of is said by `DescribedPosterior`; explanations are methods of `ExplainablePosterior`, effects of a
    treatment of `TreatedPosterior`, diagnostics and scores of `AssessablePosterior`; what is here makes,
    predicts with, extends, shows and stores a posterior.

    Parameters
    ----------
    law
        The law with its draws.
    origin
        Data and states from which `extend` continues; None where there are none.

    """

    def __init__(self, law: Law, origin: Origin | None = None) -> None:
        self.law = law
        self.origin = origin

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes: that of all outcomes where there are several."""
        return held_bytes(self) if self.several is None else int(self.several.nbytes)

    @classmethod
    def from_blocks(
        cls,
        header: bytes,
        blocks: Sequence[Sequence[bytes]],
        statistics: Sequence[dict[str, Any]] | None = None,
    ) -> Posterior:
        """Decode a posterior from a fit's header and each chain's packed blocks.

        Parameters
        ----------
        header
            Header, as `PreparedFit.header` encodes it.
        blocks
            Packed draws, by chain.
        statistics
            Counters of the moves, by chain; None where unknown.

        Returns
        -------
        Posterior
            A posterior with the law of its method, family and noise.

        Raises
        ------
        PackedError
            For bytes that can't be read.
        NotFittedError
            When no chain has a draw.

        """
        chains = [concatenate([unpack(block) for block in chain]) for chain in blocks if chain]
        chains = [draws for draws in chains if draws.num_draws]
        read = Header.from_bytes(header)
        if read.others:
            raise PackedError("this is a model of several outcomes: read its file with load")
        law: type[Law] = method_of(read.settings).law_of(read.settings)
        return cls(law(StoredDraws(read, chains, blocks, statistics or []), chains))

    def calibrated_levels(self, level: float | Sequence[float] | None = 0.9) -> list[CalibratedLevel]:
        """Return what calibrated intervals, or prediction sets, of these levels are and promise.

        Raises
        ------
        SettingsError
            For a model that is not calibrated, and for levels that need more calibration rows.

        """
        return levels_to_claim(self.law, level)

    def predict(
        self,
        X: Any,
        level: float | Sequence[float] | None = 0.9,
        interval: str | None = None,
        quantiles: float | Sequence[float] | None = None,
        num_draws: int | None = None,
        *,
        ignore_extra: bool = False,
    ) -> Prediction:
        """Predict means, standard deviations and intervals at each row of X.

        Parameters
        ----------
        X
            A table with the model's columns, in any order; a single row as a dict or a pandas series; a list
            of such rows; or rows already encoded.
        level
            Probability of the interval: one, several, or None for no interval.
        interval
            "predictive", for a new outcome (of weight 1), or "credible", for the regression function; None
            is predictive for numbers and, for classes, credible: of their probabilities. "calibrated": for
            a new outcome, with a stated coverage (`calibrate`); of classes, prediction sets.
        quantiles
            Further quantiles of the same distribution, in (0, 1).
        num_draws
            Use the first `num_draws` draws of each chain, which reproduces an earlier answer after `extend`;
            None uses all.
        ignore_extra
            Whether columns that the model doesn't know are left out with a warning; else they are refused.

        Returns
        -------
        Prediction
            ``mean`` and ``sd``, float64 [row] (of more than two classes [row, class]), ``intervals``,
            ``quantiles``, and for each row the cells unlike the training data.

        Raises
        ------
        DataError
            For rows that don't fit the model, with each cell named.
        SettingsError
            For an invalid level, interval, quantile or number of draws; for calibrated intervals of a model
            that has none, and for levels that need more calibration rows.

        """
        if interval == CALIBRATED:
            levels = levels_to_claim(self.law, level, quantiles, num_draws)
            return predict_calibrated(self.law, X, levels, num_draws, ignore_extra=ignore_extra)
        return predict(self.law, X, level, interval, quantiles, num_draws, ignore_extra=ignore_extra)

    def aggregate(
        self,
        X: Any,
        by: str | Sequence[str] | None = None,
        of: str = "sum",
        q: float | None = None,
        level: float = 0.9,
        interval: str = "predictive",
        *,
        weights: Any = None,
        observed: Any = None,
        compare: Mapping[str, Sequence[Any]] | None = None,
        population: bool = False,
        num_draws: int | None = None,
        ignore_extra: bool = False,
    ) -> Aggregate:
        """Compute totals, means or quantiles of sets of rows, with intervals of their own.

        Intervals are of the rows' joint law (docs/maths.md#totals): rows share f, and those of one new group
        its intercept, so ends of the rows' intervals must not be added up.

        Parameters
        ----------
        X
            Rows, as for `predict`, with the columns that `by` and `compare` name.
        by
            Up to four columns whose equal values make a set: of the model, or others; None makes one set.
        of
            "sum", "mean" or "quantile" of the set's outcomes; of classes the number of rows or their share.
        q
            Which quantile, between 0 and 1.
        level
            Probability of the intervals.
        interval
            "predictive" is of what will be observed, "credible" of what is expected; "calibrated", with a
            stated coverage, of totals and means by the column that `new_rows` of a calibrated fit named.
        weights
            n positive factors by which outcomes count, such as areas, or the name of their column; None for
            1.
        observed
            n outcomes, missing where they are not known: known ones count as they are.
        compare
            A column and two of its values, ``{"region": ["North", "South"]}``: the figure of the first less
            that of the second, in place of the figure itself.
        population
            Whether a mean of what is expected is that of the population that the rows of a set are a sample
            of: its interval allows for their number too (Bayesian bootstrap).
        num_draws
            Use the first `num_draws` draws of each chain; None uses all.
        ignore_extra
            Whether other columns that the model doesn't know are left out with a warning.

        Returns
        -------
        Aggregate
            ``mean``, ``lower`` and ``upper``, float64 [set] (of more than two classes [set, class]), with the
            numbers of rows, known outcomes and new groups. Sums of normal outcomes and of Poisson counts are
            exact; of others 16,000 outcomes are simulated.

        Raises
        ------
        DataError
            For rows, weights or outcomes that don't fit the model, and known outcomes of new groups.
        SettingsError
            For unknown columns and values, and an invalid figure, level or interval.

        """
        request = AggregateRequest.check(by, of, q, level, interval, compare, population)
        if of == "quantile":
            check("quantiles of sets", self.law)
        columns = [*request.columns, *named(weights)]
        table = read_rows(X).reading_once(columns) if columns else None
        rows = X if table is None else table
        coded = self.law.draws.encode(rows, ignore_extra=ignore_extra, beside=columns)
        sets = RowSets.read(self.law, coded, table, request, weights, observed)
        return aggregate(self.law, coded, sets, request, num_draws)

    def sample_predictive(
        self, X: Any, weights: Any = None, num_draws: int | None = None, *, seed: int = 0
    ) -> Floats:
        """Draw new outcomes of each row: one from the distribution that each posterior draw gives it.

        Parameters
        ----------
        X
            n rows, as for `predict`; of a model of censored outcomes, the draws are not censored.
        weights
            n positive precision weights, the name of their column, or None for 1: row i has variance
            sigma^2 / weight.
        num_draws
            Use the first `num_draws` draws of each chain; None uses all.
        seed
            Seed of the draws: equal arguments give equal draws.

        Returns
        -------
        ndarray
            float64 [chain, draw, row], in units of the outcome; of classes their indices in `classes`. Rows
            of one new group share its intercept, and each row without a group has one of its own. Where draws
            have weights (`Posterior.weights`), these have the same.

        Raises
        ------
        DataError
            For rows or weights that don't fit the model.
        SettingsError
            For weights of counts and classes, and invalid numbers of draws.

        """
        draws = self.law.draws
        check_weighted(self.law, weighted=weights is not None)
        if isinstance(weights, str):
            table = read_rows(X)
            X, weights = draws.encode(table, beside=[weights]), named_column(table, "weights", weights)
        coded, (chosen, used) = draws.coded(X), draws.choose(num_draws)
        precisions = None if weights is None else read_weights(weights, coded.num_rows)
        y = draw_outcomes(self.law, coded, chosen, precisions, seed)
        return y.reshape(draws.num_chains, used, coded.num_rows)

    def survival(
        self,
        X: Any,
        times: Sequence[float] | None = None,
        level: float = 0.9,
        num_draws: int | None = None,
        *,
        ignore_extra: bool = False,
    ) -> SurvivalCurves:
        """Compute survival curves: the probability that a row's outcome exceeds each of some times.

        Parameters
        ----------
        X, num_draws, ignore_extra
            Rows and draws, as for `predict`.
        times
            Up to 1,000 increasing times (or values, of a model with limits); None takes 50 that divide the
            range of the training outcomes evenly.
        level
            Probability of the credible intervals.

        Returns
        -------
        SurvivalCurves
            ``times``, and at these ``survival`` with ``lower`` and ``upper``, float64 [row, time]; for each
            row the ``median`` and the ``restricted_mean`` (up to the last of the times), with intervals.

        Raises
        ------
        DataError
            For rows that don't fit the model.
        SettingsError
            For a model fitted without event, lower and upper, and invalid times, level or number of draws.

        """
        coded = X if isinstance(X, Coded) else self.encode(X, ignore_extra=ignore_extra)
        return survival_curves(self.law, coded, times, level, num_draws)

    def extend(
        self, num_draws: int, X: Any = None, y: Any = None, weights: Any = None, *, progress: bool = True
    ) -> Posterior:
        """Continue the chains for more draws and return a new posterior.

        The draws equal, bit for bit, those of one longer fit with the same `num_burnin`; a recalibration
        stays. The chains continue from their last states, which `save` keeps too. It does not keep the
        training rows, so a loaded posterior needs them again: `load(path).extend(500, X, y)`.

        Parameters
        ----------
        num_draws
            Number of further draws per chain.
        X, y, weights
            Rows given to `fit`, in the same order; needed after `load` only.
        progress
            Whether to show a progress bar.

        Raises
        ------
        SettingsError
            When there are no rows or no states to continue from, or `num_draws` is out of range.
        DataError
            When the rows are not those of the fit.

        """
        if self.origin is None:
            raise SettingsError(
                "this model has no states of its chains (a service's file never has): fit again "
                "with more draws",
                field=None,
                code="unavailable",
            )
        rows = None if X is None and y is None else (X, y, weights)
        method = method_of(self.settings)
        extended: Posterior = method.extend(self, self.origin, num_draws, rows, progress=progress)
        by = self.law.recalibration
        return extended if by is None else extended.recalibrated_by(by)

    def discard(self, num_draws: int) -> Posterior:
        """Return the posterior without the first draws of each chain, as if its burn-in had been longer.

        Parameters
        ----------
        num_draws
            Number of draws per chain to leave out, less than there are.

        Returns
        -------
        Posterior
            Without a calibration, which is that of other draws; `extend` continues its chains.

        Raises
        ------
        SettingsError
            When `num_draws` is out of range, or the method makes all draws at once.

        """
        if method_of(self.settings).engine.at_once:
            method = str(self.settings["method"])
            raise SettingsError(
                f"method {method} makes all its draws at once: none comes before others",
                field="method",
                code="not_applicable",
            )
        if num_draws not in range(self.num_draws):
            raise SettingsError(
                f"num_draws must be a whole number from 0 to {self.num_draws - 1}, since one draw has to be "
                f"left, not {num_draws!r}",
                field="num_draws",
                code="out_of_range",
            )
        if num_draws == 0:
            return self
        discarded = int(self.settings.get("discarded", 0)) + num_draws
        lengths = {"num_draws": self.num_draws - num_draws, "discarded": discarded}
        header = replace(self.header, settings=self.settings | lengths, calibration=None)
        blocks = [[pack(draws[num_draws:])] for draws in self.chains()]
        posterior = Posterior.from_blocks(header.to_bytes(), blocks, self.law.draws.statistics)
        posterior.origin = self.origin
        return posterior

    def model_card(
        self,
        X: Any = None,
        y: Any = None,
        weights: Any = None,
        *,
        scores: Mapping[str, Any] | None = None,
        importance: Mapping[str, Any] | None = None,
        facts: Mapping[str, str] | None = None,
    ) -> ModelCard:
        """Describe the model on one page: data, settings, verdicts, scores, importance, effects and limits.

        Parameters
        ----------
        X, y, weights
            Rows that the model was not fitted to, with their outcomes, for scores and importance; None for a
            card without them.
        scores, importance
            Scores and importance known already, as `score` and `importance(..).to_json()` return them, in
            place of rows.
        facts
            Further facts for the first section, by name.

        Returns
        -------
        ModelCard
            `to_markdown()` and `to_html()` write it; notebooks show it.

        Raises
        ------
        DataError
            For rows that don't fit the model.

        """
        if X is not None:
            scores = self.score(X, y, weights)
            importance = self.importance(X, y, weights).to_json()
        card: ModelCard = draw("model_card:model_card", self, scores, importance, facts or {})
        return card

    @property
    def plot(self) -> Any:
        """Charts with matplotlib, which is optional: `posterior.plot.traces()` and so on.

        They are methods of `sampler.posterior.charts.plots.Plots`.
        """
        return draw("plots:Plots", self)

    def to_arviz(self, X: Any = None, y: Any = None, weights: Any = None) -> Any:
        """Convert the draws to ArviZ's data tree; needs the package arviz-base.

        Parameters
        ----------
        X, y, weights
            Rows, outcomes and weights, as for `score`: those of training for cross-validation (`az.loo`) and
            predictive checks (`az.plot_ppc`); None for the draws at the up to 200 reference rows alone.

        Returns
        -------
        DataTree
            ``posterior``: `f`, the regression function at the rows, and where the model has them `sigma`,
            `degrees` (of freedom of the noise) and `dispersion`. With rows also ``posterior_predictive``,
            ``log_likelihood`` and ``observed_data``, under the outcome's name; classes are numbers. Variables
            have their units as attributes. Draws with weights are repeated in proportion to these.

        Raises
        ------
        DataError
            For rows or outcomes that don't fit the model.
        SettingsError
            For rows without outcomes.

        """
        return draw("arviz:to_arviz", self, X, y, weights)

    def to_bytes(self) -> bytes:
        """Encode the posterior as a model file."""
        checkpoints = self.origin.checkpoints if self.origin else []
        return write_model(
            self.header.to_bytes(), self.law.draws.blocks, self.law.draws.statistics, checkpoints
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Posterior:
        """Decode a model file; raise PackedError."""
        header, blocks, statistics, checkpoints = read_parts(data)
        posterior = cls.from_blocks(header, blocks, statistics)
        posterior.origin = Origin(None, checkpoints) if checkpoints else None
        return posterior

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file atomically."""
        save_bytes(path, self.to_bytes())

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
        order, unit = (np.arange(len(scores)), None) if plan is None else plan.judged(splits)
        table = ConformalTable.of(
            kind,
            self.num_draws,
            scores[order],
            of_classes=self.classes is not None,
            new_rows=LIKE_TRAINING if plan is None else plan.new_rows,
            unit=unit,
            members=None if members is None else members.take(order),
            before=before,
            totals=totals,
        )
        return self.with_table(table)

    def recalibrated_by(self, by: Recalibration) -> Self:
        """Return the same draws with another law of outcomes."""
        return type(self)(self.law.recalibrated(by), self.origin)

    def with_table(self, table: ConformalTable) -> Self:
        """Return the same draws with another calibration."""
        calibrated = copy(self)
        calibrated.law = copy(self.law)
        calibrated.law.draws = copy(self.law.draws)
        calibrated.law.draws.header = replace(self.header, calibration=table)
        return calibrated

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the posterior as its model file, without the training rows."""
        return Posterior.from_bytes, (self.to_bytes(),)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in INTERNAL]

    def _repr_html_(self) -> str:
        html: str = draw("cards:posterior_card", self)
        return html

    def __repr__(self) -> str:
        columns = ", ".join(column.name for column in self.schema.columns)
        return (
            f"<Posterior of {self.schema.target.name} given {columns}: "
            f"{counted(self.num_chains, 'chain')} of {counted(self.num_draws, 'draw')} of "
            f"{counted(self.leaf_counts.shape[2], 'tree')}>"
        )
