"""Panels of a fit: what their treatment and groups are made of, and warnings."""

from __future__ import annotations

import numpy as np

from sampler.data.table import Table
from sampler.data.treatment.design import ROLE
from sampler.data.treatment.panel import Panel
from sampler.errors import SettingsError
from sampler.preparation.fit_plan import FitPlan
from sampler.preparation.part import PartDesign, PartRows

FEW = 5  # units that adopt


class PanelDesign(PartDesign):
    """Adoptions and periods, which make the lags that are a treatment's arms."""

    @classmethod
    def check(cls, planned: FitPlan, table: Table) -> None:  # noqa: ARG003
        """Raise SettingsError for periods that are no feature of their kind."""
        panel = planned.panel
        if panel is not None and planned.choice.kinds.get(panel.period) != panel.kind:
            message = f"period: {panel.period!r} must be a feature, a {panel.kind}: trends are learnt by it"
            raise SettingsError(message, field="period", code="not_accepted")

    @classmethod
    def facts(cls, rows: PartRows, planned: FitPlan) -> Panel | None:  # noqa: ARG003
        """Return how rows make the treatment; None of others than panels."""
        return planned.panel

    @classmethod
    def warnings(cls, facts: Panel, rows: PartRows, planned: FitPlan) -> list[str]:
        """Warn of few units that adopt."""
        units, treated = planned.group_index[1], rows.by_role[ROLE] > 0
        adopt = len(np.unique(units[treated]))
        if adopt >= FEW:
            return []
        return [
            f"{facts.adoption}: few units adopt ({adopt}): what else happened to them in those periods can't "
            "be told from the effect, and intervals don't allow for it"
        ]
