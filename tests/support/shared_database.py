"""A database for all tests of a process, empty again before each, so that running servers can stay on it."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, text

from app.store.engine import make_engine
from app.store.tables import Base
from tests.support.databases import Database


@pytest.fixture
def database(request: pytest.FixtureRequest, dialect: str) -> Database:
    """The shared database at head and empty, SQLite and Postgres in turn."""
    created, empty = request.getfixturevalue(f"_shared_{dialect}")
    empty()
    return created


@pytest.fixture(scope="session")
def _shared_sqlite(_sqlite_template, tmp_path_factory) -> Iterator[tuple[Database, Callable[[], None]]]:
    file = tmp_path_factory.mktemp("shared") / "bartserve.db"

    def empty() -> None:
        with (
            contextlib.closing(sqlite3.connect(_sqlite_template)) as template,
            contextlib.closing(sqlite3.connect(file, timeout=30)) as live,
        ):
            template.backup(live)

    empty()
    url = f"sqlite:///{file}"
    with _engine(url) as engine:
        yield Database("sqlite", url, engine), empty


@pytest.fixture(scope="session")
def _shared_postgres(postgres_server, postgres_template) -> Iterator[tuple[Database, Callable[[], None]]]:
    url = postgres_server.create(template=postgres_template)
    tables = ", ".join(table.name for table in Base.metadata.sorted_tables)
    with _engine(url) as engine:

        def empty() -> None:
            with engine.begin() as connection:
                connection.execute(text(f"TRUNCATE {tables} RESTART IDENTITY CASCADE"))

        yield Database("postgres", url, engine), empty
    postgres_server.drop(url)


@contextlib.contextmanager
def _engine(url: str) -> Iterator[Engine]:
    engine = make_engine(url, pool_size=10, max_overflow=20)
    yield engine
    engine.dispose()
