"""Studies of models in the queue: their units, their end, and the model's independence of them."""

import pytest
from sqlalchemy.exc import IntegrityError

from app.store import models, studies
from app.store.access import quotas
from app.store.engine import session_scope
from app.store.errors import LeaseLostError, ModelGoneError
from app.store.queue import claims, jobs, lifecycle, units
from app.store.queue.lifecycle import MAX_STALLED
from app.store.queue.units import Directive, Progress
from app.store.tables import FINISH, STUDY, Unit
from tests.support.store_factories import OWNER, a_slice, claim, create_model, expire, remove_all, state_of


def create(engine, fits=(2, 3), model_id=None):
    """Return a new study, and the id of its model, whose only chain is in work."""
    if model_id is None:
        model_id = create_model(engine, num_chains=1).id
        claim(engine)
    with session_scope(engine) as session:
        study = studies.create(
            session, owner=OWNER, model_id=model_id, kind="selection", request={"seed": 1}, fits=fits
        )
    return study.id, model_id


def stored(engine, study_id):
    with session_scope(engine, read_only=True) as session:
        return studies.get(session, OWNER, study_id), studies.fits_done(session, study_id)


def sweep(engine):
    with session_scope(engine) as session:
        return lifecycle.sweep(session)


def test_a_study_succeeds_with_its_last_unit(database):
    """Units are claimed in order, show their progress, and leave their statistics in order."""
    study_id, model_id = create(database.engine)
    first, second = claim(database.engine), claim(database.engine)
    assert [(each.kind, each.study_id, each.ordinal) for each in (first, second)] == [
        (STUDY, study_id, 0),
        (STUDY, study_id, 1),
    ]
    assert stored(database.engine, study_id)[0].started_at is not None
    with session_scope(database.engine) as session:
        assert units.num_iterations(session, second) == 3
        assert units.heartbeat(session, first, Progress("compiling", 7, 9)) is Directive.CONTINUE
        assert units.heartbeat(session, second, Progress("studying", 2, 3)) is Directive.CONTINUE
    study, done = stored(database.engine, study_id)
    assert (study.state, study.num_fits, done) == ("running", 5, 2)
    for each, fits in ((second, 3), (first, 2)):
        with session_scope(database.engine) as session:
            units.finish_part(session, each, fits, {"of": each.ordinal})
    study, done = stored(database.engine, study_id)
    assert (study.state, study.error, done) == ("succeeded", None, 5)
    assert study.finished_at >= study.started_at
    with session_scope(database.engine, read_only=True) as session:
        assert studies.statistics(session, study_id) == [{"of": 0}, {"of": 1}]
    assert state_of(database.engine, model_id) == ("running", ["running"])


def test_the_fit_goes_on_beside_a_study(database):
    """A model's finish is queued while a study of it is open; its two kinds of units don't mix."""
    study_id, model_id = create(database.engine)
    with session_scope(database.engine) as session:
        session.add(lifecycle.new_unit(OWNER, model_id, STUDY, 1, study_id=study_id))
        with pytest.raises(IntegrityError):
            session.flush()
        session.rollback()
    claim(database.engine)  # of the study
    with session_scope(database.engine) as session:
        chain = models.chains(session, [model_id])[model_id][0]
        mine = claims.Claim(chain.id, chain.token, "chain", model_id, 0, "w1", 60.0, 0, chain.created_at)
        units.finish_chain(session, mine, a_slice())
    assert claim(database.engine).kind == FINISH
    assert state_of(database.engine, model_id)[0] == "running"


def test_cancelled(database):
    """A queued study ends at once, a running one when its workers have noticed; the model doesn't."""
    engine = database.engine
    study_id, model_id = create(engine)
    with session_scope(engine) as session:
        assert studies.cancel(session, "eve", study_id) is None
        assert jobs.count_open(session, OWNER) == 1
        assert studies.cancel(session, OWNER, study_id).state == "cancelled"
        assert jobs.count_open(session, OWNER) == 0
    assert claim(engine) is None

    study_id, _ = create(engine, model_id=model_id)
    claimed = claim(engine)
    with session_scope(engine) as session:
        assert studies.cancel(session, OWNER, study_id).state == "running"
    with session_scope(engine) as session:
        assert units.heartbeat(session, claimed) is Directive.CANCEL
        units.stop(session, claimed)
    assert stored(engine, study_id)[0].state == "cancelled"
    assert state_of(engine, model_id) == ("running", ["running"])


def test_lost_workers(database):
    """Another worker takes over a lost unit; one that is lost too often fails the study, not the model."""
    engine = database.engine
    study_id, model_id = create(engine, fits=[1, 1])
    for attempt in range(MAX_STALLED):
        claimed = claim(engine)
        assert (claimed.ordinal, claimed.recovered) == (0, attempt > 0)
        expire(engine, claimed)
        assert sweep(engine) == (attempt == MAX_STALLED - 1)
    study, _ = stored(engine, study_id)
    assert (study.state, study.error["type"]) == ("failed", "worker_lost")
    assert claim(engine) is None
    assert state_of(engine, model_id) == ("running", ["running"])


def test_a_failed_unit_fails_its_study(database):
    """An error ends the study, cancels its queued units and leaves the model."""
    engine = database.engine
    study_id, model_id = create(engine)
    with session_scope(engine) as session:
        units.fail(session, claims.claim(session, "w1", 60.0), {"type": "data", "detail": "No."})
    study, _ = stored(engine, study_id)
    assert (study.state, study.error["detail"]) == ("failed", "No.")
    assert claim(engine) is None
    assert state_of(engine, model_id) == ("running", ["running"])


def test_a_drained_unit_is_queued_again(database):
    """A released unit keeps its study open; after a cancel it ends."""
    engine = database.engine
    study_id, _ = create(engine, fits=[1])
    with session_scope(engine) as session:
        units.release(session, claims.claim(session, "w1", 60.0))
    claimed = claim(engine)
    assert claimed.study_id == study_id
    with session_scope(engine) as session:
        studies.cancel(session, OWNER, study_id)
        units.release(session, claimed)
    assert stored(engine, study_id)[0].state == "cancelled"


def test_deleted(database):
    """A deleted study's workers lose their leases; its rows are removed, the model's stay."""
    engine = database.engine
    study_id, model_id = create(engine)
    claimed = claim(engine)
    with session_scope(engine) as session:
        assert not studies.delete(session, "eve", study_id)
        assert studies.delete(session, OWNER, study_id)
    with session_scope(engine) as session:
        assert not studies.delete(session, OWNER, study_id)
        assert studies.list_page(session, OWNER, 10) == []
    with pytest.raises(LeaseLostError), session_scope(engine) as session:
        units.finish_part(session, claimed, 2, {})
    assert remove_all(engine) > 0
    with session_scope(engine, read_only=True) as session:
        assert session.query(Unit).where(Unit.study_id.is_not(None)).count() == 0
        assert quotas.stored_bytes(session, OWNER) > 0
    assert state_of(engine, model_id) == ("running", ["running"])
    with session_scope(engine) as session:
        models.delete(session, OWNER, model_id)
    with pytest.raises(ModelGoneError):
        create(engine, model_id=model_id)
