"""The version of the database schema: upgrading a database to it, and checking for it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError, DBAPIError

from app.store.engine import make_engine

_LOCK = 0x62617274  # "bart": the key of Postgres' advisory lock


class SchemaError(Exception):
    """The database can't be upgraded to this version's schema; the message is one sentence."""


def migrate(url: str) -> None:
    """Upgrade the database to this version's schema; concurrent calls wait for each other.

    Raises
    ------
    SchemaError
        The database is unreachable or belongs to a newer version.
    """
    engine = make_engine(url, pool_size=1, max_overflow=0)
    try:
        with _file_lock(url), engine.connect() as connection:
            _refuse_newer(connection)
            _foreign_keys_off(connection)
            with _advisory_lock(connection):
                command.upgrade(config(connection), "head")
    except DatabaseError as error:
        raise SchemaError(f"The database can't be opened: {_reason(error)}.") from error
    except OSError as error:
        raise SchemaError(f"The database's folder can't be used: {error}.") from error
    finally:
        engine.dispose()


def at_head(engine: Engine) -> bool:
    """Return whether the database has exactly this version's schema."""
    return current_revision(engine) == expected_revision()


def mismatch(url: str) -> str | None:
    """Return the reason, in one sentence, why this version can't use the database; None when it can.

    An unreachable database is no reason, since it may come back.
    """
    engine = make_engine(url, pool_size=1, max_overflow=0)
    try:
        revision = current_revision(engine)
    except DBAPIError:
        return None
    finally:
        engine.dispose()
    if revision == expected_revision():
        return None
    return (
        f"The database is at revision {revision}, this version works with {expected_revision()}: "
        "run `bartserve migrate`, or the version of bartserve that it belongs to."
    )


def current_revision(engine: Engine) -> str | None:
    """Return the database's revision, None when it is empty."""
    with engine.connect() as connection:
        return _revision(connection)


def expected_revision() -> str:
    """Return the newest revision that this version knows."""
    head = ScriptDirectory.from_config(config()).get_current_head()
    assert head is not None
    return head


def config(connection: Connection | None = None) -> Config:
    """Return Alembic's configuration for this installation's migrations, run on the given connection."""
    configuration = Config(attributes={"connection": connection})
    folder = resources.files("migrations")
    configuration.set_main_option("script_location", str(folder).replace("%", "%%"))
    return configuration


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _refuse_newer(connection: Connection) -> None:
    revision = _revision(connection)
    connection.rollback()  # end this read; the upgrade begins its own transaction
    if revision is None:
        return
    try:
        ScriptDirectory.from_config(config()).get_revision(revision)
    except CommandError:
        raise SchemaError(
            f"The database is at revision {revision}, which this version doesn't know: it belongs to a newer "
            "bartserve. Nothing was changed; run that version."
        ) from None


def _foreign_keys_off(connection: Connection) -> None:
    """Disable foreign keys on SQLite, which alters a table by dropping a copy:

    that would delete dependent rows.
    """
    if connection.dialect.name == "sqlite":
        connection.connection.cursor().execute("PRAGMA foreign_keys=OFF")


@contextmanager
def _advisory_lock(connection: Connection) -> Iterator[None]:
    if connection.dialect.name != "postgresql":
        yield
        return
    # A session lock: one taken in a transaction would end with the first commit.
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _LOCK})
    connection.rollback()
    try:
        yield
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK})
        connection.rollback()


@contextmanager
def _file_lock(url: str) -> Iterator[None]:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        yield
        return
    file = Path(parsed.database)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with file.with_name(file.name + ".migrate.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _reason(error: DatabaseError) -> str:
    return str(error.orig).strip().replace("\n", " ").rstrip(".")
