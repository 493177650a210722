"""Preparation of a surface over two coordinates: the places of the rows, and the prior's scale."""

from __future__ import annotations

import numpy as np

from sampler.data.spatial import NAME, Surface
from sampler.data.table import Table
from sampler.errors import SettingsError, suggestion
from sampler.families import FAMILIES
from sampler.preparation.fit_plan import FitPlan
from sampler.preparation.part import PartDesign, PartRows
from sampler.prior import outcome_sd
from sampler.training import SpatialTraining

FIELD = f"parts.{NAME}"


class SpatialDesign(PartDesign):
    """Waves over two features."""

    @classmethod
    def check(cls, planned: FitPlan, table: Table) -> None:  # noqa: ARG003
        """Raise SettingsError for other than two features that are numbers."""
        asked, kinds = planned.settings.parts[NAME], planned.choice.kinds
        names = asked if isinstance(asked, list | tuple) else ()
        if len(names) != 2 or names[0] == names[1]:
            message = f"{NAME} takes the names of two features, the coordinates of a row, not {asked!r}"
            raise SettingsError(message, field=FIELD, code="not_accepted")
        for name in names:
            if name not in kinds:
                message = f"{NAME}: {name!r} is not among the features{suggestion(name, [*kinds])}"
                raise SettingsError(message, field=FIELD, code="unknown")
            if kinds[name] != "number":
                message = f"{NAME}: {name!r} is a {kinds[name]}, and coordinates are numbers"
                raise SettingsError(message, field=FIELD, code="not_applicable")

    @classmethod
    def facts(cls, rows: PartRows, planned: FitPlan) -> Surface | None:  # noqa: ARG003
        """Lay the surface over the rows; None where the fit has none."""
        asked = rows.settings.parts.get(NAME)
        if asked is None:
            return None
        names = [rows.schema.columns[column].name for column, _ in rows.schema.coded]
        one, other = asked
        places = names.index(one), names.index(other)
        for name, place in zip(asked, places, strict=True):
            present = rows.design[place][~np.isnan(rows.design[place])]
            if not len(present) or not np.ptp(present) > 0 or not np.isfinite(np.ptp(present)):
                message = f"{NAME}: {name!r} has no two values in the training rows: leave {NAME} out"
                raise SettingsError(message, field=FIELD, code="not_applicable")
        latent = FAMILIES[rows.settings.family].has_latent_outcomes
        scale = 1.0 if latent else outcome_sd(rows.y, rows.weights)
        return Surface.over((one, other), places, rows.design, scale)

    @classmethod
    def training(cls, facts: Surface, rows: PartRows) -> SpatialTraining:
        """Find the places of the rows."""
        placed = facts.of(rows.design)
        angle = np.where(placed.missing, -1.0, placed.angle)
        _, first, place = np.unique(angle, axis=1, return_index=True, return_inverse=True)
        return SpatialTraining(facts, placed.take(first), place.reshape(-1))
