"""Tables with a column for each time, made long: a row for each of their cells."""

from collections.abc import Mapping

import pyarrow as pa

from app.services.readers.options import ReaderLimits
from app.services.readers.scratch import Scratch
from app.services.readers.spool import Spool
from app.services.readers.values import numbers
from sampler.host.wide import WideTimes, long_names


def make_long(
    spool: Spool,
    kept: Mapping[str, pa.ChunkedArray],
    wide: WideTimes,
    num_rows: int,
    limits: ReaderLimits,
    scratch: Scratch,
) -> tuple[Spool, list[str]]:
    """Return a table with a row for each cell of the columns of times, and which of its new columns are text.

    The columns `kept` stand before those of times and values; rows are in order of the columns of times.
    """
    time, value = long_names([*kept])
    places = [at for at, name in enumerate(spool.names) if name in wide.columns]
    types = {spool.schema.types[at] for at in places}
    kind = types.pop() if len(types) == 1 else None
    if kind is None:
        kind = pa.float64() if all(map(numbers.is_numeric, types | {kind} - {None})) else pa.string()
    texts = [time, *([value] if pa.types.is_string(kind) else [])]
    fields = [(name, column.type) for name, column in kept.items()]
    long = Spool(pa.schema([*fields, (time, pa.string()), (value, kind)]), limits, scratch)
    long.orders = {name: order for name, order in spool.orders.items() if name in kept}
    times = dict(zip(wide.columns, wide.times, strict=True))
    for at, column in spool.columns(places):
        cells = column.slice(0, num_rows).cast(kind)
        own = pa.chunked_array([pa.repeat(times[spool.names[at]], num_rows)])
        rows = pa.table([*kept.values(), own, cells], schema=long.schema)
        for batch in rows.combine_chunks().to_batches():
            long.add(batch)
    return long, texts
