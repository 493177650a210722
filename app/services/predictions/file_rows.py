"""New rows from a file (CSV, Arrow, Parquet), read as the model's columns within limits."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from app.services.readers.options import Options, ReaderLimits
from app.services.readers.process.confined import readers
from app.services.readers.values.numbers import PLAIN
from app.services.readers.values.typing_text import RAW
from sampler import Schema
from sampler.data.scalars import as_text
from sampler.data.schema import Column

# Tight limits, because a client waits for the response.
LIMITS = ReaderLimits(bytes=64 << 20, cells=1 << 24, memory=512 << 20, seconds=20, fewest_columns=1)


def read_rows(
    file: BinaryIO,
    options: Options,
    schema: Schema,
    max_rows: int,
    others: Mapping[str, str] | None = None,
    target: Column | None = None,
) -> tuple[pa.Table, pa.Table, list[str]]:
    """Read the rows of a file of any format; return them as the model's, as they were sent, and warnings.

    CSV holds only text: each cell is read as the kind of the model's column with that name, so the text of a
    number becomes a number there, and so it does in a column whose kind `others` gives, such as exposures,
    and in the `target` where the rows have one. Other formats have types of their own.

    Raises
    ------
    UnusableDataError
        The file can't be read, or a cell doesn't fit its column's kind; names column and row.
    TooLargeError
        There are more rows than `max_rows`, or texts are too long.
    """
    columns = {column.name: column for column in (*schema.inputs, *([target] if target else []))}
    kinds = {name: RAW if column.kind == "category" else column.kind for name, column in columns.items()}
    kinds |= dict(others or {})
    known = (*columns, *schema.ignored)
    options = replace(options, kinds=kinds, otherwise=RAW, known=known)
    limits = replace(LIMITS, rows=max_rows)
    report, sink = readers.run("rows", file, limits, {"options": options.to_json()})
    with sink:
        table = pa.ipc.open_stream(sink).read_all()
    if report["read_as"]["format"] == "csv":
        return _with_levels(table, columns, options), table, report["warnings"]
    return table, table, report["warnings"]


def _with_levels(table: pa.Table, columns: dict[str, Column], options: Options) -> pa.Table:
    """Convert text to the levels of the model's categories; unknown texts stay unchanged."""
    typed = {}
    for name in table.column_names:
        column = columns.get(name)
        values = table.column(name).combine_chunks()
        is_category = column is not None and column.kind == "category"
        typed[name] = _levels(values, column, options) if column is not None and is_category else values
    return pa.table(typed)


def _without_missing(text: pa.Array, options: Options, but: Sequence[str]) -> pa.Array:
    missing = pc.is_in(pc.utf8_lower(text), value_set=pa.array(sorted(options.spellings)))
    missing = pc.and_not(missing, pc.is_in(text, value_set=pa.array(but, pa.string())))
    return pc.if_else(missing, pa.scalar(None, pa.string()), text)


def _levels(text: pa.Array, column: Column, options: Options) -> pa.Array:
    """Convert text to levels: literally, or as the number or boolean that it spells, as in training."""
    coded = _without_missing(text, options, column.levels).dictionary_encode()
    known = set(column.levels)
    spelled = [_spelled(level, known) for level in coded.dictionary.to_pylist()]
    return pa.array(spelled, pa.string()).take(coded.indices)


def _spelled(text: str, known: set[str]) -> str:
    if text in known:
        return text
    if PLAIN.fullmatch(text) and (number := as_text(Decimal(text))) in known:
        return number
    return text.lower() if text.lower() in known & {"true", "false"} else text
