"""Reading of new rows for a model: by kinds and levels of its columns, and as its own file was read.

A text in a category means the same wherever it comes from (file, JSON, stored dataset): the level that is
spelled so; else a missing value, if the model's file, or usage, spells one so ("NA", an empty text); else
the level that is the same number or truth value ("1.0" for 1, "True" for true). Blanks around it don't count,
nor do the codes of the same letters in Unicode (NFC and NFD).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from app.services.errors import Fault, UnusableDataError
from app.services.predictions.rows import Columns
from app.services.readers.options import Options
from app.services.readers.values.missing import MissingValues
from app.services.readers.values.typing_text import RAW, Typing
from app.store.column_codec import Spelling
from app.store.tables import Dataset
from sampler import DataError, DataProblem, Posterior
from sampler.host.data import OF_LEVELS, PLAIN, Column, days_to_text, level_meant, shortened, text_to_days
from sampler.host.data import value_as_text as as_text

TEXTS = ("category", "text")  # kinds of a dataset's columns whose values are text


@dataclass(frozen=True)
class RowReading:
    """Columns of a model by name, and the options by which text becomes their values.

    CSV holds only text: each cell is read as the kind of the model's column with that name, so the text of a
    number becomes a number there. Other formats have types of their own. A stored dataset has types that its
    file alone suggested; where the model's differ, its text is read again.
    """

    columns: Mapping[str, Column]
    options: Options
    separator: str | None = None  # of the rows' file, where it is a stored dataset's

    @classmethod
    def of(
        cls,
        posterior: Posterior,
        options: Options | None = None,
        others: Mapping[str, str] | None = None,
        *,
        with_target: bool = False,
    ) -> "RowReading":
        """Make the reading of rows for a model.

        Parameters
        ----------
        options
            Options given by the caller, which come before those of the model's file.
        others
            Kinds of columns besides the features, such as weights; those that predictions read are known.
        with_target
            Whether the rows have the target too.
        """
        schema = posterior.schema
        inputs = posterior.inputs
        columns = {each.name: each for each in (*inputs, *([schema.target] if with_target else []))}
        kinds = {name: _kind_of(column) for name, column in columns.items()}
        kinds |= posterior.header.kinds_beside
        kinds |= posterior.header.subgroup_kinds | dict(others or {})
        given = (options or Options()).for_rows_of(posterior.header.dialect)
        known = (*columns, *schema.ignored)
        return cls(columns, replace(given, kinds=kinds, otherwise=RAW, known=known))

    @classmethod
    def of_dataset(cls, posterior: Posterior, dataset: Dataset) -> "RowReading":
        """Make the reading of a stored dataset's rows: what its file shows comes before the model's.

        The decimal sign is that of columns that are numbers in the model too: codes may look like numbers.
        """
        report, spellings = dataset.read_as or {}, _spellings_of(dataset)
        kinds = cls.of(posterior).options.kinds
        shown = {each.decimal for name, each in spellings.items() if kinds.get(name) == "number"} - {None}
        if dataset.spellings is None and not report.get("decimal_guessed"):
            shown = {report.get("decimal")}
        (decimal,) = shown if len(shown) == 1 else (None,)
        reading = cls.of(posterior, Options(decimal=decimal, dates=report.get("dates")))
        return replace(reading, separator=report.get("separator"))

    def as_text(self, dataset: Dataset) -> list[str]:
        """Return the columns of a stored dataset that are read as the text of its file, not by their types.

        Raises
        ------
        UnusableDataError
            The text is needed and was not kept.
        """
        report, spellings = dataset.read_as or {"format": "csv"}, _spellings_of(dataset)
        if report["format"] != "csv":
            return []
        was_kept, used = dataset.spellings is not None, report.get("decimal")
        is_doubtful = was_kept and used is not None and self.options.decimal not in {None, used}
        names, faults = [], self._other_units(report.get("units") or {})
        for each in dataset.columns:
            name, has, wants = each["name"], each["kind"], self.options.kinds.get(each["name"])
            if wants == RAW and has not in TEXTS and not was_kept:
                levels = self.columns[name].levels
                known = all(_is_usual(level, has) for level in levels)
                faults += [] if known else [Fault(name, None, _unspelled(levels, has))]
            is_level = wants == RAW and was_kept
            is_text = wants not in {RAW, None} and has in TEXTS
            shows_nothing = wants == has == "number" and spellings.get(name, Spelling()).decimal is None
            if is_level or is_text or (shows_nothing and is_doubtful):
                names.append(name)
        if faults:
            raise UnusableDataError(errors=faults)
        return names

    def _other_units(self, units: Mapping[str, str]) -> list[Fault]:
        """Return faults for numbers of a dataset in another unit than the model's."""
        model = self.options.model
        own = {} if model is None else model.units
        message = "the dataset has {}, and the model's file {}: write its values in that"
        return [
            Fault(name, None, message.format(unit, own.get(name) or "no unit"))
            for name, unit in units.items()
            if self.options.kinds.get(name) == "number" and unit != own.get(name)
        ]

    def from_text(self, table: pa.Table, as_text: Collection[str]) -> pa.Table:
        """Convert columns of which those in `as_text` are cells of a file, and the others have types.

        Raises
        ------
        DataError
            A cell doesn't fit its column's kind; names column and row.
        """
        typing = Typing(self.options, self.separator)
        read = {}
        for name in table.column_names:
            values, is_text = table.column(name), name in as_text and self.options.kinds.get(name, RAW) != RAW
            typed = typing.read(name, values, last=True) if is_text else None
            read[name] = self._read(name, values) if typed is None else typed[0]
        if typing.faults:
            raise DataError([DataProblem(each.column, each.row, each.detail) for each in typing.faults])
        return pa.table(read)

    def as_trained(self, table: pa.Table) -> pa.Table:
        """Return the columns with null for values that mean missing, and text as levels of the categories.

        Texts that are neither stay unchanged.
        """
        return pa.table({name: self._read(name, table.column(name)) for name in table.column_names})

    def _read(self, name: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
        column = self.columns.get(name)
        if column is not None and column.kind in OF_LEVELS and pa.types.is_string(values.type):
            return self.levels(values.combine_chunks(), column)
        is_used = self.options.kinds.get(name, RAW) != RAW
        return MissingValues.of(self.options, name).removed(values)[0] if is_used else values

    def levels(self, text: pa.Array, column: Column) -> pa.Array:
        """Convert text to the levels of a category that it means, null for a missing value."""
        coded = self._without_missing(text, column).dictionary_encode()
        known = set(column.levels)
        spelled = [level_meant(level, known) for level in coded.dictionary.to_pylist()]
        return pa.array(spelled, pa.string()).take(coded.indices)

    def _without_missing(self, text: pa.Array, column: Column) -> pa.Array:
        missing = MissingValues.of(self.options, column.name).among(text)
        missing = pc.and_not(missing, pc.is_in(text, value_set=pa.array(column.levels, pa.string())))
        return pc.if_else(missing, pa.scalar(None, pa.string()), text)


@overload
def with_levels(posterior: Posterior, columns: Columns, *, with_target: bool = False) -> Columns: ...
@overload
def with_levels(posterior: Posterior, columns: None, *, with_target: bool = False) -> None: ...
def with_levels(
    posterior: Posterior, columns: Columns | None, *, with_target: bool = False
) -> Columns | None:
    """Return columns of JSON with the texts of categories as the levels, or missing values, that they mean.

    `with_target` includes the target's classes.
    """
    schema = posterior.schema
    reading: RowReading | None = None
    read = {}
    for column in (*posterior.inputs, *([schema.target] if with_target else [])):
        cells = (columns or {}).get(column.name)
        if cells is None or column.kind not in OF_LEVELS:
            continue
        known = column.levels if len(cells) == 1 else set(column.levels)
        strange = list({cell for cell in cells if isinstance(cell, str) and cell not in known})
        if strange:
            reading = reading or RowReading.of(posterior)
            meant = dict(zip(strange, reading.levels(pa.array(strange), column).to_pylist(), strict=True))
            read[column.name] = [meant.get(cell, cell) if isinstance(cell, str) else cell for cell in cells]
    return columns if columns is None else {**columns, **read}


def _spellings_of(dataset: Dataset) -> dict[str, Spelling]:
    return {name: Spelling(**each) for name, each in (dataset.spellings or {}).items()}


def _is_usual(level: str, kind: str) -> bool:
    """Return whether a level is spelled as the values of a typed column are when they become levels."""
    if kind == "number":
        return PLAIN.fullmatch(level) is not None and as_text(Decimal(level)) == level
    if kind == "boolean":
        return level in {"true", "false"}
    try:
        return days_to_text(text_to_days(level)) == level
    except ValueError:
        return False


def _unspelled(levels: Sequence[str], kind: str) -> str:
    named = ", ".join(map(shortened, levels[:3]))
    return (
        f"the model has text here, such as {named}, and the dataset {kind}s whose text was not kept: upload "
        "the file again"
    )


def _kind_of(column: Column) -> str:
    return RAW if column.kind in OF_LEVELS else column.kind
