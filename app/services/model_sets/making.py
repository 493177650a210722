"""Making of the models of accepted sets, some after the other, while few of a set are open."""

import logging
import math
import time
from itertools import islice

from sqlalchemy import Engine

from app.services import health
from app.services.access import quotas
from app.services.errors import QuotaError, ServiceError
from app.services.fair_line import OwnerTurns
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
# Of a piece, after which it is another owner's turn; so many rows are in memory at once.
MOST_MODELS, MOST_ROWS = 20, 1 << 20
KNOWN_GROUPS = 8  # sets whose groups are kept for their next piece
MISTAKE: Json = {
    "type": "internal-error",
    "detail": "The fit could not be made by a mistake of the service, which its log has.",
}


def run_due(engine: Engine, settings: Settings, seconds: float = math.inf) -> int:
    """Make models of the sets that are due, in turns of owners; return their number.

    It ends when as many as are allowed are open, or after as many seconds.
    """
    turns, until, made = OwnerTurns(), time.monotonic() + seconds, 0
    known: dict[str, RowsByGroup] = {}
    over: set[str] = set()  # others make their models
    while time.monotonic() < until:
        with session_scope(engine, read_only=True) as session:
            owners = turns.order(store.owners_due(session, over))
            of = None if not owners else store.first_due(session, owners[0], over)
            session.expunge_all()
        if of is None:
            break
        limits = health.limits(engine, settings)
        with turns.turn(of.owner), acting(Actor(MAKER, owner=of.owner, limits=limits)):
            count = _make_some(engine, of, health.slots_now(engine, settings), known)
        made += count
        if not count:
            over.add(of.id)
    return made


def _make_some(engine: Engine, of: ModelSet, slots: int, known: dict[str, RowsByGroup]) -> int:
    """Make the next models of a set, and return their number."""
    with session_scope(engine, read_only=True) as session:
        dataset = session.get(Dataset, of.dataset_id)
        if dataset is None:
            return 0  # deleted with its set
        if of.id not in known:
            if len(known) == KNOWN_GROUPS:
                known.clear()
            known[of.id] = find_groups(session, dataset, of.by)
        last = of.made + min(store.AHEAD - store.count_open(session, of.id), MOST_MODELS)
        some = _few(known[of.id], of.made, last)
        parts = list(parts_of(session, dataset, of.by, some)) if some else []
    number, refusal = of.made, _refusal(engine, of.owner)
    for part in parts:
        if not _make_one(engine, of, part, number, slots, refusal):
            break  # another process does it, or the set was deleted
        number += 1
    return number - of.made


def _few(groups: RowsByGroup, first: int, last: int) -> RowsByGroup:
    """Return the groups from `first` to before `last`, as few as fit into memory with their rows."""
    few, size = {}, 0
    for group, rows in islice(groups.items(), first, last):
        few[group] = rows
        size += len(rows)
        if size >= MOST_ROWS:
            break
    return few


def _refusal(engine: Engine, owner: str) -> Json | None:
    """Return why no more of an owner is stored: its sets took more than was promised to them."""
    try:
        with session_scope(engine) as session:
            quotas.check_stored(session, owner, 0)
    except QuotaError as refusal:
        return {"type": refusal.slug, "detail": refusal.detail}
    return None


def _make_one(
    engine: Engine, of: ModelSet, part: GroupRows, number: int, slots: int, error: Json | None
) -> bool:
    planned = None
    try:
        if error is None:
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
