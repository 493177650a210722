"""A full disk is reported as such, reads continue, and deleting makes room."""

import httpx
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

from app.settings import Settings
from app.store import deletion, reserve, schema
from app.store.engine import make_engine, session_scope
from app.store.errors import is_disk_full
from tests.support.api_calls import post_csv, problem, table
from tests.support.processes.api_server import serving
from tests.support.processes.small_disk import fill_up, small_disk


@pytest.fixture
def service(tmp_path):
    """Return a client of a service whose database lies on a small disk, its engine, and the disk."""
    place = tmp_path / "disk"
    with small_disk(place, 80 << 20):
        url = f"sqlite:///{place / 'bartserve.db'}"
        schema.migrate(url)
        engine = make_engine(url)
        settings = Settings(database_url=url, data_dir=place, redis_url=None)
        with serving(settings) as address, httpx.Client(base_url=address, timeout=60) as client:
            yield client, engine, place
        engine.dispose()


def test_deleting_makes_room_on_a_full_disk(service, monkeypatch):
    """On a full disk uploads are refused without loss, deletion works, and then uploads succeed."""
    client, engine, place = service
    kept = place / "bartserve.db-reserve"
    reserve.keep(engine)
    assert kept.stat().st_blocks * 512 >= reserve.RESERVE_BYTES
    ids = [post_csv(client, table(20_000)).json()["id"] for _ in range(3)]
    ballast = fill_up(place)
    for _ in range(200):  # the log has spare pages
        if (answer := post_csv(client, table(500))).status_code != 201:
            break
        ids.append(answer.json()["id"])
    assert "full" in problem(answer, 503, "disk-full")["detail"]
    assert int(answer.headers["retry-after"]) > 0
    told = problem(client.get("/health/ready"), 503, "unavailable")["errors"]
    assert "disk is full" in told[0]["detail"]
    assert len(client.get("/datasets", params={"limit": 200}).json()["items"]) == len(ids)

    with monkeypatch.context() as without:
        without.setattr("app.store.reserve.release_if_full", lambda _engine: None)
        problem(client.delete(f"/datasets/{ids[0]}"), 503, "disk-full")
    reserve.keep(engine)  # changes nothing while it exists
    for dataset_id in ids[:3]:
        assert client.delete(f"/datasets/{dataset_id}").status_code == 204
    assert not kept.exists()
    reserve.keep(engine)
    assert not kept.exists()
    more = True
    while more:
        with session_scope(engine) as session:
            more = deletion.delete_next_batch(session)
    assert post_csv(client, table(500)).status_code == 201
    ballast.unlink()
    reserve.keep(engine)
    assert kept.exists()
    told = problem(client.get("/health/ready"), 503, "unavailable")["errors"]
    assert "no worker" in told[0]["detail"]


def test_only_a_full_disk_is_called_one():
    """Other failures of the database are reported differently; an in-memory database has no reserve."""
    engine = create_engine("sqlite://")
    reserve.keep(engine)
    reserve.release_if_full(engine)
    with engine.connect() as connection, pytest.raises(OperationalError) as caught:
        connection.exec_driver_sql("SELECT * FROM nothing")
    assert not is_disk_full(caught.value)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=2")
        connection.exec_driver_sql("CREATE TABLE t (x)")
        with pytest.raises(OperationalError) as caught:
            connection.exec_driver_sql("INSERT INTO t VALUES (zeroblob(100000))")
    assert is_disk_full(caught.value)
    assert is_disk_full(psycopg.errors.DiskFull("could not extend file"))
