"""Tables of predictions as CSV: plain, or as the model's own file was written; and rounded figures."""

import io
import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from app.services.errors import Fault, InvalidRequestError
from app.services.readers.dialect import BARE
from app.services.readers.options import CHARACTERS, CsvStyle
from sampler.host.data import FileDialect

# First characters that make a spreadsheet run a cell as a formula; in some languages it takes wide ones too.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
FORMULA = "^[" + "".join(map(re.escape, FORMULA_STARTS)) + "]"
MARK = "\ufeff"  # by which spreadsheets know UTF-8
CsvDialect = Literal["plain", "model", "file"]
Digits = Literal["full", "rounded"]
DIGITS_OF_SD, PLACES_OF_RHAT = 3, 3


PLAIN = CsvStyle()
Letters = Mapping[str, pa.ChunkedArray]  # cells of a file as they were written, by column
NO_LETTERS: Letters = {}


def style_of(wanted: CsvDialect, dialect: FileDialect | None, of_rows: CsvStyle | None = None) -> CsvStyle:
    """Return the style of CSV that a request wants.

    Parameters
    ----------
    dialect
        Dialect of the model's file.
    of_rows
        Style of the file of the rows, None where its cells are not kept as they were written.

    Raises
    ------
    InvalidRequestError
        A dialect is wanted that is not known.
    """
    if wanted == "plain":
        return PLAIN
    if wanted == "file":
        if of_rows is None:
            message = "the rows are not of a CSV file whose cells are kept as they were written (a dataset "
            message += "from before they were is not): leave dialect out, or upload the file again"
            raise InvalidRequestError(errors=[Fault("dialect", None, message)])
        return of_rows
    if dialect is None or not (dialect.separator or dialect.decimal):
        message = "it is not known how the model's file was written: leave dialect out, or say plain"
        raise InvalidRequestError(errors=[Fault("dialect", None, message)])
    decimal = "," if dialect.decimal == "comma" else "."
    usual = ";" if decimal == "," else ","
    return CsvStyle(CHARACTERS.get(dialect.separator or "", usual), decimal, mark=True)


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


def with_interval(table: pa.Table) -> pa.Table:
    """Append a column with the kind of the intervals to a table with some, for files without metadata."""
    facts = json.loads((table.schema.metadata or {}).get(b"bartserve", b"{}"))
    if table.column_names == ["mean"] or "interval" not in facts:
        return table
    return table.append_column("interval", pa.array([facts["interval"]] * table.num_rows, pa.string()))


def to_csv(
    table: pa.Table,
    style: CsvStyle = PLAIN,
    *,
    header: bool = True,
    letters: Letters = NO_LETTERS,
) -> bytes:
    """Encode a table as CSV; missing values are empty cells.

    No text begins like a formula but in the columns of `letters`, a file's cells as they were written, which
    take the place of those of the table: who asks for these gets back what was sent.

    Raises
    ------
    InvalidRequestError
        The encoding of the style lacks a character.
    """
    table = with_interval(table)
    names = [
        f"'{name}" if name.startswith(FORMULA_STARTS) and name not in letters else name
        for name in table.column_names
    ]
    columns = [
        letters[name] if name in letters else _with_sign(_without_formulas(column), style.decimal)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    if not letters and style in {
        PLAIN,
        replace(PLAIN, separator=style.separator, decimal=style.decimal, mark=True),
    }:
        sink = io.BytesIO(MARK.encode() if style.mark and header else b"")
        sink.seek(0, io.SEEK_END)
        options = pacsv.WriteOptions(include_header=header, delimiter=style.separator, quoting_style="needed")
        pacsv.write_csv(pa.table(columns, names=names), sink, options)
        return sink.getvalue()
    text = MARK if style.mark and header else ""
    for first, cells in [(True, [pa.array([name]) for name in names])] * header + [(False, columns)]:
        quoted = (_quoted(column, style, name=first) for column in cells)
        lines = pc.binary_join_element_wise(*quoted, style.separator)
        text += "".join(f"{line}{style.line_end}" for line in lines.to_pylist())
    try:
        return text.encode(style.encoding)
    except UnicodeEncodeError as error:
        sign = error.object[error.start]
        message = (
            f"the encoding of the file ({style.encoding}) has no {sign!r}, which the answer needs: take "
        )
        message += "another form, or another dialect of CSV"
        raise InvalidRequestError(errors=[Fault("dialect", None, message)]) from None


def _quoted(column: pa.ChunkedArray, style: CsvStyle, *, name: bool) -> pa.ChunkedArray:
    """Spell cells as a style does, in quotes where it has them."""
    text = pc.fill_null(column.cast(pa.string()), "")
    quote = style.quote or '"'
    if style.escape:
        text = pc.replace_substring(text, "\\", "\\\\")
    marked = pc.match_substring_regex(text, f"[{re.escape(style.separator + style.quote)}\r\n]")
    if style.separator == " ":
        marked = pc.or_(marked, pc.equal(text, ""))
    if style.quoted == "all" or (style.quoted == "words" and name):
        marked = pa.scalar(value=True)
    elif style.quoted == "words":
        marked = pc.or_(marked, pc.invert(pc.match_substring_regex(text, f"^({BARE.pattern}|$)")))
    if style.quote:
        text = pc.replace_substring(text, quote, f"\\{quote}" if style.escape else 2 * quote)
    return pc.if_else(marked, pc.binary_join_element_wise(quote, text, quote, ""), text)


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
