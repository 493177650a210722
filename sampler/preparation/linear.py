"""Terms of rows with slopes beside the trees, of all rows or by groups, and the groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from sampler.data.groupings import Groupings
from sampler.data.linear_terms import LinearTerms, has_no_slope, ridge_fit
from sampler.data.schema import OF_LEVELS
from sampler.data.table import RawColumn, Table
from sampler.errors import DataError, DataProblem, SettingsError, suggestion
from sampler.families import CLASS_SLOPE_SD, FAMILIES
from sampler.preparation.fit_plan import FitPlan
from sampler.preparation.part import PartDesign, PartRows
from sampler.prepared_fit import reference_rows
from sampler.prior import outcome_sd
from sampler.training import GroupTraining, LinearTraining


class LineDesign(PartDesign):
    """Terms of a linear part."""

    @classmethod
    def facts(cls, rows: PartRows, planned: FitPlan) -> LinearTerms | None:
        """Choose the terms; None where the settings have no linear part."""
        if not rows.settings.linear:
            return None
        classes = FAMILIES[rows.settings.family].has_classes
        scale = CLASS_SLOPE_SD if classes else outcome_sd(rows.y, rows.weights)
        period = None if planned.panel is None else planned.panel.period
        return LinearTerms.choose(rows.design, rows.schema, scale, period)

    @classmethod
    def training(cls, facts: LinearTerms, rows: PartRows) -> LinearTraining:
        """Compute the terms."""
        return LinearTraining(facts, facts.of(rows.design))

    @classmethod
    def estimates(cls, facts: LinearTerms, training: Any, rows: PartRows) -> dict[str, Any]:  # noqa: ARG003
        """Estimate the line roughly for numbers, float64 [n]."""
        classes = FAMILIES[rows.settings.family].has_classes
        return {} if classes else {"line": ridge_fit(training.z, rows.y, rows.weights)}


class GroupsDesign(PartDesign):
    """Groups of the rows, and the terms whose slopes differ by group."""

    @classmethod
    def check(cls, planned: FitPlan, table: Table) -> None:
        """Raise SettingsError for slopes of others than features that are numbers, with two values."""
        kinds = planned.choice.kinds
        for name in planned.slopes:
            if name not in kinds:
                message = f"slopes: {name!r} is not among the features{suggestion(name, [*kinds])}"
                raise SettingsError(message, field="slopes", code="unknown")
            if kinds[name] in OF_LEVELS:
                message = f"slopes: {name!r} is a category, of which there is no slope"
                message += ": take numbers, dates or booleans"
                raise SettingsError(message, field="slopes", code="not_applicable")
            if name in table.names and _is_constant(table.column(name)):
                raise SettingsError(has_no_slope(name), field="slopes", code="not_applicable")

    @classmethod
    def facts(cls, rows: PartRows, planned: FitPlan) -> Groupings | None:
        """Note the facts of the groups; None without any."""
        if not planned.groups:
            return None
        latent = FAMILIES[rows.settings.family].has_latent_outcomes
        scale = 1.0 if latent else outcome_sd(rows.y, rows.weights)
        terms = LinearTerms.of_columns(rows.design, rows.schema, planned.slopes, scale)
        index, places = planned.group_index, reference_rows(len(rows.y))
        return Groupings.of(planned.groups, index, scale, places, terms)

    @classmethod
    def training(cls, facts: Groupings, rows: PartRows) -> GroupTraining | None:
        """Return the groups of the rows; raise DataError for others than those of the fit."""
        if rows.groups is None:
            return None
        for column, places in zip(rows.schema.groups, rows.groups, strict=True):
            if np.any(places < 0):
                row = int(np.argmax(places < 0)) + 1
                raise DataError(
                    [DataProblem(column.name, row, "the fit had no such group, so this row was not in it")]
                )
        sizes, terms = tuple(map(len, facts.rows)), facts.slopes
        if not terms.column:
            return GroupTraining(rows.groups, sizes, facts.scales)
        line = rows.facts.get("line")
        lines = [] if line is None else [*zip(line.column, line.missing, strict=True)]
        of_line = [lines.index((k, False)) if (k, False) in lines else None for k in terms.column]
        return GroupTraining(rows.groups, sizes, facts.scales, terms.of(rows.design), tuple(of_line))


def _is_constant(column: RawColumn) -> bool:
    """Tell whether a column of numbers has no two values."""
    numbers, inf = column.numbers, np.inf
    return numbers is not None and not np.nanmax(numbers, initial=-inf) > np.nanmin(numbers, initial=inf)
