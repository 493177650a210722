"""Resources: what owners have of a kind, with a life: it is found, listed, cancelled and deleted alike."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy.orm import Session

from app.services import cursors
from app.services.access import audit
from app.services.cursors import Page
from app.services.errors import ConflictError, NotFoundError
from app.store.errors import is_id
from app.store.tables import CANCELLED, OPEN_STATES

FoundRow = TypeVar("FoundRow")
Viewed = TypeVar("Viewed")
Shown = TypeVar("Shown", bound=Page[Any])


@dataclass(frozen=True)
class Resource(Generic[FoundRow, Viewed, Shown]):
    """Resources of a kind.

    Attributes
    ----------
    kind
        Its name in audits, such as "study".
    path
        Path that lists those of an owner.
    table
        What reads and changes the rows of the store: `get`, `list_page`, `cancel` and `delete`.
    view_of
        View of a row.
    page
        Page of views.
    listed
        View of a row in a page, where it is another one.

    """

    kind: str
    path: str
    table: Any
    view_of: Callable[[Session, FoundRow], Viewed]
    page: Callable[[list[Viewed], str | None], Shown]
    listed: Callable[[Session, FoundRow], Viewed] | None = None

    def get(self, session: Session, owner: str, item_id: str, **how: Any) -> FoundRow:
        """Return the owner's resource with this id; raises NotFoundError."""
        row: FoundRow | None = self.table.get(session, owner, item_id, **how) if is_id(item_id) else None
        if row is None:
            raise NotFoundError(f"There is no {self.kind} with this id: GET {self.path} lists yours.")
        return row

    def view(self, session: Session, owner: str, item_id: str) -> Viewed:
        """Return the view of the owner's resource with this id; raises NotFoundError."""
        return self.view_of(session, self.get(session, owner, item_id))

    def list_page(
        self, session: Session, owner: str, limit: int, cursor: str | None, *which: str | None
    ) -> Shown:
        """Return a page of the owner's resources, newest first; raises InvalidRequestError."""
        rows = self.table.list_page(session, owner, limit + 1, cursors.after(cursor), *which)
        page: Page[Any] = cursors.cut(rows, limit)
        show = self.listed or self.view_of
        return self.page([show(session, row) for row in page.items], page.next_cursor)

    def cancel(self, session: Session, owner: str, item_id: str) -> Viewed:
        """Cancel a resource; cancelling it again has no effect.

        Raises NotFoundError, and ConflictError when it has ended.
        """
        row: Any = self.get(session, owner, item_id)
        if row.state not in {*OPEN_STATES, CANCELLED}:
            raise ConflictError(f"The {self.kind} has {row.state}: there is nothing left to cancel.")
        if row.state != CANCELLED and not row.cancel_requested:
            audit.record(session, owner, f"{self.kind}.cancelled", item_id)
        self.table.cancel(session, owner, item_id)
        return self.view(session, owner, item_id)

    def delete(self, session: Session, owner: str, item_id: str) -> None:
        """Delete a resource with what belongs to it, whatever its state; raises NotFoundError."""
        self.get(session, owner, item_id)
        self.table.delete(session, owner, item_id)
        audit.record(session, owner, f"{self.kind}.deleted", item_id)
