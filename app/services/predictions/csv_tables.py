"""Tables of predictions as CSV: plain, or as the model's own file was written; and rounded figures."""

import io
import json
import math
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from app.services.errors import Fault, InvalidRequestError
from app.services.readers.options import CHARACTERS
from sampler.host.data import FileDialect

# First characters that make a spreadsheet run a cell as a formula; in some languages it takes wide ones too.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
FORMULA = "^[" + "".join(map(re.escape, FORMULA_STARTS)) + "]"
MARK = "\ufeff".encode()  # by which spreadsheets know UTF-8
CsvDialect = Literal["plain", "model"]
Digits = Literal["full", "rounded"]
DIGITS_OF_SD, PLACES_OF_RHAT = 3, 3


@dataclass(frozen=True)
class CsvStyle:
    """Separator and decimal sign of a CSV file, and whether a mark at its beginning says that it is UTF-8."""

    separator: str = ","
    decimal: str = "."
    has_mark: bool = False


PLAIN = CsvStyle()


def style_of(wanted: CsvDialect, dialect: FileDialect | None) -> CsvStyle:
    """Return the style of CSV that a request wants, `dialect` being that of the model's file.

    Raises
    ------
    InvalidRequestError
        The model's dialect is wanted and not known.
    """
    if wanted == "plain":
        return PLAIN
    if dialect is None or not (dialect.separator or dialect.decimal):
        message = "it is not known how the model's file was written: leave dialect out, or say plain"
        raise InvalidRequestError(errors=[Fault("dialect", None, message)])
    decimal = "," if dialect.decimal == "comma" else "."
    usual = ";" if decimal == "," else ","
    return CsvStyle(CHARACTERS.get(dialect.separator or "", usual), decimal, has_mark=True)


def places_of(figures: pa.Table) -> int:
    """Return the decimal places that matter: three digits of the median standard deviation.

    Without standard deviations, of that of the means among the rows.
    """
    names = [name for name in figures.column_names if name == "sd" or name.startswith("sd_")]
    means = [name for name in figures.column_names if name == "mean" or name.startswith("mean_")]
    sizes = np.concatenate([figures.column(name).to_numpy() for name in names or means])
    size = float(np.median(sizes) if names else np.std(sizes) or np.median(np.abs(sizes)))
    if not (math.isfinite(size) and size > 0):
        return DIGITS_OF_SD
    return min(max(DIGITS_OF_SD - 1 - math.floor(math.log10(size)), 0), 15)


def rounded(figures: pa.Table, places: int) -> pa.Table:
    """Round figures to decimal places; R-hat has three."""
    columns = {}
    for name, column in zip(figures.column_names, figures.columns, strict=True):
        is_figure = pa.types.is_floating(column.type)
        ours = PLACES_OF_RHAT if name.startswith("rhat") else places
        columns[name] = pc.round(column, ours) if is_figure else column
    return pa.table(columns).replace_schema_metadata(figures.schema.metadata)


def to_csv(table: pa.Table, style: CsvStyle = PLAIN, *, header: bool = True) -> bytes:
    """Encode a table as CSV in which no text begins like a formula; missing values are empty cells.

    CSV has no metadata, so tables with intervals get a last column, `interval`, with their kind.
    """
    facts = json.loads((table.schema.metadata or {}).get(b"bartserve", b"{}"))
    if table.column_names != ["mean"] and "interval" in facts:
        table = table.append_column("interval", pa.array([facts["interval"]] * table.num_rows, pa.string()))
    names = [f"'{name}" if name.startswith(FORMULA_STARTS) else name for name in table.column_names]
    safe = [_with_sign(_without_formulas(column), style.decimal) for column in table.columns]
    sink = io.BytesIO(MARK if style.has_mark and header else b"")
    sink.seek(0, io.SEEK_END)
    options = pacsv.WriteOptions(include_header=header, delimiter=style.separator, quoting_style="needed")
    pacsv.write_csv(pa.table(safe, names=names), sink, options)
    return sink.getvalue()


def _with_sign(column: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray:
    if decimal == "." or not pa.types.is_floating(column.type):
        return column
    return pc.replace_substring(column.cast(pa.string()), ".", decimal)


def _without_formulas(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return column
    column = column.cast(pa.string())
    return pc.if_else(
        pc.match_substring_regex(column, FORMULA), pc.binary_join_element_wise("'", column, ""), column
    )
