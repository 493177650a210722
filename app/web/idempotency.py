"""The `Idempotency-Key` header: fingerprints of requests, changes that they make once, and replays."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO

from fastapi import BackgroundTasks, Depends, Header, Request, Response
from sqlalchemy.orm import Session

from app.services import views
from app.services.access.idempotency import IdempotentRequest, StoredResponse, once
from app.web.dependencies import Owner, TheBell, TheEngine, TheTransactions
from app.web.rows_route import FileRequest
from app.web.scopes import in_thread

READ_BYTES = 1024 * 1024
REPLAYED = "Idempotent-Replayed"
LOOK_AGAIN = "1"  # Retry-After in seconds for the state of what was queued

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


@dataclass(frozen=True)
class IdempotentChange:
    """A change that a request makes once: its response is stored with it, and workers hear of queued work."""

    engine: TheEngine
    transactions: TheTransactions
    request: TheIdempotentRequest
    bell: TheBell
    after: BackgroundTasks

    def once(self, make: Callable[[], StoredResponse]) -> Response:
        """Render the stored response to this request, else the one that `make` returns and stores."""
        return render(once(self.engine, self.request, make))

    def done(
        self, session: Session, view: Any, status: int = 200, headers: dict[str, str] | None = None
    ) -> StoredResponse:
        """Store the response that shows what changed, in the session of the change, and return it."""
        answer = StoredResponse(status, headers or {}, views.to_json(view))
        self.request.remember(session, answer)
        return answer

    def queued(
        self, session: Session, view: Any, place: str | None, *, units: int = 1, look_again: str = LOOK_AGAIN
    ) -> StoredResponse:
        """Store the 202 response with the URL of what was queued, if it has a place, and wake workers."""
        at = {} if place is None else {"Location": f"{place}/{view.id}"}
        self.after.add_task(self.bell.ring, units)
        return self.done(session, view, 202, at | {"Retry-After": look_again})


TheChange = Annotated[IdempotentChange, Depends()]
