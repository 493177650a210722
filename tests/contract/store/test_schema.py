"""The schema: migrations and tables agree on both databases."""

import sqlite3
import threading
from datetime import UTC, datetime

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import event, inspect, make_url, text

from app.store import schema
from app.store.access import audit
from app.store.engine import make_engine, session_scope
from app.store.tables import AuditEntry, Base


def test_migrations_make_exactly_the_tables(own_database):
    """The migrated schema equals the mapped classes."""
    with own_database.engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), Base.metadata)

    assert differences == []


def test_head_is_known(own_database):
    """A migrated database is at head and reports its revision."""
    assert schema.at_head(own_database.engine)
    assert schema.expected_revision() == schema.current_revision(own_database.engine)


def test_an_empty_database_is_not_at_head(empty_database_url):
    """Readiness detects a database without tables."""
    engine = make_engine(empty_database_url)

    assert not schema.at_head(engine)
    engine.dispose()


def test_two_migrations_at_once(empty_database_url):
    """One of two simultaneous migrations waits, and both succeed."""
    failures = []

    def migrate():
        try:
            schema.migrate(empty_database_url)
        except Exception as error:  # noqa: BLE001  whatever it is
            failures.append(error)

    threads = [threading.Thread(target=migrate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine = make_engine(empty_database_url)

    assert failures == []
    assert schema.at_head(engine)
    engine.dispose()


def test_downgrade_and_upgrade(own_database):
    """Every migration can be undone and done again."""
    from alembic import command

    with own_database.engine.connect() as connection:
        command.downgrade(schema.config(connection), "base")
        assert {"alembic_version"} == set(inspect(connection).get_table_names())
    schema.migrate(own_database.url)

    assert schema.at_head(own_database.engine)


def test_a_database_without_an_encoding_is_one_like_others(postgres_server):
    """A Postgres database with SQL_ASCII is migrated and restores texts exactly."""
    address = make_url(postgres_server.create())
    postgres_server.drop(str(address))
    postgres_server.execute(f"CREATE DATABASE {address.database} ENCODING 'SQL_ASCII' TEMPLATE template0")
    url = address.render_as_string(hide_password=False)
    schema.migrate(url)
    engine = make_engine(url)

    assert schema.at_head(engine)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT CAST('Größe' AS TEXT)")) == "Größe"

    engine.dispose()
    postgres_server.drop(url)


def test_a_newer_database_is_refused(own_database):
    """A database of a newer version is refused with a sentence and left unchanged."""
    with own_database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(schema.SchemaError, match="newer bartserve"):
        schema.migrate(own_database.url)
    assert schema.current_revision(own_database.engine) == "9999"
    assert not schema.at_head(own_database.engine)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    """A damaged or foreign file is refused with a sentence and left unchanged."""
    file = tmp_path / "foreign.db"
    file.write_bytes(b"this is not a database, whatever its name says" * 100)

    with pytest.raises(schema.SchemaError, match="can't be opened"):
        schema.migrate(f"sqlite:///{file}")
    assert file.read_bytes().startswith(b"this is not")


def test_sqlite_is_durable_and_checks_foreign_keys(tmp_path):
    """SQLite is set to commit durably and to enforce foreign keys."""
    engine = make_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with engine.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    engine.dispose()

    full = 2
    assert {"journal_mode": "wal", "synchronous": full, "foreign_keys": 1, "busy_timeout": 20_000} == pragmas
    assert sqlite3.sqlite_version_info >= (3, 35)  # UPDATE ... RETURNING, upserts


def test_api_and_worker_leave_another_schema_alone(own_database):
    """API and worker report a database of another version at start and leave it unchanged."""
    assert schema.mismatch(own_database.url) is None
    for other in ("0001", "9999"):
        with own_database.engine.begin() as connection:
            connection.execute(text(f"UPDATE alembic_version SET version_num = '{other}'"))

        assert f"at revision {other}" in (schema.mismatch(own_database.url) or "")
        assert schema.current_revision(own_database.engine) == other


def test_an_owners_audit_is_read_by_an_index(own_database):
    """A page of an owner's audit log is read by an index, without sorting or other owners' rows."""
    engine, statements = own_database.engine, []
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    with session_scope(engine) as session:
        for number in range(3000):
            owner = "few" if number < 30 else "many"
            audit_entry = {
                "who": "k",
                "owner": owner,
                "action": "model.created",
                "subject": "m",
                "request_id": None,
            }
            audit.append(session, AuditEntry(id=f"{number:05}", created_at=moment, **audit_entry))
    with engine.begin() as connection:
        connection.execute(text("ANALYZE"))

    def keep(_connection, _cursor, statement, parameters, *_):
        statements.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", keep)
    with session_scope(engine, read_only=True) as session:
        page = audit.list_page(session, "few", 10)
        rest = audit.list_page(session, "few", 50, (page[-1].created_at, page[-1].id))
    event.remove(engine, "before_cursor_execute", keep)
    explain = "EXPLAIN QUERY PLAN " if own_database.dialect == "sqlite" else "EXPLAIN "
    selects = [(statement, values) for statement, values in statements if "audit_entries" in statement]
    with engine.connect() as connection:
        plans = [str(connection.exec_driver_sql(explain + sql, values).all()) for sql, values in selects]

    assert [entry.id for entry in (*page, *rest)] == [f"{number:05}" for number in reversed(range(30))]
    assert len(plans) == 2
    assert all("ix_audit_entries_owner_created_at_id" in plan for plan in plans), plans
    assert not any("SORT" in plan.upper() or "TEMP B-TREE" in plan for plan in plans), plans
