"""Uploads: a file as a raw body or as a multipart part, streamed to a temporary file."""

import errno
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Annotated, Any, BinaryIO

from anyio import to_thread
from fastapi import Depends, Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from app.services.errors import BusyError, InvalidRequestError, UnsupportedMediaError
from app.services.readers.options import Format
from app.web.negotiation import content_type
from app.web.read_options import BINARY, FILES

IN_MEMORY_BYTES = 4 * 1024 * 1024  # larger model files are streamed to disk
RETRY_SECONDS = 60  # when the disk is full
WRITE_BYTES = 1 << 20  # size of writes
FORM = "multipart/form-data"
CODINGS = {"", "identity", "gzip", "x-gzip"}  # gzip is detected by its signature
HOW = "curl: --data-binary @data.csv -H 'Content-Type: text/csv', or -F file=@data.csv"
OPENAPI: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": dict.fromkeys(FILES, BINARY)
        | {
            FORM: {
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
    """An uploaded file at its beginning, with its form fields; `promised` is its content type's format."""

    file: BinaryIO
    promised: Format | None = None
    filename: str | None = None
    name: str | None = None


def check_coding(request: Request) -> None:
    """Raise UnsupportedMediaError for an unsupported content coding."""
    if (coding := request.headers.get("content-encoding", "").strip().lower()) not in CODINGS:
        raise UnsupportedMediaError(
            f"The content coding {coding[:40]!r} is not supported: send gzip, or none."
        )


async def _received(request: Request) -> AsyncIterator[Received]:
    check_coding(request)
    kind = content_type(request.scope)
    if kind == FORM:
        async for received in _from_form(request):
            yield received
    elif kind in FILES:
        with TemporaryFile() as file:
            await _collect(request, file)
            yield Received(file, FILES[kind])
    else:
        raise UnsupportedMediaError(f"Send the file as {', '.join(FILES)} or {FORM} ({HOW}).")


async def _collect(request: Request, file: BinaryIO) -> None:
    """Write the body to disk, with at most a megabyte of it in memory."""
    held = bytearray()
    with _room():
        async for chunk in request.stream():
            held += chunk
            if len(held) >= WRITE_BYTES:
                await to_thread.run_sync(file.write, bytes(held))
                held.clear()
        file.write(held)
        file.seek(0)


@contextmanager
def _room() -> Iterator[None]:
    """Convert a full disk to BusyError, since it is not the client's fault."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        message = (
            "The folder of temporary files has no room for the file now: try again, and if that doesn't "
            "help, send fewer rows."
        )
        raise BusyError(message, retry_after=RETRY_SECONDS) from None


async def _from_form(request: Request) -> AsyncIterator[Received]:
    try:
        with _room():
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
        name = name if isinstance(name, str) else None
        yield Received(files[0].file, None, files[0].filename, name)
    finally:
        await form.close()


Upload = Annotated[Received, Depends(_received)]
