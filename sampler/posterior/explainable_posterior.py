"""The methods of a posterior that explain it: importance, effects, contrasts, interactions, SHAP values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.treatment.design import ROLE
from sampler.errors import SettingsError
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.core.intervals import Request
from sampler.posterior.explanations.accumulated_effects import accumulated_effects
from sampler.posterior.explanations.contrasts import ContrastWish, contrast
from sampler.posterior.explanations.effect_measures import Measure
from sampler.posterior.explanations.inclusion import inclusion, rows_at_rules
from sampler.posterior.explanations.interactions import interactions
from sampler.posterior.explanations.partial_dependence import (
    EffectRequest,
    cells_of_codes,
    partial_dependence,
)
from sampler.posterior.explanations.permutation import permutation_importance
from sampler.posterior.explanations.shap_values import cells, explain, some_of
from sampler.posterior.explanations.work import rows_to_average
from sampler.posterior.laws.law import Law
from sampler.posterior.parts.compared_treatments import Compared
from sampler.posterior.protocol import GameKind
from sampler.posterior.refusals import check
from sampler.posterior.results.contrasts import Contrast
from sampler.posterior.results.effects import AccumulatedEffects, PartialDependence
from sampler.posterior.results.interactions import Interactions
from sampler.posterior.results.rankings import Inclusion, PermutationImportance
from sampler.posterior.results.shap_values import ShapValues
from sampler.storage.draws import concatenate

PARTS = ("mean", "noise")  # parts of a model that may have trees


class ExplainablePosterior:
    """Methods of a posterior: explanations of what its draws learnt."""

    law: Law

    def inclusion(self, level: float = 0.9, of: str = "mean", by: str = "rules", X: Any = None) -> Inclusion:
        """Compute the share of split rules that use each feature; a category's indicators are added up.

        Draws without any rule are left out of the mean; their number is reported.

        Parameters
        ----------
        level
            Probability of the interval over draws.
        of
            "mean", or "noise" for the trees that make the noise differ by row.
        by
            "rules", each counted once; or "rows", each counted by the rows that reach it, so that the first
            rules of a tree weigh more, and rules on a few rows little (CGM10, section 3.2).
        X
            Rows to count, with `by` "rows"; None takes the up to 200 reference rows.

        Returns
        -------
        Inclusion
            Shares by feature, with intervals.

        Raises
        ------
        DataError
            For rows that don't fit the model.
        SettingsError
            For an invalid level, `of` or `by`, for "noise" of a model whose noise doesn't differ by row; by
            rows also for "noise" and soft trees.

        """
        level = Request.check_level(level)
        names = [column.name for column in self.law.schema.columns]
        self._check_part(of)
        if by not in {"rules", "rows"}:
            raise SettingsError(f"by must be rules or rows, not {by!r}", field="by", code="not_accepted")
        if by == "rules":
            return inclusion(names, self.law.rules(of), level)
        check("usage of noise by rows" if of == "noise" else "usage by rows", self.law)
        return inclusion(names, rows_at_rules(self.law, self.law.draws.coded_to_average(X)), level)

    def _check_part(self, of: str) -> str:
        """Check the name of a part of the model that has trees; raise SettingsError."""
        if of not in PARTS:
            raise SettingsError(f"of must be mean or noise, not {of!r}", field="of", code="not_accepted")
        if of == "noise":
            check("parts of noise", self.law)
        return of

    def importance(
        self,
        X: Any,
        y: Any,
        weights: Any = None,
        *,
        loss: str | None = None,
        level: float = 0.9,
        permutations: int = 10,
        seed: int = 0,
        groups: Any = None,
    ) -> PermutationImportance:
        """Rank the features by how much a loss grows when one of them is shuffled among the rows.

        Features that carry the same information share it: shuffling one of them costs little while the
        other remains.

        Parameters
        ----------
        X, y, weights
            Rows that the posterior was not fitted to (`holdout_rows` chooses such rows), their outcomes and
            weights, as for `score`; at most 1,000 are used, evenly spaced.
        loss
            "rmse", the root mean square error in units of the outcome (not for classes, censored outcomes),
            or "log_loss", the mean of minus the log density or log probability of the outcomes. None takes
            `rmse` for numbers with normal noise of the same size everywhere, else `log_loss`, which also sees
            features that matter to the noise alone.
        level
            Probability of the intervals, which are over draws and permutations.
        permutations
            Number of permutations.
        seed
            Seed of the permutations.
        groups
            A column of `X`, as for `score`: a feature that is constant within its values (a subject's
            age) is shuffled between these; None takes the column of declared new groups.

        Returns
        -------
        PermutationImportance
            The increase of the loss by feature, with intervals.

        Raises
        ------
        DataError
            For rows or outcomes that don't fit the model, and fewer than two rows.
        SettingsError
            For an invalid loss, level or number, and weights with classes or counts.

        """
        law = self.law
        rows = LabelledRows.read_groups(law, X, y, weights, groups)
        losses = None if loss is None else [loss]
        ranked = permutation_importance(law, rows, losses, level=level, permutations=permutations, seed=seed)
        return ranked[0]

    def partial_dependence(
        self,
        features: str | Sequence[str],
        X: Any = None,
        grid: Mapping[str, Sequence[Any]] | None = None,
        level: float | Sequence[float] = 0.9,
        *,
        ice: int = 0,
        num_draws: int | None = None,
        max_work: float = math.inf,
        of: str = "mean",
        arm: str | float | None = None,
        against: str | float | None = None,
    ) -> PartialDependence:
        """Compute the mean prediction over rows as a function of one to three features, with intervals.

        Parameters
        ----------
        features
            One to three names: "weight" or ["weight"].
        X
            Rows to average over; None takes the up to 200 reference rows, with their exposures or offsets.
        grid
            Points by feature; the default is all levels, or up to 19 values that divide the training rows
            evenly (9 of each of three features).
        level
            Probability of the interval, one or several.
        ice
            Number of single rows whose curves are computed too (individual conditional expectation).
        num_draws
            Use the first `num_draws` draws of each chain; None uses all.
        max_work
            Bound on the work, in tenths of a nanosecond of a core; rows are left out, evenly, to respect it.
        of
            "mean", or "noise" for the noise's standard deviation where it differs by row: what makes an
            outcome uncertain; "effect" for that of the treatment of a fit that has one, of times with events
            on the restricted mean.
        arm, against
            Of the effect of a treatment with several arms, or of a dose, the two compared, as for `effects`.

        Returns
        -------
        PartialDependence
            The grid, and at its points the mean, its sd and intervals.

        Raises
        ------
        DataError
            For rows or points that don't fit the model.
        SettingsError
            For invalid features, levels or numbers, and for too much work.

        """
        law = self.law.for_means
        levels = Request.check(level, "credible", None).levels
        coded = law.draws.coded_to_average(X)
        chosen = law.alike(num_draws)

        if of == "effect":
            check("effects", law)
        else:
            self._check_part(of)
        header = law.draws.header
        compared = Compared.of(header.effects, arm, against, header.panel if of == "effect" else None)
        if compared.lags:  # rows that have none have no effect
            coded = coded.part(np.flatnonzero(compared.are_first(coded.by_role[ROLE])))
        measure = Measure.of(law, compared) if of == "effect" else Measure()

        def f(changed: Coded) -> Floats:
            if of == "effect":
                return measure.effect_of(law, changed, chosen, compared)
            if of == "noise":
                return law.outcome_sd(changed, num_draws).reshape(len(chosen), changed.num_rows)
            return law.mean_of(changed, chosen)

        asked = EffectRequest(features, grid or {}, levels, ice)
        affordable = partial(rows_to_average, law, len(chosen), most=max_work)
        average = law.average_of(chosen) if of == "mean" else None
        effect = partial_dependence(law.draws.header, f, coded, len(chosen), asked, affordable, average)
        return replace(effect, classes=law.classes)

    def shap(
        self,
        X: Any = None,
        background: Any = None,
        level: float = 0.9,
        *,
        game: GameKind = "interventional",
        max_draws: int | None = None,
    ) -> ShapValues:
        """Compute SHAP values: how much each column moves the prediction of each row, with intervals.

        They are exact on every draw, and add up to f less its average over the background rows: by all draws
        to the mean of `predict`, where the trees learn the outcome in its own unit. For two classes f is on
        the probit scale; see `scale` of the answer.

        Parameters
        ----------
        X
            A table with the model's columns, in any order; n rows. None takes the up to 200 reference rows.
        background
            Rows that stand for "not knowing" a column; None takes 100 of the reference rows.
        level
            Probability of the intervals.
        game
            "interventional": an unknown column takes its values from the background rows. "path-dependent":
            it goes both ways at its splits, by the shares of background rows there, so that columns that
            go together share what is due to either.
        max_draws
            Most draws used, evenly spaced over all chains; None takes all. Of fewer, values and base add up
            to the mean of these draws, ``f`` of the answer, and a warning says so.

        Returns
        -------
        ShapValues
            ``values`` with ``lower`` and ``upper``, float64 [row, column] (of classes [row, column, class]).

        Raises
        ------
        DataError
            For rows that don't fit the model, with each cell named.
        SettingsError
            For an invalid level, game or number of draws, and for soft trees, which have no exact values.

        """
        law = self.law
        check("shap", law)
        level = Request.check_level(level)
        rows = law.draws.reference if background is None else self.law.draws.coded(background)
        coded = law.draws.reference if X is None else self.law.draws.coded(X)
        data = (
            cells_of_codes(law.draws.header, coded.codes) if X is None or X is coded else cells(X, law.schema)
        )
        return explain(law, coded, data, rows, law.alike(None), level, game, max_draws)

    def accumulated_effects(
        self,
        feature: str,
        X: Any = None,
        level: float | Sequence[float] = 0.9,
        *,
        num_draws: int | None = None,
    ) -> AccumulatedEffects:
        """Compute accumulated local effects of a column of numbers or dates, with intervals over draws.

        Unlike `partial_dependence` they never set a column far from its value in a row, so that columns that
        go together don't lead to rows which the data have nothing like.

        Parameters
        ----------
        feature
            Name of the column.
        X
            Rows; None takes the up to 200 reference rows, with their exposures or offsets.
        level
            Probability of the interval, one or several.
        num_draws
            Use the first `num_draws` draws of each chain; None uses all.

        Returns
        -------
        AccumulatedEffects
            The grid, and at its points the effect with intervals.

        Raises
        ------
        DataError
            For rows that don't fit the model.
        SettingsError
            For a column that is unknown or has no order, and invalid levels and numbers.

        """
        law = self.law.for_means
        levels = Request.check(level, "credible", None).levels
        coded = law.draws.coded_to_average(X)
        chosen = law.alike(num_draws)

        def f(changed: Coded) -> Floats:
            return law.mean_of(changed, chosen)

        return accumulated_effects(law.draws.header, f, coded, feature, levels)

    def contrast(
        self,
        X: Any,
        first: Mapping[str, Any],
        second: Mapping[str, Any],
        *,
        by: str | None = None,
        level: float = 0.9,
        num_draws: int | None = None,
    ) -> Contrast:
        """Compute how predictions differ between two settings of some columns, by row and on average.

        It is E[f(x with the first setting) - f(x with the second)], for two classes of the probability of the
        second, for more of each.

        Parameters
        ----------
        X
            Rows whose other columns stay as they are; None takes the up to 200 reference rows, with their
            exposures or offsets.
        first, second
            Values by column, of the same columns: ``{"dose": 2}``, ``{"dose": 1}``.
        by
            A column by which averages are given too: by its levels, or a number or date by quarters.
        level
            Probability of the intervals.
        num_draws
            Use the first `num_draws` draws of each chain; None uses all.

        Returns
        -------
        Contrast
            Differences by row, on average, and by group, with intervals.

        Raises
        ------
        DataError
            For rows or values that don't fit the model.
        SettingsError
            For unknown columns, settings of different columns, and invalid levels and numbers.

        """
        law = self.law.for_means
        level = Request.check_level(level)
        coded = law.draws.coded_to_average(X)
        chosen = law.alike(num_draws)

        def f(changed: Coded) -> Floats:
            return law.mean_of(changed, chosen)

        request = ContrastWish(first, second, by, level)
        return contrast(law.draws.header, f, coded, self.inclusion().mean, request)

    def interactions(
        self,
        features: Sequence[str] | None = None,
        X: Any = None,
        level: float = 0.9,
        *,
        max_draws: int | None = None,
    ) -> Interactions:
        """Compute how strongly each two columns act together, with intervals over draws.

        Parameters
        ----------
        features
            At least two columns; None takes the ten that most rules use.
        X
            Rows over which effects are averaged and compared, at most 50, evenly spaced; None takes reference
            rows.
        level
            Probability of the intervals.
        max_draws
            Most draws used for H, evenly spaced over all chains; None uses all, as inclusion does.

        Returns
        -------
        Interactions
            The pairs, the strongest first, with intervals.

        Raises
        ------
        DataError
            For rows that don't fit the model.
        SettingsError
            For unknown columns, fewer than two, more than two classes, and soft trees.

        """
        law = self.law
        check("interactions", law)
        level = Request.check_level(level)
        chosen = some_of(law.alike(None), max_draws)

        def f(changed: Coded) -> Floats:
            return law.f_of(changed, chosen)

        coded = law.draws.coded_to_average(X)
        scale = law.learnt_unit() if law.classes is None else f"the probability of {law.classes[1]!r}"
        return interactions(
            law.draws.header, concatenate(law.draws.chains()), f, coded, features, level, scale
        )
