"""Fixtures for the real application on a real server and database, without a worker."""

from collections.abc import Iterator

import httpx
import pytest

from app.services.readers.process.confined import readers
from app.settings import Settings
from tests.support.databases import Database
from tests.support.lock_order import LockOrder, lock_order  # noqa: F401  a fixture
from tests.support.processes.api_server import Servers
from tests.support.processes.plain_http import Client


@pytest.fixture(scope="session", autouse=True)
def _reader_process() -> Iterator[None]:
    """Keep one fork server for readers alive, since each test server would start and stop its own."""
    close = readers.close
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "close", lambda: None)
        yield
    close()


@pytest.fixture(scope="session")
def _servers(_reader_process) -> Iterator[Servers]:
    servers = Servers()
    yield servers
    servers.close()


@pytest.fixture
def settings(database: Database, tmp_path_factory) -> Settings:
    return Settings(
        database_url=database.url,
        data_dir=tmp_path_factory.getbasetemp(),
        redis_url=None,
        max_body_bytes=2_000_000,
        max_predict_rows=1000,
    )


@pytest.fixture
def client(settings: Settings, _servers) -> Iterator[httpx.Client]:
    """Return a client of a server shared by tests with equal settings."""
    with Client(base_url=_servers.address(settings), timeout=30) as client:
        yield client


@pytest.fixture
def team(settings: Settings, _servers) -> Iterator[httpx.Client]:
    """Serve as if listening beyond loopback, so that keys are required."""
    beyond = settings.model_copy(update={"host": "0.0.0.0"})
    with Client(base_url=_servers.address(beyond), timeout=30) as client:
        yield client


@pytest.fixture(autouse=True)
def _locks_in_order(lock_order: LockOrder) -> None:  # noqa: F811
    """Fail a test during which a transaction locks in another order than all others."""
