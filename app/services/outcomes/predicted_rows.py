"""Rows of a background prediction, found again by their numbers or by a column of keys."""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlalchemy import Engine

from app.services.errors import ConflictError, Fault, InvalidRequestError, UnusableDataError, enough
from app.services.predictions import stored
from app.services.predictions.row_reading import RowReading
from app.store import datasets
from app.store.column_codec import BLOCK_ROWS
from app.store.engine import session_scope
from app.store.errors import DatasetGoneError
from app.store.predictions import AS_TEXT
from sampler import Posterior
from sampler.host.data import read_column, to_labels

Index = NDArray[np.int64]


class PredictedRows:
    """The dataset of a background prediction.

    Raises
    ------
    NotFoundError
        The owner has no such prediction.
    InvalidRequestError
        It is another model's.
    ConflictError
        Its dataset was deleted, and with it the values of its rows.
    """

    def __init__(self, engine: Engine, owner: str, model_id: str, prediction_id: str) -> None:
        self._engine = engine
        with session_scope(engine, read_only=True) as session:
            prediction = stored.get(session, owner, prediction_id)
            if prediction.model_id != model_id:
                message = (
                    f"the prediction is of another model, {prediction.model_id}: report its outcomes there"
                )
                raise InvalidRequestError(errors=[Fault("prediction_id", None, message)])
            dataset = None
            if prediction.dataset_id is not None:
                dataset = datasets.get(session, owner, prediction.dataset_id)
        if dataset is None:
            raise _gone()
        self._dataset = dataset
        self._as_text: list[str] = prediction.request.get(AS_TEXT, [])

    @cached_property
    def _names(self) -> list[str]:
        return [column["name"] for column in self._dataset.columns]

    def index_of_rows(self, numbers: Index, name: str) -> Index:
        """Return the rows' places from their numbers, which count from 1; raises UnusableDataError."""
        most = self._dataset.num_rows
        bad = np.flatnonzero((numbers < 1) | (numbers > most))
        message = f"the prediction's rows are numbered from 1 to {most}"
        if len(bad):
            raise UnusableDataError(errors=enough(Fault(name, int(i) + 1, message) for i in bad))
        return numbers - 1

    def index_of_keys(self, column: str, keys: Sequence[str]) -> Index:
        """Return the places of the rows that have these keys in a column of the dataset.

        Raises
        ------
        InvalidRequestError
            The dataset has no such column.
        UnusableDataError
            No row, or several, have a key.
        """
        if column not in self._names:
            message = f"the predicted dataset has no column {column[:100]!r} to find its rows by"
            raise InvalidRequestError(errors=[Fault("key", None, message)])
        # A key is what the file has ("007"), else what the value is.
        kept = [[column]] if column in (self._dataset.spellings or {}) else []
        rows_of = [self._rows_by_key(column, exact) for exact in (*kept, [])]
        faults, index = [], []
        for i, key in enumerate(keys):
            rows, row = next((found for each in rows_of if (found := each(key))[0]), (0, -1))
            if rows != 1:
                has = f"{rows} rows" if rows else "no row"
                faults.append(Fault(column, i + 1, f"{has} of the prediction have this key"))
            else:
                index.append(row)
        if faults:
            raise UnusableDataError(errors=enough(faults))
        return np.array(index, np.int64)

    def _rows_by_key(self, column: str, exact: Sequence[str]) -> Callable[[str], tuple[int, int]]:
        """Return a function that counts the rows with a key, and names one of them."""
        with session_scope(self._engine, read_only=True) as session:
            try:
                values = datasets.read(session, self._dataset.id, [column], exact).column(column)
            except DatasetGoneError:
                raise _gone() from None
        values = pc.utf8_trim_whitespace(values) if exact else values
        labels = to_labels(read_column(values, column), [])
        places = {name: number for number, name in enumerate(labels.names)}
        rows = np.flatnonzero(labels.index >= 0)
        counts = np.bincount(labels.index[rows], minlength=len(labels.names))
        place = np.zeros(len(labels.names), np.int64)
        place[labels.index[rows]] = rows
        return lambda key: (int(counts[places[key]]), int(place[places[key]])) if key in places else (0, -1)

    def read(self, index: Index, names: Collection[str], posterior: Posterior) -> pa.Table:
        """Return the rows at these places, in their order, of those of the columns that the dataset has.

        The model reads them as for the prediction; raises DataError for cells that it can't read.
        """
        chosen = [name for name in self._names if name in names]
        if not chosen:
            return pa.table({})
        parts, order = [], []
        for block in np.unique(index // BLOCK_ROWS).tolist():
            mine = np.flatnonzero(index // BLOCK_ROWS == block)
            with session_scope(self._engine, read_only=True) as session:
                try:
                    table = datasets.read_block(session, self._dataset.id, chosen, block, self._as_text)
                except (KeyError, DatasetGoneError):
                    raise _gone() from None
            parts.append(table.take(index[mine] - block * BLOCK_ROWS))
            order.append(mine)
        rows = pa.concat_tables(parts).take(np.argsort(np.concatenate(order)))
        return RowReading.of_dataset(posterior, self._dataset).from_text(rows, self._as_text)


def _gone() -> ConflictError:
    return ConflictError(
        "The dataset of this prediction was deleted, and with it the values of its rows: report the rows "
        "themselves with their outcomes."
    )
