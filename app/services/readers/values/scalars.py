"""Vectorised checks on columns of text."""

import re
from collections.abc import Callable
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from app.services.errors import Fault

NAMED = 5  # different cells of a column that are reported
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
    """Return faults for the present cells that don't fit."""
    odd = pc.invert(fits)
    return odd_cells(name, text, odd, lambda cell: f"the text {cell} is not {expected}")


def odd_cells(
    name: str, text: pa.ChunkedArray, odd: pa.ChunkedArray, detail: Callable[[str], str]
) -> list[Fault]:
    """Return faults for cells: the first different ones with their rows, and how many others there are."""
    rows = pc.indices_nonzero(pc.fill_null(odd, fill_value=False)).to_numpy()
    cells = text.take(pa.array(rows)).combine_chunks().dictionary_encode()
    which = cells.indices.to_numpy()
    faults, told = [], 0
    for number, cell in enumerate(cells.dictionary.slice(0, NAMED).to_pylist()):
        mine = rows[which == number] + 1
        more = f" (in {len(mine)} rows)" * (len(mine) > 1)
        faults.append(Fault(name, int(mine[0]), detail(quote_cell(cell) + more)))
        told += len(mine)
    if told < len(rows):
        present = len(text) - text.null_count
        detail_of_others = f"and {len(rows) - told} more of its {present} values"
        faults.append(Fault(name, None, detail_of_others, count=len(rows) - told))
    return faults


def quote_cell(cell: str) -> str:
    """Return a cell as messages quote it."""
    return repr(cell if len(cell) <= SHOWN else f"{cell[: SHOWN - 3]}...")


def first_match(text: pa.ChunkedArray, part: str) -> str:
    """Return the first cell that contains the part; some cell must."""
    cells = chain.from_iterable(chunk.to_pylist() for chunk in text.chunks)
    return str(next(cell for cell in cells if cell is not None and part in cell))
