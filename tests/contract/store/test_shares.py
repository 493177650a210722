"""Fair shares: the order of claims, and when a chain yields."""

import pytest
from sqlalchemy import insert, text, update

from app.store import predictions, studies
from app.store.engine import session_scope
from app.store.queue import claims, lifecycle, units
from app.store.queue.units import Directive
from app.store.tables import CHAIN, FINISH, LONG_KINDS, PREDICTION, STUDY, TOTALS, Dataset, Unit
from tests.support.store_factories import a_slice, create_model
from worker.places import WorkPlaces

ANN, BOB, EVE = "ann", "bob", "eve"


def claim(engine, **how):
    with session_scope(engine) as session:
        return claims.claim(session, "w", 60.0, **how)


def commit(engine, claimed, *, gives_way=True):
    with session_scope(engine) as session:
        return units.commit_slice(session, claimed, a_slice(), gives_way=gives_way)


def release(engine, claimed):
    with session_scope(engine) as session:
        units.release(session, claimed)


def models_of(engine, *owners, num_chains=4):
    """Create a model for each owner in this order; return {owner: model id}."""
    return {owner: create_model(engine, num_chains=num_chains, owner=owner).id for owner in owners}


def test_the_owner_with_the_fewest_running_units_is_served(database):
    """Claims alternate between owners whatever the length of their queues; per owner the oldest is first."""
    models = models_of(database.engine, ANN, ANN, BOB)
    owners = {models[ANN]: ANN, models[BOB]: BOB}
    claims = [claim(database.engine) for _ in range(8)]

    assert [owners.get(each.model_id, ANN) for each in claims] == [ANN, BOB] * 4
    assert [each.ordinal for each in claims] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len({each.model_id for each in claims}) == 2


def test_a_lone_owner_has_everything(database):
    """With one owner finishes precede predictions and chains, oldest first, and no chain yields."""
    first, second = (create_model(database.engine, num_chains=2, owner=ANN) for _ in range(2))
    claims = [claim(database.engine) for _ in range(3)]
    assert [each.model_id for each in claims] == [first.id, first.id, second.id]
    assert {commit(database.engine, each) for each in claims} == {Directive.CONTINUE}


def test_a_chain_yields_to_an_owner_who_has_nothing(database):
    """On one slot a chain yields when its turn is over, the other owner is served, then the first again."""
    models = models_of(database.engine, ANN, num_chains=3)
    of_ann = claim(database.engine)
    assert commit(database.engine, of_ann) is Directive.CONTINUE
    models |= models_of(database.engine, BOB, num_chains=3)
    assert commit(database.engine, of_ann, gives_way=False) is Directive.CONTINUE
    served = [of_ann.model_id]
    claimed = of_ann
    for _ in range(5):
        assert commit(database.engine, claimed) is Directive.GIVE_WAY
        release(database.engine, claimed)
        claimed = claim(database.engine)
        served.append(claimed.model_id)

    assert served == [models[ANN], models[BOB]] * 3


def test_no_more_chains_give_way_than_units_wait(database):
    """One of an owner's four chains yields to one waiting unit; with equal shares none does."""
    models_of(database.engine, ANN)
    claims = [claim(database.engine) for _ in range(4)]
    models_of(database.engine, BOB, num_chains=1)
    directives = [commit(database.engine, each) for each in claims]
    assert sorted(each.value for each in directives) == ["continue"] * 3 + ["give_way"]
    release(database.engine, claims[directives.index(Directive.GIVE_WAY)])
    of_bob = claim(database.engine)
    models_of(database.engine, BOB, num_chains=8)
    directives = [
        commit(database.engine, each)
        for each in claims
        if directives[claims.index(each)] is Directive.CONTINUE
    ]
    assert (
        directives.count(Directive.GIVE_WAY) == 3
    )  # three run against one of the other: a difference of two
    assert commit(database.engine, of_bob) is Directive.CONTINUE


def test_equal_shares_stay(database):
    """With equal shares no chain yields, whatever waits."""
    models_of(database.engine, ANN, BOB)
    claims = [claim(database.engine) for _ in range(2)]
    assert len({each.model_id for each in claims}) == 2
    assert {commit(database.engine, each) for each in claims} == {Directive.CONTINUE}


def test_a_stream_of_small_models_starves_nobody(database):
    """On one slot an owner with endless short chains and another owner alternate."""
    models = models_of(database.engine, ANN, num_chains=2)
    running = claim(database.engine)
    for _ in range(3):
        models_of(database.engine, BOB, num_chains=8)
    owners = []
    for _ in range(6):
        if running.model_id == models[ANN]:
            assert commit(database.engine, running) is Directive.GIVE_WAY
            release(database.engine, running)
        else:
            with session_scope(database.engine) as session:
                units.finish_chain(session, running, a_slice())
        running = claim(database.engine)
        owners.append(ANN if running.model_id == models[ANN] else BOB)

    assert owners == [BOB, ANN] * 3


@pytest.mark.parametrize("kind", [FINISH, PREDICTION])
def test_short_units_have_a_place_of_their_own(database, kind):
    """A process that may take nothing long claims finishes and predictions, and counts only these."""
    models = models_of(database.engine, ANN)
    with session_scope(database.engine) as session:
        studies.create(session, owner=ANN, model_id=models[ANN], kind="selection", request={}, fits=[1, 1])
    with session_scope(database.engine) as session:
        assert claims.count_claimable(session, 9, slots=0) == 0
        assert claims.count_claimable(session, 9, slots=3) == 3
        assert claims.count_claimable(session, 9) == 6
        assert claims.claim(session, "w", 60.0, long=False) is None
    other = create_model(database.engine, num_chains=1, owner=BOB)
    if kind != FINISH:
        with session_scope(database.engine) as session:
            session.execute(update(Unit).where(Unit.model_id == other.id).values(state="done"))
    with session_scope(database.engine) as session:
        if kind == FINISH:
            session.add(lifecycle.new_unit(BOB, other.id, FINISH, 0))
        else:
            dataset = session.get_one(Dataset, other.dataset_id)
            predictions.create(session, owner=BOB, model_id=other.id, dataset=dataset, request={})
    with session_scope(database.engine) as session:
        assert claims.count_claimable(session, 9, slots=0) == 1
        claimed = claims.claim(session, "w", 60.0, long=False)
        assert (claimed.kind, claimed.model_id) == (kind, other.id)
    assert claim(database.engine).kind == CHAIN


def test_beside_studies_a_chain_of_an_owner_with_nothing_running_has_a_place(database):
    """Beside studies in every slot, one chain of an owner with nothing running may be claimed."""
    models = models_of(database.engine, ANN)
    with session_scope(database.engine) as session:
        session.execute(update(Unit).where(Unit.model_id == models[ANN]).values(state="done"))
        studies.create(session, owner=ANN, model_id=models[ANN], kind="selection", request={}, fits=[1, 1])
    assert claim(database.engine).kind == STUDY
    with session_scope(database.engine) as session:
        assert claims.count_claimable(session, 9, slots=0, beside=(CHAIN,)) == 0
        assert claims.claim(session, "w", 60.0, long=False, beside=(CHAIN,)) is None
    of_bob = models_of(database.engine, BOB)[BOB]
    with session_scope(database.engine) as session:
        studies.create(session, owner=BOB, model_id=of_bob, kind="selection", request={}, fits=[1])
    with session_scope(database.engine) as session:
        assert claims.count_claimable(session, 9, slots=0) == 0
        assert claims.count_claimable(session, 9, slots=0, beside=(CHAIN,)) == 1
        claimed = claims.claim(session, "w", 60.0, long=False, beside=(CHAIN,))
        assert (claimed.kind, claimed.model_id) == (CHAIN, of_bob)
    with session_scope(database.engine) as session:
        assert claims.count_claimable(session, 9, slots=0, beside=(CHAIN,)) == 0
        assert claims.claim(session, "w", 60.0, long=False, beside=(CHAIN,)) is None
    of_eve = models_of(database.engine, EVE)[EVE]
    with session_scope(database.engine) as session:
        session.execute(update(Unit).where(Unit.model_id == of_eve).values(state="done"))
        studies.create(session, owner=EVE, model_id=of_eve, kind="selection", request={}, fits=[1, 1])
    with session_scope(database.engine) as session:
        assert claims.count_claimable(session, 9, slots=0, beside=(CHAIN,)) == 0
        assert claims.count_claimable(session, 9, slots=0, beside=LONG_KINDS) == 1
        claimed = claims.claim(session, "w", 60.0, long=False, beside=LONG_KINDS)
        assert (claimed.kind, claimed.model_id) == (STUDY, of_eve)
    with session_scope(database.engine) as session:
        assert claims.claim(session, "w", 60.0, long=False, beside=LONG_KINDS) is None


def test_places_beside_studies():
    """A long unit of an idle owner has a place beside studies that hold all slots, and so has a chain."""
    places = WorkPlaces(slots=1)

    def take(place: int, kind: str) -> tuple[str, ...]:
        places.own = place
        places.take(f"unit {place}", kind)
        places.own = 3  # another process claims
        return places.kinds_beside()

    assert places.kinds_beside() == ()
    assert take(0, CHAIN) == ()
    assert take(0, STUDY) == LONG_KINDS
    assert take(1, PREDICTION) == LONG_KINDS
    assert take(1, TOTALS) == (CHAIN,)
    assert take(0, TOTALS) == (CHAIN,)
    assert (take(2, CHAIN), places.free_slots()) == ((), 0)


def test_studies_and_chains_of_two_owners_alternate(database):
    """On one slot a chain yields to another owner's study, and goes on after one unit of it."""
    models = models_of(database.engine, ANN, BOB, num_chains=1)
    with session_scope(database.engine) as session:
        session.execute(update(Unit).where(Unit.model_id == models[BOB]).values(state="done"))
        studies.create(session, owner=BOB, model_id=models[BOB], kind="selection", request={}, fits=[1, 1])
    running, kinds = claim(database.engine), []
    for _ in range(4):
        kinds.append(running.kind)
        if running.kind == CHAIN:
            assert commit(database.engine, running) is Directive.GIVE_WAY
            release(database.engine, running)
        else:
            with session_scope(database.engine) as session:
                units.finish_part(session, running, 1, {})
        running = claim(database.engine)

    assert kinds == [CHAIN, STUDY, CHAIN, STUDY]
    assert commit(database.engine, running) is Directive.CONTINUE  # nobody waits any more


def test_a_claim_does_not_read_the_queue(database):
    """A claim, a poll, a yield and a sweep read a few of 3,000 queued units of two owners."""
    models = models_of(database.engine, ANN, BOB, num_chains=1)
    claimed = claim(database.engine)
    queued = [
        {"id": f"un_{number}", "owner": owner, "model_id": models[owner], "ordinal": number, "kind": CHAIN}
        for number in range(1, 1501)
        for owner in (ANN, BOB)
    ]
    with session_scope(database.engine) as session:
        session.execute(insert(Unit), [each | {"id": f"{each['id']}_{each['owner']}"} for each in queued])
    with database.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(text("ANALYZE"))

    def act(session):
        assert claims.claim(session, "w", 60.0) is not None
        assert claims.count_claimable(session, 9) == 9
        assert claims.somebody_waits(session, claimed) is False
        assert lifecycle.sweep(session) == 0

    with session_scope(database.engine) as session:
        assert 0 < units_read(session, act) < 300


def units_read(session, act):
    """Return how many rows of units Postgres fetches, or a hundredth of the steps that SQLite takes."""
    if session.get_bind().dialect.name == "postgresql":
        fetched = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'units'"
        before = session.scalar(text(fetched))  # transactions so far, of which it has not told yet
        act(session)
        return session.scalar(text(fetched)) - before
    calls = []
    driver = session.connection().connection.driver_connection
    driver.set_progress_handler(lambda: calls.append(1), 100)
    try:
        act(session)
    finally:
        driver.set_progress_handler(None, 100)
    return len(calls)
