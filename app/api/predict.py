"""POST /models/{id}/predict: JSON, CSV, Parquet or an Arrow stream in; JSON, CSV or an Arrow stream out."""

from tempfile import TemporaryFile
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json
from starlette.routing import Match
from starlette.types import Scope

from app.services.access.keys import PREDICT
from app.services.errors import Fault, InvalidRequestError
from app.services.fits.models import ClaimView
from app.services.metrics import predict_seconds
from app.services.predictions.answers import PredictionAnswer, to_arrow, to_parquet
from app.services.predictions.csv_tables import CsvDialect, Digits, style_of, to_csv
from app.services.predictions.file_rows import RowsReadAsView
from app.services.predictions.predict_rows import MAX_SAMPLES, Predictor, PredictRequest
from app.services.request_bodies import (
    MAX_LEVELS,
    MAX_QUANTILES,
    AskedInterval,
    ColumnsInBody,
    Levels,
    RowsInBody,
    Share,
    levels_of,
)
from app.web.dependencies import Owner, TheGate, ThePredictor, gate_of, owner_of, predictor_of
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.middleware.concurrency import GateOf
from app.web.negotiation import ARROW, CSV, JSON, PARQUET, MediaType, chosen_form, content_type
from app.web.read_options import BINARY, FILES, OptionText, ReadingQuery
from app.web.scopes import needs
from app.web.uploads import check_coding


class _Json(StrictRoute):
    instead = f", or a file with one of these: {', '.join(FILES)}"

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


class _File(StrictRoute):
    """Route for the same path with the content type of a file."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match only requests with a file."""
        if scope["type"] == "http" and content_type(scope) not in FILES:
            return Match.NONE, {}
        return super().matches(scope)


router = APIRouter(prefix="/models", tags=["predictions"], route_class=_Json)
files = APIRouter(prefix="/models", tags=["predictions"], route_class=_File)


class TableOptions(BaseModel):
    """Form of a table of predictions."""

    dialect: CsvDialect = Field(
        "plain",
        description="Of CSV: plain has commas between values and decimal points; model has the separator and "
        "decimal sign of the file that the model was fitted to, for the same spreadsheet.",
    )
    digits: Digits = Field(
        "full",
        description="Of a table: rounded leaves figures as many decimal places as give the median standard "
        "deviation three digits.",
    )

    def check_form(self, form: MediaType) -> None:
        """Refuse options that the form of the answer doesn't have; raises InvalidRequestError."""
        faults = []
        if self.dialect != "plain" and form != CSV:
            faults.append(Fault("dialect", None, f"only CSV has a dialect: Accept {CSV}"))
        if self.digits != "full" and form == JSON:
            message = f"only tables are rounded: Accept {CSV}, {ARROW} or {PARQUET}"
            faults.append(Fault("digits", None, message))
        if faults:
            raise InvalidRequestError(errors=faults)


class PredictionOptions(TableOptions):
    """Requested figures for each row."""

    level: Levels = 0.9
    interval: AskedInterval = None
    quantiles: Annotated[list[Share], Field(max_length=MAX_QUANTILES)] | None = Field(
        None, description="Further quantiles of the same distribution as the intervals."
    )
    draws: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Use only this many kept draws of each chain, the first: then the answer never changes.",
    )
    mcse: bool = Field(
        False, description="Also return Monte Carlo standard errors of the mean and of each bound."
    )
    rhat: bool = Field(False, description="Also return R-hat of the draws at each row.")
    require: Literal["converged", "approximate"] | None = Field(
        None, description="Refuse with 409 if the verdict on these rows is worse."
    )
    samples: Annotated[int, Field(ge=1, le=MAX_SAMPLES)] | None = Field(
        None, description="Number of draws of the regression function per row, evenly spaced among all."
    )
    samples_of: Literal["mean", "outcome"] = Field(
        "mean",
        description="What samples are draws of: the regression function (mean), or new outcomes of weight 1, "
        "one from the distribution that each draw gives the row. Outcomes of rows of one new group go "
        "together, so that sums over rows are right too; of classes they are positions in `classes`.",
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        0,
        description="Seed of samples of outcomes. Take different ones where answers are added up.",
    )
    target: Literal["all", "mean"] = Field("all", description="mean: only the mean, as fast as possible.")

    def predict_request(self, **data: Any) -> PredictRequest:
        """Convert to the service's request."""
        others = {"level", *TableOptions.model_fields}
        options = {name: getattr(self, name) for name in PredictionOptions.model_fields if name not in others}
        levels = levels_of(self.level)
        return PredictRequest(**data, levels=levels, **options)


class PredictBody(PredictionOptions):
    """Rows to predict, and the requested figures."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rows: RowsInBody | None = Field(
        None,
        description="Objects of values by column name; alternatively use columns. For numbers, true and "
        "false count as 1 and 0; a time without a zone is in UTC.",
    )
    columns: ColumnsInBody | None = Field(
        None, description="Lists of values by column name; alternatively use rows."
    )


class PredictQuery(PredictionOptions, ReadingQuery):
    """Requested figures and reading options as query parameters, for rows in a file."""

    model_config = ConfigDict(extra="forbid")

    level: Annotated[list[Share], Field(max_length=MAX_LEVELS)] = Field(
        [0.9], description="The level of the intervals; repeatable."
    )
    keep: Annotated[list[OptionText], Field(max_length=10_000)] = Field(
        default=[],
        description="Columns of the file to repeat in a table before the figures, such as ids; repeatable, * "
        "for all. The model need not know them.",
    )


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
    flag: Literal["outside_range", "unseen_level", "missing"] = Field(
        description="Outside the range of training, an unseen level, or missing without missing in training."
    )


class PredictionView(BaseModel):
    """Predictions, in the order of the rows."""

    model_id: str
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


OPENAPI: dict[str, Any] = {"requestBody": {"content": dict.fromkeys(FILES, BINARY)}}
TABLES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "JSON or, by `Accept`, a table with the columns mean, sd, lower_90, upper_90, ... and "
        "flags; Bartserve-* headers identify the model.",
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}} for kind in (CSV, ARROW, PARQUET)
        },
    }
}
FormOfAnswer = Annotated[MediaType, Depends(chosen_form)]


# Registered before the JSON route, so that it is tried first.
@files.post("/{model_id}/predict", include_in_schema=False)
@needs(PREDICT)
async def predict_file(
    model_id: str,
    request: Request,
    query: Annotated[PredictQuery, Query()],
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    form: FormOfAnswer,
) -> Response:
    """Predict rows in a file, with options as query parameters."""
    check_coding(request)
    options = query.options(FILES[content_type(request.scope)])
    body = await request.body()

    query.check_form(form)
    if query.keep and form == JSON:
        message = f"only tables repeat columns: Accept {CSV}, {ARROW} or {PARQUET}"
        raise InvalidRequestError(errors=[Fault("keep", None, message)])

    def work() -> Response:
        with TemporaryFile() as file:
            file.write(body)
            prediction = query.predict_request(file=(file, options), keep=query.keep)
            return _rendered(predictor.predict(owner, model_id, prediction), form, query)

    return await gate.run(work)


@router.post(
    "/{model_id}/predict",
    response_model=PredictionView,
    responses={**responses(406, 409, 413, 415), **TABLES},
    openapi_extra=OPENAPI,
)
@needs(PREDICT)
async def predict(
    model_id: str,
    body: PredictBody,
    of_a_file: Annotated[PredictQuery, Query()],
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
    files have this one rule; null is always missing. Rows may also come as CSV, Parquet or an
    (uncompressed) Arrow stream. Then the options, including those for reading the file, are query
    parameters: `?level=0.5&level=0.9&interval=predictive&decimal=comma`. What they leave open is read as
    in the file that the model was fitted to: decimal sign, order of dates and spellings of missing
    values; a file that contradicts it is a 422 that names both readings, and `read_as` tells what was
    used. With a JSON body, which holds the options itself, query parameters are refused unless they equal
    the default, since some generated clients always send them.
    """
    if misplaced := of_a_file.model_dump(exclude_defaults=True):
        message = "query parameters are for rows in a file; with JSON rows put the option into the body"
        raise InvalidRequestError(errors=[Fault(name, None, message) for name in sorted(misplaced)])
    return await _predicted(model_id, body, predictor, gate, owner, form)


async def _predicted(
    model_id: str, body: PredictBody, predictor: Predictor, gate: GateOf, owner: str, form: MediaType
) -> Response:
    body.check_form(form)
    prediction = body.predict_request(rows=body.rows, columns=body.columns)
    loaded = predictor.cached_model(owner, model_id, prediction)

    def work() -> Response:
        return _rendered(predictor.predict(owner, model_id, prediction, loaded), form, body)

    return await gate.run(work) if loaded is None else gate.run_here(work)


@predict_seconds.labels("encode").time()
def _rendered(answer: PredictionAnswer, form: MediaType, options: TableOptions) -> Response:
    if form == JSON:
        return Response(to_json(answer.to_json()), media_type=JSON)
    table = answer.to_table(digits=options.digits)
    headers = {
        "Bartserve-Model-Id": answer.model_id,
        "Bartserve-Draws": str(answer.prediction.draws),
        "Bartserve-Verdict": answer.verdict or "",
    }
    if answer.prediction.claims:
        headers["Bartserve-Claims"] = " ".join(each.text for each in answer.prediction.claims)
    if form == ARROW:
        return Response(to_arrow(table), media_type=ARROW, headers=headers)
    if form == PARQUET:
        return Response(to_parquet(table), media_type=PARQUET, headers=headers)
    disposition = {"Content-Disposition": 'attachment; filename="predictions.csv"'}
    style = style_of(options.dialect, answer.dialect)
    return Response(to_csv(table, style), media_type=CSV, headers=headers | disposition)
