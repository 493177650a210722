"""Helpers shared by several query modules."""

from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, select, tuple_
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import UpdateBase

S = TypeVar("S", bound=Select[*tuple[Any, ...]])
After = tuple[datetime, str]  # (created_at, id) of the last item of the previous page


def rows_changed(session: Session, statement: UpdateBase) -> int:
    """Run an UPDATE or DELETE and return the number of rows it matched."""
    result: Any = session.execute(statement, execution_options={"synchronize_session": False})
    return int(result.rowcount)


def lock_rows(session: Session, table: Any, which: ColumnElement[bool]) -> None:
    """Lock the rows of a table that meet a condition, by id, until the transaction ends.

    Statements lock rows as they find them: two that change some of the same rows could wait for each other.
    """
    session.execute(select(table.id).where(which).order_by(table.id).with_for_update(key_share=True))


def page(statement: S, table: Any, limit: int, after: After | None) -> S:
    """Select the newest `limit` rows, or those that follow `after`; stable under inserts."""
    if after is not None:
        statement = statement.where(tuple_(table.created_at, table.id) < tuple_(*after))
    return statement.order_by(table.created_at.desc(), table.id.desc()).limit(limit)
