"""Forecasts by stored forecasters: asking them, the templates of their plans, and their rehearsals."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, cast

import numpy as np
import pyarrow as pa
from pydantic import Field
from sqlalchemy import Engine

from app.services import datasets
from app.services.errors import (
    ConflictError,
    Fault,
    InvalidRequestError,
    NotFoundError,
    ServiceError,
    TooLargeError,
    UnusableDataError,
)
from app.services.fits import models
from app.services.predictions.posterior_cache import Cache
from app.services.predictions.posteriors import KERNELS, DamagedError, find
from app.services.predictions.predict_rows import Predictor, translating_sampler_errors
from app.services.predictions.rows import check_count, columns_of
from app.services.request_bodies import RowsInBody, StrictBody
from app.services.views import SHOWN, filled, schema_of
from app.store import datasets as dataset_store
from app.store import draws
from app.store.column_codec import checksum
from app.store.engine import session_scope
from app.store.errors import CorruptBlockError, DatasetGoneError, ModelGoneError
from sampler import PackedError, warm
from sampler.host.data import Table, counted, read
from sampler.host.forecasts import (
    Forecast,
    Forecaster,
    ForecastTotals,
    Rehearsals,
    totals_in_parts,
    with_models,
)

MOST_CELLS = 20_000  # series times steps of an answer, of each of which there are a thousand paths
# Of a cell's paths, as rows times draws times trees are counted: the work before the trees, and of a tree.
CELL_WORK, TREE_WORK = 10_000_000, 2_000
MOST_FIGURES = 2_000_000  # of paths in an answer
MOST_TOTALS, MOST_SERIES = 20, 100_000
HISTORY_HORIZONS = 6  # of outcomes on a chart
MOST_TOGETHER = 50  # series of which a page shows the total
NAMES = {"plan": "known"}  # of requests, by what the sampler calls them
BySeriesAndStep = list[list[float | None]]
Level = Annotated[float, Field(gt=0, lt=1, description="Probability of the intervals.")]
Interval = Annotated[
    Literal["calibrated", "predictive"] | None,
    Field(description="calibrated by rehearsals, or predictive, as the paths have them. Default: the first."),
]


class TotalBody(StrictBody):
    """A total over steps, and over the series of sets, which the paths give."""

    steps: Annotated[list[int], Field(min_length=1, max_length=2, fail_fast=True)] | None = Field(
        default=None,
        description="First and last step, such as a lead time [1, 6], or the last. Default: all.",
    )
    by: str | Annotated[list[str], Field(max_length=20, fail_fast=True)] | None = Field(
        default=None,
        description="Columns whose equal values make a set: those of series, or others that don't change "
        "within one. Default: all series are one set.",
    )


class _Series(StrictBody):
    """Series to forecast, and the intervals."""

    series: Annotated[list[Any], Field(max_length=MOST_SERIES)] | None = Field(
        default=None,
        description="Series to forecast: values of the column of series, lists of these where there are "
        "several. Default: all.",
    )
    level: Level = 0.9
    interval: Interval = None
    at: str | float | None = Field(
        default=None,
        description="The present, a time as the column has them, by which series are stale. Default: the "
        "newest time.",
    )
    totals: Annotated[list[TotalBody], Field(max_length=MOST_TOTALS)] = Field(default_factory=list)
    paths: Annotated[int, Field(ge=0, le=1000, description="Paths to return of each series.")] = 0


class SeriesOfForecast(_Series):
    """Series to forecast in the background, and the dataset that has the plan."""

    known: str | None = Field(
        default=None,
        description="The id of a dataset with the plan: rows with the columns known ahead, their times and "
        "series, for each step to forecast.",
    )


class ForecastBody(_Series):
    """Series to forecast, a plan of what is known ahead, and the figures."""

    known: RowsInBody | str | None = Field(
        default=None,
        description="The plan: rows with the columns known ahead, their times and series, for each step to "
        "forecast (GET /models/{model_id}/forecast/template), or the id of a dataset that has them.",
    )


TOTALS = schema_of(
    ForecastTotals, "ForecastTotalsView", "steps sets count median lower upper level interval claim"
)


@dataclass(frozen=True, kw_only=True)
class ForecastView:
    """A forecast of the next steps of series: [series][step]."""

    model_id: str
    target: str
    series: Annotated[dict[str, list[Any]], Field(description="Columns of series, a value for each series.")]
    time: Annotated[list[list[Any]], Field(description="Times, as the column of the fit has them.")]
    time_name: Annotated[str, Field(description="The name of that column.")]
    median: BySeriesAndStep
    lower: Annotated[BySeriesAndStep, Field(description="Null where adapted intervals have no end.")]
    upper: BySeriesAndStep
    flags: Annotated[
        list[list[str]], Field(description="What is unusual about each series: stale, ends_early, new.")
    ]
    level: float
    interval: str
    claim: Annotated[str, Field(description="What is known of how often such intervals hold.")]
    totals: Annotated[list[ForecastTotals], SHOWN]
    paths: Annotated[
        list[list[list[float]]] | None, Field(description="Whole paths, if asked for: [path][series][step].")
    ]
    warnings: list[str]


@dataclass(frozen=True, kw_only=True)
class RehearsalsView:
    """Rehearsals: by origin and step ahead, what was forecast and what came."""

    model_id: str
    level: Annotated[float, Field(description="That which was rehearsed nearest to what is asked.")]
    series: Annotated[int, Field(description="Series that were rehearsed.")]
    claim: str
    origin: Annotated[list[Any], Field(description="Time of the last step that was seen, by line.")]
    step: list[int]
    number: Annotated[list[int], Field(description="Outcomes that came.")]
    inside: Annotated[list[float | None], Field(description="Share of them inside the interval.")]
    loss: Annotated[list[float | None], Field(description="Mean quantile loss, .1 to .9.")]
    naive_loss: Annotated[list[float | None], Field(description="That of the last season's outcomes.")]


@dataclass(frozen=True)
class StoredForecaster:
    """A forecaster as it was read, by the checksum of what observing changes."""

    forecaster: Forecaster
    checksum: str

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return self.forecaster.nbytes


@dataclass(frozen=True)
class ForecastAnswer:
    """A forecast, with the totals that were asked for."""

    model_id: str
    forecast: Forecast
    totals: Sequence[ForecastTotals]
    num_paths: int

    def view(self) -> ForecastView:
        """Return it as JSON values."""
        forecast = self.forecast
        figures: Any = {name: _finite(getattr(forecast, name)) for name in ("median", "lower", "upper")}
        same = ("target", "series", "time", "time_name", "flags", "level", "interval", "claim", "warnings")
        return ForecastView(
            model_id=self.model_id,
            totals=[filled(TOTALS, each) for each in self.totals],
            paths=self._paths() if self.num_paths else None,
            **figures,
            **{name: getattr(forecast, name) for name in same},
        )

    def _paths(self) -> list[Any]:
        return cast("list[Any]", self.forecast.some_paths(self.num_paths).tolist())

    def table(self) -> pa.Table:
        """Return the totals that were asked for as one table, or else the steps."""
        if self.totals:
            parts = [pa.table(each.lines()) for each in self.totals]
            return pa.concat_tables(parts, promote_options="default")
        columns = self.forecast.columns().items()
        return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns})

    @property
    def claim(self) -> str:
        """Claims of the intervals in the table."""
        return " ".join(dict.fromkeys(each.claim for each in self.totals)) or self.forecast.claim


@dataclass
class AnswerRoom:
    """Work, and cells in memory, that one answer may still take."""

    work: float
    way_on: str
    cells: int = MOST_CELLS

    def take(self, forecaster: Forecaster, series: int) -> None:
        """Take the steps of so many series; raise TooLargeError where they are too many."""
        count = series * forecaster.horizon
        each = work_of_step(forecaster)
        most = int(min(self.cells, self.work / each)) // forecaster.horizon
        if series > most:
            raise TooLargeError(
                f"Too much at once: {series} series of {counted(forecaster.horizon, 'step')}, of which "
                f"{most} are accepted (BARTSERVE_MAX_PREDICT_WORK): {self.way_on}."
            )
        self.cells, self.work = self.cells - count, self.work - count * each


def work_of_step(forecaster: Forecaster) -> int:
    """Estimate the work of the paths of a series' step, in rows times draws times trees."""
    return CELL_WORK + TREE_WORK * int(forecaster.settings["num_trees"])


def forecast(
    predictor: Predictor, owner: str, model: str, body: ForecastBody, room: AnswerRoom | None = None
) -> ForecastAnswer:
    """Forecast the next steps of series; several answers may have one room together.

    Raises
    ------
    NotFoundError, NotFinishedError, ConflictError
        The model doesn't exist, has not finished, or is no forecaster.
    InvalidRequestError, UnusableDataError, TooLargeError
        The plan or another field is invalid; names the field, or column and row.
    """
    model_id, stored = load(predictor, owner, model)
    forecaster = stored.forecaster
    _check_planned(forecaster, model_id, body.known)
    room = room or AnswerRoom(
        predictor.max_work,
        "name as many of them in series, or ask in the background (POST /models/{model_id}/predictions with "
        "forecast)",
    )
    _check_size(forecaster, body, room)
    plan = None if body.known is None else read_plan(predictor, owner, body.known, forecaster)
    with translating():
        answer = forecaster.forecast(plan, body.level, body.interval, body.series, body.at, num_threads=1)
        totals = [answer.total(_steps(each.steps), each.by) for each in body.totals]
    return ForecastAnswer(model_id, answer, totals, body.paths)


def _check_planned(forecaster: Forecaster, model_id: str, known: Any) -> None:
    names = forecaster.history.asked.known
    if names and known is None:
        message = (
            f"{', '.join(names)} of the next {counted(forecaster.horizon, 'step')} must be planned: send "
            f"rows with their series and times, as GET /models/{model_id}/forecast/template has them"
        )
        raise InvalidRequestError(errors=[Fault("known", None, message, "unavailable")])
    if known is not None and not names:
        message = "no column is known ahead, so there is no plan: fit with known, or leave it out"
        raise InvalidRequestError(errors=[Fault("known", None, message, "not_applicable")])


@dataclass(frozen=True)
class PlannedSeries:
    """A forecast to make in the background, with all options resolved; `work` is that of a line."""

    model_id: str
    checksum: str
    level: float
    interval: str
    claim: str
    draws: int
    verdict: str | None
    target: str
    warnings: list[str]
    horizon: int
    num_rows: int
    work: int
    sums: list[Any]  # steps and sets of totals: by one unit, since paths of all series make them


def planned_series(
    predictor: Predictor, owner: str, model: str, body: SeriesOfForecast, by: Sequence[str] = ()
) -> PlannedSeries:
    """Check a forecast of any number of series, of which workers read the plan; raises as `forecast`."""
    model_id, stored = load(predictor, owner, model)
    forecaster = stored.forecaster
    history = forecaster.history
    _check_planned(forecaster, model_id, body.known)
    with session_scope(predictor.engine, read_only=True) as session:
        verdict = models.get(session, owner, model_id).verdict
        names = None if body.known is None else datasets.get(session, owner, body.known).columns
    if names is not None:
        has = {column["name"] for column in names}
        needed = (*by, history.asked.time, *history.asked.series, *history.asked.known)
        if missing := [name for name in needed if name not in has]:
            faults = [
                Fault(name, None, "the plan lacks the column, which the forecast needs") for name in missing
            ]
            raise UnusableDataError(errors=faults)
    with translating():
        level, interval, claim = forecaster.checked(body.level, body.interval)
        chosen, _, warnings = forecaster.choose(body.series, body.at)
        asked = [
            (_steps(each.steps), [each.by] if isinstance(each.by, str) else each.by or [])
            for each in body.totals
        ]
        totals = [
            *totals_in_parts(forecaster, asked, None, level, interval, body.series, body.at, is_check=True)
        ]
    if totals and body.paths:
        message = "a table has totals or steps: ask for whole paths apart"
        raise InvalidRequestError(errors=[Fault("paths", None, message, "contradiction")])
    claim = " ".join(dict.fromkeys(each.claim for each in totals)) or claim
    return PlannedSeries(
        *(model_id, stored.checksum, level, interval, claim),
        draws=forecaster.fitted[0].posterior.num_draws,
        verdict=verdict,
        target=history.target,
        warnings=warnings,
        horizon=forecaster.horizon,
        num_rows=sum(len(each.count) for each in totals) or len(chosen) * forecaster.horizon,
        work=work_of_step(forecaster),
        sums=asked,
    )


@dataclass(frozen=True)
class PlanTemplate:
    """Columns of a plan to fill in."""

    model_id: str
    columns: dict[str, list[Any]]


def template(predictor: Predictor, owner: str, model: str) -> PlanTemplate:
    """Return a plan's times and series, with empty columns of what is known ahead; raises as `forecast`."""
    model_id, stored = load(predictor, owner, model)
    with translating():
        return PlanTemplate(model_id, stored.forecaster.plan_template())


def rehearsals(predictor: Predictor, owner: str, model: str, level: float) -> RehearsalsView:
    """Return what rehearsals of a model forecast and what came; raises as `forecast`."""
    model_id, stored = load(predictor, owner, model)
    with translating():
        found: Rehearsals = stored.forecaster.rehearsals(level)
    shown = {name: _plain(values) for name, values in found.columns().items()}
    claim = stored.forecaster.claim(level)
    return RehearsalsView(model_id=model_id, level=found.level, series=found.series, claim=claim, **shown)


@dataclass(frozen=True)
class SeriesPicture:
    """A series with its newest outcomes, and its next steps: figures of a chart.

    Attributes
    ----------
    times
        Of the outcomes, then of the steps.
    history, median
        Outcomes, NaN where there is none; medians by step.
    bands
        Lower and upper ends and the name of intervals, the widest first.
    target
        Name of the outcome.

    """

    times: list[Any]
    history: list[float]
    median: list[float]
    bands: list[tuple[list[float], list[float], str]]
    target: str


@dataclass(frozen=True)
class RehearsedSeries:
    """Rehearsals of a series, [origin][step]: what came, and the interval that was forecast."""

    origins: list[Any]
    came: Any
    median: Any
    lower: Any
    upper: Any
    target: str


@dataclass(frozen=True)
class ShownForecast:
    """A forecaster on its page.

    Attributes
    ----------
    series
        Names of the series, in their order.
    horizon, needed
        Steps ahead, and the columns that a plan needs; none where nothing is known ahead.
    is_rehearsed
        Whether the series that was asked for was rehearsed.
    steps
        Its next steps; None where a plan is missing.
    totals
        Its totals over each lead time, from the first step alone to all.
    totals_of_all
        Those of all series together, None beyond a series that ends early; empty of many series.
    refused
        Why there are no steps: what is wrong with the plan or the series.

    """

    series: list[str]
    horizon: int
    needed: list[str]
    is_rehearsed: bool
    steps: ForecastView | None = None
    totals: Sequence[ForecastTotals] = ()
    totals_of_all: Sequence[ForecastTotals | None] = ()
    refused: ServiceError | None = None


def shown(predictor: Predictor, owner: str, model: str, row: int, body: ForecastBody) -> ShownForecast:
    """Return what a page shows of the series with this number; raises as `forecast` but for its 422."""
    forecaster = load(predictor, owner, model)[1].forecaster
    history, asked = forecaster.history, forecaster.history.asked
    key, horizon = _key(history, row), forecaster.horizon
    names = [history.series_in_words(each) or history.target for each in history.keys]
    needed = [asked.time, *asked.series, *asked.known] if asked.known else []
    found = ShownForecast(names, horizon, needed, tuple(key) in forecaster.calibration.keys)
    if needed and body.known is None:
        return found
    one = body.model_copy(update={"series": [key]})
    try:
        answer = forecast(predictor, owner, model, one)
        found = replace(found, steps=answer.view(), totals=answer.forecast.lead_times())
        if 1 < len(names) <= MOST_TOGETHER:
            every = forecast(predictor, owner, model, body).forecast
            totals = every.lead_times()
            found = replace(found, totals_of_all=[*totals, *[None] * (horizon - len(totals))])
    except (InvalidRequestError, UnusableDataError) as error:
        return replace(found, refused=error)
    return found


def picture(predictor: Predictor, owner: str, model: str, row: int, body: ForecastBody) -> SeriesPicture:
    """Return the figures of a chart of the series with this number; raises as `forecast`."""
    history = load(predictor, owner, model)[1].forecaster.history
    one = body.model_copy(update={"series": [_key(history, row)], "totals": [], "paths": 0})
    bands, found = [], None
    for level in sorted({body.level, 0.5}, reverse=True):
        found = forecast(predictor, owner, model, one.model_copy(update={"level": level})).forecast
        ends = (np.where(np.isfinite(each), each, np.nan) for each in (found.lower[0], found.upper[0]))
        lower, upper = (each.tolist() for each in ends)
        bands.append((lower, upper, f"{level:.0%} interval"))
    assert found is not None
    last = int(history.last[row])
    first = max(last + 1 - HISTORY_HORIZONS * len(found.time[0]), int(history.first[row]))
    past = [history.step.text(history.start + at) for at in range(first, last + 1)]
    outcomes = history.y[row, first : last + 1].tolist()
    return SeriesPicture(past + found.time[0], outcomes, found.median[0].tolist(), bands, history.target)


def rehearsed(predictor: Predictor, owner: str, model: str, row: int) -> RehearsedSeries:
    """Return the rehearsals of the series with this number; raises as `forecast`, and without any."""
    forecaster = load(predictor, owner, model)[1].forecaster
    history, calibration = forecaster.history, forecaster.calibration
    key = history.keys[row] if 0 <= row < len(history.keys) else None
    if key not in calibration.keys:
        raise NotFoundError("This series was not rehearsed.")
    at = calibration.keys.index(key)
    median, lower, upper = (each[:, at] for each in calibration.steps.ends(0.9))
    origins = [history.step.text(each) for each in calibration.origins]
    return RehearsedSeries(origins, calibration.steps.y[:, at], median, lower, upper, history.target)


def _key(history: Any, row: int) -> Any:
    if not 0 <= row < len(history.keys):
        raise NotFoundError("There is no such series.")
    return list(history.keys[row])


def load(predictor: Predictor, owner: str, model: str) -> tuple[str, StoredForecaster]:
    """Return a model's id, and the forecaster with its present history; raises as `forecast`."""
    cache = cast("Cache[StoredForecaster]", predictor.cache)
    with session_scope(predictor.engine, read_only=True) as session:
        stored = find(session, owner, model, forecasters=True)
        present = (stored.diagnostics or {}).get("checksum")
    if not stored.settings.get("time"):
        raise ConflictError(
            "The model predicts rows: ask predict (POST /models/{model_id}/predict). A fit with time and "
            "horizon forecasts."
        )
    key = f"{stored.id} forecasts"  # not that of a posterior
    kept = cache.peek(key)
    if kept is not None and kept.checksum != present:
        cache.drop(key)
    return stored.id, cache.get(key, lambda: _read(predictor.engine, stored.id))


def _read(engine: Engine, model_id: str) -> StoredForecaster:
    warm(KERNELS)
    try:
        with session_scope(engine, read_only=True) as session:
            header, blocks = draws.read_forecaster(session, model_id)
        if header is None:
            raise NotFoundError("The model was deleted.")
        data = with_models(header, blocks)
        return StoredForecaster(Forecaster.from_bytes(data), checksum(header))
    except (CorruptBlockError, PackedError) as error:
        raise DamagedError(f"Model {model_id}: {error}.") from error
    except ModelGoneError as error:
        raise NotFoundError(str(error)) from None


def _check_size(forecaster: Forecaster, body: ForecastBody, room: AnswerRoom) -> None:
    history, horizon = forecaster.history, forecaster.horizon
    count = len(history.keys) if body.series is None else len(body.series)
    room.take(forecaster, count)
    if count * horizon * body.paths > MOST_FIGURES:
        most = MOST_FIGURES // (count * horizon)
        raise TooLargeError(
            f"{counted(body.paths, 'path')} of {count} series are too many at once: ask for {most}."
        )


def read_plan(predictor: Predictor, owner: str, known: Any, forecaster: Forecaster | None = None) -> Table:
    """Read the rows of a plan, or of the dataset with this id: the columns of a forecaster, or all."""
    if isinstance(known, Table):
        return known
    most = max(predictor.max_rows, MOST_CELLS)
    if not isinstance(known, str):
        return read(columns_of(known, None, most))
    with session_scope(predictor.engine, read_only=True) as session:
        dataset = datasets.get(session, owner, known)
        check_count(dataset.num_rows, most)
        names = [column["name"] for column in dataset.columns]
        if forecaster is not None:
            asked = forecaster.history.asked
            names = [name for name in names if name in (asked.time, *asked.series, *asked.known)]
        try:
            return read(dataset_store.read(session, dataset.id, names))
        except DatasetGoneError as error:
            raise NotFoundError(str(error)) from None


def _finite(figures: Any) -> list[list[float | None]]:
    return [[each if np.isfinite(each) else None for each in row] for row in figures.tolist()]


def _steps(steps: list[int] | None) -> int | tuple[int, int] | None:
    return None if steps is None else steps[0] if len(steps) == 1 else (steps[0], steps[1])


def _plain(values: Any) -> list[Any]:
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return [None if np.isnan(each) else each for each in values.tolist()]
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def translating() -> AbstractContextManager[None]:
    """Convert the sampler's errors to service errors with the field names of requests."""
    return translating_sampler_errors(NAMES)
