"""POST /models/{id}/predict: rows as JSON or a file; the answer as JSON or a table."""

from collections.abc import Sequence
from typing import Annotated, Any, BinaryIO, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.services.access.keys import PREDICT
from app.services.errors import Fault, InvalidRequestError
from app.services.fits.models import ClaimView
from app.services.metrics import predict_seconds
from app.services.predictions.answers import PredictionAnswer, to_arrow, to_parquet, to_workbook
from app.services.predictions.csv_tables import style_of, to_csv
from app.services.predictions.file_rows import RowsReadAsView
from app.services.predictions.options import PredictBody, PredictionOptions, TableOptions
from app.services.predictions.predict_rows import Predictor
from app.services.predictions.rows import SentRows
from app.services.request_bodies import (
    MAX_LEVELS,
    Share,
)
from app.web.dependencies import Owner, TheGate, ThePredictor, gate_of, owner_of, predictor_of
from app.web.errors import responses
from app.web.json_body import SMALL_BYTES
from app.web.json_pieces import written
from app.web.middleware.concurrency import GateOf
from app.web.negotiation import ARROW, CSV, FORMS, JSON, PARQUET, XLSX, MediaType, chosen_form
from app.web.read_options import OptionText, ReadingQuery
from app.web.rows_route import OPENAPI, FileRequest, RowsRoute, refuse_misplaced
from app.web.scopes import MAX_JSON_BYTES, needs


class _Route(RowsRoute):
    async def answer_directly(self, request: Request, value: Any) -> Response | None:
        """Answer a valid body without query parameters: to resolve those took longer than a row's answer."""
        if request.scope["query_string"]:
            return None
        try:
            body = PredictBody.model_validate(value)
        except ValidationError:
            return None
        form, owner = await chosen_form(request), await owner_of(request)
        predictor, gate = await predictor_of(request), await gate_of(request)
        return await _predicted(request.path_params["model_id"], body, predictor, gate, owner, form)


router = APIRouter(prefix="/models", tags=["predictions"], route_class=_Route)


LevelsInQuery = Annotated[
    list[Share], Field(max_length=MAX_LEVELS, description="The level of the intervals; repeatable.")
]


class RowsQuery(ReadingQuery):
    """Reading options and columns to repeat as query parameters, for rows in a file."""

    model_config = ConfigDict(extra="forbid")

    keep: Annotated[list[OptionText], Field(max_length=10_000)] = Field(
        default=[],
        description="Columns of the file to repeat in a table before the figures, such as ids; repeatable, * "
        "for all. The model need not know them.",
    )


class PredictQuery(PredictionOptions, RowsQuery):
    """Requested figures and reading options as query parameters, for rows in a file."""

    level: LevelsInQuery = Field([0.9])


FiguresByRow = list[float | None] | list[list[float | None]]  # [row], or for several classes [row][class]


class IntervalView(BaseModel):
    """Equal-tailed intervals at one level, with a bound per row (and class)."""

    level: float
    lower: FiguresByRow
    upper: FiguresByRow


class QuantileView(BaseModel):
    """One quantile, with a value per row (and class)."""

    q: float
    values: FiguresByRow


class SetView(BaseModel):
    """Prediction sets at one level: the classes in the set of each row."""

    level: float
    classes: list[list[str]]


class ErrorsView(BaseModel):
    """Monte Carlo standard errors in the shape of the estimates; they count how far chains differ."""

    mean: FiguresByRow
    intervals: list[IntervalView]
    quantiles: list[QuantileView]


class FlagView(BaseModel):
    """One unusual cell of a row."""

    column: str
    flag: Literal["outside_range", "unseen_level", "missing", "few_draws"] = Field(
        description="Outside the range of training, an unseen level, or missing without missing in training; "
        "of the outcome, few_draws: a few draws decide its mean or sd, for which robust figures stand."
    )


class PredictionView(BaseModel):
    """Predictions, in the order of the rows."""

    model_id: str
    outcome: str | None = Field(description="The outcome that is predicted.")
    draws: int = Field(description="Kept draws used per chain.")
    interval: Literal["credible", "predictive", "calibrated"]
    classes: list[str] | None = Field(
        description="For two classes the figures are the probability of the second; for more, of each: "
        "[row][class]. Null for numbers."
    )
    mean: list[float] | list[list[float]]
    sd: list[float] | list[list[float]] | None
    intervals: list[IntervalView] = Field(
        description="A bound is null where calibrated intervals have no finite end."
    )
    quantiles: list[QuantileView]
    sets: list[SetView] | None = Field(
        None, description="Prediction sets of classes, by level; of calibrated predictions alone."
    )
    claims: list[ClaimView] | None = Field(
        None, description="What calibrated intervals or sets promise, by level; absent from others."
    )
    calibration: str | None = Field(
        None,
        description="The calibration of these intervals or sets, by which a request can repeat them; absent "
        "from others.",
    )
    verdict: Literal["converged", "approximate", "not_converged"] | None = Field(
        description="The convergence verdict of the model."
    )
    rows_verdict: Literal["converged", "approximate", "not_converged"] | None = Field(
        description="The convergence verdict at these rows, if rhat or require was given."
    )
    mcse: ErrorsView | None
    rhat: FiguresByRow | None = Field(description="R-hat per row; null where the chains don't move.")
    samples: list[list[float]] | list[list[list[float]]] | None = Field(
        description="Draws per row: [row][draw], for the probabilities of several classes [row][class][draw]."
    )
    flags: list[list[FlagView]] = Field(description="Unusual cells of each row, at most ten per row.")
    warnings: list[str]
    read_as: RowsReadAsView | None = Field(None, description="How a file was read; absent for JSON rows.")
    groups: str | None = Field(
        None,
        description="For a model with groups, what sd, intervals and quantiles include of their intercepts.",
    )


TABLES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "JSON or, by `Accept`, a table with the columns mean, sd, lower_90, upper_90, ... and "
        "flags; Bartserve-* headers identify the model.",
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}} for kind in (CSV, ARROW, PARQUET, XLSX)
        },
    }
}
FormOfAnswer = Annotated[MediaType, Depends(chosen_form)]


@router.post(
    "/{model_id}/predict",
    response_model=PredictionView,
    responses={**responses(406, 409, 413, 415), **TABLES},
    openapi_extra=OPENAPI,
)
@needs(PREDICT, body=MAX_JSON_BYTES)
async def predict(
    model_id: str,
    request: Request,
    body: PredictBody,
    query: Annotated[PredictQuery, Query()],
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    form: FormOfAnswer,
) -> Response:
    """Predict new rows with intervals. If `model_id` is a name, its newest succeeded model answers.

    Columns are matched by name. Columns of the training data that the model doesn't use are ignored and
    listed in the warnings, as are unseen levels; an unknown column, a missing column or a value of
    another type is a 422. A text in a category is the level that is spelled so; else it is missing where
    the model's file, or usage, spells a missing value so ("NA", ""); else it is the level that is the
    same number or truth value ("1.0" for 1, "True" for true). Blanks around it don't count. JSON and
    files have this one rule; null is always missing. Rows may also come as CSV, Parquet, an
    (uncompressed) Arrow stream or a workbook. Then the options, also those for reading the file, are query
    parameters: `?level=0.5&level=0.9&interval=predictive&decimal=comma`. What they leave open is read as
    in the file that the model was fitted to: decimal sign, order of dates and spellings of missing
    values; a file that contradicts it is a 422 that names both readings, and `read_as` tells what was
    used. With a JSON body, which holds the options itself, query parameters are refused unless they equal
    the default, since some generated clients always send them.
    """
    if not isinstance(request, FileRequest):
        refuse_misplaced(query)
        return await _predicted(model_id, body, predictor, gate, owner, form)
    options = query.options(request.promised)
    form = check_form(query, form, query.keep)

    def work(file: BinaryIO) -> Response:
        sent = SentRows(file=(file, options), keep=query.keep)
        return rendered(predictor.predict(owner, model_id, query, sent), form, query)

    return await gate.run(await request.reading(work))


async def _predicted(
    model_id: str, body: PredictBody, predictor: Predictor, gate: GateOf, owner: str, form: MediaType
) -> Response:
    form = check_form(body, form)
    sent = SentRows(body.rows, body.columns)
    is_small = len(await gate.request.body()) < SMALL_BYTES
    loaded = predictor.cached_model(owner, model_id, body, sent) if is_small else None

    def work() -> Response:
        return rendered(predictor.predict(owner, model_id, body, sent, loaded), form, body)

    return await gate.run(work) if loaded is None else gate.run_here(work)


def check_form(options: TableOptions, accepted: MediaType, keep: Sequence[str] = ()) -> MediaType:
    """Return the form of the answer; raise InvalidRequestError for options that it doesn't have."""
    form = accepted if options.format is None else FORMS[options.format]
    faults = []
    if options.dialect != "plain" and form != CSV:
        faults.append(Fault("dialect", None, f"only CSV has a dialect: Accept {CSV}"))
    tables = "format=csv, arrow, parquet or xlsx"
    if options.digits != "full" and form == JSON:
        faults.append(Fault("digits", None, f"only tables are rounded: {tables}"))
    if keep and form == JSON and not faults:
        faults.append(Fault("keep", None, f"only tables repeat columns: {tables}"))
    if faults:
        raise InvalidRequestError(errors=faults)
    return form


@predict_seconds.labels("encode").time()
def rendered(answer: PredictionAnswer, form: MediaType, options: TableOptions) -> Response:
    """Return an answer in the form that was asked for."""
    if form == JSON:
        return Response(written(answer.to_json()), media_type=JSON)
    table = answer.to_table(digits=options.digits)
    headers = {
        "Bartserve-Model-Id": answer.model_id,
        "Bartserve-Draws": str(answer.prediction.draws),
        "Bartserve-Verdict": answer.verdict or "",
    }
    if answer.prediction.claims:
        headers["Bartserve-Claims"] = " ".join(each.text for each in answer.prediction.claims)
    if answer.calibration:
        headers["Bartserve-Calibration"] = answer.calibration
    if form == ARROW:
        return Response(to_arrow(table), media_type=ARROW, headers=headers)
    if form == PARQUET:
        return Response(to_parquet(table), media_type=PARQUET, headers=headers)
    ending = "xlsx" if form == XLSX else "csv"
    headers["Content-Disposition"] = f'attachment; filename="predictions.{ending}"'
    if form == XLSX:
        return Response(to_workbook(answer, table), media_type=XLSX, headers=headers)
    style = style_of(options.dialect, answer.dialect, answer.written)
    letters = answer.letters(table) if options.dialect == "file" else {}
    return Response(to_csv(table, style, letters=letters), media_type=CSV, headers=headers)
