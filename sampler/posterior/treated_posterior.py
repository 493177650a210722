"""The methods of a posterior that has a treatment: its effects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sampler.data.encode import Coded
from sampler.data.table import RawColumn, read
from sampler.engines import load_code
from sampler.errors import SettingsError, unknown_feature
from sampler.posterior.explanations.contrasts import By
from sampler.posterior.explanations.effect_measures import MeasureName
from sampler.posterior.explanations.panels import BY_PANEL, facts_of_rows
from sampler.posterior.explanations.treatment_effects import EffectsRequest, treatment_effects
from sampler.posterior.laws.law import Law
from sampler.posterior.refusals import check
from sampler.posterior.results.treatment_effects import TreatmentEffects
from sampler.prepared_fit import PreparedFit
from sampler.storage.model_header import Header
from sampler.training import GroupTraining, LinearTraining, Training


@dataclass(frozen=True)
class Origin:
    """State from which a posterior's chains continue: their data (None once loaded) and last states."""

    problem: PreparedFit | None
    checkpoints: list[bytes]


class TreatedPosterior:
    """Methods of a posterior: what a treatment adds to the outcome."""

    law: Law
    origin: Origin | None

    def effects(
        self,
        X: Any = None,
        *,
        of: str = "all",
        by: By | None = None,
        level: float = 0.9,
        num_draws: int | None = None,
        arm: str | float | None = None,
        against: str | float | None = None,
        measure: MeasureName | None = None,
        until: float | None = None,
    ) -> TreatmentEffects:
        """Compute what the treatment adds to the outcome: on average, in groups and for each row.

        Parameters
        ----------
        X
            Rows, as for `predict`, with the column of the treatment; None takes the rows of the fit, or of a
            model that was loaded those up to 200 of them that its file keeps.
        of
            Which of the rows count: "all", "treated" (those in `arm`) or "untreated" (those in `against`).
        by
            A column by which averages are given too: by its levels, or a number or date by quarters; two
            of them; or cut points of numbers, ``{"age": [40, 60]}``, with None for a second one without. It
            is a feature, a column of groups, or one that X has beside those of the model.
        level
            Probability of the intervals.
        num_draws
            Use the first `num_draws` draws of each chain; None uses all.
        arm, against
            Of a treatment with several arms the names of the two that are compared; by default the second
            beside the first, in their order. Of a dose the two doses, within the range of those of the fit;
            by default effects are those of a unit of it.
        measure
            Of times with events, what is compared: "restricted_mean" (the default), the mean of the time or
            of `until` where that is less; "survival", the probability of a time of more than `until`; or
            "ratio", by what every quantile of a row's times is multiplied, averaged by logarithms.
        until
            That time; by default a tenth of the rows of each arm compared were followed until then.

        Returns
        -------
        TreatmentEffects
            Averages with intervals of these rows and of the population that they are a sample of, and the
            effect on each row, in units of the outcome; of two classes, on the probability of the second.

        Raises
        ------
        DataError
            For rows that don't fit the model, and where no row counts.
        SettingsError
            For a model without a treatment, and an invalid request.

        """
        law = self.law.for_means
        check("effects", law)
        request = EffectsRequest.check(law, of, by, level, (arm, against), (measure, until))
        chosen = law.alike(num_draws)
        beside = self._beside(X, by)
        rows = read(X).without(beside) if beside else X
        coded = self.training_rows() if X is None else law.draws.coded(rows)
        return treatment_effects(law, coded, request, chosen, beside)

    def _beside(self, X: Any, by: By | None) -> dict[str, RawColumn]:
        """Read the columns of rows by which averages are asked for and that the model doesn't have."""
        schema, roles = self.law.schema, self.law.draws.header.roles.values()
        known = [column.name for column in (*schema.columns, *schema.groups)]
        names = [by] if isinstance(by, str) else by if isinstance(by, list | tuple | dict) else []
        known += [] if self.law.draws.header.panel is None else BY_PANEL
        strange = [
            name
            for name in names
            if isinstance(name, str) and name not in [*known, *roles, schema.target.name]
        ]
        if strange and X is None:
            why = (
                f"{unknown_feature('by', strange[0], known)}; to average by another column give rows with it"
            )
            raise SettingsError(why, field="by", code="unknown")
        if not strange or isinstance(X, Coded):
            return {}
        table = read(X)
        return {name: table.column(name) for name in strange if name in table.names}

    def placebo(
        self, seed: int = 0, level: float = 0.9, *, periods_earlier: int | None = None
    ) -> TreatmentEffects:
        """Compute effects of a placebo: the same fit to treatments drawn by chance, which did nothing.

        Each row is as probable to have it as it was to be treated; of a dose it has what was expected and
        another row's distance from that. In a panel it is the same adoption some periods earlier, fitted to
        the rows before it alone: its lags are leads of the adoption. An interval of the average without 0 is
        a sign that the model takes something else for an effect.

        Parameters
        ----------
        seed
            Seed of the treatments; a panel draws none.
        level
            Probability of the intervals.
        periods_earlier
            Of a panel, by how many periods earlier; 2 by default.

        Returns
        -------
        TreatmentEffects
            Effects of the placebo.

        Raises
        ------
        SettingsError
            For a model without a treatment, or one that was loaded: its file has no rows.

        """
        problem = None if self.origin is None else self.origin.problem
        check("placebo", self.law)
        if problem is None:
            why = "a loaded posterior has no training rows: fit it again"
            raise SettingsError(why, field=None, code="unavailable")
        fitted = load_code("sampler.studies.placebo:placebo_fit")(problem, seed, periods_earlier)
        effects: TreatmentEffects = fitted.effects(level=level)
        return effects

    def keep_support(self) -> None:
        """Keep what the rows of the fit, where they are at hand, say of which others are like them."""
        header = self.law.draws.header
        problem = None if self.origin is None else self.origin.problem
        if problem is not None and "treatment" in header.parts:
            y = header.transform.inverse(problem.training.y)
            own = facts_of_rows(self.law, self.training_rows(), y)
            self.law.draws.header = replace(header, parts={**header.parts, **own})

    def training_rows(self) -> Coded:
        """Return the rows of the fit where they are at hand, or else the reference rows."""
        problem = None if self.origin is None else self.origin.problem
        draws = self.law.draws
        if problem is not None and problem.training.codes.shape[1] > draws.reference.num_rows:
            return rows_of_fit(problem.training, draws.header)
        coded, known = draws.default_rows(), draws.header.num_rows
        if "event" in draws.header.roles and (kept := draws.reference_outcomes):
            limits = np.stack([kept[1], kept[1]]) if kept[0].limits is None else kept[0].limits
            coded = replace(coded, limits=limits)
        rows = coded.num_rows
        few = (
            f"{rows} of the {known} rows of the fit, those that a model file keeps: send the rows for others"
        )
        return replace(coded, warnings=[few] if known is not None and known > rows else [])


def rows_of_fit(training: Training, header: Header) -> Coded:
    """Return the rows that chains learn from as a posterior takes rows."""
    groups, values = training.part(GroupTraining).index if header.groupings else None, None
    codes = training.codes[: len(header.grid.cuts)]
    if header.needs_values:
        values = np.zeros(codes.shape)
        if header.groupings and header.groupings.num_slopes:
            z = training.part(GroupTraining).z
            assert z is not None, "there are slopes"
            header.groupings.slopes.restore(values, z)
        if header.linear:  # it knows which are missing
            header.linear.restore(values, training.part(LinearTraining).z)
    limits = None
    if "event" in header.roles:
        limits = np.stack([training.y, training.y]) if training.limits is None else training.limits
        limits = header.transform.inverse(limits)
    return Coded(codes, [], values=values, groups=groups, limits=limits, by_role=dict(training.by_role))
