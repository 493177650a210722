"""Strict JSON bodies: values that other parsers silently accept are refused by name.

Python's parser takes the last of two equal keys, accepts NaN and Infinity, and turns 1e999 into infinity.
Strings may contain a NUL or half a surrogate pair, which no database stores. The route class below refuses
all of these before the schemas see the body; the OpenAPI document remains the one that FastAPI makes from the
schemas.
"""

import json
import math
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from anyio import to_thread
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

from app.services.errors import (
    Fault,
    InvalidRequestError,
    ServiceError,
    TooLargeError,
    UnsupportedMediaError,
    enough,
)
from app.services.readers.options import MAX_COLUMNS
from app.services.readers.unpack import GZIP
from app.services.request_bodies import MAX_FIELDS
from app.store.errors import is_storable
from app.web.errors import UNSTORABLE_TEXT, place, render_error
from app.web.json_pieces import PIECE, Pieces, TooManyError
from app.web.scopes import MAX_SETTINGS_BYTES, GuardedRoute

UNSTORABLE = re.compile(
    rb"\\u(d[89a-f]|0000)", re.IGNORECASE
)  # escapes that may encode one; unescaped ones don't parse
SMALL_BYTES = 64 * 1024  # what takes longer with a body than with one of these is done in a thread
LARGE_BYTES = 1024 * 1024
FEW = 2 * MAX_COLUMNS  # lists and objects of a request without rows, as a change of each column with a list
SPARE = 1000  # lists and objects beside those of the rows
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class _Refused:
    """Placeholder in the parsed body for a refused value."""

    detail: str
    key: str | None = None


class _Marks:
    """Parser hooks that put a placeholder at each fault, and record that there was one."""

    def __init__(self) -> None:
        self.any = False

    def _mark(self, detail: str, key: str | None = None) -> _Refused:
        self.any = True
        return _Refused(detail, key)

    def constant(self, name: str) -> _Refused:
        return self._mark(f"{name} is not a JSON number; omit a missing value or send null")

    def float(self, text: str) -> float | _Refused:
        value = float(text)
        if math.isfinite(value):
            return value
        return self._mark("the number is too large; infinite values are refused")

    def int(self, text: str) -> int | _Refused:
        # Python refuses to parse longer ones, and float64 can't hold them.
        return int(text) if len(text) < 300 else self._mark("the number is too large")

    def object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Refused:
        entries = dict(pairs)
        if len(entries) == len(pairs):
            return entries
        seen: set[str] = set()
        doubled = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return self._mark("the key occurs twice in one object", doubled)


def parse(body: bytes, max_rows: int = 100_000) -> Any:
    """Parse a JSON text.

    Raises
    ------
    InvalidRequestError
        It is not JSON, or has a duplicate key, a number that isn't finite, a NUL or half a surrogate pair.
    TooLargeError
        It is large and has more lists and objects, or longer ones, than a request with so many rows.
    UnsupportedMediaError
        It is compressed.
    """
    if body.startswith(GZIP):
        raise UnsupportedMediaError("JSON can't be compressed here: send it without gzip, or rows as a file.")
    marks = _Marks()
    try:
        text = body.decode("utf-8-sig")  # some editors put a byte order mark first
        decoder = json.JSONDecoder(
            parse_constant=marks.constant,
            parse_float=marks.float,
            parse_int=marks.int,
            object_pairs_hook=marks.object,
        )
        is_small = len(body) < SMALL_BYTES
        value = decoder.decode(text) if is_small else Pieces(decoder, max_rows + SPARE).parse(text)
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"The body is not UTF-8 (byte {error.start}).") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequestError(f"The body is not JSON: {error.msg} at {where}.") from None
    except RecursionError:
        raise InvalidRequestError("The body is nested too deeply.") from None
    except TooManyError:
        message = (
            f"This is too much for one request: send at most {max_rows} rows, or entries of a list, at once."
        )
        raise TooLargeError(message) from None
    if marks.any or any(UNSTORABLE.search(body, at, at + PIECE + 5) for at in range(0, len(body), PIECE)):
        _refuse_marked(value)
    return value


def _refuse_marked(value: Any) -> None:
    if faults := enough(_marked(value)):
        raise InvalidRequestError(errors=faults)


def _marked(value: Any) -> Iterator[Fault]:
    for path, item in _walk(value):
        if isinstance(item, _Refused):
            yield Fault(*place(path if item.key is None else (*path, item.key)), item.detail)
        elif isinstance(item, str) and not is_storable(item):
            yield Fault(*place(path), UNSTORABLE_TEXT)


def _walk(value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield every scalar and every key with its path; a loop, since the sender chooses the depth."""
    left: list[tuple[Path, Any]] = [((), value)]
    while left:
        path, item = left.pop()
        if isinstance(item, dict):
            yield from (((*path, key), key) for key in item)
            left.extend(((*path, key), inner) for key, inner in reversed(item.items()))
        elif isinstance(item, list):
            left.extend(((*path, index), inner) for index, inner in reversed(list(enumerate(item))))
        else:
            yield path, item


class _StrictRequest(Request):
    parsed: Any = None

    async def json(self) -> Any:
        """Return the body, parsed before FastAPI asks for it and turns our error into a bare 400."""
        return self.parsed


class StrictRoute(GuardedRoute):
    """Route that reads JSON bodies with `parse` and refuses other bodies with 415."""

    instead = ""  # other accepted content types, for the error message

    def file_of(self, request: Request) -> Request | None:  # noqa: ARG002
        """Return a request whose body is a file, which the endpoint reads; None for JSON."""
        return None

    async def answer_directly(self, request: Request, value: Any) -> Response | None:  # noqa: ARG002
        """Answer a parsed body without FastAPI's handler; None leaves it to that, refusals included."""
        return None

    def _validated(self, body: bytes, max_rows: int) -> tuple[Any, list[Any]]:
        """Parse a large body and validate it, in a thread: FastAPI takes the result as it is."""
        assert self.body_field is not None
        _refuse_many_fields(value := parse(body, max_rows))
        return self.body_field.validate(value, {}, loc=("body",))

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler on a request that parses strictly."""
        handler = super().get_route_handler()
        if self.body_field is None:
            return handler

        async def handle(request: Request) -> Response:
            strict = _StrictRequest(request.scope, request.receive)
            try:
                if (with_file := self.file_of(request)) is not None:
                    return await handler(with_file)
                size = len(body := await strict.body())
                if size and not _says_json(request.headers.get("content-type", "")):
                    raise UnsupportedMediaError(
                        f"Send JSON, with the header  Content-Type: application/json{self.instead}"
                    )
                # A parsed body takes many times its length: limit the number of large ones.
                places = request.app.state.large_bodies
                async with places.place() if size > LARGE_BYTES else nullcontext():
                    if size >= SMALL_BYTES:
                        has_rows = self.needs.body > MAX_SETTINGS_BYTES
                        most = max(100_000, request.app.state.settings.max_predict_rows) if has_rows else FEW
                        strict.parsed, errors = await to_thread.run_sync(self._validated, body, most)
                        if errors:
                            raise RequestValidationError(errors)
                    elif size:
                        _refuse_many_fields(value := parse(body))
                        strict.parsed = value
                    if size and (answer := await self.answer_directly(strict, strict.parsed)) is not None:
                        return answer
                    return await handler(strict)
            except ServiceError as error:
                # Its traceback, a cycle with the thread's future, has what was parsed.
                return render_error(request.scope, error.with_traceback(None))

        return handle


def _refuse_many_fields(value: Any) -> None:
    """Refuse an object with so many fields that each would cause an error entry."""
    if isinstance(value, dict) and len(value) > MAX_FIELDS:
        raise InvalidRequestError(f"The request has {len(value)} fields; at most {MAX_FIELDS} are accepted.")


def _says_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
