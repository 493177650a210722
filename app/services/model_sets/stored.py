"""Sets of models: accepting, viewing and deleting them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services import cursors, datasets, group_names
from app.services.access import audit, quotas
from app.services.cursors import Page
from app.services.errors import ConflictError, NotFoundError, ServiceError
from app.services.fits import creation, request_checks
from app.services.fits.creation import PlannedModel
from app.services.fits.fit_request import ModelRequest
from app.services.fits.requests import FitRequest
from app.services.model_sets.parts import RowsByGroup, columns_of_groups, find_groups, parts_of
from app.services.views import ErrorView, State, filled, if_any
from app.store.access.quotas import part_bytes
from app.store.engine import session_scope
from app.store.errors import DatasetGoneError, is_id
from app.store.sets import model_sets as store
from app.store.sets.model_sets import ModelOfGroup
from app.store.tables import CANCELLED, FAILED, OPEN_STATES, QUEUED, RUNNING, SUCCEEDED, Dataset, ModelSet
from sampler.host.posteriors import Verdict

TRIED = 3  # groups of which one must be fit for a set to be accepted
ENDED = (SUCCEEDED, FAILED, CANCELLED)


class ModelSetRequest(ModelRequest):
    """A request for a model for each group of a dataset's rows: that of POST /models, with `by`."""

    by: str | Annotated[list[str], Field(min_length=1, max_length=4)] = Field(
        description="The column that tells a row's group (shop, product, site), or several; they are no "
        "features."
    )


@dataclass(frozen=True, kw_only=True)
class SetProgressView:
    """Progress of a set by the states of its models."""

    fraction: Annotated[float, Field(description="The share of models that have ended, 0 to 1.")]
    waiting: Annotated[int, Field(description="Groups whose model is made when fewer are open.")]
    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: Annotated[int, Field(description="Groups too whose model is not made any more.")]


@dataclass(frozen=True, kw_only=True)
class ModelSetView:
    """A set of models: one for each group of a dataset's rows."""

    id: str
    name: str | None
    state: Annotated[
        State,
        Field(description="succeeded where a model has, though others may have failed."),
    ]
    dataset_id: Annotated[str | None, Field(description="Null if it has been deleted since.")]
    target: str
    by: Annotated[list[str], Field(description="The columns that tell a row's group.")]
    groups: Annotated[int, Field(description="The number of groups.")]
    settings: Annotated[
        dict[str, Any],
        Field(description="All settings, resolved, of the first group; some depend on the rows."),
    ]
    progress: SetProgressView
    created_at: datetime


@dataclass(frozen=True)
class ModelSetPage(Page[ModelSetView]):
    """A page of sets of models, newest first."""

    items: list[ModelSetView]


@dataclass(frozen=True, kw_only=True)
class SetModelView:
    """The model of a group."""

    group: Annotated[list[str], Field(description="The values that tell it, by column.")]
    model_id: str
    state: State
    rows: Annotated[int | None, Field(description="Null where the fit was refused.")]
    verdict: Verdict | None
    seconds: Annotated[float | None, Field(description="Duration of the fit; null before its end.")]
    warnings: list[str]
    error: Annotated[ErrorView | None, Field(description="Why there is no model.")]


@dataclass(frozen=True)
class SetModelPage(Page[SetModelView]):
    """A page of the models of a set, in the order in which its groups come in the dataset."""

    items: list[SetModelView]


@dataclass(frozen=True)
class PlannedSet:
    """A valid request, and the plan of one of its groups."""

    dataset: Dataset
    by: tuple[str, ...]
    groups: RowsByGroup
    request: FitRequest
    first: PlannedModel


def plan(engine: Engine, owner: str, body: ModelSetRequest, *, slots: int = 0) -> PlannedSet:
    """Check a request for a set, by the plan of its first group that can be fitted; writes nothing.

    `slots` chains run at once (0: there is no worker; one is assumed).

    Raises
    ------
    NotFoundError
        The dataset doesn't exist.
    InvalidRequestError, UnusableDataError
        A setting is out of range, a column can't be used, or a row has no group; of a fit, as for a single
        one, where each of the first groups is refused.
    """
    request = body.fit_request()
    name = None if request.name is None else request_checks.check_model_name(request.name)
    with session_scope(engine, read_only=True) as session:
        dataset = datasets.get(session, owner, request.dataset_id, profiles=True)
        request_checks.check_columns(dataset, request)
        by = columns_of_groups(dataset, body.by, [*request.reserved, *request.of_forecast])
        groups = find_groups(session, dataset, by)
        parts = list(parts_of(session, dataset, by, dict(islice(groups.items(), TRIED))))
    request = replace(request, name=None)
    refusals: list[ServiceError] = []
    for part in parts:
        try:
            first = creation.plan_rows(part.dataset, part.table, request, slots=slots)
        except ServiceError as error:
            refusals.append(error)
        else:
            return PlannedSet(dataset, by, groups, replace(request, name=name), first)
    raise refusals[0]


def accept(session: Session, owner: str, planned: PlannedSet) -> ModelSetView:
    """Store the planned set, whose models are made afterwards, and return it.

    Raises
    ------
    NotFoundError
        The dataset was deleted meanwhile.
    QuotaError
        The owner's quota of queued work or stored bytes is exhausted.
    """
    settings, count = planned.first.stored_settings, len(planned.groups)
    quotas.check_queued(session, owner)
    of_rows = part_bytes(planned.dataset.num_bytes, planned.dataset.columns, count)
    quotas.check_stored(session, owner, count * (of_rows + quotas.expected_bytes(settings)))
    try:
        made = store.create(
            session,
            owner=owner,
            name=planned.request.name,
            dataset_id=planned.dataset.id,
            target=planned.request.target,
            by=planned.by,
            request=asdict(replace(planned.request, name=None)),
            settings=settings,
            num_groups=count,
        )
    except DatasetGoneError:
        raise NotFoundError("The dataset was deleted while the set was being accepted.") from None
    audit.record(session, owner, "model_set.created", made.id)
    return _view(made, {})


def get(session: Session, owner: str, set_id: str) -> ModelSet:
    """Return the owner's set with this id, or the one that this name means; raises NotFoundError.

    A name means the newest of which a model has succeeded; until one has, the newest.
    """
    found = None
    if set_id.startswith("set_"):
        found = store.get(session, owner, set_id) if is_id(set_id) else None
    elif set_id.isprintable():
        for only in (True, False):
            if found is None:
                found = next(iter(store.list_page(session, owner, 1, name=set_id, answering=only)), None)
    if found is None:
        raise NotFoundError("There is no set of models with this id or name: GET /model-sets lists yours.")
    return found


def view(session: Session, owner: str, set_id: str) -> ModelSetView:
    """Return a set with its progress; raises NotFoundError."""
    found = get(session, owner, set_id)
    return _view(found, store.states(session, [found.id])[found.id])


def list_page(session: Session, owner: str, limit: int, cursor: str | None) -> ModelSetPage:
    """Return a page of the owner's sets, newest first."""
    page: Page[ModelSet]
    page = cursors.cut(store.list_page(session, owner, limit + 1, cursors.after(cursor)), limit)
    states = store.states(session, [each.id for each in page.items])
    return ModelSetPage([_view(each, states[each.id]) for each in page.items], page.next_cursor)


def models_page(
    session: Session,
    owner: str,
    set_id: str,
    limit: int,
    cursor: str | None,
    *,
    search: str | None = None,
    state: str | None = None,
) -> SetModelPage:
    """Return a page of the models of a set: all, or those of a state or a part of the group's name.

    Raises NotFoundError.
    """
    found = get(session, owner, set_id)
    after = cursors.after(cursor)
    rows = store.models_page(session, found.id, limit + 1, after, search=search, state=state)
    page: Page[ModelOfGroup] = cursors.cut(rows, limit)
    return SetModelPage([_of_group(each) for each in page.items], page.next_cursor)


def cancel(session: Session, owner: str, set_id: str) -> ModelSetView:
    """Cancel a set: no further models are made, and open ones are cancelled. Again, it has no effect.

    Raises
    ------
    NotFoundError
        The set doesn't exist.
    ConflictError
        All of its models have ended, and none was cancelled.
    """
    before = view(session, owner, set_id)
    if before.state in OPEN_STATES:
        if store.cancel(session, before.id):
            audit.record(session, owner, "model_set.cancelled", before.id)
    elif not before.progress.cancelled:
        raise ConflictError("All models of the set have ended: there is nothing left to cancel.")
    return view(session, owner, set_id)


def delete(session: Session, owner: str, set_id: str) -> list[str]:
    """Delete a set with its models and the rows that it keeps; return the models' ids.

    Models that are being fitted stop.

    Raises
    ------
    NotFoundError
        The set doesn't exist.
    ConflictError
        Several sets have the name: a repeated request would delete two of them.
    """
    found = get(session, owner, set_id).id
    if found != set_id and len(store.list_page(session, owner, 2, name=set_id)) > 1:
        raise ConflictError(
            f"Several sets have this name, which means {found}: delete by id; GET /model-sets lists all."
        )
    model_ids = store.delete_set(session, owner, found)
    audit.record(session, owner, "model_set.deleted", found)
    return model_ids or []


def _view(of: ModelSet, states: Mapping[str, int]) -> ModelSetView:
    waiting = of.num_groups - of.made
    counts = dict(states) | {CANCELLED: states.get(CANCELLED, 0) + of.left_out}
    ended = sum(counts.get(state, 0) for state in ENDED)
    return filled(
        ModelSetView,
        of,
        state=_state(waiting, counts),
        groups=of.num_groups,
        progress=SetProgressView(
            fraction=ended / max(waiting + sum(counts.values()), 1),
            waiting=waiting,
            **{state: counts.get(state, 0) for state in (QUEUED, RUNNING, *ENDED)},
        ),
    )


def _state(waiting: int, states: Mapping[str, int]) -> str:
    if waiting or any(states.get(state) for state in OPEN_STATES):
        begun = any(count for state, count in states.items() if state != QUEUED)
        return RUNNING if begun else QUEUED
    return next((state for state in ENDED if states.get(state)), SUCCEEDED)


def _of_group(model: ModelOfGroup) -> SetModelView:
    begun, ended = model.started_at, model.finished_at
    return filled(
        SetModelView,
        model,
        group=group_names.values_of(model.group),
        model_id=model.id,
        seconds=(ended - begun).total_seconds() if begun and ended else None,
        error=if_any(ErrorView, model.error),
    )
