"""Migrating commands, and commands that refuse another version's schema."""

import subprocess
import sys

import pytest
from alembic import command
from sqlalchemy import inspect, text

from app.store import schema
from app.store.engine import make_engine
from tests.support.processes.embedded_service import clean_environment, free_port

SECONDS = 120


def started(url, *words):
    """Start `bartserve` with those arguments on that database."""
    return subprocess.Popen(
        [sys.executable, "-m", "app.cli", *words],
        env=clean_environment() | {"BARTSERVE_DATABASE_URL": url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process):
    """Return the exit code and output."""
    output, _ = process.communicate(timeout=SECONDS)
    return process.returncode, " ".join(output.split())


def content(engine):
    with engine.connect() as connection:
        tables = sorted(inspect(connection).get_table_names())
        counts = [connection.scalar(text(f"SELECT count(*) FROM {name}")) for name in tables]
        return tables, counts, connection.scalar(text("SELECT version_num FROM alembic_version"))


@pytest.mark.slow
def test_two_migrate_at_once(empty_database_url):
    """Two simultaneous `bartserve migrate` both succeed, one after the other."""
    both = [started(empty_database_url, "migrate") for _ in range(2)]

    assert {ended(process) for process in both} == {(0, "The database is at the schema of this version.")}
    engine = make_engine(empty_database_url)
    assert schema.at_head(engine)
    engine.dispose()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dialect", "other"), [("sqlite", "newer"), ("postgres", "older")], indirect=["dialect"]
)
def test_commands_on_another_schema(database, other):
    """`bartserve api` and `worker` refuse an older or newer database and leave it unchanged."""
    engine = database.engine
    with engine.connect() as connection:
        if other == "older":
            command.downgrade(schema.config(connection), "-1")
        else:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
            connection.commit()
    before = content(engine)
    commands = [("api", "--port", str(free_port())), ("worker",)]
    if other == "newer":
        commands.append(("migrate",))
    for process in [started(database.url, *words) for words in commands]:
        code, output = ended(process)
        assert code == 1, output
        assert f"The database is at revision {before[2]}" in output
        assert "Traceback" not in output

    assert content(engine) == before
    if other == "older":
        assert ended(started(database.url, "migrate"))[0] == 0
        assert schema.at_head(engine)
