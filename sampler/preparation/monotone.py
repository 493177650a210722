"""Monotone features: the coded columns that they are, and which features may be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sampler.array_types import Longs
from sampler.data.schema import OF_LEVELS
from sampler.data.table import Table
from sampler.errors import SettingsError, suggestion
from sampler.preparation.fit_plan import FitPlan
from sampler.preparation.part import PartDesign, PartRows
from sampler.setting_checks import DIRECTIONS


@dataclass(frozen=True, eq=False)
class MonotoneTraining:
    """1 for coded columns with which the mean rises, -1 where it falls, else 0, int64 [p]."""

    directions: Longs
    identity = b""  # the settings have all of it

    def take(self, rows: Longs) -> MonotoneTraining:  # noqa: ARG002
        """Return itself, which is of columns."""
        return self


class MonotoneDesign(PartDesign):
    """Directions of the coded columns, by the settings."""

    @classmethod
    def check(cls, planned: FitPlan, table: Table) -> None:  # noqa: ARG003
        """Raise SettingsError for monotone features that are none, or have no order, or slopes by group."""
        kinds = planned.choice.kinds
        for name in planned.settings.monotone:
            reason = ""
            if name not in kinds:
                reason = f"it is no feature{suggestion(name, kinds)}"
            elif kinds[name] in OF_LEVELS:
                reason = "its levels have no order: make it a number, or leave it out"
            elif name in planned.slopes:
                reason = "its slope differs by group: leave it out of slopes"
            if reason:
                message = f"monotone names {name!r}, but {reason}"
                raise SettingsError(message, field="monotone", code="not_applicable")

    @classmethod
    def training(cls, facts: None, rows: PartRows) -> MonotoneTraining | None:  # noqa: ARG003
        """Return the directions; None without monotone features."""
        given, schema = rows.settings.monotone, rows.schema
        if not given:
            return None
        names = [schema.columns[column].name for column, _ in schema.coded]
        return MonotoneTraining(
            np.array([DIRECTIONS.get(given.get(name, ""), 0) for name in names], np.int64)
        )
