"""Sets of models: queries, the making of their models one after the other, deletion."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, delete, exists, func, select, tuple_, update
from sqlalchemy.orm import Session

from app.store import datasets, deletion, events, models
from app.store.clock import utc_now
from app.store.datasets import Encoded
from app.store.statements import After, lock_rows, page, rows_changed
from app.store.tables import (
    FAILED,
    OPEN_STATES,
    SUCCEEDED,
    Dataset,
    Json,
    Model,
    ModelSet,
    Unit,
    new_id,
)

AHEAD = 100  # open models of a set, at most: the others wait to be made, and burden no query for work
ASKED = 500  # groups in a query


def create(
    session: Session,
    *,
    owner: str,
    name: str | None,
    dataset_id: str,
    target: str,
    by: Sequence[str],
    request: Json,
    settings: Json,
    num_groups: int,
) -> ModelSet:
    """Store a set whose models are to be made; raises DatasetGoneError."""
    datasets.hold(session, owner, dataset_id)
    made = ModelSet(
        id=new_id("set"),
        owner=owner,
        name=name,
        dataset_id=dataset_id,
        target=target,
        by=list(by),
        request=request,
        settings=settings,
        num_groups=num_groups,
        made=0,
    )
    session.add(made)
    session.flush()
    return made


def get(session: Session, owner: str, set_id: str) -> ModelSet | None:
    """Return the owner's set with this id, or None."""
    return session.scalar(select(ModelSet).where(ModelSet.id == set_id, ModelSet.owner == owner))


def list_page(
    session: Session,
    owner: str,
    limit: int,
    after: After | None = None,
    *,
    name: str | None = None,
    answering: bool = False,
) -> list[ModelSet]:
    """Return a page of the owner's sets, newest first: all, or those of a name, or with a succeeded model."""
    mine = select(ModelSet).where(ModelSet.owner == owner)
    if name is not None:
        mine = mine.where(ModelSet.name == name)
    if answering:
        mine = mine.where(exists().where(Model.set_id == ModelSet.id, Model.state == SUCCEEDED))
    return list(session.scalars(page(mine, ModelSet, limit, after)))


def any_due(session: Session) -> bool:
    """Tell whether a set has groups without a model, and few open models."""
    return session.scalar(select(ModelSet.id).where(_due()).limit(1)) is not None


def owners_due(session: Session, without: Collection[str] = ()) -> list[str]:
    """Return the owners of sets that are due, but for some of these, the one that waits longest first."""
    waiting = select(ModelSet.owner).where(_due(), ModelSet.id.not_in(without)).group_by(ModelSet.owner)
    return list(session.scalars(waiting.order_by(func.min(ModelSet.created_at))))


def first_due(session: Session, owner: str, without: Collection[str] = ()) -> ModelSet | None:
    """Return an owner's oldest set that has groups without a model, and few open models, or None."""
    mine = select(ModelSet).where(_due(), ModelSet.owner == owner, ModelSet.id.not_in(without))
    return session.scalar(mine.order_by(ModelSet.created_at, ModelSet.id).limit(1))


def count_open(session: Session, set_id: str) -> int:
    """Return the number of a set's queued and running models."""
    open_ = select(func.count()).where(Model.set_id == set_id, Model.state.in_(OPEN_STATES))
    return session.scalar(open_) or 0


def take(session: Session, set_id: str, number: int) -> bool:
    """Take the turn to make the model of a group, the `number`-th; False where another process has it.

    The model is made in this transaction.
    """
    mine = update(ModelSet).where(ModelSet.id == set_id, ModelSet.made == number)
    return rows_changed(session, mine.values(made=number + 1)) == 1


def save_part(session: Session, part: Dataset, encoded: Encoded, *, owner: str, set_id: str) -> Dataset:
    """Store the rows of a group as a dataset that lists don't show; `part` describes them."""
    saved = datasets.save(
        session,
        encoded,
        owner=owner,
        name=part.name,
        columns=part.columns,
        warnings=part.warnings,
        profiles=part.profiles,
        read_as=part.read_as,
    )
    saved.set_id = set_id
    session.flush()
    return saved


def add_failed(session: Session, of: ModelSet, group: str, error: Json) -> None:
    """Store the model of a group whose fit is refused, as failed."""
    model = Model(
        id=new_id("mdl"),
        owner=of.owner,
        target=of.target,
        settings=of.settings,
        state=FAILED,
        error=error,
        set_id=of.id,
        set_group=group,
        finished_at=utc_now(),
    )
    session.add(model)
    session.flush()
    events.append(session, model.id, FAILED, error)


def states(session: Session, set_ids: Collection[str]) -> dict[str, dict[str, int]]:
    """Count the models of each set by state."""
    counted: dict[str, dict[str, int]] = {set_id: {} for set_id in set_ids}
    query = select(Model.set_id, Model.state, func.count()).where(Model.set_id.in_(set_ids))
    for set_id, state, count in session.execute(query.group_by(Model.set_id, Model.state)):
        counted[str(set_id)][state] = count
    return counted


class ModelOfGroup(NamedTuple):
    """Facts about the model of a group."""

    id: str
    group: str
    state: str
    verdict: str | None
    rows: int | None  # None where the fit was refused
    warnings: list[str]
    error: Json | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


def models_page(
    session: Session,
    set_id: str,
    limit: int,
    after: After | None = None,
    *,
    search: str | None = None,
    state: str | None = None,
) -> list[ModelOfGroup]:
    """Return a page of a set's models, in the order of their making.

    `search` is a part of the group's name, in any case.
    """
    which: list[ColumnElement[bool]] = [Model.set_id == set_id]
    if after is not None:
        which.append(tuple_(Model.created_at, Model.id) > tuple_(*after))
    if search is not None:
        which.append(Model.set_group.icontains(search, autoescape=True))
    if state is not None:
        which.append(Model.state == state)
    found = select(Model.id).where(*which).order_by(Model.created_at, Model.id).limit(limit)
    columns: tuple[Any, ...] = (
        Model.id,
        Model.set_group,
        Model.state,
        Model.verdict,
        Dataset.num_rows,
        Model.warnings,
        Model.error,
        Model.created_at,
        Model.started_at,
        Model.finished_at,
    )
    rows = session.execute(
        select(*columns)
        .outerjoin(Dataset, Dataset.id == Model.dataset_id)
        .where(Model.id.in_(found))
        .order_by(Model.created_at, Model.id)
    )
    return [ModelOfGroup._make(row) for row in rows]


def answering(session: Session, set_id: str, groups: Sequence[str] | None = None) -> dict[str, str]:
    """Return the ids of the succeeded models of those groups that have one; None for all, in their order."""
    found: dict[str, str] = {}
    ready = select(Model.set_group, Model.id).where(Model.set_id == set_id, Model.state == SUCCEEDED)
    if groups is None:
        ready = ready.order_by(Model.created_at, Model.id)
        return {group: model_id for group, model_id in session.execute(ready) if group}
    for first in range(0, len(groups), ASKED):
        some = Model.set_group.in_(groups[first : first + ASKED])
        found |= {group: model_id for group, model_id in session.execute(ready.where(some)) if group}
    return found


def any_answering(session: Session, set_id: str) -> str | None:
    """Return the id of a succeeded model of a set, the first one; None without any."""
    ready = select(Model.id).where(Model.set_id == set_id, Model.state == SUCCEEDED)
    return session.scalar(ready.order_by(Model.created_at, Model.id).limit(1))


def cancel(session: Session, set_id: str) -> bool:
    """Make no further models of a set, and request cancellation of its open ones; False if that was done."""
    left = ModelSet.num_groups - ModelSet.made
    ended = update(ModelSet).where(ModelSet.id == set_id, left > 0)  # first, so that no model is added below
    changed = rows_changed(session, ended.values(left_out=left, made=ModelSet.num_groups))
    continues = Model.cancel_requested.is_(False)
    open_ = select(Model.id).where(Model.set_id == set_id, Model.state.in_(OPEN_STATES), continues)
    lock_rows(session, Unit, Unit.model_id.in_(open_))
    cancelled = session.scalars(open_.order_by(Model.id)).all()
    for model_id in cancelled:
        models.cancel_locked(session, model_id)
    session.expire_all()  # the updates went past the session's copies
    return bool(changed or cancelled)


def delete_set(session: Session, owner: str, set_id: str) -> list[str] | None:
    """Delete a set with its models and their rows; return the models' ids, None without such a set."""
    mine = delete(ModelSet).where(ModelSet.id == set_id, ModelSet.owner == owner)
    if not rows_changed(session, mine):  # first, so that no further model is made
        return None
    model_ids = list(session.scalars(select(Model.id).where(Model.set_id == set_id)))
    deletion.mark_set_deleted(session, set_id)
    session.expire_all()  # the updates went past the session's copies
    return model_ids


def _due() -> ColumnElement[bool]:
    open_ = select(func.count()).where(Model.set_id == ModelSet.id, Model.state.in_(OPEN_STATES))
    return (ModelSet.made < ModelSet.num_groups) & (open_.correlate(ModelSet).scalar_subquery() < AHEAD // 2)
