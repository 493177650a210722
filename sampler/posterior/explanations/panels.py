"""Panels: rows by lag, cohort and period, and residuals of units from one period to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
SERIAL = 0.2  # correlation of residuals from one period to the next: worth a word, and wider intervals
MOST_PASSES, NEAR = 200, 1e-9


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
        learnt = header.transform.forward(y)
        goes_on = serial_correlation(law, coded, learnt)
        wider = () if goes_on is None or goes_on <= SERIAL else widening_of(header, coded, goes_on)
        found[PANEL] = replace(header.panel, correlation=goes_on, widening=wider)
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
    cell, periods = _cells(header, coded), len(header.panel.periods)
    count = np.bincount(cell, minlength=(cell.max() // periods + 1) * periods)
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


def _cells(header: Header, coded: Coded) -> NDArray[np.int64]:
    """Return the unit times the number of periods plus the period of rows, int64 [row]."""
    assert header.panel is not None
    assert coded.groups is not None, "cohorts and units are groups"
    units = coded.groups[1 if len(coded.groups) > 1 else 0].astype(np.int64)
    return np.asarray(units * len(header.panel.periods) + ranks(header, header.panel, coded), np.int64)


def widening_of(header: Header, coded: Coded, correlation: float) -> tuple[float, ...]:
    """Return by what errors that go on widen the average effect over all lags, and that at each.

    It is the ratio of standard errors of a regression on units, periods and lags, of means of a unit's rows
    in a period: with errors of which those k periods apart are correlated by the k-th power, and as they are
    computed from residuals for independent ones (Moulton 1986; Bertrand, Duflo and Mullainathan 2004).
    """
    assert header.panel is not None
    periods = len(header.panel.periods)
    cells, first = np.unique(_cells(header, coded), return_index=True)
    unit, period = np.unique(cells // periods, return_inverse=True)[1], cells % periods
    arm, count = coded.by_role[ROLE][first].astype(np.int64), np.bincount(unit)
    places = (unit, np.unique(period, return_inverse=True)[1])

    def apart(values: Floats) -> Floats:
        """Subtract what units and periods explain, float64 [cell]."""
        for _ in range(MOST_PASSES):
            before = values
            for place in places:
                values = values - (np.bincount(place, values) / np.bincount(place))[place]
            if np.max(np.abs(values - before)) < NEAR:
                break
        return values

    def variance(values: Floats) -> float:
        """Return the variance of a sum of errors with these weights, float64 [cell], in units of one's."""
        of_unit = np.zeros((len(count), periods))
        of_unit[unit, period] = values
        found, power = np.sum(values**2), correlation
        for step in range(1, periods):
            found += 2 * power * np.sum(of_unit[:, :-step] * of_unit[:, step:])
            power *= correlation
            if power < NEAR:
                break
        return float(found)

    # residuals about units' own levels are smaller than errors that go on
    residual = (len(cells) - variance(1 / np.sqrt(count[unit]))) / max(len(cells) - len(count), 1)
    lags = [apart((arm == k).astype(float)) for k in range(1, len(header.panel.arms))]
    found = []
    for own in (range(len(lags)), *([k] for k in range(len(lags)))):
        beside = np.array([each for k, each in enumerate(lags) if k not in own]).reshape(-1, len(cells)).T
        left = np.sum([lags[k] for k in own], axis=0)
        left = left - beside @ np.linalg.lstsq(beside, left)[0]
        size = float(np.sum(left**2))
        ratio = np.sqrt(variance(left) / size / residual) if size > NEAR and residual > NEAR else 1.0
        found.append(float(f"{max(ratio, 1.0):.6g}"))
    return tuple(found)


def widened_parts(panel: Panel, parts: Iterable[str], by: Any) -> dict[str, float]:
    """Name the factor by which the average over each part of the rows is widened."""
    of_lags = {f"group {name}": place for place, name in enumerate(panel.arms)} if by == "lag" else {}
    return {name: panel.widening[of_lags.get(name, 0)] for name in parts}


def serial_warnings(panel: Panel | None) -> list[str]:
    """Warn of residuals that go on from one period to the next."""
    if panel is None or panel.correlation is None or panel.correlation <= SERIAL:
        return []
    known = (
        f"what is left of a unit's outcome goes on in the next period (correlation {panel.correlation:.2f})"
    )
    if panel.widening:
        return [
            f"{known}, which chains take as independent: intervals of averages are {panel.widening[0]:.2f} "
            "times as wide for it, those of rows are too narrow"
        ]
    return [f"{known}, and intervals take periods as independent: they are too narrow; fit the model again"]
