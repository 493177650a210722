"""Columns of the rows to predict that an answer repeats, such as ids, beside the figures."""

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from app.services.errors import Fault, InvalidRequestError
from app.services.readers.options import EVERY

IN_CSV = "interval"  # the column that only CSV has


def names_of(keep: Sequence[str], present: Sequence[str]) -> list[str]:
    """Return the names of the columns to repeat, in the order of the rows' own columns.

    Raises
    ------
    InvalidRequestError
        There is no such column.
    """
    if EVERY in keep and EVERY not in present:
        return list(present)
    faults = [
        Fault("keep", None, f"the rows have no column {name[:100]!r}") for name in keep if name not in present
    ]
    if faults:
        raise InvalidRequestError(errors=faults)
    return [name for name in present if name in keep]


def check_free(kept: Collection[str], figures: Collection[str]) -> None:
    """Refuse to repeat columns that have the name of a figure; raises InvalidRequestError."""
    if clashing := [name for name in kept if name in figures]:
        message = "the answer has a column of this name: rename yours, or leave it out of keep"
        raise InvalidRequestError(errors=[Fault(name, None, message) for name in clashing])


def renamed(kept: pa.Table, figures: Collection[str]) -> pa.Table:
    """Rename columns that have the name of a figure: `mean` becomes `mean (sent)`."""
    names: list[str] = []
    for name in kept.column_names:
        free = name
        while free in figures or (free != name and free in kept.column_names):
            free += " (sent)"
        names.append(free)
    return kept.rename_columns(names)


def beside(kept: pa.Table, figures: pa.Table) -> pa.Table:
    """Return one table of the repeated columns, then the figures; metadata are those of the figures.

    Raises InvalidRequestError for a name that both tables have.
    """
    check_free(kept.column_names, {*figures.column_names, IN_CSV})
    columns = {name: table.column(name) for table in (kept, figures) for name in table.column_names}
    return pa.table(columns).replace_schema_metadata(figures.schema.metadata)


def with_dates(table: pa.Table) -> pa.Table:
    """Convert columns of times that are all at midnight to dates, as they were sent."""
    return pa.table({name: _as_date(table.column(name)) for name in table.column_names})


def _as_date(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_timestamp(column.type) or column.type.tz is not None:
        return column
    whole = pc.all(pc.equal(pc.floor_temporal(column, unit="day"), column)).as_py()
    return column.cast(pa.date32()) if whole in {True, None} else column
