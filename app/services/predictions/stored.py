"""Background predictions of stored datasets: creating, viewing, cancelling and deleting them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy.orm import Session

from app.services import datasets
from app.services.access import audit, quotas
from app.services.cursors import Page
from app.services.errors import Fault, InvalidRequestError, NotFoundError
from app.services.predictions import kept_columns, totals
from app.services.predictions.forecasts import SeriesOfForecast, planned_series
from app.services.predictions.options import CalibrationName, PredictionOptions
from app.services.predictions.predict_rows import Predictor, translating_sampler_errors, work_of_row
from app.services.predictions.row_reading import RowReading
from app.services.predictions.totals import FiguresOfDataset
from app.services.request_bodies import (
    MAX_QUANTILES,
    AskedInterval,
    AskedOutcome,
    Levels,
    Share,
    StrictBody,
    levels_of,
)
from app.services.resources import Resource
from app.services.views import ErrorView, State, filled, if_any
from app.store import datasets as dataset_store
from app.store import predictions as store
from app.store.column_codec import BLOCK_ROWS
from app.store.engine import session_scope
from app.store.errors import DatasetGoneError, ModelGoneError
from app.store.queue.jobs import UNSEEN
from app.store.tables import SUCCEEDED, BatchPrediction
from sampler.host.assessment import check_columns, row_diagnostics
from sampler.host.data import FLAG_NAMES as NAMES
from sampler.host.data import UNSEEN_LEVEL, unseen_in_words
from sampler.host.posteriors import IntervalKind, percent

# Work (`work_of_row`) of a unit, two seconds of a core: it isn't interrupted for another owner's. Units are
# larger only where there would be too many of them.
UNIT_WORK, MAX_UNITS = 2e10, 5000
RESOLVED = ("interval", "quantiles", "draws", "mcse", "rhat", "verdict", "classes")
FIGURE_BYTES = 8  # upper bound of the stored bytes per figure and row


class BatchBody(StrictBody):
    """A dataset to predict, and the requested figures."""

    dataset_id: str | None = Field(
        default=None, description="The dataset whose rows are predicted; left out with forecast."
    )
    level: Levels = 0.9
    interval: AskedInterval = None
    quantiles: Annotated[list[Share], Field(max_length=MAX_QUANTILES)] | None = None
    draws: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Use only this many kept draws of each chain, the first; default: all present ones.",
    )
    calibration: CalibrationName = None
    outcome: AskedOutcome = None
    mcse: bool = Field(
        default=False, description="Also return Monte Carlo errors: half a millisecond more per row."
    )
    rhat: bool = Field(default=False, description="Also return R-hat at each row, at the same cost.")
    keep: Annotated[list[str], Field(max_length=10_000, fail_fast=True)] = Field(
        default=[],
        description="Columns of the dataset that tables of the result repeat before the figures, such as "
        'ids; ["*"] for all. The model need not know them.',
    )
    aggregate: FiguresOfDataset | None = Field(
        default=None,
        description="Totals, means or quantiles of sets of the rows, of their joint law, in place of "
        "predictions of each; of other fields draws and outcome alone go with it. The result is that of "
        "POST /models/{model_id}/aggregate, or a table of the sets.",
    )
    forecast: SeriesOfForecast | None = Field(
        default=None,
        description="The next steps of series, by a model fitted with time and horizon, however many; no "
        "other field goes with it. The result has a line for each series and step, with whole paths as "
        "columns if asked for, or for each set of the totals.",
    )


@dataclass(frozen=True, kw_only=True)
class RowsView:
    """Progress in rows."""

    fraction: float
    rows_done: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class BatchView:
    """A background prediction: finished, running, or ended early."""

    id: str
    model_id: str
    dataset_id: Annotated[
        str | None, Field(description="Null if it has been deleted, and of a forecast without a plan.")
    ]
    state: State
    level: list[float]
    interval: IntervalKind
    quantiles: list[float]
    draws: Annotated[int, Field(description="Kept draws used per chain.")]
    mcse: bool
    rhat: bool
    verdict: str | None
    classes: list[str] | None
    warnings: Annotated[
        list[str],
        Field(
            description="About the columns, and once succeeded about levels that training had not; `flags` "
            "counts unusual cells of rows."
        ),
    ]
    keep: Annotated[list[str], Field(description="Columns of the dataset that tables of the result repeat.")]
    progress: RowsView
    flags: Annotated[
        dict[str, dict[str, int]] | None,
        Field(description="Number of rows by column and flag, once succeeded."),
    ]
    aggregate: Annotated[
        dict[str, Any] | None, Field(description="The figures of sets of rows that were asked for.")
    ]
    forecast: Annotated[dict[str, Any] | None, Field(description="The forecast that was asked for.")]
    group: Annotated[
        dict[str, str] | None, Field(description="Of a set of forecasters the group, by column.")
    ]
    error: ErrorView | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True)
class BatchPage(Page[BatchView]):
    """A page of background predictions, newest first."""

    items: list[BatchView]


@dataclass(frozen=True)
class BatchPlan:
    """A valid request with its model and all options resolved."""

    model_id: str
    dataset_id: str | None
    request: dict[str, Any]
    work: int  # work of one row, see `work_of_row`
    num_rows: int | None = None  # of a forecast
    unit_rows: int | None = None


def plan(predictor: Predictor, owner: str, model: str, request: BatchBody) -> BatchPlan:
    """Check a request against the model and the dataset's columns; writes nothing.

    Raises
    ------
    NotFoundError, NotFinishedError
        The model or dataset doesn't exist, or the model can't answer.
    InvalidRequestError, UnusableDataError
        A level, quantile or number of draws is invalid, or the dataset's columns don't match the model.
    """
    if request.forecast is not None:
        _refuse_beside(request, {"forecast"}, "this is of predictions of rows: leave it out")
        return plan_of_series(predictor, owner, model, request.forecast)
    if request.dataset_id is None:
        raise InvalidRequestError(
            errors=[Fault("dataset_id", None, "name the dataset to predict", "missing")]
        )
    predictor = predictor.of_outcome(request.outcome)
    if request.aggregate is not None:
        return _plan_of_sets(predictor, owner, model, request, request.aggregate)
    return _plan_of_rows(predictor, owner, model, request, request.dataset_id)


def _plan_of_rows(
    predictor: Predictor, owner: str, model: str, request: BatchBody, dataset_id: str
) -> BatchPlan:
    stored_model, posterior, draws = predictor.lookup(owner, model)
    levels = levels_of(request.level)
    posterior = predictor.pinned(posterior, stored_model.id, request.interval, request.calibration)
    with session_scope(predictor.engine, read_only=True) as session:
        dataset = datasets.get(session, owner, dataset_id)
    names = [column["name"] for column in dataset.columns]
    as_text = RowReading.of_dataset(posterior, dataset).as_text(dataset)
    keep = kept_columns.names_of(request.keep, names)
    schema = posterior.schema
    beside = {*posterior.beside.values(), *posterior.header.subgroup_kinds}
    known = {*schema.kinds, *schema.ignored, *beside}
    nothing = posterior.reference.part(slice(0))
    predictor.check_programmes(posterior, levels if request.interval == "calibrated" else [], nothing)
    with translating_sampler_errors():
        warnings = posterior.match([name for name in names if name in known or name not in keep])
        checked = posterior.predict(
            nothing,
            levels,
            request.interval,
            request.quantiles,
            draws if request.draws is None else request.draws,
        )
        if checked.claims:
            check_columns(posterior.header.subgroups, names)
        if request.mcse:
            row_diagnostics.errors(posterior.law, nothing, checked)
        if request.mcse or request.rhat:
            row_diagnostics.check_draws(checked.draws)
    resolved: dict[str, Any] = {
        "levels": list(dict.fromkeys(levels)),
        "interval": checked.interval,
        "quantiles": list(dict.fromkeys(request.quantiles or [])),
        "draws": checked.draws,
        "mcse": request.mcse,
        "rhat": request.rhat,
        "verdict": predictor.verdict(stored_model, posterior, checked.draws),
        "classes": None if posterior.classes is None else list(posterior.classes),
        "warnings": [*warnings, *checked.warnings],
        "outcome": posterior.schema.target.name,
    }
    if checked.groups:
        resolved["groups"] = checked.groups
    if checked.claims:
        resolved["calibrated"] = [each.to_json() for each in checked.claims]
        if (table := posterior.conformal_table) is not None:
            resolved["calibration"] = table.checksum
    if as_text:
        resolved[store.AS_TEXT] = as_text
    if keep:
        kept_columns.check_free(keep, _names(resolved))
        resolved["keep"] = keep
    figures = PredictionOptions(
        level=levels,
        interval=checked.interval,
        quantiles=request.quantiles,
        draws=checked.draws,
        mcse=request.mcse,
        rhat=request.rhat,
    )
    return BatchPlan(stored_model.id, dataset_id, resolved, work_of_row(posterior, figures))


def _plan_of_sets(
    predictor: Predictor, owner: str, model: str, request: BatchBody, asked: totals.FiguresOfDataset
) -> BatchPlan:
    beside = "this is of predictions of rows: leave it out, or give it in aggregate"
    _refuse_beside(request, {"dataset_id", "draws", "aggregate", "outcome"}, beside)
    assert request.dataset_id is not None
    stored_model, posterior, draws = predictor.lookup(owner, model)
    draws = draws if request.draws is None else request.draws
    with session_scope(predictor.engine, read_only=True) as session:
        dataset = datasets.get(session, owner, request.dataset_id)
        first = dataset_store.head(session, dataset.id, 1)
    totals.check(
        posterior, dataset, RowReading.of_dataset(posterior, dataset).as_trained(first), asked, draws
    )
    as_text = RowReading.of_dataset(posterior, dataset).as_text(dataset)
    classes = posterior.classes
    resolved: dict[str, Any] = {
        "levels": [asked.level],
        "interval": asked.interval,
        "quantiles": [],
        "draws": draws,
        "mcse": False,
        "rhat": False,
        "verdict": predictor.verdict(stored_model, posterior, draws),
        "classes": None if classes is None else list(classes),
        "warnings": [],
        store.AS_TEXT: as_text,
        store.AGGREGATE: asked.model_dump(),
        store.COLUMNS: totals.columns_of(asked, posterior),
        "outcome": posterior.schema.target.name,
    }
    return BatchPlan(stored_model.id, request.dataset_id, resolved, 1)


def plan_of_series(
    predictor: Predictor,
    owner: str,
    model: str,
    request: SeriesOfForecast,
    group: Mapping[str, str] | None = None,
) -> BatchPlan:
    """Check a forecast of any number of series, of a `group` by the rows of its plan; raises as `plan`."""
    found = planned_series(predictor, owner, model, request, [*(group or {})])
    resolved: dict[str, Any] = {
        "levels": [found.level],
        "interval": found.interval,
        "quantiles": [],
        "draws": found.draws,
        "mcse": False,
        "rhat": False,
        "verdict": found.verdict,
        "classes": None,
        "warnings": found.warnings,
        "outcome": found.target,
        "claim": found.claim,
        "checksum": found.checksum,
        store.FORECAST: request.model_dump(),
        store.SUMS: found.sums,
        **({store.GROUP: dict(group)} if group else {}),
    }
    units = max(int(UNIT_WORK / found.work), -(-found.num_rows // MAX_UNITS)) // found.horizon
    rows = found.num_rows if found.sums else max(units, 1) * found.horizon
    return BatchPlan(found.model_id, request.known, resolved, int(found.work), found.num_rows, rows)


def _refuse_beside(request: BatchBody, known: set[str], message: str) -> None:
    """Refuse fields that don't go with what is asked in place of predictions of rows."""
    others = request.model_fields_set - known
    if misplaced := sorted(name for name in others if getattr(request, name) not in (None, False, [], 0.9)):
        raise InvalidRequestError(errors=[Fault(name, None, message) for name in misplaced])


def accept(session: Session, owner: str, plan: BatchPlan) -> BatchView:
    """Queue the planned prediction and return it.

    Raises
    ------
    NotFoundError
        The model or the dataset was deleted meanwhile.
    QuotaError
        The owner's quota of queued work or stored bytes is exhausted.
    """
    dataset = None if plan.dataset_id is None else datasets.get(session, owner, plan.dataset_id)
    num_rows = plan.num_rows or (0 if dataset is None else dataset.num_rows)
    quotas.check_queued(session, owner)
    quotas.check_stored(session, owner, num_rows * _figures(plan.request) * FIGURE_BYTES)
    try:
        prediction = store.create(
            session,
            owner=owner,
            model_id=plan.model_id,
            dataset=dataset,
            request=plan.request,
            num_rows=num_rows,
            unit_rows=num_rows
            if store.AGGREGATE in plan.request  # what rows have in common isn't the sum of parts
            else plan.unit_rows or unit_rows(plan.work, num_rows),
        )
    except (DatasetGoneError, ModelGoneError):
        raise NotFoundError("The model or the dataset was deleted meanwhile.") from None
    audit.record(session, owner, "prediction.created", prediction.id)
    return _with_progress(session, prediction)


def unit_rows(work: int, num_rows: int) -> int:
    """Choose the rows of each unit of a prediction of `num_rows` rows, each that much work.

    It is a divisor of the rows of a block.
    """
    rows = BLOCK_ROWS
    while rows % 2 == 0 and rows * work > UNIT_WORK and 2 * num_rows <= rows * MAX_UNITS:
        rows //= 2
    return rows


def _names(request: Mapping[str, Any]) -> set[str]:
    """Return names that columns of the result may have."""
    bounds = [f"{end}_{percent(level)}" for level in request["levels"] for end in ("lower", "upper")]
    bounds += [f"quantile_{percent(q)}" for q in request["quantiles"]]
    bounds += [f"set_{percent(level)}" for level in request["levels"]]
    errors = {f"mcse_{name}" for name in ("mean", *bounds)}
    names = {"mean", "sd", "flags", "rhat", kept_columns.IN_CSV, *bounds, *errors}
    return names | {f"{name}_{label}" for name in names for label in request["classes"] or ()}


def _figures(request: Mapping[str, Any]) -> int:
    """Return the approximate number of stored figures per row."""
    bounds = 2 * len(request["levels"]) + len(request["quantiles"])
    bounds += int((request.get(store.FORECAST) or {}).get("paths", 0))
    figures = 2 + bounds + (1 + bounds if request["mcse"] else 0) + (1 if request["rhat"] else 0)
    classes = len(request["classes"] or ())
    return figures * (classes if classes > 2 else 1)


def warnings_of(prediction: BatchPrediction) -> list[str]:
    """Return the warnings about the columns and, once succeeded, about levels that training had not."""
    flags = prediction.flags or {}
    of_levels = [
        f"{column}: {unseen_in_words(first, flags[column][NAMES[UNSEEN_LEVEL]])}"
        for column, first in prediction.request.get(UNSEEN, {}).items()
    ]
    return [*prediction.request["warnings"], *of_levels]


def _with_progress(session: Session, prediction: BatchPrediction) -> BatchView:
    request, done = prediction.request, store.rows_done(session, prediction.id)
    fraction = 1.0 if prediction.state == SUCCEEDED else min(done / max(prediction.num_rows, 1), 0.99)
    return filled(
        BatchView,
        prediction,
        level=request["levels"],
        **{name: request[name] for name in RESOLVED},
        warnings=warnings_of(prediction),
        keep=request.get("keep", []),
        aggregate=request.get("aggregate"),
        forecast=request.get("forecast"),
        group=request.get(store.GROUP),
        progress=RowsView(fraction=fraction, rows_done=done, rows=prediction.num_rows),
        error=if_any(ErrorView, prediction.error),
    )


PREDICTIONS = Resource("prediction", "/predictions", store, _with_progress, BatchPage)
get, view, list_page = PREDICTIONS.get, PREDICTIONS.view, PREDICTIONS.list_page
cancel, delete = PREDICTIONS.cancel, PREDICTIONS.delete
