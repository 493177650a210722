"""Fixtures for all tests: databases, fresh for each test, and a broker."""

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck

from app.store import schema
from app.store.engine import make_engine
from tests.support.databases import DIALECTS, Database
from tests.support.processes import servers
from tests.support.processes.warm_workers import warm_parent  # noqa: F401  a fixture
from tests.support.reports import tiers
from tests.support.reports.cpu_time import CpuTime

# Where files are in memory: the tests commit some ten thousand times, and each commit would wait for a disk.
MEMORY, LEAST_FREE = Path("/dev/shm"), 4 << 30
# Folders whose tests need every kernel, as in the service: each of a single signature, which refuses others.
COMPILED = {
    *("bart", "cart", "kernels", "many", "posterior", "soft", "storage", "subgroups", "several"),
    *("reference", "statistical"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run tests in a random order, the seed's")


def pytest_configure(config: pytest.Config) -> None:
    """Choose where files go, measure the cost of each test, and leave time out of property tests."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > LEAST_FREE:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    timeless = [HealthCheck.too_slow, HealthCheck.data_too_large]
    examples = 50 if config.option.markexpr == tiers.QUICK else 100
    hypothesis.settings.register_profile(
        "timeless", max_examples=examples, deadline=None, suppress_health_check=timeless
    )
    hypothesis.settings.load_profile("timeless")
    config.pluginmanager.register(CpuTime(config))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage while modules are imported, nor look at these objects later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tiers and order the tests; deselect `long` tests unless `-m` is given."""
    tiers.mark(items)
    tiers.sort(items)
    if config.option.shuffle is not None:
        tiers.shuffle(items, config.option.shuffle)
    if not config.option.markexpr:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("long")])
        items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.fixture(scope="session")
def all_kernels() -> None:
    """Compile or load every kernel, once per test process."""
    from sampler.kernels.jit import load_inner_kernels, warm

    warm()
    load_inner_kernels()


@pytest.fixture(scope="module", autouse=True)
def _kernels(request: pytest.FixtureRequest) -> None:
    """Have kernels before tests, so that none pays for them."""
    if request.path.parent.name in COMPILED:
        request.getfixturevalue("all_kernels")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[servers.Postgres]:
    """Start a real Postgres, once per test process."""
    with servers.postgres() as server:
        yield server


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """Start a real Valkey, once per test process."""
    with servers.valkey() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_template(postgres_server: servers.Postgres) -> Iterator[str]:
    url = postgres_server.create()
    schema.migrate(url)
    yield url
    postgres_server.drop(url)


@pytest.fixture(scope="session")
def _sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("template") / "bartserve.db"
    schema.migrate(f"sqlite:///{file}")
    return file


@pytest.fixture
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path, dialect: str) -> Iterator[str]:
    """Create a database without tables."""
    if dialect == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server = request.getfixturevalue("postgres_server")
    url = server.create()
    yield url
    server.drop(url)


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    """Parametrise over both databases; parametrise indirectly to use only one."""
    return str(request.param)


@pytest.fixture
def own_database(request: pytest.FixtureRequest, tmp_path: Path, dialect: str) -> Iterator[Database]:
    """Create a fresh database at head, on SQLite and Postgres in turn."""
    if dialect == "sqlite":
        file = tmp_path / "bartserve.db"
        shutil.copy(request.getfixturevalue("_sqlite_template"), file)
        url, drop = f"sqlite:///{file}", file.unlink
    else:
        server = request.getfixturevalue("postgres_server")
        url = server.create(template=request.getfixturevalue("postgres_template"))

        def drop() -> None:
            server.drop(url)

    engine = make_engine(url, pool_size=10, max_overflow=20)
    yield Database(dialect, url, engine)
    engine.dispose()
    drop()


@pytest.fixture
def database(own_database: Database) -> Database:
    """The test's own database, where no closer conftest has one for several tests."""
    return own_database
