"""A full disk under the database: refused changes leave nothing, accepted ones are complete."""

import contextlib
import signal
import time

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

from app.store import schema
from app.store.engine import make_engine, session_scope
from app.store.tables import Dataset, Model
from tests.support import model_history as history
from tests.support.databases import Database
from tests.support.processes.servers import crashing_postgres, folder, valkey_in
from tests.support.processes.small_disk import fill_up, small_disk
from tests.support.processes.worker_service import LONG, make_service
from tests.support.reports import chaos_report as report

FULL_SECONDS = 2.0


def database_of(server):
    schema.migrate(server.url)
    return Database("postgres", server.url, make_engine(server.url))


def ask_until_refused(service):
    """Send requests until one is refused: the database may have spare pages."""
    for _ in range(100):
        service.create_model(**LONG)


@contextlib.contextmanager
def on_a_small_disk(dialect, tmp_path):
    """Yield a service whose database is on a small disk, the disk, and a restart of the database."""
    with contextlib.ExitStack() as stack:
        if dialect == "sqlite":
            place = tmp_path / "disk"
            stack.enter_context(small_disk(place))
            url = f"sqlite:///{place / 'bartserve.db'}"
            schema.migrate(url)
            database = Database(dialect, url, make_engine(url))
            broker, revive = None, database.engine.dispose
        else:
            root = stack.enter_context(folder("bartserve-full-"))
            place = root / "data"
            stack.enter_context(small_disk(place))
            few = {"max_wal_size": "32MB", "min_wal_size": "32MB"}
            server = stack.enter_context(crashing_postgres(few, root))
            database = database_of(server)
            sockets = stack.enter_context(folder("bartserve-valkey-"))
            broker = stack.enter_context(valkey_in(sockets, stop=signal.SIGKILL))

            def revive():
                server.crash()  # it may have ended by itself, or be ending
                server.start()
                database.engine.dispose()

        stack.callback(database.engine.dispose)
        yield stack.enter_context(make_service(database, broker, tmp_path)), place, revive


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_full_disk(dialect, tmp_path):
    """A disk that fills up twice during commits: refused changes leave nothing, accepted ones are whole."""
    with on_a_small_disk(dialect, tmp_path) as (service, place, revive):
        models = [service.create_model(**LONG | {"seed": seed}) for seed in range(2)]
        service.start_worker()
        for model_id in models:
            service.sampling(model_id, 600)
            ballast = fill_up(place)
            time.sleep(FULL_SECONDS)
            with pytest.raises(DBAPIError):
                ask_until_refused(service)
            ballast.unlink()
            revive()
        with session_scope(service.engine, read_only=True) as session:
            accepted = list(session.scalars(select(Model.id)))
            assert session.scalar(select(func.count()).select_from(Dataset)) == len(accepted)
        assert set(models) <= set(accepted)
        for model_id in accepted:
            assert service.ended(model_id, 600).state == "succeeded"
            history.check(service.engine, model_id)
            assert {0} == {chain.stalled_attempts for chain in service.chains(model_id)}
        for model_id in models:
            assert service.digest(model_id) == service.undisturbed_digest(model_id)
        assert "lost the database" in service.log.read_text()
        scenario = f"a full disk under {dialect}"
        report.add(scenario, {"full disk": 2}, checked=len(accepted), compared=len(models))
