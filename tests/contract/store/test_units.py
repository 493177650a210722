"""Units of work: one holder, no writes by a former one, and every end settles the model."""

import pytest
from sqlalchemy import func, select, update

from app.store import draws, models
from app.store.engine import session_scope
from app.store.errors import CorruptBlockError, LeaseLostError
from app.store.queue import claims, lifecycle, units, workers
from app.store.queue.units import Directive
from app.store.tables import DrawBlock, Unit, Worker
from tests.support.store_factories import OWNER, a_slice, claim, create_model, expire, remove_all, state_of

BLOCK = draws.StoredBlock(seq=0, first_draw=0, num_draws=5, data=b"packed draws")


def test_chains_are_claimed_once_each_in_order(database):
    """Chains are claimed once each, lowest number first, and the model becomes running."""
    model = create_model(database.engine)
    claims = [claim(database.engine) for _ in range(4)]

    assert [each.ordinal for each in claims] == [0, 1, 2, 3]
    assert {model.id} == {each.model_id for each in claims}
    assert claim(database.engine) is None
    assert state_of(database.engine, model.id) == ("running", ["running"] * 4)


def test_counting_claimable_units(database):
    """The dispatcher's count equals the number of claimable units, up to its limit."""
    create_model(database.engine)
    with session_scope(database.engine, read_only=True) as session:
        assert claims.count_claimable(session, 10) == 4
        assert claims.count_claimable(session, 2) == 2
    claim(database.engine)
    with session_scope(database.engine, read_only=True) as session:
        assert claims.count_claimable(session, 10) == 3


def test_a_slice_keeps_what_it_did(database):
    """One commit stores progress, draws and checkpoint."""
    model = create_model(database.engine)
    claimed = claim(database.engine)
    with session_scope(database.engine) as session:
        assert units.commit_slice(session, claimed, a_slice(blocks=[BLOCK])) is Directive.CONTINUE
    with session_scope(database.engine, read_only=True) as session:
        chain = models.chains(session, [model.id])[model.id][0]
        assert (
            chain.iteration,
            chain.iterations,
            chain.num_draws,
            chain.phase,
            chain.rate,
        ) == (50, 100, 5, "sampling", 10.0)
        assert units.checkpoint(session, claimed) == b"checkpoint"
        assert draws.read(session, model.id) == [[b"packed draws"]]


def test_the_first_header_stays(database):
    """A later chain awaits the header of one that is worked on, and is told it; its own replaces none."""
    create_model(database.engine)
    first, second = claim(database.engine, "w1"), claim(database.engine, "w2")

    def awaited():
        with session_scope(database.engine, read_only=True) as session:
            return [units.awaits_header(session, each) for each in (first, second)]

    assert awaited() == [False, True]
    expire(database.engine, first)  # its worker is lost: nobody waits for it
    assert awaited() == [False, False]
    with session_scope(database.engine) as session:
        units.heartbeat(session, first)
    assert awaited() == [False, True]
    for each, header in ((first, b"first"), (second, b"second")):
        with session_scope(database.engine) as session:
            assert units.keep_header(session, each, header, []) == b"first"
    assert awaited() == [False, False]


def test_a_grown_block_replaces_its_shorter_self(database):
    """The last block grows from slice to slice; earlier blocks stay."""
    model = create_model(database.engine)
    claimed = claim(database.engine)
    grown = draws.StoredBlock(0, 0, 8, b"eight draws")
    following = draws.StoredBlock(1, 8, 2, b"two more")
    for blocks in ([BLOCK], [grown, following]):
        with session_scope(database.engine) as session:
            units.commit_slice(session, claimed, a_slice(blocks=blocks))
    with session_scope(database.engine, read_only=True) as session:
        assert draws.read(session, model.id) == [[b"eight draws", b"two more"]]
        assert draws.read(session, model.id, num_draws=8) == [[b"eight draws"]]
        assert following == draws.last_block(session, model.id, 0)
        assert draws.num_bytes(session, model.id) == 19


def test_an_expired_lease_goes_to_another_worker(database):
    """An expired unit is claimed again with a higher token and continues at its last slice."""
    create_model(database.engine, num_chains=1)
    dead = claim(database.engine, "dead")
    with session_scope(database.engine) as session:
        units.commit_slice(session, dead, a_slice())
    assert claim(database.engine, "early") is None
    expire(database.engine, dead)
    heir = claim(database.engine, "heir")

    assert (dead.unit_id, dead.token + 1, 5) == (heir.unit_id, heir.token, heir.num_draws)


@pytest.mark.parametrize("write", ["heartbeat", "slice", "finish", "header", "release", "stop", "fail"])
@pytest.mark.sampled(quick=7)
def test_a_former_holder_writes_nothing(database, write):
    """Every write of a worker whose unit was taken over fails and leaves no trace."""
    model = create_model(database.engine, num_chains=1)
    dead = claim(database.engine, "dead")
    expire(database.engine, dead)
    claim(database.engine, "heir")
    attempts = {
        "heartbeat": lambda session: units.heartbeat(session, dead),
        "slice": lambda session: units.commit_slice(session, dead, a_slice(blocks=[BLOCK])),
        "finish": lambda session: units.finish_chain(session, dead, a_slice(blocks=[BLOCK])),
        "header": lambda session: units.keep_header(session, dead, b"header", []),
        "release": lambda session: units.release(session, dead),
        "stop": lambda session: units.stop(session, dead),
        "fail": lambda session: units.fail(session, dead, {"type": "x", "detail": "x"}),
    }
    with pytest.raises(LeaseLostError), session_scope(database.engine) as session:
        attempts[write](session)

    assert state_of(database.engine, model.id) == ("running", ["running"])
    with session_scope(database.engine, read_only=True) as session:
        assert session.scalar(select(func.count()).select_from(DrawBlock)) == 0
        assert models.header(session, model.id) is None
        assert session.scalar(select(Unit.worker_id)) == "heir"


def test_the_last_chain_brings_the_finish(database):
    """The finish unit appears with the last chain's end, precedes waiting chains, and ends the model."""
    model = create_model(database.engine, num_chains=2)
    create_model(database.engine, num_chains=2, name="waiting")
    for remaining in (1, 0):
        claimed = claim(database.engine)
        with session_scope(database.engine) as session:
            units.finish_chain(session, claimed, a_slice(iteration=100))
        with session_scope(database.engine, read_only=True) as session:
            finishes = session.scalar(select(func.count()).select_from(Unit).where(Unit.kind == "finish"))
        assert (remaining == 0) == (finishes == 1)
    finish = claim(database.engine)
    assert ("finish", model.id) == (finish.kind, finish.model_id)
    with session_scope(database.engine) as session:
        units.finish_model(session, finish, verdict="converged", diagnostics={"a": 1}, holdout=None)

    assert state_of(database.engine, model.id) == ("succeeded", ["done", "done"])
    with session_scope(database.engine, read_only=True) as session:
        ended = models.meant(session, OWNER, "m")
        assert (ended.verdict, ended.diagnostics) == ("converged", {"a": 1})
        assert ended.started_at <= ended.finished_at


def test_a_chain_that_compiles_again_keeps_its_progress(database):
    """It goes on from its checkpoint, on another machine, whose kernels are no iterations."""
    create_model(database.engine, num_chains=1)
    claimed = claim(database.engine)
    shown = []
    for tell in (units.Progress("compiling", 1, 9), a_slice(iteration=50), units.Progress("compiling", 2, 9)):
        with session_scope(database.engine) as session:
            (units.commit_slice if isinstance(tell, units.Slice) else units.heartbeat)(session, claimed, tell)
        with session_scope(database.engine, read_only=True) as session:
            (unit,) = models.chains(session, [claimed.model_id])[claimed.model_id]
            shown.append((unit.phase, unit.iteration, unit.iterations))
    assert shown == [("compiling", 1, 9), ("sampling", 50, 100), ("sampling", 50, 100)]


def test_a_draining_worker_releases_its_unit_without_an_attempt(database):
    """A draining worker releases its unit after the slice, at no cost in attempts, and claims no more."""
    create_model(database.engine, num_chains=1)
    with session_scope(database.engine) as session:
        workers.register(session, Worker(id="w1", host="h", pid=1, slots=2, beat_at=0.0, phase="ready"))
    claimed = claim(database.engine)
    with session_scope(database.engine) as session:
        workers.drain(session, "w1")
    with session_scope(database.engine) as session:
        assert units.heartbeat(session, claimed) is Directive.DRAIN
    with session_scope(database.engine) as session:
        units.release(session, claimed)
    assert claim(database.engine, "w1") is None
    with session_scope(database.engine, read_only=True) as session:
        assert session.scalar(select(Unit.stalled_attempts)) == 0

    assert claim(database.engine, "w2").token == claimed.token + 1


def test_cancel_ends_queued_chains_at_once_and_running_ones_at_their_slice(database):
    """A running chain sees the cancel at its next slice and keeps its draws; then the model ends."""
    model = create_model(database.engine, num_chains=3)
    claimed = claim(database.engine)
    with session_scope(database.engine) as session:
        assert models.cancel(session, OWNER, model.id).cancel_requested
    assert state_of(database.engine, model.id) == ("running", ["running", "cancelled", "cancelled"])
    with session_scope(database.engine) as session:
        assert units.commit_slice(session, claimed, a_slice(blocks=[BLOCK])) is Directive.CANCEL
    with session_scope(database.engine) as session:
        units.stop(session, claimed)

    assert state_of(database.engine, model.id) == ("cancelled", ["cancelled"] * 3)
    with session_scope(database.engine, read_only=True) as session:
        assert draws.read(session, model.id) == [[b"packed draws"]]


def test_cancel_of_a_waiting_model_ends_it(database):
    """A waiting model is cancelled at once; cancelling an ended one changes nothing."""
    model = create_model(database.engine)
    for _ in range(2):
        with session_scope(database.engine) as session:
            ended = models.cancel(session, OWNER, model.id)
            assert (ended.state, ended.finished_at is not None) == ("cancelled", True)
    with session_scope(database.engine) as session:
        assert models.cancel(session, "somebody else", model.id) is None

    assert claim(database.engine) is None


def test_cancel_reaches_a_unit_given_back(database):
    """A unit released after its model's cancel ends at once, not at a claim that will never come."""
    model = create_model(database.engine, num_chains=1)
    claimed = claim(database.engine)
    with session_scope(database.engine) as session:
        models.cancel(session, OWNER, model.id)
    with session_scope(database.engine) as session:
        units.release(session, claimed)

    assert state_of(database.engine, model.id) == ("cancelled", ["cancelled"])


def test_the_sweep_ends_cancelled_units_of_lost_workers(database):
    """A cancelled model ends even if its worker is lost."""
    model = create_model(database.engine, num_chains=1)
    claimed = claim(database.engine)
    with session_scope(database.engine) as session:
        models.cancel(session, OWNER, model.id)
    assert _sweep(database.engine) == 0
    expire(database.engine, claimed)

    assert _sweep(database.engine) == 1
    assert state_of(database.engine, model.id) == ("cancelled", ["cancelled"])


def test_a_poison_unit_stops_after_three_attempts(database):
    """A unit that loses three workers without progress fails its model with the reason."""
    model = create_model(database.engine, num_chains=2)
    for attempt in range(lifecycle.MAX_STALLED):
        claimed = claim(database.engine, f"w{attempt}")
        assert claimed.ordinal == 0
        assert _sweep(database.engine) == 0
        expire(database.engine, claimed)

    assert claim(database.engine).ordinal == 1  # the unit isn't handed out a fourth time
    assert _sweep(database.engine) == 1
    assert state_of(database.engine, model.id) == ("failed", ["failed", "running"])
    with session_scope(database.engine, read_only=True) as session:
        assert models.get(session, OWNER, model.id).error["type"] == "worker_lost"


def test_progress_clears_the_count_of_attempts(database):
    """Progress resets the count of attempts, so that a long fit on an unreliable machine ends."""
    create_model(database.engine, num_chains=1)
    for _ in range(2 * lifecycle.MAX_STALLED):
        claimed = claim(database.engine)
        with session_scope(database.engine) as session:
            units.commit_slice(session, claimed, a_slice())
        expire(database.engine, claimed)

    assert _sweep(database.engine) == 0
    assert claim(database.engine) is not None


def test_a_failing_chain_fails_its_model(database):
    """A failing chain stores a sentence, ends queued chains, and running ones at their slice."""
    model = create_model(database.engine, num_chains=3)
    failing, running = claim(database.engine), claim(database.engine)
    with session_scope(database.engine) as session:
        units.fail(session, failing, {"type": "data", "detail": "The target is constant."})

    assert state_of(database.engine, model.id) == ("failed", ["failed", "running", "cancelled"])
    with session_scope(database.engine) as session:
        assert units.heartbeat(session, running) is Directive.CANCEL
        assert models.get(session, OWNER, model.id).error["detail"] == "The target is constant."


def test_a_deleted_model_is_gone_and_its_worker_finds_out(database):
    """A deleted model leaves nothing, and a later slice writes nothing."""
    model = create_model(database.engine)
    claimed = claim(database.engine)
    with session_scope(database.engine) as session:
        units.commit_slice(session, claimed, a_slice(blocks=[BLOCK]))
    with session_scope(database.engine) as session:
        assert not models.delete(session, "somebody else", model.id)
        assert models.delete(session, OWNER, model.id)
    with pytest.raises(LeaseLostError), session_scope(database.engine) as session:
        units.commit_slice(session, claimed, a_slice(blocks=[BLOCK]))
    remove_all(database.engine)
    with session_scope(database.engine, read_only=True) as session:
        assert models.get(session, OWNER, model.id) is None
        assert session.scalar(select(func.count()).select_from(DrawBlock)) == 0
        assert session.scalar(select(func.count()).select_from(Unit)) == 0


def test_damaged_draws_are_noticed(database):
    """A flipped byte in a block of draws is an error."""
    model = create_model(database.engine)
    claimed = claim(database.engine)
    with session_scope(database.engine) as session:
        units.commit_slice(session, claimed, a_slice(blocks=[BLOCK]))
        session.execute(update(DrawBlock).values(data=b"packed drawS"))

    with session_scope(database.engine, read_only=True) as session:
        for read in (lambda: draws.read(session, model.id), lambda: draws.last_block(session, model.id, 0)):
            with pytest.raises(CorruptBlockError, match="damaged"):
                read()


def _sweep(engine):
    with session_scope(engine) as session:
        return lifecycle.sweep(session)
