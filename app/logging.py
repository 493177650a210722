"""Logging: one JSON object per line on stderr, or plain lines on a terminal.

Besides its message, a line has the fields of `FIELDS`, given as `extra`, or by `bound` for all lines of a
request or a unit. No field holds data or keys, and the engine keeps the parameters of statements out of
exceptions.
"""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.settings import Settings

FIELDS = (
    "event",
    "request_id",
    "trace_id",
    "method",
    "route",
    "status",
    "problem",
    "duration_ms",
    "model_id",
    "prediction_id",
    "study_id",
    "dataset_id",
    "unit_id",
    "kind",
    "chain",
    "token",
    "outcome",
    "worker_id",
)
_encode = json.JSONEncoder(default=str).encode  # made once: to make it takes as long as to encode a line
_bound: ContextVar[dict[str, Any]] = ContextVar("log_fields", default={})  # noqa: B039  never mutated


def bind(**fields: Any) -> None:
    """Add these fields to every later log line of this request, also in threads started by anyio."""
    _bound.set(_bound.get() | {name: value for name, value in fields.items() if value is not None})


@contextmanager
def bound(**fields: Any) -> Iterator[None]:
    """Add these fields to every log line in a block."""
    token = _bound.set(_bound.get() | fields)
    try:
        yield
    finally:
        _bound.reset(token)


def configure(settings: "Settings") -> None:
    """Configure the root logger of this process."""
    text = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextLines() if text else JsonLines())
    level = settings.log_level or ("warning" if text else "info")
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)  # else those of libraries are plain lines among the JSON ones
    logging.getLogger("celery").setLevel(logging.WARNING)
    # httpx logs every URL, including keys in the query.
    for chatty in ("httpx", "httpcore", "alembic", "numba", "matplotlib"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a log line besides its message."""
    fields = {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
    return _bound.get() | fields


class JsonLines(logging.Formatter):
    """Formatter for a JSON object per line: ts, level, event, message, logger, the fields, and exception."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, ASCII only."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "ts": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": "log",
            "message": record.getMessage(),
            "logger": record.name,
        }
        line |= fields_of(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _encode(line)


class TextLines(logging.Formatter):
    """Formatter for plain lines on a terminal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with the model or request id at its end."""
        fields = fields_of(record)
        about = next((fields[name] for name in ("model_id", "request_id") if name in fields), None)
        return super().format(record) + (f"  ({about})" if about else "")
