"""Routes that take rows: as JSON, or as a file whose options are query parameters."""

from collections.abc import Callable
from tempfile import TemporaryFile
from typing import Any, BinaryIO, TypeVar

from fastapi import Request
from pydantic import BaseModel
from starlette.datastructures import Headers, MutableHeaders

from app.services.errors import Fault, InvalidRequestError
from app.web.json_body import StrictRoute
from app.web.read_options import BINARY, FILES
from app.web.uploads import check_coding

OPENAPI: dict[str, Any] = {"requestBody": {"content": dict.fromkeys(FILES, BINARY)}}
T = TypeVar("T")


class FileRequest(Request):
    """A request with a file, which FastAPI takes for one with an empty JSON object.

    Raises UnsupportedMediaError for an unsupported content coding.
    """

    def __init__(self, request: Request, kind: str) -> None:
        super().__init__(request.scope, request.receive)
        check_coding(request)
        self.promised = FILES[kind]
        self._as_json = MutableHeaders(raw=list(request.headers.raw))
        self._as_json["content-type"] = "application/json"

    @property
    def headers(self) -> Headers:
        """The headers, with the content type of JSON."""
        return self._as_json

    async def body(self) -> bytes:
        """Return an empty JSON object."""
        return b"{}"

    async def json(self) -> Any:
        """Return an empty object."""
        return {}

    async def content(self) -> bytes:
        """Receive the file."""
        return await super().body()

    async def reading(self, work: Callable[[BinaryIO], T]) -> Callable[[], T]:
        """Receive the file, and return work that reads it from the disk."""
        content = await self.content()

        def read() -> T:
            with TemporaryFile() as file:
                file.write(content)
                return work(file)

        return read


class RowsRoute(StrictRoute):
    """Route whose endpoint gets JSON, or a `FileRequest`: the content type is looked at here, once."""

    instead = f", or a file with one of these: {', '.join(FILES)}"

    def file_of(self, request: Request) -> Request | None:
        """Return the request with its file, None for one without."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        return FileRequest(request, kind) if kind in FILES else None


def refuse_misplaced(query: BaseModel) -> None:
    """Refuse query parameters beside JSON rows unless they equal the default; raises InvalidRequestError."""
    if misplaced := query.model_dump(exclude_defaults=True):
        message = "query parameters are for rows in a file; with JSON rows put the option into the body"
        raise InvalidRequestError(errors=[Fault(name, None, message) for name in sorted(misplaced)])
