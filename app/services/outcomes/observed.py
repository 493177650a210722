"""Outcomes reported to a forecaster: they become history, from whose end the next forecast starts."""

from typing import Any

import numpy as np

from app.services.access import audit, quotas
from app.services.errors import ConflictError, Fault, InvalidRequestError
from app.services.outcomes.reports import AcceptedReportView
from app.services.outcomes.rows import OutcomeOptions
from app.services.predictions import forecasts
from app.services.predictions.file_rows import read_rows
from app.services.predictions.predict_rows import Predictor
from app.services.predictions.row_reading import RowReading
from app.services.predictions.rows import SentRows, columns_of
from app.store import models as store
from app.store.column_codec import checksum
from app.store.engine import session_scope
from sampler.host.data import read
from sampler.host.forecasts import Forecaster

ATTEMPTS = 5  # while others report too
OF_ROWS = {"key": None, "at": None, "prediction_id": None, "row": None}  # options that forecasters lack


def observe(
    predictor: Predictor, owner: str, model: str, options: OutcomeOptions, sent: SentRows
) -> AcceptedReportView:
    """Add rows of time, series, outcome and the other columns of the fit to a forecaster's history.

    Rows that are there already are left as they are.

    Raises
    ------
    NotFoundError, NotFinishedError, ConflictError
        The model doesn't exist, has not finished, is no forecaster, or others report at the same time.
    InvalidRequestError, UnusableDataError, TooLargeError
        An option isn't for forecasters, a column is missing, or a row says another outcome than is known.
    QuotaError
        The owner's quota of stored bytes is exhausted.
    """
    given = [name for name, usual in OF_ROWS.items() if getattr(options, name) != usual]
    if given:
        message = "rows of a forecaster are known by series and time: leave it out"
        raise InvalidRequestError(errors=[Fault(name, None, message, "not_applicable") for name in given])
    rows, notes, count = _rows(sent, predictor.max_rows)
    for _ in range(ATTEMPTS):
        model_id, stored = forecasts.load(predictor, owner, model)
        old = stored.forecaster
        new = Forecaster(old.history, old.fitted, old.calibration, old.settings)
        with forecasts.translating():
            new.observe(rows)
        added = int((~np.isnan(new.history.y)).sum() - (~np.isnan(old.history.y)).sum())
        header = new.header_bytes()
        diagnostics = new.described() | {"checksum": checksum(header)}
        with session_scope(predictor.engine) as session:
            quotas.check_stored(session, owner, max(len(header) - len(old.header_bytes()), 0))
            if store.rewrite(session, model_id, stored.checksum, header, diagnostics):
                audit.record(session, owner, "outcomes.reported", model_id)
                break
    else:
        raise ConflictError("Others report to this forecaster at the same time: report again.")
    text = f"The history ends at {diagnostics['newest']}: forecasts start after it, nothing was fitted."
    return AcceptedReportView(
        id=None, model_id=model_id, rows=added, replaced=0, skipped=max(count - added, 0),
        verdict="too_few", text=text, since=None, warnings=notes,
    )  # fmt: skip


def _rows(sent: SentRows, max_rows: int) -> tuple[Any, list[str], int]:
    """Return sent rows, warnings of the reader of a file, and their number."""
    if sent.file is None:
        columns = columns_of(sent.rows, sent.columns, max_rows)
        return columns, [], len(next(iter(columns.values())))
    file, options = sent.file
    found = read_rows(file, RowReading({}, options), max_rows)
    return read(found.as_sent), found.notes, found.as_sent.num_rows
