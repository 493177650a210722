"""Time: the database's clock for leases, heartbeats and what workers date, and UTC date-times for people."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, DateTime, Dialect, Double, SQLColumnExpression, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator


class db_now(FunctionElement[float]):  # noqa: N801  reads as the SQL function it is
    """Seconds since 1970 by the database's clock, the only clock that all workers share."""

    type = Double()
    inherit_cache = True


@compiles(db_now, "sqlite")
def _sqlite(_element: Any, _compiler: Any, **_kw: Any) -> str:
    # unixepoch('subsec') needs SQLite 3.42; a Julian day as a double resolves 0.04 ms.
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(db_now, "postgresql")
def _postgres(_element: Any, _compiler: Any, **_kw: Any) -> str:
    # clock_timestamp(), since now() stands still at the start of the transaction.
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


def is_near(moment: SQLColumnExpression[Any], behind: float, ahead: float) -> ColumnElement[bool]:
    """Return the condition that a moment by this clock is at most so many seconds behind it or ahead of it.

    A moment further ahead than it was set was written before the clock was set back, and means nothing.
    """
    now = select(db_now()).scalar_subquery()  # read once for all rows: with each, it takes most of the time
    return moment.between(now - behind, now + ahead)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware date-time, always UTC. SQLite drops the time zone, so it is restored here."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert a date-time to UTC for storage; raise `ValueError` for a naive one."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a date-time without a time zone can't be stored")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return a stored date-time as an aware one in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


class db_utc_now(FunctionElement[datetime]):  # noqa: N801  reads as the SQL function it is
    """Date and time by the database's clock, to set a column to: workers' clocks may differ."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(db_utc_now, "sqlite")
def _sqlite_utc(_element: Any, _compiler: Any, **_kw: Any) -> str:
    return "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')"  # as SQLAlchemy stores date-times


@compiles(db_utc_now, "postgresql")
def _postgres_utc(_element: Any, _compiler: Any, **_kw: Any) -> str:
    return "clock_timestamp()"


def utc_now() -> datetime:
    """Return the current time as an aware date-time in UTC."""
    return datetime.now(UTC)
