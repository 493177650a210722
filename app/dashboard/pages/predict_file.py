"""Predictions of a file's rows: a preview with interval bars, and downloads with the file's own columns."""

import re
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from fastapi import APIRouter, Request
from starlette.responses import Response

from app.dashboard import snippets
from app.dashboard.forms.fields import SentForm, reading_options, text
from app.dashboard.pages.models import Frame, framed_as
from app.dashboard.pages.predict_row import predict_page
from app.dashboard.sparkline import WIDTH
from app.services.access.keys import PREDICT
from app.services.errors import Fault, InvalidRequestError, ServiceError
from app.services.explanations.aggregates import AggregateBody, AggregateView, aggregate_file
from app.services.predictions.answers import PredictionAnswer, to_arrow, to_parquet, to_workbook
from app.services.predictions.csv_tables import PLAIN, Digits, style_of, to_csv
from app.services.predictions.file_rows import LIMITS
from app.services.predictions.options import PredictionOptions
from app.services.predictions.rows import SentRows
from app.services.readers.options import EVERY
from app.services.request_bodies import filled_in
from app.web.dependencies import OutcomePredictor, Owner, TheGate
from app.web.negotiation import ARROW, CSV, PARQUET, XLSX
from app.web.scopes import GuardedRoute, needs
from app.web.uploads import Upload

router = APIRouter(prefix="/ui/models", include_in_schema=False, route_class=GuardedRoute)
PREVIEW_ROWS, PREVIEW_COLUMNS = 20, 4  # shown; a download has all
MODEL_CSV = "csv-model"  # a download as the model's own file was written
# Media types and endings; "csv" is a download as the sent file was written.
DOWNLOADS = {
    "csv": (CSV, "csv"),
    MODEL_CSV: (CSV, "csv"),
    "xlsx": (XLSX, "xlsx"),
    "parquet": (PARQUET, "parquet"),
    "arrow": (ARROW, "arrows"),
}


@dataclass(frozen=True)
class TotalRow:
    """A line of the table of totals."""

    name: str
    label: str | None
    rows: int
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class FilePreview:
    """The first predicted rows of a file, and how many there are.

    `rows` holds for each row its own values, the most probable class (of several), the estimate, the ends of
    the interval, the standard deviation, and the interval as x and width of a bar, with x of the estimate.
    """

    filename: str
    num_rows: int
    level: float
    columns: list[str]
    several: bool
    spread: bool  # whether rows have a standard deviation of a new outcome
    rows: list[dict[str, Any]]
    warnings: list[str]
    read_as: str
    totals: AggregateView | None = None

    @property
    def total_rows(self) -> list[TotalRow]:
        """Lines of the table of totals: a set, or a class of it where there are several."""
        rows = []
        for each in self.totals.sets if self.totals else ():
            name = ", ".join("missing" if value is None else value for value in each.set.values())
            ends = (each.mean, each.lower, each.upper)
            figures = zip(*([end] if isinstance(end, float) else end or () for end in ends), strict=True)
            labels: list[str | None] = [None]
            if self.totals and self.totals.classes and isinstance(each.mean, list):
                labels = [*self.totals.classes]
            rows += [
                TotalRow(name or "All rows", label, each.rows, *own)
                for label, own in zip(labels, figures, strict=True)
            ]
        return rows


@router.post("/{model_id}/predict")
@needs(PREDICT, body=LIMITS.bytes)
async def predict_file(
    request: Request,
    form: SentForm,
    frame: Annotated[Frame, framed_as("predict")],
    received: Upload,
    predictor: OutcomePredictor,
    gate: TheGate,
    owner: Owner,
    model_id: str,
) -> Response:
    """Predict the rows of a file: a page with the first of them, or all as a download."""
    model_id = frame["model"].id
    form_of_answer = text(form, "as") or "preview"

    def work() -> FilePreview | Response:
        if not received.filename:
            raise InvalidRequestError(errors=[Fault("file", None, "choose a file")])
        level = _level(text(form, "level"))
        reading = reading_options(form)
        sent = SentRows(file=(received.file, reading), keep=[EVERY])
        answer = predictor.predict(owner, model_id, PredictionOptions(level=level), sent)
        if form_of_answer in DOWNLOADS:
            by_people = form_of_answer not in {"parquet", "arrow"}
            is_read = by_people and text(form, "digits") == "rounded"
            digits: Digits = "rounded" if is_read else "full"
            return _download(answer, received.filename, form_of_answer, digits)
        preview = preview_of(answer, received.filename, level)
        of = text(form, "totals_of")
        if of not in ("sum", "mean"):
            return preview
        received.file.seek(0)
        asked = filled_in(AggregateBody, {"of": of, "by": text(form, "totals_by"), "level": level})
        totals = aggregate_file(predictor, owner, model_id, (received.file, reading), asked)
        return replace(preview, totals=totals)

    try:
        outcome: FilePreview | Response | ServiceError = await gate.run(work)
    except ServiceError as error:
        if error.status not in {409, 413, 422}:
            raise
        outcome = error
    if isinstance(outcome, Response):
        return outcome
    path = f"/models/{model_id}/predict"
    call = snippets.call("predict", model_id, received.filename or "new.csv")
    of_file = snippets.file(request, path, call, query={"keep": EVERY, "level": "0.9"})
    return await predict_page(
        request, predictor, gate, owner, model_id, frame, of_file=outcome, file_snippets=of_file
    )


def preview_of(answer: PredictionAnswer, filename: str, level: float) -> FilePreview:
    """Return the preview of an answer with one interval."""
    prediction, kept = answer.prediction, answer.kept
    assert kept is not None
    count = min(len(prediction.mean), PREVIEW_ROWS)
    ((_, *ends),) = prediction.intervals
    mean, lower, upper = (np.asarray(values)[:count] for values in (prediction.mean, *ends))
    labels: list[str | None] = [None] * count
    if mean.ndim == 2:  # with several classes, show the most probable one
        assert answer.classes is not None
        best = mean.argmax(axis=1)
        labels = [answer.classes[k] for k in best]
        at = np.arange(count)
        mean, lower, upper = mean[at, best], lower[at, best], upper[at, best]
    bars = _bars(mean, lower, upper, probabilities=answer.classes is not None)
    own = kept.slice(0, count).select(kept.column_names[:PREVIEW_COLUMNS]).to_pylist()
    spread = prediction.interval == "predictive"
    sds = np.asarray(prediction.sd)[:count].tolist() if spread else [None] * count
    figures = zip(own, labels, mean.tolist(), lower.tolist(), upper.tolist(), sds, bars, strict=True)
    rows = [
        {"own": [*row.values()], "label": label, "mean": m, "lower": low, "upper": high, "sd": sd, "bar": bar}
        for row, label, m, low, high, sd, bar in figures
    ]
    names = kept.column_names[:PREVIEW_COLUMNS]
    several = answer.classes is not None and len(answer.classes) > 2
    warnings = [*answer.notes, *prediction.warnings]
    summary = str((answer.read_as or {}).get("summary", ""))
    return FilePreview(filename, len(prediction.mean), level, names, several, spread, rows, warnings, summary)


def _bars(mean: Any, lower: Any, upper: Any, *, probabilities: bool) -> list[tuple[float, float, float]]:
    """Return x and width of each interval, and x of its estimate, on a scale common to all rows."""
    low, high = (0.0, 1.0) if probabilities else (float(lower.min()), float(upper.max()))
    scale = WIDTH / (high - low) if high > low else 0.0
    ends = zip(lower.tolist(), upper.tolist(), mean.tolist(), strict=True)
    return [
        (round((a - low) * scale, 2), round(max((b - a) * scale, 0.5), 2), round((m - low) * scale, 2))
        for a, b, m in ends
    ]


def _download(answer: PredictionAnswer, filename: str, kind: str, digits: Digits) -> Response:
    media_type, ending = DOWNLOADS[kind]
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", PurePath(filename.replace("\\", "/")).stem)[:100] or "rows"
    headers = {
        "Content-Disposition": f'attachment; filename="{stem}-predicted.{ending}"',
        "Cache-Control": "no-store",
    }
    table = answer.to_table(rename=True, digits=digits)
    return Response(_written(answer, table, kind), media_type=media_type, headers=headers)


def _written(answer: PredictionAnswer, table: pa.Table, kind: str) -> bytes:
    if kind == MODEL_CSV:
        return to_csv(table, style_of("model", answer.dialect))
    if kind == "csv":
        is_like = answer.written is not None  # else it came from a file of another kind
        return to_csv(table, answer.written or PLAIN, letters=answer.letters(table) if is_like else {})
    if kind == "xlsx":
        return to_workbook(answer, table)
    return to_parquet(table) if kind == "parquet" else to_arrow(table)


def _level(percent: str | None) -> float:
    try:
        level = float(percent or 90) / 100
    except ValueError:
        level = 0.0
    if not 0.01 <= level <= 0.999:
        raise InvalidRequestError(errors=[Fault("level", None, "a percentage from 1 to 99.9")])
    return level
