"""Models: queries, cancellation, deletion. Workers write through `app.store.queue.units`."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, and_, bindparam, case, func, literal, or_, select, tuple_, update
from sqlalchemy.orm import Session

from app.store import datasets, deletion, events
from app.store.errors import ModelGoneError
from app.store.queue import lifecycle
from app.store.statements import After, lock_rows, page, rows_changed
from app.store.tables import (
    CHAIN,
    FINISH,
    NOBODY,
    OPEN_STATES,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    Dataset,
    Json,
    Model,
    Unit,
    new_id,
)


def create(
    session: Session,
    *,
    owner: str,
    name: str | None,
    dataset_id: str,
    target: str,
    settings: Json,
    num_chains: int,
    iterations: int,
    warnings: list[str] | None = None,
    refit: Json | None = None,
    withheld: bool = False,
    set_id: str | None = None,
    set_group: str | None = None,
) -> Model:
    """Store a new model: its row and one unit of work per chain.

    Parameters
    ----------
    settings
        All resolved settings, as `GET /models/{id}` shows them and `worker.fits.fit_spec` reads them.
    iterations
        Iterations per chain, burn-in included; progress is measured against this number.
    refit
        Of which model it is a refit, and whether the name moves to it.
    withheld
        Whether its name goes on to mean an older one when it has succeeded.
    set_id, set_group
        The set that it belongs to, and whose rows it has.

    Raises
    ------
    DatasetGoneError
        The owner no longer has this dataset.
    """
    datasets.hold(session, owner, dataset_id)
    model = Model(
        id=new_id("mdl"),
        owner=owner,
        name=name,
        dataset_id=dataset_id,
        target=target,
        settings=settings,
        state=QUEUED,
        warnings=list(warnings or []),
        refit=refit,
        withheld=withheld,
        set_id=set_id,
        set_group=set_group,
    )
    session.add(model)
    session.flush()  # the units refer to the row
    for chain in range(num_chains):
        session.add(lifecycle.new_unit(owner, model.id, CHAIN, chain, iterations))
    session.flush()  # fail here rather than at the commit
    events.append(session, model.id, "created", {"chains": num_chains})
    return model


def get(session: Session, owner: str, model_id: str) -> Model | None:
    """Return the owner's model with this id, or None."""
    return session.scalar(select(Model).where(Model.id == model_id, Model.owner == owner))


class ModelHead(NamedTuple):
    """Facts about a stored model that predictions need besides its posterior."""

    id: str
    dataset_id: str | None
    settings: Json
    state: str
    verdict: str | None
    calibration: Json | None
    finished_at: datetime | None


_TABLE = Model.__table__.c
_HAS_SUCCEEDED = or_(Model.state == SUCCEEDED, Model.verdict.is_not(None))
_HEAD = select(*(_TABLE[name] for name in ModelHead._fields)).where(
    _TABLE["id"] == bindparam("model_id"), _TABLE["owner"] == bindparam("owner")
)


def head(connection: Connection, owner: str, model_id: str) -> ModelHead | None:
    """Return the head of the owner's model with this id, or None."""
    row = connection.execute(_HEAD, {"owner": owner, "model_id": model_id}).one_or_none()
    return None if row is None else ModelHead(*row)


def head_of(model: Model) -> ModelHead:
    """Return the head of a model that a session has read."""
    return ModelHead(*(getattr(model, name) for name in ModelHead._fields))


def still_there(session: Session, model_ids: Sequence[str]) -> Sequence[Model]:
    """Return those of the models that have not been deleted, whoever owns them."""
    return session.scalars(select(Model).where(Model.id.in_(model_ids), Model.owner != NOBODY)).all()


def meant(session: Session, owner: str, name: str) -> Model | None:
    """Return the model that a name means: the newest that has succeeded, also if it is being extended now.

    Until one has, the newest. A withheld one only where there is no other: it doesn't answer to the name.
    """
    named = select(Model).where(Model.owner == owner, Model.name == name, Model.set_id.is_(None))
    last = case((Model.withheld.is_(True), 1), else_=0), case((_HAS_SUCCEEDED, 0), else_=1)
    query = page(named.order_by(*last), Model, 1, None)
    return session.scalar(query, execution_options={"populate_existing": True})


def lock_name(session: Session, model: Model) -> None:
    """Keep what a model's name means as it is until this transaction ends; its own units are locked first."""
    lifecycle.lock_all(session, model.id)
    lock_rows(session, Model, and_(Model.owner == model.owner, Model.name == model.name))


def answers(model: Model) -> bool:
    """Tell whether a model has succeeded and isn't withheld, so that its name may mean it for good."""
    return not model.withheld and (model.state == SUCCEEDED or model.verdict is not None)


def answering(session: Session, owner: str, name: str, *, withheld: bool = False) -> list[str]:
    """Return the ids of the model that a name means and of the one before it, as far as there are any.

    `withheld`: of the two newest that have succeeded and that it doesn't mean.
    """
    which = Model.withheld.is_(True) if withheld else Model.withheld.is_not(True)
    named = _succeeded(owner, name).where(which)
    return [model.id for model in session.scalars(page(named, Model, 2, None))]


def promote(session: Session, model: Model) -> None:
    """Let a succeeded model's name mean it: newer ones of that name are withheld."""
    assert model.name is not None
    named = _succeeded(model.owner, model.name).subquery()
    lock_rows(session, Model, Model.id.in_(select(named.c.id)))
    newer = tuple_(Model.created_at, Model.id) > tuple_(literal(model.created_at), literal(model.id))
    rows_changed(
        session,
        update(Model).where(Model.id.in_(select(named.c.id)), newer).values(withheld=True),
    )
    rows_changed(session, update(Model).where(Model.id == model.id).values(withheld=False))
    events.append(session, model.id, "promoted", {"by": "request"})
    session.expire_all()  # the updates went past the session's copies


def roll_back(session: Session, owner: str, name: str) -> tuple[Model, Model] | None:
    """Withhold the model that a name means, which then means the one before; return both, or None.

    None, and nothing changes, where there is no other.
    """
    named = _succeeded(owner, name).where(Model.withheld.is_not(True))
    lock_rows(session, Model, Model.id.in_(select(named.subquery().c.id)))
    newest = session.scalars(page(named, Model, 2, None), execution_options={"populate_existing": True}).all()
    if len(newest) < 2:
        return None
    was, now = newest
    was.withheld = True
    session.flush()
    events.append(session, was.id, "rolled_back", {"to": now.id})
    return was, now


def _succeeded(owner: str, name: str) -> Select[Model]:
    return select(Model).where(Model.owner == owner, Model.name == name, _HAS_SUCCEEDED)


def list_page(
    session: Session, owner: str, limit: int, after: After | None = None, *, name: str | None = None
) -> list[Model]:
    """Return a page of the owner's models but those of sets, newest first.

    `after` is (created_at, id) of the last model of the previous page.
    """
    mine = select(Model).where(Model.owner == owner, Model.set_id.is_(None))
    if name is not None:
        mine = mine.where(Model.name == name)
    return list(session.scalars(page(mine, Model, limit, after)))


class ModelOrigin(NamedTuple):
    """Dataset of a model (None for an imported one), and a model's number among equal ones without a name.

    Equal means of the same target and dataset; the oldest is number 1, and models with a name have none.
    """

    dataset_name: str | None
    num_rows: int | None
    number: int | None


def origins(session: Session, owner: str, model_ids: Sequence[str]) -> dict[str, ModelOrigin]:
    """Return the origin of each of the owner's models."""
    number = func.row_number().over(
        partition_by=(Model.dataset_id, Model.target), order_by=(Model.created_at, Model.id)
    )
    alone = (Model.owner == owner, Model.set_id.is_(None), Model.name.is_(None))
    numbered = select(Model.id, number.label("number")).where(*alone).subquery()  # an index has all of it
    # Filtered by itself: as a part of the join, SQLite scans it for each of the models.
    asked = select(numbered.c.id, numbered.c.number).where(numbered.c.id.in_(model_ids))
    numbers = {model_id: int(nth) for model_id, nth in session.execute(asked)}
    query = (
        select(Model.id, Dataset.name, Dataset.num_rows)
        .outerjoin(Dataset, Dataset.id == Model.dataset_id)
        .where(Model.id.in_(model_ids))
    )
    found = session.execute(query)
    return {model_id: ModelOrigin(name, rows, numbers.get(model_id)) for model_id, name, rows in found}


def chains(session: Session, model_ids: Sequence[str]) -> dict[str, list[Unit]]:
    """Return the chain units of each model, ordered by chain number."""
    query = select(Unit).where(Unit.model_id.in_(model_ids), Unit.kind == CHAIN).order_by(Unit.ordinal)
    by_model: dict[str, list[Unit]] = {model_id: [] for model_id in model_ids}
    for unit in session.scalars(query):
        by_model[unit.model_id].append(unit)
    return by_model


def steps(session: Session, models: Iterable[Any]) -> dict[str, str]:
    """Return by model what the running finish of those of the `models` that run does at present."""
    running = [model.id for model in models if model.state == RUNNING]
    of_finish = Unit.model_id.in_(running), Unit.kind == FINISH, Unit.state == RUNNING
    query = select(Unit.model_id, Unit.phase).where(*of_finish, Unit.phase.is_not(None))
    return {str(model): str(phase) for model, phase in session.execute(query)} if running else {}


def common_draws(session: Session, model_id: str) -> int | None:
    """Return the number of kept draws that every chain of a model has; None when it has no chains."""
    return session.scalar(
        select(func.min(Unit.num_draws)).where(Unit.model_id == model_id, Unit.kind == CHAIN)
    )


def header(session: Session, model_id: str) -> bytes | None:
    """Return the model header (everything prediction needs except the draws); None before a chain has it."""
    return session.scalar(select(Model.header).where(Model.id == model_id))


def calibrate(session: Session, model_id: str, draws: int, header: bytes, summary: Json) -> bool:
    """Store a model's calibration; False where it no longer has that many draws, or was deleted."""
    lock = {
        "key_share": True
    }  # as `watches.lock`: a stronger one would wait for rows that refer to the model
    model = session.get(Model, model_id, with_for_update=lock, populate_existing=True)
    if model is None or model.state != SUCCEEDED or int(model.settings.get("num_draws", draws)) != draws:
        return False
    model.header, model.calibration = header, summary
    session.flush()
    return True


def ended_chains(session: Session, model_id: str) -> list[tuple[int, Json, bytes | None]]:
    """Return kept draws, statistics and checkpoint of each chain, in order."""
    query = select(Unit.num_draws, Unit.statistics, Unit.checkpoint)
    mine = query.where(Unit.model_id == model_id, Unit.kind == CHAIN).order_by(Unit.ordinal)
    return [(draws, statistics or {}, checkpoint) for draws, statistics, checkpoint in session.execute(mine)]


def forget_checkpoints(session: Session, model_id: str) -> None:
    """Remove the checkpoints of a fit that ends and will not be continued."""
    lifecycle.lock_all(session, model_id)
    rows_changed(session, update(Unit).where(Unit.model_id == model_id).values(checkpoint=None))


def rewrite(
    session: Session,
    model_id: str,
    was: str,
    header: bytes,
    diagnostics: Json,
    calibration: Json | None = None,
) -> bool:
    """Store the header of a forecaster with a newer history, or a calibration.

    False where it isn't the one of checksum `was`. The new one's checksum is in its diagnostics.
    """
    model = session.get(Model, model_id, with_for_update={"key_share": True}, populate_existing=True)
    if model is None or model.state != SUCCEEDED or (model.diagnostics or {}).get("checksum") != was:
        return False
    model.header, model.diagnostics = header, {**(model.diagnostics or {}), **diagnostics}
    if calibration is not None:
        model.calibration = calibration
    session.flush()
    return True


def held_out(session: Session, model_id: str) -> Json | None:
    """Return the stored predictions of the held-out rows; None without a holdout."""
    return session.scalar(select(Model.held_out).where(Model.id == model_id))


def of_outcome(model: Model, held_out: Json | None, outcome: str | None) -> Json | None:
    """Return what is stored of held-out rows about an outcome (None: the first); None where nothing is."""
    if outcome in (None, model.target):
        return held_out
    stored: Json | None = ((held_out or {}).get("outcomes") or {}).get(outcome)
    return stored


def cancel(session: Session, owner: str, model_id: str) -> Model | None:
    """Request cancellation of an open model; return None when the owner has none with this id.

    Queued chains end at once, running ones at their next slice; kept draws stay. A model that has ended stays
    unchanged.
    """
    if get(session, owner, model_id) is None:
        return None
    lifecycle.lock_all(session, model_id)
    cancel_locked(session, model_id)
    session.expire_all()  # the updates went past the session's copies
    return get(session, owner, model_id)


def cancel_locked(session: Session, model_id: str) -> None:
    """Request cancellation of a model if it is open, as `cancel` does; the caller has locked its units."""
    cancellation = (
        update(Model).where(Model.id == model_id, Model.state.in_(OPEN_STATES)).values(cancel_requested=True)
    )
    if rows_changed(session, cancellation):
        events.append(session, model_id, "cancel_requested")
        lifecycle.cancel_queued(session, model_id)
        lifecycle.settle(session, model_id)


def delete(session: Session, owner: str, model_id: str) -> bool:
    """Delete a model and its predictions; return False when the owner has none with this id.

    Workers on its units lose their leases.
    """
    if get(session, owner, model_id) is None:
        return False
    lifecycle.lock_all(session, model_id)
    deleted = deletion.mark_deleted(session, model_id)
    session.expire_all()  # the updates went past the session's copies
    return deleted


def hold(session: Session, owner: str, model_id: str) -> None:
    """Keep a model from being deleted until this transaction ends.

    Raises
    ------
    ModelGoneError
        The owner has no model with this id, or no longer.
    """
    query = select(Model.id).where(Model.id == model_id, Model.owner == owner).with_for_update(read=True)
    if session.scalar(query) is None:
        raise ModelGoneError(f"Model {model_id} was deleted.")
