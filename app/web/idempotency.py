"""The `Idempotency-Key` header: a dependency that knows the request, and the answer as it is sent (again)."""

import hashlib
from typing import Annotated, BinaryIO

from fastapi import Depends, Header, Request, Response

from app.services.access.idempotency import Asked, StoredResponse
from app.web.dependencies import Owner

READ_BYTES = 1024 * 1024
REPLAYED = "Idempotent-Replayed"

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A text of your own, new for each thing to be made. The same request sent again within "
        "24 hours under the same key is answered as the first was, with `Idempotent-Replayed: true`.",
    ),
]


async def _asked(request: Request, owner: Owner, key: Key = None) -> Asked:
    if key is None:
        return Asked(owner, "", None, "")
    route = f"{request.method} {request.url.path}"
    digest = hashlib.sha256(f"{route}?{request.url.query}\n".encode() + await request.body())
    return Asked(owner, route, key, digest.hexdigest())


# For routes that read their whole body anyway.
TheAsked = Annotated[Asked, Depends(_asked)]


def of_file(request: Request, owner: str, key: str | None, file: BinaryIO, *told: str | None) -> Asked:
    """The same for a file that was streamed to the disk, with what was told of it.

    The file counts, not the body, whose boundaries are new each time. It is left at its beginning.
    """
    if key is None:
        return Asked(owner, "", None, "")
    route = f"{request.method} {request.url.path}"
    digest = hashlib.sha256(f"{route}?{request.url.query}\n{told!r}\n".encode("utf-8", "backslashreplace"))
    while chunk := file.read(READ_BYTES):
        digest.update(chunk)
    file.seek(0)
    return Asked(owner, route, key, digest.hexdigest())


def render(answer: StoredResponse) -> Response:
    """An answer as a response."""
    replayed = {REPLAYED: "true"} if answer.replayed else {}
    return Response(answer.body, answer.status, answer.headers | replayed, media_type="application/json")
