"""Kills at every commit of a fit in turn, just before and just after: equal bytes, nothing lost."""

import signal

import pytest
from sqlalchemy import func, select, update

from app.settings import Settings
from app.store.engine import session_scope
from app.store.tables import Dataset, IdempotentAnswer, Model, Unit
from sampler import warm
from tests.support import model_history as history
from tests.support.api_calls import post_csv, table
from tests.support.processes import plain_http
from tests.support.processes.api_server import serving
from tests.support.processes.dying_processes import die_at_commit, in_a_child
from tests.support.processes.worker_service import Service
from tests.support.reports import chaos_report as report
from worker.context import Context
from worker.units import run_one

# One iteration per slice, and one check of stop rules on the way.
TINY = {"num_trees": 20, "num_chains": 2, "num_burnin": 2, "num_draws": 3, "thin": 1, "seed": 4}
STOP = {"stop": {"max_rhat": 1.0, "max_draws": 4, "first_look": 3}}
FEWEST, MOST = 20, 100  # commits of a fit
# The short forms use each database in one way, at some commits or all; `make chaos` uses both ways.
WAYS = [
    pytest.param("sqlite", "before", 11),
    pytest.param("postgres", "after", 11),
    pytest.param("sqlite", "before", 3, marks=pytest.mark.slow),
    pytest.param("postgres", "after", 3, marks=pytest.mark.slow),
    pytest.param("sqlite", "before", 1, marks=pytest.mark.long),
    pytest.param("postgres", "after", 1, marks=pytest.mark.long),
    pytest.param("sqlite", "after", 1, marks=pytest.mark.long),
    pytest.param("postgres", "before", 1, marks=pytest.mark.long),
]


@pytest.fixture
def service(database, tmp_path):
    warm()
    return Service(database.engine, {}, tmp_path / "log", 0)


def work(url: str) -> None:
    """Run a worker's child until no work is left."""
    settings = Settings(database_url=url, lease_seconds=600.0, slice_seconds=1e-6)
    context = Context(settings, "wrk_chaos", forks=False)
    while run_one(context):
        pass
    context.close()


def lapse(engine) -> None:
    """Expire the leases of all units in progress."""
    with session_scope(engine) as session:
        session.execute(update(Unit).where(Unit.state == "running").values(lease_until=0.0))


@pytest.mark.parametrize(("dialect", "when", "step"), WAYS, indirect=["dialect"])
def test_a_worker_killed_at_every_commit(service, database, when, step):
    """A fit killed at any commit (claim, slice, check, chain's end, finish) ends as an undisturbed one."""
    database.engine.dispose()  # before forking
    expected = None
    for number in range(1, MOST, step):
        model_id = service.create_model(**TINY, **STOP)
        database.engine.dispose()

        def victim(number=number):
            die_at_commit(when, number)
            work(database.url)

        code = in_a_child(victim)
        if code == 0:  # there is no such commit: all have been tried
            history.check(database.engine, model_id)
            assert service.digest(model_id) == service.undisturbed_digest(model_id) == expected
            break
        assert code == -signal.SIGKILL
        lapse(database.engine)
        database.engine.dispose()
        assert in_a_child(lambda: work(database.url)) == 0
        history.check(database.engine, model_id)
        expected = expected or service.digest(model_id)
        assert service.digest(model_id) == expected
    assert FEWEST < number < MOST - step, number
    on = database.dialect
    fits = 1 + (number - 1) // step
    did = {"worker at a commit": fits - 1}
    report.add(f"killed {when} commits of a fit on {on}, {step} apart", did, checked=fits, compared=fits)


@pytest.mark.parametrize(
    ("dialect", "when"),
    [
        ("sqlite", "before"),
        pytest.param("postgres", "after", marks=pytest.mark.slow),
        pytest.param("sqlite", "after", marks=pytest.mark.slow),
        pytest.param("postgres", "before", marks=pytest.mark.slow),
    ],
    indirect=["dialect"],
)
def test_an_api_killed_as_it_accepts(database, when):
    """An API killed at a fit's commit has accepted it completely or not at all, as a repeat shows."""
    settings = Settings(database_url=database.url)

    def upload():
        with serving(settings) as address, plain_http.Client(base_url=address, timeout=60) as client:
            post_csv(client, table()).raise_for_status()

    assert in_a_child(upload) == 0
    with session_scope(database.engine, read_only=True) as session:
        dataset_id = session.scalar(select(Dataset.id))
    database.engine.dispose()
    body = {"dataset_id": dataset_id, "target": "y", "num_chains": 3, "num_draws": 20}

    def ask():
        with serving(settings) as address:
            headers = {"Idempotency-Key": "k"}
            answer = plain_http.post(f"{address}/models", json=body, headers=headers, timeout=60)
            assert answer.status_code == 202, answer.text
            return answer

    def victim():
        die_at_commit(when, 1)
        ask()

    assert in_a_child(victim) == -signal.SIGKILL
    with session_scope(database.engine, read_only=True) as session:
        ids = list(session.scalars(select(Model.id)))
        units = session.scalar(select(func.count()).select_from(Unit))
        answers = list(session.scalars(select(IdempotentAnswer)))
    assert (len(ids), units, len(answers)) == ((1, 3, 1) if when == "after" else (0, 0, 0))
    again = ask()
    assert again.headers.get("idempotent-replayed") == ("true" if when == "after" else None)
    if when == "after":
        assert again.json()["id"] == ids[0]
    did = {"API at a commit": 1}
    report.add(f"an API killed {when} it accepts on {database.dialect}", did, checked=0, compared=0)
