"""A database that dies during a commit has made it completely or not at all."""

import contextlib
import os
import time
import traceback

import pytest
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.settings import Settings
from app.store import schema
from app.store.engine import make_engine, session_scope
from app.store.tables import Model
from sampler import warm
from tests.support import model_history as history
from tests.support.databases import Database
from tests.support.processes.servers import crashing_postgres
from tests.support.processes.worker_service import Service
from tests.support.reports import chaos_report as report
from worker.context import Context
from worker.units import run_one

TINY = {"num_trees": 20, "num_chains": 2, "num_burnin": 4, "num_draws": 4, "thin": 1, "seed": 4}
LEASE = 2.0  # of a unit whose claim was cut off: no worker knows that it holds it
COMMIT_SECONDS = 0.1  # Postgres delays each commit by this
CRASHES = 5  # in a row, each at the commit after the previous one


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_database_killed_in_mid_commit(tmp_path):
    """After SIGKILL of Postgres during a commit the fit ends with equal bytes."""
    warm()
    # A commit waits a tenth of a second for others before it is written: time to aim.
    slow = {"fsync": "on", "commit_delay": str(int(COMMIT_SECONDS * 1e6)), "commit_siblings": "0"}
    with crashing_postgres(slow) as server, contextlib.ExitStack() as stack:
        schema.migrate(server.url)
        database = Database("postgres", server.url, make_engine(server.url))
        stack.callback(database.engine.dispose)
        service = Service(database.engine, {}, tmp_path / "log", 0)
        model_id = service.create_model(**TINY)
        database.engine.dispose()
        read_end, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read_end)
            _work_on(server.url, model_id, tell)
        os.close(tell)
        crashes = 0
        while crashes < CRASHES and os.read(read_end, 1):
            if crashes == 0 or os.read(read_end, 1):  # the second commit after the last crash
                time.sleep(COMMIT_SECONDS / 2)
                server.crash()
                server.start()
                crashes += 1
        while os.read(read_end, 4096):
            pass
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

        assert crashes == CRASHES
        history.check(database.engine, model_id)
        assert service.digest(model_id) == service.undisturbed_digest(model_id)
        report.add("a database in mid-commit", {"database in mid-commit": crashes}, checked=1, compared=1)


def _work_on(url, model_id, tell):
    """Do a worker's tasks in a child until the model ends; write a byte at the beginning of each commit."""
    settings = Settings(database_url=url, lease_seconds=LEASE, slice_seconds=1e-6)
    context = Context(settings, "wrk_chaos", forks=False)
    code = 1

    def begins(session: Session) -> None:
        if not session.get_bind().get_execution_options().get("bartserve_read_only"):
            session.flush()
            os.write(tell, b".")

    event.listen(Session, "before_commit", begins)
    try:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            if not run_one(context):
                time.sleep(0.2)
            with contextlib.suppress(DBAPIError), session_scope(context.engine, read_only=True) as session:
                if session.get_one(Model, model_id).finished_at is not None:
                    code = 0
                    break
    except BaseException:  # noqa: BLE001  it must not come back into pytest
        traceback.print_exc()
    finally:
        os._exit(code)
