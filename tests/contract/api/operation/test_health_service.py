"""`bartserve check worker`: whether a worker on this machine sends heartbeats."""

import socket

from app.services.health import worker_beats_here
from app.store.engine import session_scope
from app.store.queue import workers
from app.store.tables import Worker
from tests.support.databases import only


def test_only_a_fresh_beat_of_this_machine_counts(settings, database):
    """Stale heartbeats and those of other machines don't count."""
    assert not worker_beats_here(settings)
    for host, beats in (("elsewhere", False), (socket.gethostname(), True)):
        with session_scope(database.engine) as session:
            workers.register(session, Worker(id=host, host=host, pid=1, slots=1, beat_at=0, phase="idle"))
        assert worker_beats_here(settings) is beats


@only("sqlite")
def test_a_database_that_is_away_is_no_beat(settings, tmp_path):
    """An unreachable database gives False, not an exception."""
    away = settings.model_copy(update={"database_url": f"sqlite:///{tmp_path}/no/such/x.db"})

    assert not worker_beats_here(away)
