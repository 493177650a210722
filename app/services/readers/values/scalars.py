"""Vectorised checks on columns of text."""

import re
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from app.services.errors import ENOUGH, Fault, enough

HEAD = 1000  # cells checked before all of them
SHOWN = 40  # characters of a cell repeated in a message


def all_match(text: pa.ChunkedArray, pattern: str) -> bool:
    """Return whether every present cell matches; the first cells decide for most columns."""
    compiled = re.compile(pattern)
    head = text.slice(0, HEAD).drop_null()
    if not all(compiled.search(cell) for cell in head.to_pylist()):
        return False
    return bool(pc.all(pc.match_substring_regex(text.drop_null(), pattern), min_count=0).as_py())


def any_contains(text: pa.ChunkedArray, part: str) -> bool:
    """Return whether some cell contains the part."""
    return bool(pc.any(pc.match_substring(text.drop_null(), part), min_count=0).as_py())


def strangers(name: str, text: pa.ChunkedArray, fits: pa.ChunkedArray, expected: str) -> list[Fault]:
    """Return faults for the present cells that don't fit, by row."""
    odd = pc.fill_null(pc.invert(fits), fill_value=False)
    rows = pc.indices_nonzero(odd).slice(0, ENOUGH).to_pylist()
    return enough(
        Fault(name, row + 1, f"the text {quote_cell(text[row].as_py())} is not {expected}") for row in rows
    )


def quote_cell(cell: str) -> str:
    """Return a cell as messages quote it."""
    return repr(cell if len(cell) <= SHOWN else f"{cell[: SHOWN - 3]}...")


def first_match(text: pa.ChunkedArray, part: str) -> str:
    """Return the first cell that contains the part; some cell must."""
    cells = chain.from_iterable(chunk.to_pylist() for chunk in text.chunks)
    return str(next(cell for cell in cells if cell is not None and part in cell))
