"""A file that comes in, as a raw body or as a multipart part, streamed to a temporary file."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import Annotated, Any, BinaryIO, cast

from fastapi import Depends, Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from app.services.errors import InvalidRequestError, UnsupportedMediaError

IN_MEMORY_BYTES = 4 * 1024 * 1024  # larger files go to the disk as they come
RAW = frozenset(
    {"text/csv", "application/csv", "text/plain", "text/tab-separated-values", "application/octet-stream"}
)
HOW = "curl: --data-binary @data.csv -H 'Content-Type: text/csv', or -F file=@data.csv"
OPENAPI: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "text/csv": {"schema": {"type": "string", "format": "binary"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "name": {"type": "string"},
                    },
                }
            },
        },
    }
}


@dataclass(frozen=True)
class Received:
    """The file, at its beginning, and what came with it."""

    file: BinaryIO
    filename: str | None = None
    name: str | None = None


async def _received(request: Request) -> AsyncIterator[Received]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        async for received in _from_form(request):
            yield received
    elif kind in RAW:
        with SpooledTemporaryFile(IN_MEMORY_BYTES) as file:
            upload = UploadFile(cast("BinaryIO", file))
            async for chunk in request.stream():
                await upload.write(chunk)  # in a thread once it is on the disk
            await upload.seek(0)
            yield Received(upload.file)
    else:
        raise UnsupportedMediaError(f"Send the file as text/csv or as multipart/form-data ({HOW}).")


async def _from_form(request: Request) -> AsyncIterator[Received]:
    try:
        form = await request.form(max_files=1, max_fields=4)
    except HTTPException as error:
        if error.status_code == 413:
            raise
        raise InvalidRequestError(f"The multipart body can't be read: {error.detail}") from None
    try:
        files = [part for part in form.values() if isinstance(part, UploadFile)]
        if len(files) != 1:
            raise InvalidRequestError(f"Send one file as a part with a file name ({HOW}).")
        name = form.get("name")
        yield Received(files[0].file, files[0].filename, name if isinstance(name, str) else None)
    finally:
        await form.close()


Upload = Annotated[Received, Depends(_received)]
