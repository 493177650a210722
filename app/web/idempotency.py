"""The `Idempotency-Key` header: a dependency that fingerprints the request, and the replay of responses."""

import hashlib
from typing import Annotated, BinaryIO

from fastapi import Depends, Header, Request, Response

from app.services.access.idempotency import IdempotentRequest, StoredResponse
from app.web.dependencies import Owner
from app.web.rows_route import FileRequest
from app.web.scopes import in_thread

READ_BYTES = 1024 * 1024
REPLAYED = "Idempotent-Replayed"

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A unique text for each object to create. The same request repeated within 24 hours with "
        "the same key gets the first response again, with `Idempotent-Replayed: true`.",
    ),
]


async def _idempotent_request(
    request: Request, owner: Owner, key: IdempotencyKey = None
) -> IdempotentRequest:
    if key is None:
        return IdempotentRequest(owner, "", None, "")
    route = f"{request.method} {request.url.path}"
    sent = await (request.content() if isinstance(request, FileRequest) else request.body())
    digest = await in_thread(hashlib.sha256, f"{route}?{request.url.query}\n".encode() + sent)
    return IdempotentRequest(owner, route, key, digest.hexdigest())


# For routes that read the whole body anyway.
TheIdempotentRequest = Annotated[IdempotentRequest, Depends(_idempotent_request)]


def of_file(
    request: Request, owner: str, key: str | None, file: BinaryIO, *claims: str | None
) -> IdempotentRequest:
    """Fingerprint a request whose file was streamed to disk, together with its other fields.

    The file counts, not the body, whose boundaries differ each time. It is left at its beginning.
    """
    if key is None:
        return IdempotentRequest(owner, "", None, "")
    route = f"{request.method} {request.url.path}"
    digest = hashlib.sha256(f"{route}?{request.url.query}\n{claims!r}\n".encode("utf-8", "backslashreplace"))
    while chunk := file.read(READ_BYTES):
        digest.update(chunk)
    file.seek(0)
    return IdempotentRequest(owner, route, key, digest.hexdigest())


def render(answer: StoredResponse) -> Response:
    """Render a stored response."""
    replayed = {REPLAYED: "true"} if answer.replayed else {}
    return Response(answer.body, answer.status, answer.headers | replayed, media_type="application/json")
