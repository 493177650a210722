"""Rows of typed cells, of a sheet or of JSON, as a spooled table: a column has the type of its cells."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from itertools import islice
from typing import Any

import pyarrow as pa

from app.services.errors import Fault, UnusableDataError
from app.services.readers.columnar import LEVELS, MAX_TEXT
from app.services.readers.options import MISSING, Options, ReaderLimits
from app.services.readers.scratch import Scratch
from app.services.readers.spool import Spool, check_size
from sampler.host.data import BEYOND
from sampler.host.data import value_as_text as as_text

BATCH_ROWS = 8192
HALF_A_PAIR = re.compile("[\ud800-\udfff]")
NO_TEXT = "has half of a surrogate pair, which is no character: write the pair or leave it out"
RowsAgain = Callable[[], Iterable[Sequence[Any]]]  # the same rows at every call, each as wide as the table
_TYPES = {
    frozenset[str](): pa.float64(),
    frozenset({"boolean"}): pa.bool_(),
    frozenset({"whole"}): pa.int64(),
    frozenset({"number"}): pa.float64(),
    frozenset({"whole", "number"}): pa.float64(),
    frozenset({"date"}): pa.timestamp("us"),
}


def spooled(
    names: Sequence[str], rows: RowsAgain, options: Options, limits: ReaderLimits, scratch: Scratch
) -> tuple[Spool, list[str]]:
    """Return the rows as a table, and warnings of columns with texts among numbers.

    A column of cells of several types is text, and so is one that is to be a category. None and "" are
    missing.

    Raises
    ------
    UnusableDataError
        There are no rows, or a text is too long; names column and row.
    TooLargeError
        The table exceeds the limits.
    """
    found: list[dict[str, tuple[int, Any]]] = [
        {} for _ in names
    ]  # by type, its first cell and that one's row
    num_rows = 0
    for num_rows, row in enumerate(rows(), 1):
        check_size(num_rows, len(names), limits)
        for types, cell in zip(found, row, strict=True):
            if cell is not None and cell != "" and (kind := _kind_of(cell)) not in types:
                types[kind] = num_rows, cell
    if num_rows == 0:
        raise UnusableDataError("The table has column names but no rows.")
    texts = {name for name in names if options.kinds.get(name) in LEVELS}
    kinds = (_TYPES.get(frozenset(types), pa.string()) for types in found)
    typed = zip(names, kinds, strict=True)
    schema = pa.schema([(name, pa.string() if name in texts else type_) for name, type_ in typed])
    spool, pending = Spool(schema, limits, scratch), iter(rows())
    while block := list(islice(pending, BATCH_ROWS)):
        columns = zip(schema, zip(*block, strict=True), strict=True)
        arrays = [_array(field, cells, spool.num_rows) for field, cells in columns]
        spool.add(pa.RecordBatch.from_arrays(arrays, schema=schema))
    warnings = [
        f"{name}: row {types['text'][0]} has the text {types['text'][1][:40]!r} where others have numbers: "
        "check how it is read"
        for name, types in zip(names, found, strict=True)
        if name not in texts and "text" in types and {*types} & {"whole", "number"}
    ]
    return spool, warnings


def _kind_of(cell: Any) -> str:
    if isinstance(cell, bool):
        return "boolean"
    if isinstance(cell, int):
        return "whole" if abs(cell) < BEYOND else "long"
    if isinstance(cell, float):
        return "number"
    if isinstance(cell, date):
        return "date"
    return "missing" if isinstance(cell, str) and cell.strip().lower() in MISSING else "text"


def is_text(text: str) -> bool:
    """Tell whether a text has characters alone, which half of a surrogate pair is not."""
    return text.isascii() or not HALF_A_PAIR.search(text)


def _array(field: pa.Field, cells: Sequence[Any], before: int) -> pa.Array:
    if not pa.types.is_string(field.type):
        present = [None if cell == "" else cell for cell in cells]
        for row, cell in enumerate(present, before + 1):
            if isinstance(cell, float) and math.isinf(cell):
                message = "the value is infinite or too large for a number: leave it out"
                raise UnusableDataError(errors=[Fault(field.name, row, message)])
        return pa.array(present, field.type)
    texts = ["" if cell is None else cell if isinstance(cell, str) else as_text(cell) for cell in cells]
    for row, text in enumerate(texts, before + 1):
        if len(text) > MAX_TEXT:
            message = f"a text has {len(text)} characters; at most {MAX_TEXT} are read: shorten it"
            raise UnusableDataError(errors=[Fault(field.name, row, message)])
        if not is_text(text):
            raise UnusableDataError(errors=[Fault(field.name, row, f"the text {NO_TEXT}")])
    return pa.array(texts, pa.string())
