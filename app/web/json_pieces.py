"""Large JSON texts, parsed and written in pieces: a compiled call lets no other thread run until it ends."""

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from json import JSONDecodeError, JSONDecoder
from json.decoder import JSONObject  # type: ignore[attr-defined]  # in Python: it asks us for each value
from json.scanner import make_scanner
from typing import Any

from pydantic_core import to_json

PIECE = 32 * 1024  # characters that the compiled scanner is given at once
SCALARS = (str, float, int)
VALUES = 5000  # that the compiled writer is given at once
DEEPEST = 8  # lists and objects in one another that are each longer than a piece
TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
SPACE = re.compile(r"[ \t\n\r]*")
CLOSING = {"{": "}", "[": "]"}
Scan = Callable[[str, int], tuple[Any, int]]


class TooManyError(ValueError):
    """A list or an object has too many entries, or the text too many lists and objects."""


class Pieces:
    """A parser of texts of any length, with the scanner and the hooks of a decoder.

    Parameters
    ----------
    decoder
        Scans the pieces.
    most
        The most entries of a list or an object longer than a piece, and lists and objects in all.
    """

    def __init__(self, decoder: JSONDecoder, most: int) -> None:
        self._scan_once, self._hook = make_scanner(decoder), decoder.object_pairs_hook  # type: ignore[arg-type]
        self._most = self._left = most

    def parse(self, text: str) -> Any:
        """Parse a text; raises JSONDecodeError, TooManyError, or RecursionError for one nested too deeply."""
        try:
            value, end = self._scanner(0)(text, _start(text, 0))
        except StopIteration as error:
            raise JSONDecodeError("Expecting value", text, error.value) from None
        if (end := _start(text, end)) < len(text):
            raise JSONDecodeError("Extra data", text, end)
        return value

    def _scanner(self, depth: int) -> Scan:
        """Return the scanner of the entries of one list or object."""
        if depth > DEEPEST:
            raise RecursionError
        scan_once, left = self._scan_once, self._most

        def scan(text: str, at: int) -> tuple[Any, int]:
            nonlocal left
            if (left := left - 1) < 0:
                raise TooManyError
            if (opening := text[at : at + 1]) not in CLOSING:
                return scan_once(text, at)
            piece = text[at : at + PIECE]
            try:
                value, length = scan_once(piece, 0)
            except (JSONDecodeError, StopIteration):  # it is longer, or malformed
                self._count(opening)
                inner = self._scanner(depth + 1)
                if opening == "[":
                    return self._list(text, at + 1, inner)
                found: tuple[Any, int] = JSONObject((text, at + 1), True, inner, None, self._hook, {})
                return found
            self._count(piece[:length])
            return value, at + length

        return scan

    def _list(self, text: str, at: int, scan: Scan) -> tuple[list[Any], int]:
        """Scan the entries of a list: those that end in a piece at once, others one by one."""
        entries: list[Any] = []
        at, tried = _start(text, at), 0
        if text[at : at + 1] == "]":
            return entries, at + 1
        while len(entries) <= self._most:
            if at >= tried:
                several, end, is_last = self._several(text, at)
                entries += several
                if is_last:
                    return entries, end
                at, tried = _start(text, end), end + (0 if several else PIECE)
            try:
                entry, at = scan(text, at)
            except StopIteration as error:
                raise JSONDecodeError("Expecting value", text, error.value) from None
            entries.append(entry)
            at = _start(text, at)
            if text[at : at + 1] == "]":
                return entries, at + 1
            if text[at : at + 1] != ",":
                raise JSONDecodeError("Expecting ',' delimiter", text, at)
            at = _start(text, at + 1)
        raise TooManyError

    def _several(self, text: str, at: int) -> tuple[list[Any], int, bool]:
        """Scan the entries from a position to the last comma in a piece; tell whether the list ended.

        There are none where the comma isn't between entries of this list.
        """
        closing = CLOSING.get(text[at : at + 1], "")
        last = text.rfind(f"{closing},", at, at + PIECE)
        piece = f"[{text[at : last + len(closing)]}]" if last > at else ""
        try:
            entries, length = self._scan_once(piece, 0)
        except (JSONDecodeError, StopIteration):
            return [], at, False
        if not entries:  # no entry before the comma, or before the end after one
            return [], at, False
        self._count(piece[1:length])
        if length < len(piece):  # the list's own end is before the comma
            return entries, at + length - 1, True
        return entries, last + len(closing) + 1, False

    def _count(self, piece: str) -> None:
        """Count the lists and objects that begin in a piece of the text."""
        plain = TEXT.sub("", piece)
        self._left -= plain.count("[") + plain.count("{")
        if self._left < 0:
            raise TooManyError


def _start(text: str, at: int) -> int:
    """Return where the next value begins."""
    found = SPACE.match(text, at)
    return at if found is None else found.end()


def written(value: Any) -> bytes:
    """Return the JSON text of a value or a dataclass; numbers that aren't finite are null."""
    return b"".join(_written(value))


def _written(value: Any) -> Iterator[bytes]:
    value = _plain(value)
    if (size := _size(value)) <= VALUES:
        yield to_json(value, inf_nan_mode="null")
    elif isinstance(value, dict):
        for number, (name, inner) in enumerate(value.items()):
            yield (b"," if number else b"{") + to_json({name: None})[1:-5]
            yield from _written(inner)
        yield b"}"
    else:
        step = max(1, VALUES * len(value) // size)
        for at in range(0, len(value), step):
            yield b"," if at else b"["
            if step == 1:
                yield from _written(value[at])
            else:
                yield to_json(value[at : at + step], inf_nan_mode="null")[1:-1]
        yield b"]"


def _size(value: Any) -> int:
    """Return how many values there are if all entries of a list are as large as the first."""
    if value is None or isinstance(value, SCALARS):
        return 1
    value = _plain(value)
    if isinstance(value, dict):
        return 1 + sum(map(_size, value.values()))
    return len(value) * _size(value[0]) if value and isinstance(value, (list, tuple)) else 1


def _plain(value: Any) -> Any:
    """Return a dataclass as an object of its fields."""
    return {each.name: getattr(value, each.name) for each in fields(value)} if is_dataclass(value) else value
