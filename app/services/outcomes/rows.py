"""Rows with outcomes, as they are reported: in JSON, in a file, or as rows of a background prediction."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Engine

from app.services.errors import Fault, InvalidRequestError, UnusableDataError, enough
from app.services.outcomes.predicted_rows import PredictedRows
from app.services.predictions.file_rows import RowsReadAsView, read_rows
from app.services.predictions.predict_rows import translating_sampler_errors
from app.services.predictions.row_reading import RowReading, with_levels
from app.services.predictions.rows import SentRows, columns_of
from app.services.readers.values.typing_text import RAW
from app.services.request_bodies import ColumnsInBody, RowsInBody
from app.store.clock import utc_now
from app.store.errors import is_storable
from app.store.models import ModelHead
from sampler import DataProblem, Posterior
from sampler.host.data import OF_LEVELS, RawColumn, read_column, to_floats, to_labels
from sampler.host.settings import COLUMN_ROLES

MAX_KEY = 200  # characters
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AHEAD = timedelta(days=1)  # how far clocks and zones may differ
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)  # a slip of the year would date an alarm
DAY = 86_400_000_000  # microseconds
Repeated = Literal["refuse", "replace", "skip"]
Name = Annotated[str, Field(min_length=1, max_length=1000)]


class OutcomeOptions(BaseModel):
    """Meaning of the columns of a report."""

    key: Name | None = Field(
        default=None,
        description="The column with a name for each row, by which it is known again. With prediction_id and "
        "without row, a column of the predicted dataset, by which its rows are found.",
    )
    at: Name | None = Field(
        default=None,
        description="The column with the time of each row, which decides about its week; default: now.",
    )
    prediction_id: Name | None = Field(
        default=None,
        description="A background prediction of this model: the rows are its rows, and their features come "
        "from its dataset.",
    )
    row: Name | None = Field(
        default=None, description="The column with the numbers, from 1, of the rows in that prediction."
    )
    repeated: Repeated = Field(
        default="refuse",
        description="What happens to a row whose key has an outcome: refuse the report (409), replace the "
        "outcome, or skip the row. Rows without a key are never repeated.",
    )


class OutcomesBody(OutcomeOptions):
    """Rows of which the outcome is known: the model's columns and its target."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rows: RowsInBody | None = Field(
        default=None,
        description="Objects of values by column name, the target included; alternatively use columns.",
    )
    columns: ColumnsInBody | None = Field(
        default=None, description="Lists of values by column name; alternatively use rows."
    )


@dataclass(frozen=True)
class ReportedRows:
    """Rows with outcomes.

    Attributes
    ----------
    X
        Columns of the model, and others of its training data, by name.
    y, weights
        The outcomes, and their precisions or None.
    keys
        The rows' keys, or None.
    at
        The rows' times.
    values
        All values as a table that a dataset can hold: `X`, then the target.
    notes
        Warnings of the reader of a file.
    read_as
        How the file was read; None without one.

    """

    X: Mapping[str, Any]
    y: Any
    weights: Any
    keys: list[str] | None
    at: list[datetime]
    values: pa.Table
    notes: list[str]
    read_as: RowsReadAsView | None


def read(
    engine: Engine,
    owner: str,
    model: ModelHead,
    posterior: Posterior,
    request: OutcomeOptions,
    sent: SentRows,
    max_rows: int,
) -> ReportedRows:
    """Read the rows of a report.

    Raises
    ------
    InvalidRequestError, UnusableDataError, TooLargeError
        The request names no such column; a key, time or row number is missing, repeated or out of range;
        names column and row.
    NotFoundError, ConflictError
        There is no such prediction, or its dataset was deleted.
    """
    schema = posterior.schema
    target = schema.target.name
    known = {column.name for column in schema.inputs} | set(schema.ignored)
    columns, notes, read_as = _columns_as_sent(model, posterior, request, sent, max_rows)
    _check_names(columns, request, target)
    keys = None if request.key is None else _keys(columns[request.key], request.key)
    at = _times(columns, request.at, len(columns[target]))
    beside = {target, *({request.key, request.at, request.row} - known)}
    X = {name: values for name, values in columns.items() if name not in beside}
    if request.prediction_id is not None:
        predicted = PredictedRows(engine, owner, model.id, request.prediction_id)
        if request.row is not None:
            index = predicted.index_of_rows(_numbers(columns[request.row], request.row), request.row)
        else:
            assert request.key is not None, "as _check_names has seen"
            assert keys is not None
            index = predicted.index_of_keys(request.key, keys)
        with translating_sampler_errors():
            features = predicted.read(index, known - {target, *X}, posterior)
        X |= {name: features.column(name) for name in features.column_names}
        keys = [f"{request.prediction_id}:{i + 1}" for i in index] if keys is None else keys
    if keys is not None:
        _check_unique(keys, request.key or request.row)
    weights = model.settings.get("weights")
    kinds = {column.name: column.kind for column in (*schema.inputs, schema.target)}
    return ReportedRows(
        X=X,
        y=columns[target],
        weights=X.get(weights) if weights else None,
        keys=keys,
        at=at,
        values=_table({**X, target: columns[target]}, kinds),
        notes=notes,
        read_as=read_as,
    )


def _columns_as_sent(
    model: ModelHead, posterior: Posterior, request: OutcomeOptions, sent: SentRows, max_rows: int
) -> tuple[dict[str, Any], list[str], RowsReadAsView | None]:
    """Return the columns as they were sent, by name, and of a file warnings and how it was read."""
    if sent.file is None:
        named = columns_of(sent.rows, sent.columns, max_rows)
        return dict(with_levels(posterior, named, with_target=True)), [], None
    file, options = sent.file
    roles = COLUMN_ROLES.items()
    others = {name: each.cells for role, each in roles if (name := model.settings.get(role))}
    # A column that the model uses keeps its kind; keys stay as they are spelled.
    others |= {name: RAW for name in (request.key, request.at) if name}
    inputs = {column.name for column in posterior.schema.inputs}
    others = {name: kind for name, kind in others.items() if name not in inputs}
    if request.row is not None:
        others[request.row] = "number"
    of_file = read_rows(file, RowReading.of(posterior, options, others, with_target=True), max_rows)
    columns = {name: of_file.rows.column(name) for name in of_file.rows.column_names}
    return columns, of_file.notes, of_file.read_as


def _check_names(columns: Mapping[str, Any], request: OutcomeOptions, target: str) -> None:
    faults = []
    if target not in columns:
        faults.append(Fault(target, None, "this is the model's target: send the outcomes in this column"))
    for option in ("key", "at", "row"):
        name = getattr(request, option)
        if name is not None and name not in columns:
            faults.append(Fault(option, None, f"the rows have no column {name[:100]!r}"))
        elif name is not None and name == target:
            faults.append(Fault(option, None, "this is the target's column: name another"))
    if request.row is not None and request.prediction_id is None:
        message = "row numbers are those of a background prediction: give prediction_id too"
        faults.append(Fault("row", None, message))
    if request.prediction_id is not None and request.row is None and request.key is None:
        message = "name the column with row numbers (row), or with keys that the predicted dataset has (key)"
        faults.append(Fault("prediction_id", None, message))
    if faults:
        raise InvalidRequestError(errors=faults)


def _keys(values: Any, name: str) -> list[str]:
    problems: list[DataProblem] = []
    labels = to_labels(read_column(values, name), problems)
    faults = [Fault.of(problem) for problem in problems]
    if not faults:
        lacking = np.flatnonzero(labels.index < 0)
        faults = enough(Fault(name, int(i) + 1, "the key is missing") for i in lacking)
        refused = [
            n for n, text in enumerate(labels.names) if not (0 < len(text) <= MAX_KEY and is_storable(text))
        ]
        message = f"a key has 1 to {MAX_KEY} characters, and none of them is a NUL"
        rows = np.flatnonzero(np.isin(labels.index, refused))
        faults += enough(Fault(name, int(i) + 1, message) for i in rows)
    if faults:
        raise UnusableDataError(errors=faults)
    return [labels.names[i] for i in labels.index]


def _check_unique(keys: Sequence[str], name: str | None) -> None:
    first: dict[str, int] = {}
    faults = []
    for i, key in enumerate(keys):
        if first.setdefault(key, i) != i:
            faults.append(Fault(name, i + 1, f"row {first[key] + 1} has the same one: send a row once"))
    if faults:
        raise UnusableDataError(errors=enough(faults))


def _times(columns: Mapping[str, Any], name: str | None, num_rows: int) -> list[datetime]:
    now = utc_now()
    if name is None:
        return [now] * num_rows
    problems: list[DataProblem] = []
    raw = read_column(columns[name], name)
    days = to_floats(raw, "date", problems, read_text=True)
    faults = [Fault.of(problem) for problem in problems]
    if not faults:
        last, first = (((each - EPOCH) / timedelta(days=1)) for each in (now + AHEAD, EARLIEST))
        faulty = {
            "the time is missing": np.isnan(days),
            "the time is in the future: nothing is known of it yet": days > last,
            f"the time is before {EARLIEST.year}": days < first,
        }
        faults = [Fault(name, int(i) + 1, text) for text, bad in faulty.items() for i in np.flatnonzero(bad)]
    if faults:
        raise UnusableDataError(errors=enough(faults))
    return [EPOCH + timedelta(days=float(day)) for day in days]


def _numbers(values: Any, name: str) -> NDArray[np.int64]:
    """Read row numbers; those that are no whole numbers become 0, which no row has."""
    problems: list[DataProblem] = []
    numbers = to_floats(read_column(values, name), "number", problems, read_text=True)
    if problems:
        raise UnusableDataError(errors=[Fault.of(problem) for problem in problems])
    whole = np.isfinite(numbers) & (numbers == np.floor(numbers)) & (np.abs(numbers) < 2**53)
    return np.where(whole, numbers, 0).astype(np.int64)


def _table(columns: Mapping[str, Any], kinds: Mapping[str, str]) -> pa.Table:
    """Convert columns to the types of a dataset's: by the model's kind, else by their own type."""
    problems: list[DataProblem] = []  # the model refuses what it can't read; the rest is stored as text
    table = {}
    for name, values in columns.items():
        raw = read_column(values, name)
        own = raw.type if raw.type in {"number", "boolean", "date"} and raw.numbers is not None else None
        table[name] = storable(raw, kinds.get(name) or own or "category", problems)
    return pa.table(table)


def storable(raw: RawColumn, kind: str, problems: list[DataProblem]) -> pa.Array:
    """Convert a column to the type that a dataset has for a kind; `problems` gets what isn't of that kind."""
    if kind in OF_LEVELS:
        labels = to_labels(raw, problems)
        names = pa.array(labels.names, pa.string())
        return names.take(pa.array(labels.index, mask=labels.index < 0))
    read_as: Any = kind
    values = to_floats(raw, read_as, problems, read_text=True)
    missing = np.isnan(values)
    if kind == "date":
        times = np.round(np.where(missing, 0, values) * DAY).astype(np.int64)
        return pa.array(times, mask=missing).cast(pa.timestamp("us", "UTC"))
    if kind == "boolean":
        return pa.array(values == 1, mask=missing)
    if raw.type == "number" and raw.cells is not None:  # integers that float64 would round
        with suppress(OverflowError, pa.ArrowInvalid, pa.ArrowTypeError):
            return pa.array(raw.cells, pa.int64())
    return pa.array(values, pa.float64(), mask=missing)
