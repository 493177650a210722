"""Panels: rows by lag, cohort and period, and residuals of units from one period to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.table import RawColumn
from sampler.data.treatment.design import ROLE
from sampler.data.treatment.panel import PANEL, Panel
from sampler.data.treatment.support import SUPPORT
from sampler.posterior.explanations.contrasts import MAX_CELLS
from sampler.posterior.explanations.effect_checks import support_of
from sampler.posterior.laws.law import Law
from sampler.storage.model_header import Header

BY_PANEL = ("lag", "cohort", "period")
SERIAL = 0.2  # correlation of residuals from one period to the next: worth a word


def columns_by(header: Header, coded: Coded) -> Mapping[str, RawColumn]:
    """Return the lag, cohort and period of rows in a panel, unless a column of the model is called so."""
    panel = header.panel
    if panel is None or coded.groups is None:
        return {}
    cohorts = next(k for k, column in enumerate(header.schema.groups) if column.name == panel.adoption)
    found = {"cohort": (header.schema.groups[cohorts].levels, coded.groups[cohorts])}
    found["period"] = tuple(map(panel.label, panel.periods)), ranks(header, panel, coded)
    if ROLE in coded.by_role:
        found["lag"] = panel.arms, coded.by_role[ROLE].astype(np.int64)
    known = {column.name for column in (*header.schema.columns, *header.schema.groups)}
    return {
        name: RawColumn(name, "text", cells=[levels[k] if k >= 0 else None for k in places], levels=levels)
        for name, (levels, places) in found.items()
        if name not in known
    }


def ranks(header: Header, panel: Panel, coded: Coded) -> Floats:
    """Return the places of the rows' periods, int64 [row], by their codes."""
    names = [header.schema.columns[column].name for column, _ in header.schema.coded]
    place = names.index(panel.period)
    codes = header.grid.encode(place, np.array(panel.periods))
    return np.asarray(np.minimum(np.searchsorted(codes, coded.codes[place]), len(codes) - 1))


def facts_of_rows(law: Law, coded: Coded, y: Floats) -> dict[str, Any]:
    """Return what the rows of a fit with a treatment, and their outcomes [row], say of others, by part."""
    header = law.draws.header
    found: dict[str, Any] = {SUPPORT: support_of(law, coded)}
    if header.panel is not None:
        learnt = header.transform.forward(y) if header.transform else y
        found[PANEL] = replace(header.panel, correlation=serial_correlation(law, coded, learnt))
    return found


def serial_correlation(law: Law, coded: Coded, y: Floats) -> float | None:
    """Correlate residuals of the rows of a fit from one period to the next, within units.

    `y` are what is learnt of the outcomes [row]. Residuals of several rows of a unit and period are averaged;
    None where no unit has two periods in a row, or units have no more than two. That they are about the
    unit's own level is allowed for (Nickell 1981, to first order).
    """
    header = law.draws.header
    assert header.panel is not None
    assert coded.groups is not None, "cohorts and units are groups"
    chosen, mean = law.alike(None), np.empty(coded.num_rows)
    width = max(16, MAX_CELLS // len(chosen))
    for start in range(0, coded.num_rows, width):
        rows = slice(start, start + width)
        mean[rows] = law.f_of(coded.part(rows), chosen).mean(axis=0)
    periods = len(header.panel.periods)
    units = coded.groups[1 if len(coded.groups) > 1 else 0].astype(np.int64)
    cell = units * periods + ranks(header, header.panel, coded)
    count = np.bincount(cell, minlength=(units.max() + 1) * periods)
    total = np.bincount(cell, y - mean, minlength=len(count))
    residual = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0).reshape(-1, periods)
    first, second = residual[:, :-1], residual[:, 1:]
    both = ~np.isnan(first) & ~np.isnan(second)
    size = float(np.sqrt(np.sum(first[both] ** 2) * np.sum(second[both] ** 2)))
    length = float(np.sum(~np.isnan(residual)) / np.sum(np.any(~np.isnan(residual), axis=1)))
    if not size or length <= 2:
        return None
    found = np.sum(first[both] * second[both]) / size
    found = (found * (length - 1) + 1) / (length - 2)  # residuals about a unit's own level lean to below 0
    # equal files on machines whose sums differ in the last digit
    return float(f"{np.clip(found, -1, 1):.9g}")


def serial_warnings(panel: Panel | None) -> list[str]:
    """Warn of residuals that go on from one period to the next."""
    if panel is None or panel.correlation is None or panel.correlation <= SERIAL:
        return []
    return [
        f"what is left of a unit's outcome goes on in the next period (correlation {panel.correlation:.2f}), "
        "and intervals take periods as independent: they are too narrow. An intercept of each unit before "
        "and after adoption, as a further column of groups, makes them wider"
    ]
