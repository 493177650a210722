"""Panels: units that adopt a treatment at some period, and the lags since then (docs/effects.md#panels)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.convert import to_floats, to_labels
from sampler.data.rows import named_column
from sampler.data.scalars import as_text, days_to_text
from sampler.data.schema import Schema
from sampler.data.table import RawColumn, Table
from sampler.data.target import reject_rows
from sampler.data.treatment.design import MOST_ARMS
from sampler.data.treatment.reading import FEWEST_OF_ARM
from sampler.definitions.parts import PartFacts
from sampler.errors import DataError, DataProblem

PANEL = "panel"  # its name in `sampler.definitions.parts`
NEVER, NONE = "never", "none"  # the cohort of units that don't adopt; the arm of cells that haven't yet
ADOPTED = "adopted"  # the name of all lags together
NAMED = 5  # units, cohorts and periods in a refusal


@dataclass(frozen=True)
class Panel(PartFacts):
    """Facts of a panel, whose rows make a treatment with lags as arms, and a column of groups of cohorts.

    Attributes
    ----------
    adoption, period
        Names of the column of adoptions, which is that of the cohorts too, and of the periods.
    kind
        What periods are.
    periods
        Periods of the fit, rising; dates as days since 1970.
    arms
        "none", and the lags: numbers of periods since the adoption, the last one with all later ones.
    correlation
        Correlation of residuals of one period and the next within units; None where it isn't known.
    widening
        By what intervals are widened for it: of the average over all lags, and at each; empty for none.

    """

    adoption: str
    period: str
    kind: Literal["number", "date"]
    periods: tuple[float, ...]
    arms: tuple[str, ...] = ()
    correlation: float | None = None
    widening: tuple[float, ...] = ()

    @property
    def treatment(self) -> str:
        """Name of the column of lags that it makes."""
        return f"periods since {self.adoption}"

    def label(self, value: float) -> str:
        """Name a period, or a cohort by its adoption."""
        if value == math.inf:
            return NEVER
        return days_to_text(value) if self.kind == "date" else as_text(value)

    def labels(self, values: Floats) -> list[str]:
        """Name periods or cohorts [n]."""
        distinct, index = np.unique(values, return_inverse=True)
        names = [self.label(float(value)) for value in distinct]
        return [names[k] for k in index]

    def read(self, raw: RawColumn) -> Floats:
        """Read periods, or adoptions, float64 [n], infinite where missing or never; raises DataError."""
        if raw.numbers is not None:
            raw = replace(raw, numbers=np.where(np.isinf(raw.numbers), np.nan, raw.numbers))
        else:
            cells = [None if str(cell).strip().casefold() == NEVER else cell for cell in raw.cells or ()]
            raw = replace(raw, cells=cells)
        problems: list[DataProblem] = []
        values = to_floats(raw, self.kind, problems, read_text=True)
        if problems:
            raise DataError(problems)
        return np.where(np.isnan(values), math.inf, values)

    def rank(self, values: Floats, side: Literal["left", "right"]) -> Floats:
        """Return the places of periods [n]; between two the later one ("left") or the earlier one.

        Later ones than the last continue in steps as they are between periods, and infinite ones are beyond.
        """
        periods = np.array(self.periods)
        place = np.searchsorted(periods, values, side) - (side == "right")
        step = float(np.median(np.diff(periods)))
        beyond = (values - periods[-1]) / step
        whole = np.ceil(beyond) if side == "left" else np.floor(beyond)
        return np.where(values > periods[-1], len(periods) - 1 + whole, place)

    def lags(self, periods: Floats, adopted: Floats) -> Floats:
        """Return the number of periods since the adoption, float64 [n], negative before it."""
        return self.rank(periods, "right") - self.rank(adopted, "left")

    def with_arms(self, lags: Floats) -> Panel:
        """Let lags [n] have arms of ten rows or more each, as far as there are so many."""
        counts = np.bincount(lags[lags >= 0].astype(np.int64))
        last = min(len(counts), MOST_ARMS - 1) - 1
        while last and (counts[:last].min() < FEWEST_OF_ARM or counts[last:].sum() < FEWEST_OF_ARM):
            last -= 1
        more = "+" if len(counts) > last + 1 else ""
        return replace(self, arms=(NONE, *map(str, range(last)), f"{last}{more}"))

    def places(self, lags: Floats) -> Floats:
        """Return the places of the arms of lags, float64 [n]."""
        return np.clip(lags + 1, 0, len(self.arms) - 1)

    def columns(self, table: Table) -> dict[str, RawColumn]:
        """Make the columns of cohorts and lags of rows; none for rows without adoptions or periods."""
        if not {self.adoption, self.period} <= {*table.names}:
            return {}
        periods, adopted = (self.read(table.column(name)) for name in (self.period, self.adoption))
        lags = [self.arms[int(place)] for place in self.places(self.lags(periods, adopted))]
        return {
            self.adoption: RawColumn(self.adoption, "text", cells=[*self.labels(adopted)]),
            self.treatment: RawColumn(self.treatment, "text", cells=[*lags], levels=self.arms),
        }

    def of_rows(self, table: Table) -> Table:
        """Put the columns of cohorts and lags in the table of rows that may have adoptions and periods."""
        return table.with_columns(self.columns(table))

    def to_json(self) -> dict[str, Any]:
        """Return a dict that `from_json` reads."""
        own: dict[str, Any] = {"adoption": self.adoption, "period": self.period, "kind": self.kind}
        own |= {"periods": [*self.periods], "arms": [*self.arms]}
        own |= {} if self.correlation is None else {"correlation": self.correlation}
        return own | ({"widening": [*self.widening]} if self.widening else {})

    @classmethod
    def from_json(cls, values: Mapping[str, Any], schema: Schema, shape: tuple[int, ...]) -> Panel:  # noqa: ARG003
        """Read and check what `to_json` returned; raises ValueError for what no model has."""
        known = values.get("correlation")
        own = cls(
            str(values["adoption"]),
            str(values["period"]),
            values["kind"],
            tuple(map(float, values["periods"])),
            tuple(map(str, values["arms"])),
            None if known is None else float(known),
            tuple(map(float, values.get("widening", ()))),
        )
        rising = len(own.periods) > 1 and np.all(np.diff(own.periods) > 0) and np.isfinite(own.periods).all()
        if own.kind not in ("number", "date") or not rising or not 1 < len(own.arms) <= MOST_ARMS:
            raise ValueError("its panel has no periods or lags")
        if own.adoption not in [column.name for column in schema.groups]:
            raise ValueError("its panel has no cohorts")
        wider = not own.widening or (len(own.widening) == len(own.arms) and min(own.widening) >= 1)
        if own.period not in schema.kinds or not abs(own.correlation or 0.0) <= 1 or not wider:
            raise ValueError("its panel has figures out of range")
        return own


def read_panel(table: Table, adoption: str, period: str, units: str) -> Panel:
    """Read the panel of the rows of a fit, whose columns of adoptions, periods and units are in the table.

    Raises
    ------
    SettingsError
        For columns that the table doesn't have.
    DataError
        For periods that are no numbers or dates, and for rows that show no effect: units that adopt twice,
        none that adopt, cohorts without an untreated period, and periods without an untreated row.

    """
    own = named_column(table, "period", period)
    if own.type not in ("number", "date"):
        raise DataError([DataProblem(period, None, "periods must be numbers or dates")])
    reject_rows(period, own.is_missing, "the period is missing: fill it in, or leave the row out")
    panel = Panel(adoption, period, "date" if own.type == "date" else "number", ())
    periods, adopted = panel.read(own), panel.read(named_column(table, "adoption", adoption))
    panel = replace(panel, periods=tuple(np.unique(periods).tolist()))
    _check_units(panel, adopted, named_column(table, "groups", units))
    if len(panel.periods) < 2:
        raise DataError(
            [DataProblem(period, None, "all rows are of one period: there is no before and after")]
        )
    lags = panel.lags(periods, adopted)
    _check_cohorts(panel, periods, adopted, lags)
    return panel.with_arms(lags)


def _check_units(panel: Panel, adopted: Floats, units: RawColumn) -> None:
    """Refuse units with two adoptions: a unit that has adopted stays treated."""
    labels = to_labels(units, [])
    seen = labels.index >= 0
    first = np.full(len(labels.names), math.inf)
    last = np.full(len(labels.names), -math.inf)
    np.minimum.at(first, labels.index[seen], adopted[seen])
    np.maximum.at(last, labels.index[seen], adopted[seen])
    if len(twice := np.flatnonzero(first != last)):
        unit, ends = labels.names[twice[0]], panel.labels(np.array([first[twice[0]], last[twice[0]]]))
        detail = (
            f"{units.name} {unit} has two adoptions, {' and '.join(ends)}, as have {len(twice)} in all: "
            "every row of a unit has the period in which it adopted, missing if never, and it stays treated "
            "from then on"
        )
        raise DataError([DataProblem(panel.adoption, None, detail)])


def _check_cohorts(panel: Panel, periods: Floats, adopted: Floats, lags: Floats) -> None:
    """Refuse rows that show no effect, by what has no untreated rows."""
    if not np.any(lags >= 0):
        detail = f"no unit adopts up to the last period, {panel.label(panel.periods[-1])}"
        raise DataError([DataProblem(panel.adoption, None, detail)])
    always = np.setdiff1d(adopted, adopted[lags < 0])
    if len(always):
        detail = (
            f"cohorts without an untreated period: {_some(panel, always)}. Leave these rows out; of units "
            "that never adopt the column is missing (not 0)"
        )
        raise DataError([DataProblem(panel.adoption, None, detail)])
    treated = np.setdiff1d(periods, periods[lags < 0])
    if len(treated):
        detail = f"periods in which every row is treated: {_some(panel, treated)}. Leave these rows out"
        raise DataError([DataProblem(panel.period, None, detail)])


def _some(panel: Panel, values: NDArray[Any]) -> str:
    return ", ".join(panel.labels(values[:NAMED])) + (", .." if len(values) > NAMED else "")
