"""Results of background predictions, as JSON, CSV, Arrow and Parquet, read one block of rows at a time."""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import chain
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic_core import to_json
from sqlalchemy import Engine

from app.services.errors import ConflictError, NotFoundError
from app.services.predictions import kept_columns, stored
from app.services.predictions.answers import arrow_parts, labels_of, with_facts
from app.services.predictions.csv_tables import (
    PLAIN,
    CsvDialect,
    Digits,
    Letters,
    places_of,
    rounded,
    style_of,
    to_csv,
    with_interval,
)
from app.services.predictions.posteriors import DamagedError
from app.services.predictions.totals import COUNTS
from app.services.predictions.workbooks import Piece, write_workbook
from app.services.readers.options import TEXTS, CsvStyle
from app.store import models
from app.store import predictions as store
from app.store.column_codec import Spelling
from app.store.engine import session_scope
from app.store.errors import CorruptBlockError, DatasetGoneError
from app.store.tables import OPEN_STATES, SUCCEEDED, BatchPrediction, Dataset
from sampler.host.data import Flag
from sampler.host.data import flags_as_text as as_text
from sampler.host.posteriors import percent
from sampler.host.storage import CalibratedLevel, Header

CSV_ROWS = 8192  # rows per written piece
PIECE_BYTES = 1 << 20  # size of the pieces in which a file is sent from disk


class PredictionNotFinishedError(ConflictError):
    """The prediction has no result yet, or will have none."""

    slug, title = "prediction-not-finished", "Prediction not finished"


class Result:
    """The result of a succeeded prediction, read one block of rows at a time."""

    def __init__(self, engine: Engine, owner: str, prediction_id: str, digits: Digits = "full") -> None:
        self.engine = engine
        self._digits = digits
        with session_scope(engine, read_only=True) as session:
            prediction = stored.get(session, owner, prediction_id)
            self._blocks = store.num_blocks(session, prediction.id)
        if prediction.state != SUCCEEDED:
            later = ": ask again when it has succeeded" if prediction.state in OPEN_STATES else ""
            raise PredictionNotFinishedError(f"Prediction {prediction.id} is {prediction.state}{later}.")
        self.prediction = prediction
        self.facts = _facts(prediction)
        self._read(0)  # raises for a damaged or deleted result before the response begins

    def check_tables(self) -> None:
        """Raise ConflictError when tables can't be written, because columns to repeat were deleted."""
        if self.prediction.request.get("keep") and self.prediction.dataset_id is None:
            raise ConflictError(
                "The dataset was deleted, so its columns can't be repeated: ask for JSON, which has the "
                "figures alone."
            )

    def _types_of_text(self, *, as_text: bool) -> dict[str, pa.DataType]:
        """Return columns to repeat of which the text of the file is read, with their types in the table.

        Numbers are text where their values lose digits; others with `as_text`.
        """
        kinds, known, _ = self._dataset
        spellings = known or {}
        keep = self.prediction.request.get("keep", ())
        exact = {name: Spelling(**spellings[name]).exact for name in keep if name in spellings}
        return {
            name: pa.int64() if kind == "integer" else pa.string()
            for name, kind in exact.items()
            if kind is not None or (as_text and kinds[name] != "number")
        }

    @cached_property
    def _dataset(self) -> tuple[dict[str, str], dict[str, Any] | None, dict[str, Any]]:
        """Kinds and spellings of the dataset's columns, and how its file was read; empty where it is gone."""
        with session_scope(self.engine, read_only=True) as session:
            dataset = session.get(Dataset, self.prediction.dataset_id) if self.prediction.dataset_id else None
            if dataset is None:
                return {}, None, {}
            kinds = {each["name"]: each["kind"] for each in dataset.columns}
            return kinds, dataset.spellings, dataset.read_as or {}

    def _letters(self, seq: int) -> Letters:
        """Read the cells of a block of kept columns as they were written, as far as that is known."""
        _, spellings, report = self._dataset
        if spellings is None or store.FORECAST in self.prediction.request:
            return {}
        keep = self.prediction.request.get("keep", ())
        names = [name for name in keep if report["format"] == "csv" or name in report.get(TEXTS, ())]
        kept = self._kept(seq, names, names)
        return {name: kept.column(name) for name in names}

    def as_arrow(self) -> Iterator[bytes]:
        """Return the result as an Arrow stream, one batch per block."""
        schema = self._table(0).schema
        tables = (self._table(seq) for seq in range(self._blocks))
        return arrow_parts(schema, chain.from_iterable(table.cast(schema).to_batches() for table in tables))

    def as_parquet(self) -> Iterator[bytes]:
        """Return the result as a Parquet file, a row group per block; written to disk first."""
        with TemporaryFile() as file:
            schema = self._table(0).schema
            with pq.ParquetWriter(file, schema) as writer:
                for seq in range(self._blocks):
                    writer.write_table(self._table(seq).cast(schema))
            file.seek(0)
            yield from _sent(file)

    def style(self, wanted: CsvDialect) -> CsvStyle:
        """Return the style of CSV that a request wants; raises InvalidRequestError."""
        if wanted == "plain":
            return PLAIN
        if wanted == "file":
            _, spellings, report = self._dataset
            style = style_of(wanted, None, None if spellings is None else CsvStyle.of_report(report))
            to_csv(self._table(0).slice(0, 0), style)  # its names, which may not fit the encoding
            return style
        with session_scope(self.engine, read_only=True) as session:
            header = models.header(session, self.prediction.model_id)
        return style_of(wanted, None if header is None else Header.from_bytes(header).dialect)

    def as_csv(self, style: CsvStyle = PLAIN, *, as_written: bool = False) -> Iterator[bytes]:
        """Return the result as CSV, kept columns with the letters of the file on request."""
        for number, (table, letters) in enumerate(self._pieces(as_text=True, as_written=as_written)):
            yield to_csv(table, style, header=number == 0, letters=letters)

    def as_workbook(self) -> Iterator[bytes]:
        """Return the result as an Excel workbook, which is written to disk before this returns.

        Raises TooLargeError.
        """
        pieces = self._pieces(as_text=False, as_written=True)
        return _sent(
            write_workbook(
                ((with_interval(table), letters) for table, letters in pieces), self.prediction.num_rows
            )
        )

    def _pieces(self, *, as_text: bool, as_written: bool) -> Iterator[Piece]:
        for seq in range(self._blocks):
            table = self._table(seq, as_text=as_text)
            letters = self._letters(seq) if as_written else {}
            for start in range(0, table.num_rows, CSV_ROWS):
                part = {name: column.slice(start, CSV_ROWS) for name, column in letters.items()}
                yield table.slice(start, CSV_ROWS), part

    def as_json(self) -> Iterator[bytes]:
        """Return the result in the form of `POST /models/{id}/predict`, one column after the other."""
        request = self.prediction.request
        if store.AGGREGATE in request:
            yield to_json(_of_sets(self._read(0)) | self.facts)
            return
        yield to_json(self.facts)[:-1]
        if store.FORECAST in request:
            for k, name in enumerate(self._read(0).column_names):
                yield (b"," if k else b',"columns":{') + to_json(name) + b":"
                yield from self._list(name)
            yield b"}}"
            return
        for name in ("mean", "sd"):
            yield f',"{name}":'.encode()
            yield from self._list(name)
        yield from self._bounds("", request)
        yield from self._sets(request)
        yield b',"mcse":'
        if request["mcse"]:
            yield b'{"mean":'
            yield from self._list("mcse_mean")
            yield from self._bounds("mcse_", request)
            yield b"}"
        else:
            yield b"null"
        yield b',"rhat":'
        yield from self._list("rhat") if request["rhat"] else [b"null"]
        yield b',"flags":'
        yield from self._list("flags")
        yield b"}"

    def _bounds(self, prefix: str, request: dict[str, Any]) -> Iterator[bytes]:
        yield b',"intervals":['
        for k, level in enumerate([] if _has_sets(request) else request["levels"]):
            yield f'{"," if k else ""}{{"level":{json.dumps(level)},"lower":'.encode()
            yield from self._list(f"{prefix}lower_{percent(level)}")
            yield b',"upper":'
            yield from self._list(f"{prefix}upper_{percent(level)}")
            yield b"}"
        yield b'],"quantiles":['
        for k, q in enumerate(request["quantiles"]):
            yield f'{"," if k else ""}{{"q":{json.dumps(q)},"values":'.encode()
            yield from self._list(f"{prefix}quantile_{percent(q)}")
            yield b"}"
        yield b"]"

    def _sets(self, request: dict[str, Any]) -> Iterator[bytes]:
        if not _has_sets(request):
            return
        yield b',"sets":['
        for k, level in enumerate(request["levels"]):
            yield f'{"," if k else ""}{{"level":{json.dumps(level)},"classes":['.encode()
            for seq in range(self._blocks):
                members = self._read(seq).column(f"set_{percent(level)}").to_pylist()
                yield (b"," if seq else b"") + to_json(labels_of(members, request["classes"]))[1:-1]
            yield b"]}"
        yield b"]"

    def _list(self, name: str) -> Iterator[bytes]:
        for seq in range(self._blocks):
            yield b"," if seq else b"["
            yield to_json(self._read(seq).column(name).to_pylist())[1:-1]
        yield b"]"

    def _table(self, seq: int, *, as_text: bool = False) -> pa.Table:
        """Read a block as a table for users: the kept columns of the dataset, then the figures.

        Kept columns are as in the file: their text with `as_text`, else where numbers would lose digits.
        """
        if store.AGGREGATE in self.prediction.request:
            return self._read(seq)
        if store.FORECAST in self.prediction.request:
            return with_facts(self._read(seq), self.facts)
        figures = _flat(self._read(seq), self.facts)
        figures = figures if self._places is None else rounded(figures, self._places)
        if not (keep := self.prediction.request.get("keep")):
            return figures
        types = self._types_of_text(as_text=as_text)
        kept = self._kept(seq, keep, types)
        columns = [_kept(kept.column(name), types.get(name), as_text=as_text) for name in keep]
        kept = pa.table(columns, names=keep)
        # Whether times are dates must not differ by block.
        return kept_columns.beside(kept_columns.with_dates(kept) if self._blocks == 1 else kept, figures)

    def _kept(self, seq: int, names: Sequence[str], exact: Collection[str]) -> pa.Table:
        """Read columns of the dataset; those in `exact` as they were written."""
        try:
            with session_scope(self.engine, read_only=True) as session:
                return store.read_rows(session, self.prediction, names, seq, exact)[0]
        except (KeyError, DatasetGoneError):
            raise NotFoundError("The dataset was deleted.") from None

    @cached_property
    def _places(self) -> int | None:
        """Decimal places of the figures, chosen by the first block; None for all digits."""
        return None if self._digits == "full" else places_of(_flat(self._read(0), self.facts))

    def _read(self, seq: int) -> pa.Table:
        with session_scope(self.engine, read_only=True) as session:
            try:
                table = store.read_block(session, self.prediction.id, seq)
            except CorruptBlockError as error:
                raise DamagedError(str(error)) from error
        if table is None:
            raise NotFoundError("The prediction was deleted.")
        return table


def _sent(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def _kept(column: pa.ChunkedArray, type_: pa.DataType | None, *, as_text: bool) -> pa.ChunkedArray:
    """Convert a column to repeat: text of a file to its type, and for CSV whole numbers to integers."""
    if type_ is not None:
        column, pattern = pc.utf8_trim_whitespace(column), r"^-?\d" if pa.types.is_integer(type_) else "."
        present = pc.match_substring_regex(column, pattern)
        return pc.if_else(present, column, pa.scalar(None, pa.string())).cast(type_)
    if as_text and pa.types.is_floating(column.type):
        whole = pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), 2.0**53))
        return column.cast(pa.int64()) if pc.all(whole, min_count=0).as_py() else column
    return column


def _of_sets(table: pa.Table) -> dict[str, Any]:
    """Return stored figures of sets of rows in the form of `POST /models/{id}/aggregate`."""
    facts: dict[str, Any] = json.loads(table.schema.metadata[b"bartserve"])
    end, classes = percent(facts["level"]), facts["classes"]
    figures = {"mean": "mean", "lower": f"lower_{end}", "upper": f"upper_{end}"}
    own = {*COUNTS}
    for column in figures.values():
        own |= {column} if classes is None else {f"{column}_{label}" for label in classes}
    by = [name for name in table.column_names if name not in own]

    def figure(row: dict[str, Any], column: str) -> Any:
        return row[column] if classes is None else [row[f"{column}_{label}"] for label in classes]

    sets = [
        {"set": {name: row[name] for name in by}}
        | {name: figure(row, column) for name, column in figures.items()}
        | {name: row[name] for name in COUNTS}
        for row in table.to_pylist()
    ]
    return facts | {"sets": sets}


def _has_sets(request: dict[str, Any]) -> bool:
    return request["interval"] == "calibrated" and request["classes"] is not None


def _flat(table: pa.Table, facts: dict[str, Any]) -> pa.Table:
    """Convert flags to text and classes to columns, and put the facts on all rows into the metadata."""
    at = table.column_names.index("flags")
    table = table.set_column(at, "flags", _texts(table.column("flags")))
    named: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_fixed_size_list(column.type):
            named |= {
                f"{name}_{label}": pc.list_element(column, k) for k, label in enumerate(facts["classes"])
            }
        else:
            named[name] = column
    return with_facts(pa.table(named), facts)


def _texts(flags: pa.ChunkedArray) -> pa.Array:
    flagged = pc.greater(pc.list_value_length(flags), 0).to_pylist()
    text: Callable[[Any], str] = lambda row: as_text([Flag(**flag) for flag in row.as_py()])  # noqa: E731
    return pa.array(
        [text(row) if any_ else "" for row, any_ in zip(flags, flagged, strict=True)], pa.string()
    )


def _facts(prediction: BatchPrediction) -> dict[str, Any]:
    request = prediction.request
    claims = [CalibratedLevel.from_json(each).claim for each in request.get("calibrated", [])]
    if store.AGGREGATE in request:
        own = {"prediction_id": prediction.id, "model_id": prediction.model_id, "draws": request["draws"]}
        return own | {"classes": request["classes"], "outcome": request.get("outcome")}
    if store.FORECAST in request:
        own = {name: request[name] for name in ("draws", "interval", "claim", "warnings")}
        of = {"prediction_id": prediction.id, "model_id": prediction.model_id, "target": request["outcome"]}
        return of | {"level": request["levels"][0]} | own
    return {
        "prediction_id": prediction.id,
        "model_id": prediction.model_id,
        "outcome": request.get("outcome"),
        **{name: request[name] for name in ("draws", "interval", "verdict", "classes")},
        "warnings": stored.warnings_of(prediction),
        **({"groups": request["groups"]} if "groups" in request else {}),
        **({"claims": claims} if claims else {}),
        **({"calibration": request["calibration"]} if claims and "calibration" in request else {}),
    }
