"""Form of one row for a model: the columns it asks for, and reading and writing of their values as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from functools import partial
from typing import Any

import pyarrow as pa

from app.services.errors import Fault, UnusableDataError
from app.services.predictions.predict_rows import Predictor
from app.services.predictions.row_reading import RowReading
from app.services.readers.table import WORDS
from sampler import DataError
from sampler.host.data import OF_LEVELS, days_to_text, text_to_days


@dataclass(frozen=True)
class FormColumn:
    """A column of a model as a form asks for it; `typical` is a value to begin with."""

    name: str
    kind: str
    levels: list[str]
    min: float | str | None
    max: float | str | None
    missing: int
    typical: Any
    unit: str | None = None


@dataclass(frozen=True)
class RowForm:
    """A form of one row; what is typed is read as a cell of the model's own file."""

    columns: list[FormColumn]
    reading: RowReading

    @property
    def sign(self) -> str:
        """The decimal sign."""
        return "," if self.reading.options.decimal == "comma" else "."

    @property
    def own_csv(self) -> str:
        """The CSV of the model's own file in words, where it is not the plain one."""
        model = self.reading.options.model
        if model is None or (model.separator in {"comma", None} and model.decimal != "comma"):
            return ""
        sign = f"decimal {model.decimal or 'point'}s"
        return f"{WORDS[model.separator]} and {sign}" if model.separator else sign

    def text_of(self, value: Any) -> str:
        """Write a value as text that reads back as it, to ten digits; empty for a missing one."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return f"{value:.10g}".replace(".", self.sign) if isinstance(value, (int, float)) else str(value)

    def row_of(self, columns: Sequence[FormColumn], texts: Sequence[str | None]) -> dict[str, Any]:
        """Read some columns of a row as they were typed; empty text means missing.

        Raises
        ------
        UnusableDataError
            A value is not of its column's kind.
        """
        row, faults = {}, []
        for column, typed in zip(columns, texts, strict=True):
            cell = pa.table({column.name: pa.array([(typed or "").strip()])})
            try:
                read = self.reading.from_text(cell, [column.name]).column(0)[0].as_py()
            except DataError:
                faults.append(Fault(column.name, None, self._complaint(column, str(typed))))
            else:
                row[column.name] = _plain(read)
        if faults:
            raise UnusableDataError(errors=faults)
        return row

    def _complaint(self, column: FormColumn, typed: str) -> str:
        cell, options = repr(typed[:50]), self.reading.options
        if column.kind == "boolean":
            return f"{cell} is neither true nor false"
        if column.kind == "date":
            of_file = f", or {options.dates} as in the model's file" if options.dates else ""
            return f"{cell} is not a date: write 2026-01-31{of_file}"
        of_file = " as in the model's file" if options.model and options.model.decimal else ""
        sign = "comma" if self.sign == "," else "point"
        unit = f", in {column.unit} or without a unit" if column.unit else ", without a unit"
        return f"{cell} is not a number: write a decimal {sign}{of_file}, such as 1{self.sign}5{unit}"


def row_form(
    predictor: Predictor, owner: str, model: str, profiles: Mapping[str, Any] | None = None
) -> RowForm:
    """Return the form of a model.

    `profiles`, by column name, give the typical value: the median, or the most frequent level. Raises as
    `Predictor.lookup`.
    """
    _, posterior, _ = predictor.lookup(owner, model)
    fields = []
    for column in posterior.inputs:
        date = column.kind == "date"
        shown = partial(days_to_text, zoned=column.zoned)
        low, high = ((shown(v) if date and v is not None else v) for v in (column.min, column.max))
        profile = (profiles or {}).get(column.name) or {}
        typical = _typical(profile)
        if typical is None:
            typical = column.levels[0] if column.levels else low
        elif date:
            typical = shown(text_to_days(typical))
        levels = list(column.levels)
        kind = "category" if column.kind in OF_LEVELS else column.kind
        unit = posterior.header.units.get(column.name)
        field = FormColumn(column.name, kind, levels, low, high, column.missing, typical, unit)
        fields.append(field)
    for name in posterior.beside.values():
        quantiles = ((profiles or {}).get(name) or {}).get("quantiles") or {}
        low, high = (quantiles.get(q) for q in ("0", "1"))
        arms = list(posterior.header.arms) if posterior.header.kinds_beside[name] == "category" else []
        fields.append(
            FormColumn(name, "category" if arms else "number", arms, low, high, 0, arms[0] if arms else 1)
        )
    for name, kind in posterior.header.subgroup_kinds.items():
        named = [
            each.levels or ()
            for own in posterior.header.subgroups
            for each in own.where
            if each.column == name
        ]
        levels = [*dict.fromkeys(level for several in named for level in several)]
        typical = _typical((profiles or {}).get(name) or {})
        fields.append(FormColumn(name, kind, levels, None, None, 0, typical))
    return RowForm(fields, RowReading.of(posterior))


def _typical(profile: Mapping[str, Any]) -> Any:
    """Return the median or the most frequent value of a column; None where neither is known."""
    median = (profile.get("quantiles") or {}).get("0.5")
    return next((entry["value"] for entry in profile.get("top", ())), None) if median is None else median


def _plain(value: Any) -> Any:
    """Convert a value to JSON's types: whole numbers to integers, times to ISO 8601 text."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, datetime):
        is_day = value.tzinfo is None and value.time() == time()
        return value.date().isoformat() if is_day else value.isoformat()
    return value
