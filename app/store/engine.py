"""The database engine, and the one place that commits.

Both databases refuse the same values: text that Postgres doesn't store, and JSON with NaN or infinity.

SQLite: write-ahead log, synchronous=FULL (a 202 is durable), and BEGIN IMMEDIATE for every write transaction.
A transaction that reads first and writes later fails at once when another writer committed in between,
whatever the busy timeout (measured: 189 of 300 lost).
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, PoolProxiedConnection, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from app.store.errors import UnstorableTextError, is_storable

BUSY_SECONDS = 20.0  # how long a writer waits for another one
CONNECT_SECONDS = 5
TRANSACTION_SECONDS = 20

_READ_ONLY = "bartserve_read_only"
_BINARY = "bartserve_binary"


def make_engine(
    url: str,
    *,
    pool_size: int = 5,
    max_overflow: int = 5,
    forks: bool = False,
    transaction_seconds: float = TRANSACTION_SECONDS,
) -> Engine:
    """Make an engine for a SQLite or Postgres URL, configured as this module describes.

    Parameters
    ----------
    forks
        Whether the process forks. If so, no SQLite connection stays open between transactions: a child would
        inherit SQLite's record of locks that the child doesn't hold. In the child, call
        `engine.dispose(close=False)`.
    transaction_seconds
        Seconds after which Postgres ends an idle transaction. For a worker this must be less than its lease:
        a worker stopped within a transaction holds the row locks of units that others should take over.
    """
    parsed = make_url(url)
    pool: dict[str, Any] = {"pool_size": pool_size, "max_overflow": max_overflow, "pool_timeout": 5.0}
    if forks and parsed.get_backend_name() == "sqlite":
        pool = {"poolclass": NullPool}
    common = pool | {"hide_parameters": True, "json_serializer": partial(json.dumps, allow_nan=False)}
    if parsed.get_backend_name() == "sqlite":
        engine = create_engine(parsed, connect_args={"timeout": BUSY_SECONDS}, **common)
        _set_up_sqlite(engine)
    else:
        arguments = {
            "application_name": "bartserve",
            "client_encoding": "utf8",  # otherwise text from a database in SQL_ASCII arrives as bytes
            "connect_timeout": CONNECT_SECONDS,
            # A plan kept for any state of a unit reads the whole queue for the few that run; and behind a
            # pooler a prepared statement may be another connection's.
            "prepare_threshold": None,
            "tcp_user_timeout": TRANSACTION_SECONDS * 1000,  # a lost network is an error, not an endless wait
            "options": f"-c idle_in_transaction_session_timeout={int(transaction_seconds * 1000)}ms",
        }
        engine = create_engine(parsed, pool_pre_ping=True, connect_args=arguments, **common)
        event.listen(engine, "before_cursor_execute", _binary_results)
    event.listen(engine, "before_cursor_execute", _refuse_unstorable_text)
    return engine


class Commits:
    """Number that changes with every commit to a SQLite database, by whichever process (`data_version`).

    What was read after `version` is still true while that stays the same. It is asked on a connection of its
    own, in a few microseconds; a query of one row takes a quarter of a millisecond.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: PoolProxiedConnection | None = None

    def version(self) -> int | None:
        """Return the number; None for other databases, and where it can't be read."""
        if self._engine.dialect.name != "sqlite":
            return None
        try:
            if self._connection is None:
                self._connection = self._engine.raw_connection()
                self._connection.detach()  # from the pool, where others would miss it
            cursor = self._connection.cursor()
            cursor.execute("PRAGMA data_version")
            return int(cursor.fetchone()[0])  # type: ignore[index]
        except sqlite3.Error:
            return None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextmanager
def session_scope(engine: Engine, *, read_only: bool = False) -> Iterator[Session]:
    """Open a session with one transaction, committed at the end or rolled back by an exception.

    `read_only` sessions can't write on either database, and on SQLite don't wait for writers.
    """
    chosen = _read_only(engine) if read_only else engine
    with Session(chosen, expire_on_commit=False) as session, session.begin():
        yield session


@contextmanager
def read_only(engine: Engine) -> Iterator[Connection]:
    """Open a connection with one read-only transaction, for statements without objects.

    A query takes a third of the time of one in a session.
    """
    with _read_only(engine).connect() as connection:
        yield connection


def _read_only(engine: Engine) -> Engine:
    """Return the engine with read-only options, built once: building it costs as much as a small query."""
    reader: Engine | None = engine.__dict__.get(_READ_ONLY)
    if reader is None:
        reader = engine.__dict__[_READ_ONLY] = engine.execution_options(
            **{_READ_ONLY: True, "postgresql_readonly": True}
        )
    return reader


def binary_results(session: Session) -> dict[str, Any]:
    """Return execution options that make Postgres send large blobs as bytes instead of hexadecimal text.

    Measured with psycopg: 29 ms instead of 77 ms for 25 MB.
    """
    return {_BINARY: True} if session.get_bind().dialect.name == "postgresql" else {}


def _set_up_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver begins no transactions of its own; `_begin` does
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")  # readers and the one writer don't block each other
        cursor.execute("PRAGMA synchronous=FULL")  # what was committed survives a power cut
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        read_only = connection.get_execution_options().get(_READ_ONLY, False)
        if connection.info.get(_READ_ONLY) != read_only:  # what the connection was used for last
            connection.exec_driver_sql(f"PRAGMA query_only={int(read_only)}")
            connection.info[_READ_ONLY] = read_only
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")


def _binary_results(
    _connection: Connection, cursor: Any, _statement: str, _parameters: Any, context: Any, _many: bool
) -> None:
    if context is not None and context.execution_options.get(_BINARY):
        cursor.format = 1  # psycopg's Format.BINARY


def _refuse_unstorable_text(
    _connection: Connection, _cursor: Any, _statement: str, parameters: Any, _context: Any, many: bool
) -> None:
    for row in parameters if many else (parameters,):
        for value in row.values() if isinstance(row, dict) else row:
            if isinstance(value, str) and not is_storable(value):
                raise UnstorableTextError
