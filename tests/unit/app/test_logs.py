"""Format and content of log lines."""

import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

import sampler
from app.logging import FIELDS, JsonLines, TextLines, bound
from app.settings import Settings
from app.store.engine import make_engine
from worker.fits.tracking import announce
from worker.main import OWN, has_and_lacks


def record(message: str, *arguments: object, error: bool = False, **extra: object) -> logging.LogRecord:
    log_record = logging.LogRecord(
        "app.x", logging.WARNING, "f", 1, message, arguments, sys.exc_info() if error else None
    )
    log_record.__dict__ |= extra
    return log_record


def test_a_line_is_one_json_object():
    """Any message is one line of ASCII with time, level, event, message and fields."""
    line = JsonLines().format(record("two\nlines of %s", "\u2028 \ud800", event="told", token=3, secret="s"))

    assert "\n" not in line
    assert line.isascii()
    entry = json.loads(line)
    assert entry["ts"].endswith("Z")
    assert (entry["level"], entry["event"], entry["token"], entry["logger"]) == (
        "warning",
        "told",
        3,
        "app.x",
    )
    assert entry["message"].startswith("two\nlines")
    assert set(entry) <= {"ts", "level", "event", "message", "logger", "exception", *FIELDS}


def test_fields_are_bound_for_a_block():
    """Fields bound in a block are in all its lines, nested ones added, and are gone after the block."""
    with bound(request_id="r1"):
        with bound(model_id="mdl_1"):
            inner = json.loads(JsonLines().format(record("x")))
        outer = json.loads(JsonLines().format(record("x")))

    assert (inner["request_id"], inner["model_id"]) == ("r1", "mdl_1")
    assert "model_id" not in outer
    assert "request_id" not in json.loads(JsonLines().format(record("x")))


def test_terminals_get_plain_lines():
    """On a terminal a line shows time, level, message and subject."""
    line = TextLines().format(record("it went %s", "well", model_id="mdl_1"))

    assert line.endswith("WARNING it went well  (mdl_1)")


def test_logged_statements_have_no_values(tmp_path):
    """A logged database exception contains the statement and none of its values."""
    engine = make_engine(f"sqlite:///{tmp_path / 'x.db'}")
    values = {"value": "a secret of somebody's"}  # a line of its own: tracebacks show those of the statement
    with pytest.raises(SQLAlchemyError), engine.begin() as connection:
        connection.execute(text("INSERT INTO nowhere VALUES (:value)"), values)
    try:
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO nowhere VALUES (:value)"), values)
    except SQLAlchemyError:
        line = JsonLines().format(record("it failed", error=True))
    engine.dispose()

    assert "INSERT INTO nowhere" in line
    assert "a secret" not in line


def test_warnings_of_libraries_are_lines_as_others():
    """A warning, as of a glyph that a font lacks, is one JSON line, not text among them."""
    code = (
        "import warnings; from app.logging import configure; from app.settings import Settings;"
        "configure(Settings(log_format='json')); warnings.warn('no glyph')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (line,) = ended.stderr.splitlines()
    assert "no glyph" in json.loads(line)["message"]


@pytest.mark.parametrize(("uri", "says"), [(None, []), ("http://runs.example", ["so no fit will be logged"])])
def test_a_worker_says_at_its_start_what_it_lacks(monkeypatch, caplog, uri, says):
    """A tracking server without its package is an error in the log before the first fit, with what to do."""
    monkeypatch.setitem(sys.modules, "mlflow", None)  # as where it isn't installed
    announce(Settings(mlflow_tracking_uri=uri))
    assert len(caplog.messages) == len(says)
    for words, message in zip(says, caplog.messages, strict=True):
        assert words in message
        assert "bartserve[mlflow]" in message


def test_a_worker_says_at_its_start_what_it_has_and_lacks():
    """The line names each part, or the setting that it lacks, and no password."""
    bare = has_and_lacks(Settings(worker_slots=3))
    for words in (
        "slots: 3",
        "sqlite",
        "BARTSERVE_REDIS_URL",
        "BARTSERVE_MLFLOW_TRACKING_URI",
        "WEBHOOK_NETWORKS",
        "none (bartserve.families, .methods, .parts, .tree_laws)",
    ):
        assert words in bare
    team = {"database_url": "postgresql://me:secret@db/x", "redis_url": "redis://:secret@bells:6379/0"}
    full = has_and_lacks(Settings(**team, mlflow_tracking_uri="http://me:secret@runs"))
    assert "postgresql at db; Redis: bells;" in full
    assert "secret" not in full


def test_a_worker_knows_every_group_of_entry_points():
    """Those that the sampler loads: what a package adds to one of them is in the worker's first line."""
    sources = [file.read_text() for file in Path(sampler.__file__).parent.rglob("*.py")]
    groups = [each for text in sources for each in re.findall(r'group="bartserve\.(\w+)"', text)]
    assert sorted(groups) == sorted(OWN)
