"""Databases of every released revision, upgraded and compared with recorded responses."""

import json
import re
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import JSON, Boolean, DateTime, MetaData

from app.services import datasets
from app.services.fits import models
from app.services.predictions import results
from app.services.predictions.options import PredictionOptions
from app.services.predictions.predict_rows import Predictor
from app.services.predictions.rows import SentRows
from app.store import schema
from app.store.engine import make_engine, session_scope
from app.store.tables import Dataset
from sampler import warm
from tests.support.store_factories import OWNER

STORED = Path(__file__).parents[2] / "data" / "released"
REVISIONS = sorted(file.stem for file in STORED.glob("*.sql"))
BRIEF = {*REVISIONS[::6], REVISIONS[-1]}  # the way up from the first one is that of all others


def loaded(url: str, revision: str) -> None:
    """Load that revision's data into an empty database."""
    script = (STORED / f"{revision}.sql").read_text()
    path = url.removeprefix("sqlite:///")
    source = sqlite3.connect(":memory:" if path == url else path)
    source.executescript(script)
    if path == url:
        _copy(source, url, revision)
    source.close()


def _copy(source: sqlite3.Connection, url: str, revision: str) -> None:
    """Copy a database to Postgres, in the schema of its revision."""
    engine = make_engine(url)
    with engine.connect() as connection:
        command.upgrade(schema.config(connection), revision)
        connection.rollback()
        tables = MetaData()
        tables.reflect(connection)
        for table in tables.sorted_tables:
            if table.name == "alembic_version":
                continue
            names = [column.name for column in table.columns]
            rows = source.execute(f"SELECT {', '.join(names)} FROM {table.name}").fetchall()
            for row in rows:
                values = {
                    name: _as(table.c[name].type, value) for name, value in zip(names, row, strict=True)
                }
                connection.execute(table.insert(), values)
        connection.commit()
    engine.dispose()


def _as(kind, value):
    """Convert a value that SQLite stores as text or a number."""
    if value is None:
        return None
    if isinstance(kind, JSON):
        return json.loads(value)
    if isinstance(kind, DateTime):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return bool(value) if isinstance(kind, Boolean) else value


def test_every_revision_is_stored():
    """Each released revision has a stored database (`python -m tests.data.released`)."""
    versions = Path(schema.__file__).parents[2] / "migrations" / "versions"
    revisions = sorted(file.name[:4] for file in versions.glob("*.py") if re.match(r"\d{4}_", file.name))

    assert revisions[:-1] == [revision for revision in REVISIONS if revision != revisions[-1]]


@pytest.mark.parametrize(
    "revision",
    [name if name in BRIEF else pytest.param(name, marks=pytest.mark.slow) for name in REVISIONS],
)
@pytest.mark.sampled(slow=5)
def test_a_model_of_every_revision_answers(empty_database_url, revision):
    """After the upgrade model and dataset exist, with the recorded verdict and predictions."""
    warm("prediction")
    stored = json.loads((STORED / f"{revision}.json").read_text())
    loaded(empty_database_url, revision)
    schema.migrate(empty_database_url)
    engine = make_engine(empty_database_url)
    predictor = Predictor(engine, 1 << 26, 1000)
    body = stored["asked"]
    options = PredictionOptions(level=body["level"], interval=body["interval"])
    answer = predictor.predict(OWNER, stored["model"]["name"], options, SentRows(body["rows"])).to_json()
    with session_scope(engine, read_only=True) as session:
        view = models.view(session, OWNER, stored["model"]["id"])
        listed = models.list_page(session, OWNER, 10, None).items
        rows = datasets.preview(session, OWNER, stored["dataset_id"], 40)
        num_rows = session.get_one(Dataset, stored["dataset_id"]).num_rows

    assert schema.at_head(engine)
    ends, recorded = answer.pop("intervals"), stored["answer"].pop("intervals")
    assert stored["answer"] == {name: answer[name] for name in stored["answer"]}
    for interval, before in zip(ends, recorded, strict=True):
        # found by iteration, which may stop elsewhere in the last digits
        assert interval == {name: pytest.approx(before[name], rel=1e-12) for name in before}
    assert stored["model"] == {name: getattr(view, name) for name in stored["model"]}
    assert [stored["model"]["id"]] == [model.id for model in listed]
    assert (num_rows, len(rows)) == (40, 40)
    if stored["prediction"] is not None:
        result = json.loads(b"".join(results.Result(engine, OWNER, stored["prediction"]["id"]).as_json()))
        assert result["mean"] == stored["prediction"]["mean"]
    engine.dispose()
