"""A watch on the order in which transactions lock rows, on either database."""

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from sqlalchemy import Connection, Delete, Engine, Select, Update, event
from sqlalchemy.orm import Session

from app.services.access import quotas
from app.store.tables import LOCK_ORDER, QUOTA


class LockOrder:
    """Record of the locks of each transaction, and of those that were taken too late.

    SQLite takes no row locks, but its statements ask for them, so each of them is judged there too.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._taken: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()

    def take(self, connection: Connection, name: str, statement: str) -> None:
        """Record a lock of a transaction; a first one of its kind after a later kind is a fault."""
        transaction = connection.get_transaction()
        taken = self._taken.setdefault(transaction, []) if transaction is not None else []
        if name not in LOCK_ORDER or name in taken:
            return
        if later := [each for each in taken if LOCK_ORDER.index(each) > LOCK_ORDER.index(name)]:
            self.faults.append(f"{name} is locked after {', '.join(later)}: {statement}")
        taken.append(name)

    def before_statement(
        self, connection: Connection, _cursor: Any, text: str, _parameters: Any, context: Any, _many: bool
    ) -> None:
        """Record the locks of a statement."""
        compiled = getattr(context, "compiled", None)
        asked = None if compiled is None else compiled.statement
        if isinstance(asked, Update | Delete):
            self.take(connection, asked.table.name, text)
        elif isinstance(asked, Select) and (lock := asked._for_update_arg) is not None:
            if lock.skip_locked and (removed := {table.name for table in lock.of} - {"units"}):
                assert len(removed) == 1
                # The removal of a deleted object's rows, which nobody waits for (`app.store.deletion`).
                self._taken[connection.get_transaction()] = list(LOCK_ORDER)
                return
            for table in lock.of or asked.get_final_froms():
                self.take(connection, table.name, text)


@pytest.fixture
def lock_order() -> Iterator[LockOrder]:
    """Watch every transaction of this process; fail if one locks in another order than `LOCK_ORDER`."""
    order = LockOrder()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("hold", "check_stored", "check_queued"):
            patch.setattr(quotas, name, _recorded(getattr(quotas, name), order))
        event.listen(Engine, "before_cursor_execute", order.before_statement)
        try:
            yield order
        finally:
            event.remove(Engine, "before_cursor_execute", order.before_statement)
    assert order.faults == [], "\n".join(order.faults)


def _recorded(check: Any, order: LockOrder) -> Any:
    """Record the lock of a quota, which is taken only where the owner has one."""

    def checked(session: Session, *arguments: Any) -> Any:
        order.take(session.connection(), QUOTA, check.__name__)
        return check(session, *arguments)

    return checked
