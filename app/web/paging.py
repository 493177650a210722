"""Query parameters of paged lists."""

from typing import Annotated

from fastapi import Query

from app.services.cursors import MAX_LIMIT

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Items on a page.")]
Cursor = Annotated[
    str | None, Query(max_length=500, description="`next_cursor` of the previous page; omit for the first.")
]
