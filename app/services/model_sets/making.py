"""Making of the models of accepted sets, one after the other, while few of a set are open."""

import logging
from collections.abc import Iterator
from itertools import islice

from sqlalchemy import Engine

from app.services import health
from app.services.errors import ServiceError
from app.services.fits import creation
from app.services.fits.requests import FitRequest
from app.services.model_sets.parts import GroupRows, RowsByGroup, find_groups, parts_of
from app.services.request_context import Actor, acting
from app.settings import Settings
from app.store import datasets as dataset_store
from app.store.engine import session_scope
from app.store.sets import model_sets as store
from app.store.tables import Dataset, Json, ModelSet

log = logging.getLogger(__name__)
MAKER = "model set"  # the actor in the audit log
MOST_ROWS = 1 << 20  # rows of groups in memory at once
MISTAKE: Json = {
    "type": "internal-error",
    "detail": "The fit could not be made by a mistake of the service, which its log has.",
}


def run_due(engine: Engine, settings: Settings) -> int:
    """Make models of the sets that are due, until as many as are allowed are open; return their number."""
    with session_scope(engine, read_only=True) as session:
        due = store.due(session)
        session.expunge_all()
    made = 0
    for each in due:
        with acting(Actor(MAKER, owner=each.owner, limits=health.limits(engine, settings))):
            made += _make(engine, each, health.slots_now(engine, settings))
    return made


def _make(engine: Engine, of: ModelSet, slots: int) -> int:
    with session_scope(engine, read_only=True) as session:
        dataset = session.get(Dataset, of.dataset_id)
        if dataset is None:
            return 0  # deleted with its set
        groups = find_groups(session, dataset, of.by)
        last = of.made + store.AHEAD - store.count_open(session, of.id)
    number = of.made
    for some in _batches(groups, of.made, last):
        with session_scope(engine, read_only=True) as session:
            parts = list(parts_of(session, dataset, of.by, some))
        for part in parts:
            if not _make_one(engine, of, part, number, slots):
                return number - of.made  # another process does it, or the set was deleted
            number += 1
    return number - of.made


def _batches(groups: RowsByGroup, first: int, last: int) -> Iterator[RowsByGroup]:
    """Yield the groups from `first` to before `last`, few enough that their rows fit into memory."""
    batch, size = {}, 0
    for group, rows in islice(groups.items(), first, last):
        batch[group] = rows
        size += len(rows)
        if size >= MOST_ROWS:
            yield batch
            batch, size = {}, 0
    if batch:
        yield batch


def _make_one(engine: Engine, of: ModelSet, part: GroupRows, number: int, slots: int) -> bool:
    planned, error = None, None
    try:
        planned = creation.plan_rows(part.dataset, part.table, FitRequest(**of.request), slots=slots)
    except ServiceError as refusal:
        error = {"type": refusal.slug, "detail": refusal.detail}
    except Exception:
        log.exception("The model of a group could not be made")
        error = MISTAKE
    encoded = dataset_store.encode(part.table)
    with session_scope(engine) as session:
        if not store.take(session, of.id, number):
            return False
        if planned is None:
            assert error is not None
            store.add_failed(session, of, part.group, error)
            return True
        stored = store.save_part(session, part.dataset, encoded, owner=of.owner, set_id=of.id)
        plan = planned.of_dataset(stored)
        creation.create(session, of.owner, plan, set_id=of.id, set_group=part.group)
    return True
