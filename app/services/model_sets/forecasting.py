"""Forecasts by the forecasters of a set: each group's series by its own, with a part of the plan."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field
from sqlalchemy.orm import Session

from app.services.errors import (
    ConflictError,
    Fault,
    InvalidRequestError,
    NotFinishedError,
    TooLargeError,
    UnusableDataError,
)
from app.services.group_names import BETWEEN, in_words, to_text, values_of
from app.services.model_sets import stored
from app.services.model_sets.predicting import MOST_GROUPS
from app.services.predictions import forecasts
from app.services.predictions import stored as background
from app.services.predictions.forecasts import ForecastAnswer, ForecastBody, ForecastView, SeriesOfForecast
from app.services.predictions.predict_rows import Predictor
from app.services.predictions.stored import BatchPlan, BatchView
from app.store.engine import session_scope
from app.store.sets import model_sets as store
from app.store.tables import ModelSet
from sampler import DataError
from sampler.host.data import Table, rows_by_group

GroupNames = Annotated[
    Annotated[list[Any], Field(min_length=1, max_length=MOST_GROUPS)] | None,
    Field(
        description="Groups to forecast: values of the column that tells it, lists of these where there are "
        "several. Default: all whose model has succeeded."
    ),
]


class SetForecastBody(ForecastBody):
    """Groups to forecast, a plan for all of them, and the figures."""

    groups: GroupNames = None


@dataclass(frozen=True, kw_only=True)
class GroupForecastView(ForecastView):
    """The forecast of a group's series, by its own forecaster."""

    group: Annotated[list[str], Field(description="The values that tell it, by column.")]


@dataclass(frozen=True, kw_only=True)
class SetForecastView:
    """Forecasts of a set: one for each group. Their paths aren't joint: totals are of a group each."""

    set_id: str
    by: Annotated[list[str], Field(description="The columns that tell a group.")]
    forecasts: list[GroupForecastView]


@dataclass(frozen=True)
class SetForecast:
    """Forecasts of groups, by their names as text."""

    set_id: str
    by: Sequence[str]
    answers: Mapping[str, ForecastAnswer]

    def view(self) -> SetForecastView:
        """Return it as JSON values."""
        views = [
            GroupForecastView(group=values_of(group), **vars(answer.view()))
            for group, answer in self.answers.items()
        ]
        return SetForecastView(set_id=self.set_id, by=[*self.by], forecasts=views)

    def table(self) -> pa.Table:
        """Return the tables of all groups as one, with the columns that tell the group."""
        return _together(self.by, {group: answer.table() for group, answer in self.answers.items()})


def forecast(predictor: Predictor, owner: str, set_id: str, body: SetForecastBody) -> SetForecast:
    """Forecast the series of groups, each by the forecaster of its group.

    Raises
    ------
    NotFoundError, NotFinishedError, ConflictError
        There is no such set, none of its models has succeeded, or they aren't forecasters.
    InvalidRequestError, UnusableDataError, TooLargeError
        The plan, a group or another field is invalid, or it is too much at once.
    """
    of, ids = _found(predictor, owner, set_id)
    ids = _chosen(ids, body.groups)
    plans: Mapping[str, Table] = {}
    if body.known is not None:
        plans = _parts(forecasts.read_plan(predictor, owner, body.known), of.by)
    room = forecasts.AnswerRoom(
        predictor.max_work,
        "name fewer in groups, or ask in the background (POST /model-sets/{set_id}/predictions)",
    )
    answers = {}
    for group, model_id in ids.items():
        own = body.model_copy(update={"known": plans.get(group)})
        with _naming(group):
            answers[group] = forecasts.forecast(predictor, owner, model_id, own, room)
    return SetForecast(of.id, of.by, answers)


class SeriesOfGroups(SeriesOfForecast):
    """Groups to forecast in the background, and the dataset that has the plan of all."""

    groups: GroupNames = None


@dataclass(frozen=True, kw_only=True)
class SetPredictionsView:
    """Background predictions of a set: one for each group."""

    set_id: str
    by: Annotated[list[str], Field(description="The columns that tell a group.")]
    predictions: list[BatchView]


def plan_all(
    predictor: Predictor, owner: str, set_id: str, body: SeriesOfGroups
) -> tuple[ModelSet, list[BatchPlan]]:
    """Check a forecast of any number of series of groups, each in the background; raises as `forecast`."""
    of, ids = _found(predictor, owner, set_id)
    own = SeriesOfForecast.model_validate(body.model_dump(exclude={"groups"}))
    plans = []
    for group, model_id in _chosen(ids, body.groups).items():
        told = dict(zip(of.by, values_of(group), strict=True))
        with _naming(group):
            plans.append(background.plan_of_series(predictor, owner, model_id, own, told))
    return of, plans


def accept_all(session: Session, owner: str, of: ModelSet, plans: Sequence[BatchPlan]) -> SetPredictionsView:
    """Queue them all; raises as `app.services.predictions.stored.accept`."""
    views = [background.accept(session, owner, plan) for plan in plans]
    return SetPredictionsView(set_id=of.id, by=[*of.by], predictions=views)


def template(predictor: Predictor, owner: str, set_id: str) -> pa.Table:
    """Return the rows of a plan for all groups, with the columns that tell them; raises as `forecast`."""
    of, ids = _found(predictor, owner, set_id)
    if len(ids) > MOST_GROUPS:
        raise TooLargeError(f"{len(ids)} groups are too many at once: ask for the template of each model.")
    plans = {group: forecasts.template(predictor, owner, model_id) for group, model_id in ids.items()}
    return _together(of.by, {group: pa.table(plan.columns) for group, plan in plans.items()})


def _found(predictor: Predictor, owner: str, set_id: str) -> tuple[ModelSet, dict[str, str]]:
    """Find a set of forecasters, and its models that have succeeded, by group; raises as `forecast`."""
    with session_scope(predictor.engine, read_only=True) as session:
        of = stored.get(session, owner, set_id)
        ids = store.answering(session, of.id)
        session.expunge_all()
    if not of.settings.get("time"):
        raise ConflictError(
            "The models of the set predict rows: ask predict (POST /model-sets/{set_id}/predict)."
        )
    if not ids:
        raise NotFinishedError(f"No model of {of.id} has succeeded: GET /model-sets/{of.id}/models says why.")
    return of, ids


@contextmanager
def _naming(group: str) -> Iterator[None]:
    """Name the group of what is refused."""
    try:
        yield
    except (InvalidRequestError, UnusableDataError) as error:
        faults = [replace(each, detail=f"{in_words(group)}: {each.detail}") for each in error.errors]
        raise type(error)(errors=faults) from None


def _together(by: Sequence[str], tables: Mapping[str, pa.Table]) -> pa.Table:
    """Put tables of groups together, with the columns that tell the group."""
    named = []
    for group, own in tables.items():
        told = zip(by, values_of(group), strict=True)
        columns = {name: pa.array([value] * own.num_rows, pa.string()) for name, value in told}
        named.append(pa.table(columns | dict(zip(own.column_names, own.columns, strict=True))))
    return pa.concat_tables(named, promote_options="permissive")


def _chosen(ids: dict[str, str], groups: Sequence[Any] | None) -> dict[str, str]:
    """Choose groups that have a model; raise InvalidRequestError for others."""
    if groups is None:
        return ids
    named = [BETWEEN.join(map(str, each if isinstance(each, list) else [each])) for each in groups]
    if (unknown := next((each for each in named if each not in ids), None)) is not None:
        message = f"{in_words(unknown)} has no model that has succeeded"
        raise InvalidRequestError(errors=[Fault("groups", None, message, "unknown")])
    return {each: ids[each] for each in dict.fromkeys(named)}


def _parts(plan: Table, by: Sequence[str]) -> dict[str, Table]:
    """Return the rows of a plan by group; raise UnusableDataError for rows without one."""
    if missing := [name for name in by if name not in plan.names]:
        faults = [Fault(name, None, "the plan lacks the column, which tells the group") for name in missing]
        raise UnusableDataError(errors=faults)
    try:
        rows = rows_by_group(plan, by)
    except DataError as error:
        raise UnusableDataError(errors=[Fault.of(problem) for problem in error.problems]) from None
    return {to_text(group): plan.part(places) for group, places in rows.items()}
