"""Outcomes reported to a forecaster: they are scored by the forecasts of them, and become history."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
from sqlalchemy.orm import Session

from app.services.access import audit, quotas
from app.services.errors import ConflictError, Fault, InvalidRequestError, TooLargeError
from app.services.outcomes import weekly
from app.services.outcomes.reports import STORED, AcceptedReportView, ScoredReport, accept
from app.services.outcomes.rows import EPOCH, OutcomeOptions
from app.services.predictions import forecasts
from app.services.predictions.file_rows import read_rows
from app.services.predictions.predict_rows import Predictor
from app.services.predictions.row_reading import RowReading
from app.services.predictions.rows import SentRows, columns_of
from app.store import models as store
from app.store.clock import utc_now
from app.store.column_codec import checksum
from app.store.engine import session_scope
from app.store.outcomes import reports, watches
from app.store.predictions import encode
from app.store.tables import new_id
from sampler.host.assessment import week_of
from sampler.host.data import read
from sampler.host.forecasts import Forecaster, ScoredSteps, score_newer

ATTEMPTS = 5  # while others report too
MOST_SCORED = 3 * forecasts.MOST_CELLS  # outcomes times steps of a report
OF_ROWS = {"key": None, "at": None, "prediction_id": None, "row": None}  # options that forecasters lack


def observe(
    predictor: Predictor,
    owner: str,
    model: str,
    options: OutcomeOptions,
    sent: SentRows,
    remember: Callable[[Session, AcceptedReportView], None] = lambda _session, _view: None,
) -> AcceptedReportView:
    """Score outcomes by the forecasts of them, and add rows of time, series, outcome and other columns.

    Rows that are there already are left as they are. `remember` is called in the transaction.

    Raises
    ------
    NotFoundError, NotFinishedError, ConflictError
        The model doesn't exist, has not finished, is no forecaster, or others report at the same time; or it
        would have too many outcomes.
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
        new = Forecaster(old.history, old.fitted, old.calibration, old.settings, old.adapted)
        with forecasts.translating():
            new.observe(rows)
        added = int((~np.isnan(new.history.y)).sum() - (~np.isnan(old.history.y)).sum())
        if added * new.horizon > MOST_SCORED:
            raise TooLargeError(f"{added} new outcomes: report up to {MOST_SCORED // new.horizon} at once.")
        report = _scored(predictor, new, old, model_id, notes) if added else None
        header = new.header_bytes()
        diagnostics = new.described() | {"checksum": checksum(header), "weeks_once": _weeks_once(new)}
        with session_scope(predictor.engine) as session:
            quotas.hold(session, owner)
            quotas.check_stored(session, owner, max(len(header) - len(old.header_bytes()), 0))
            if store.rewrite(session, model_id, stored.checksum, header, diagnostics):
                newest = diagnostics["newest"]
                text = f"The history ends at {newest}: forecasts start after it, nothing was fitted."
                view = AcceptedReportView(
                    id=None, model_id=model_id, rows=added, replaced=0, skipped=max(count - added, 0),
                    verdict="too_few", text=text, since=None, warnings=notes,
                )  # fmt: skip
                if report is None:
                    audit.record(session, owner, "outcomes.reported", model_id)
                else:
                    judged = accept(session, owner, report)
                    view = replace(
                        view,
                        id=judged.id,
                        verdict=judged.verdict,
                        since=judged.since,
                        text=f"{text} {judged.text}",
                    )
                remember(session, view)
                return view
    raise ConflictError(
        "Others report to this forecaster at the same time, or it is being extended: report again."
    )


def _scored(
    predictor: Predictor, new: Forecaster, old: Forecaster, model_id: str, notes: list[str]
) -> ScoredReport | None:
    """Score what is new in a history; None where nothing of it was forecast after the fit."""
    report_id, now = new_id("out"), utc_now()
    rng = np.random.default_rng(int(report_id.removeprefix("out_"), 16))
    scored: ScoredSteps = score_newer(new, old.history, rng, num_threads=1)
    if not len(scored):
        return None
    history, scores = new.history, scored.scores
    asked, places = history.asked, [*zip(scored.series.tolist(), scored.index.tolist(), strict=True)]

    def named(series: int, index: int) -> str:
        return history.named(history.keys, series, index, asked.time)

    # A forecast was the newest until the step after its origin was reported: its intervals are of that time.
    after = [named(i, t - ahead + 1) for (i, t), ahead in zip(places, scored.step.tolist(), strict=True)]
    with session_scope(predictor.engine, read_only=True) as session:
        begun = watches.get(session, model_id)
        era = 0 if begun is None else begun.era
        times = reports.reported_at(session, model_id, after)
        predicted = [times.get(key, now) for key in after]
        scores = weekly.judged_in_time(session, model_id, begun, scores, predicted)
    weeks = [week_of(at) for at in _times(new, scored)]
    columns = {name: getattr(scores, name).tolist() for name in STORED}
    columns |= {
        "at": predicted,
        "week": weeks,
        "key": [named(*place) for place in places],
    }
    values = {
        asked.time: [history.step.text(index) for _, index in places],
        **history.columns_of(scored.series.tolist()),
        history.target: history.y[scored.series, scored.index - history.start],
    }
    return ScoredReport(
        id=report_id,
        model_id=model_id,
        era=era,
        draws=new.fitted[0].posterior.num_draws,
        repeated="skip",
        keys=columns["key"],
        key_column=asked.time,
        scores=scores,
        weeks=weeks,
        rows=[dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        data=encode(pa.table(values)),
        warnings=notes,
        read_as=None,
    )


def _times(forecaster: Forecaster, scored: ScoredSteps) -> list[datetime]:
    """Return the times of outcomes; now where the column of times has numbers."""
    step, now = forecaster.history.step, utc_now()
    if step.unit == "number":
        return [now] * len(scored)
    return [EPOCH + timedelta(days=step.time(index)) for index in scored.index.tolist()]


def _weeks_once(forecaster: Forecaster) -> int:
    """Return the weeks of a horizon, which count once: forecasts that overlap resemble each other."""
    step, newest = forecaster.history.step, forecaster.history.y.shape[1] - 1
    if step.unit == "number":
        return 1
    start = forecaster.history.start + newest
    return max(ceil((step.time(start + forecaster.horizon) - step.time(start)) / 7), 1)


def _rows(sent: SentRows, max_rows: int) -> tuple[Any, list[str], int]:
    """Return sent rows, warnings of the reader of a file, and their number."""
    if sent.file is None:
        columns = columns_of(sent.rows, sent.columns, max_rows)
        return columns, [], len(next(iter(columns.values())))
    file, options = sent.file
    found = read_rows(file, RowReading({}, options), max_rows)
    return read(found.as_sent), found.notes, found.as_sent.num_rows
