"""Helpers shared by several query modules."""

from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Select, tuple_
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import UpdateBase

S = TypeVar("S", bound=Select[Any])
After = tuple[datetime, str]  # (created_at, id) of the last item of the previous page


def rows_changed(session: Session, statement: UpdateBase) -> int:
    """Run an UPDATE or DELETE and return the number of rows it matched."""
    result: Any = session.execute(statement, execution_options={"synchronize_session": False})
    return int(result.rowcount)


def page(statement: S, table: Any, limit: int, after: After | None) -> S:
    """Select the newest `limit` rows, or those that follow `after`; stable under inserts."""
    if after is not None:
        statement = statement.where(tuple_(table.created_at, table.id) < tuple_(*after))
    return statement.order_by(table.created_at.desc(), table.id.desc()).limit(limit)
