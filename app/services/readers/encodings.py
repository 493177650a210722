"""Encoding of a text file: detected where that is certain enough, reported, and open to an override.

UTF-8 identifies itself, since text in other encodings is hardly ever valid UTF-8. UTF-16 is recognised by its
byte order mark, or by a zero in every other byte. Other encodings can't be told apart from a few letters (a
detector takes "José" for Hungarian), so only text that reads as Western European is accepted, as Windows-1252
(a superset of Latin-1); the response says so and shows a line.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from encodings.aliases import aliases
from typing import BinaryIO

from charset_normalizer import from_bytes

from app.services.errors import Fault, InvalidRequestError, TooLargeError, UnusableDataError
from app.services.readers.scratch import Scratch

CHUNK = 1 << 20
NO_TEXT_FILE = (
    "This is not a CSV file: line {line} holds a NUL, as binary files do. Save the table as CSV or Excel, "
    "and send that file."
)
SAMPLE_BYTES = 32 * 1024  # sample of the lines that are not ASCII
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
NO_TEXT = {"base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec", "zlib_codec"}
KNOWN = set(aliases.values()) - NO_TEXT - {"mbcs", "tactis", "utf_7"}
TITLES = {"utf-8": "UTF-8", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16", "cp1252": "Windows-1252"}
WESTERN = "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜßàáâãäåæçèéêëìíîïñòóôõöøùúûüÿŒœŠšŽžŸ"  # not ðþý, which are ğşı
# In Western text a letter beyond ASCII stands next to other letters, a symbol hardly ever between two letters
# or beside another symbol, and some symbols do not occur.
_SIGN = rf"[^\x00-\x7f{WESTERN}"
_DASHES = r"\u2019\u201d\u2026\u2013\u2014\xa0"  # and closing quotes, which may stand beside anything
FOREIGN = re.compile(
    rf"[{WESTERN}]{{4}}"
    rf"|[A-Za-z{WESTERN}]{_SIGN}{_DASHES}\xb4\xaa\xba\xb0\xb2\xb3][A-Za-z{WESTERN}]"
    rf"|{_SIGN}{_DASHES}]{{2}}"
    r"|[\u2020\u2021\u02c6\u0192\u2039\u203a\xa4\xa6\xac\xaf\xb8]"
)


@dataclass(frozen=True)
class Encoding:
    """The encoding that a file was read in; `guessed` if it could have been another."""

    name: str
    mark: bool = False
    guessed: bool = False
    example: str = ""  # a line that shows the guess

    @property
    def title(self) -> str:
        """Display name of the encoding."""
        return TITLES.get(self.name, self.name)


def check_encoding(name: str) -> str:
    """Return Python's name of an encoding; raises InvalidRequestError."""
    key = name.strip().lower().replace("-", "_").replace(" ", "_")
    key = aliases.get(key, key).removesuffix("_sig")
    if key not in KNOWN:
        message = "unknown encoding: use utf-8, utf-16, windows-1252, latin-1, iso8859-15 or the like"
        raise InvalidRequestError(errors=[Fault("encoding", None, message)])
    return codecs.lookup(key).name


def as_utf8(
    file: BinaryIO, encoding_name: str | None, max_bytes: int, scratch: Scratch
) -> tuple[BinaryIO, int, Encoding]:
    """Return the file as UTF-8, the position after its byte order mark, and the original encoding.

    Raises
    ------
    UnusableDataError
        It is not in the given encoding, the encoding can't be detected, or it has zero bytes; names the line.
    TooLargeError
        It has more than `max_bytes` as UTF-8.
    """
    file.seek(0)
    head = file.read(4096)
    mark, marked = next(((m, name) for m, name in MARKS if head.startswith(m)), (b"", None))
    name = check_encoding(encoding_name) if encoding_name is not None else marked or _by_zeros(head)
    if name in {"utf-16", "utf-32"}:
        name = marked if marked is not None and marked.startswith(name) else f"{name}-le"
    start = len(mark) if marked is not None and codecs.lookup(marked) == codecs.lookup(name or "utf-8") else 0
    if name is None or codecs.lookup(name).name in {"utf-8", "ascii"}:
        refused = _not_utf8(file, start)
        if refused is None:
            return file, start, Encoding("utf-8", mark=start > 0)
        if name is not None or not refused[1]:
            raise UnusableDataError(
                f"The file is not UTF-8: {refused[0]}. Save it as UTF-8 (in Excel: 'CSV UTF-8'), or name its "
                "encoding (?encoding=windows-1252)."
            )
        name, example = _guess(file, refused[0])
        return (
            _transcoded(file, 0, name, max_bytes, scratch),
            0,
            Encoding(name, guessed=True, example=example),
        )
    return _transcoded(file, start, name, max_bytes, scratch), 0, Encoding(name, mark=start > 0)


def _by_zeros(head: bytes) -> str | None:
    """Detect UTF-16 without a byte order mark: every other byte of ASCII letters is zero."""
    half = len(head) // 2
    if half < 2:
        return None
    even, odd = head[0 : 2 * half : 2].count(0), head[1 : 2 * half : 2].count(0)
    if odd > 0.7 * half and even < 0.1 * half:
        return "utf-16-le"
    return "utf-16-be" if even > 0.7 * half and odd < 0.1 * half else None


def _not_utf8(file: BinaryIO, start: int) -> tuple[str, bool] | None:
    """Return why the file is not UTF-8, and whether it may have another encoding; None for valid UTF-8.

    Raises UnusableDataError for a zero byte.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, refused, beyond_ascii = 1, None, False
    for block in _blocks(file, start):
        if (zero := block.find(b"\0")) >= 0:
            line += block.count(b"\n", 0, zero)
            raise UnusableDataError(NO_TEXT_FILE.format(line=line))
        if refused is None:
            try:
                beyond_ascii = not decoder.decode(block).isascii() or beyond_ascii
            except UnicodeDecodeError as error:
                at = line + error.object.count(b"\n", 0, error.start)
                byte = error.object[error.start]
                refused = f"line {at} contains the byte 0x{byte:02x}, which begins no character"
                beyond_ascii = beyond_ascii or not error.object[: error.start].isascii()
        line += block.count(b"\n")
    if refused is not None:
        return refused, not beyond_ascii
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return f"it ends within a character, in line {line}", False
    return None


def _guess(file: BinaryIO, refused: str) -> tuple[str, str]:
    """Return Windows-1252 and a sample line if the whole file reads as Western text."""
    sample = bytearray()
    rest = b""
    western = True
    for block in _blocks(file, 0):
        lines = (rest + block).split(b"\n")
        rest = lines.pop()[-CHUNK:]
        western = western and all(map(_is_western, lines))
        if len(sample) < SAMPLE_BYTES:
            telling = [line for line in lines if not line.isascii()]
            sample += b"\n".join(telling)[: SAMPLE_BYTES - len(sample)] + b"\n" * bool(telling)
    western = western and _is_western(rest)
    sample += rest[: SAMPLE_BYTES - len(sample)]
    if western:
        lines = [line for line in bytes(sample).split(b"\n") if not line.isascii()]
        return "cp1252", lines[0].decode("cp1252", "replace").strip()[:80]
    candidates = (match.encoding for match in from_bytes(bytes(sample)))
    maybe = next((name for name in candidates if name in KNOWN and not name.startswith("utf")), "cp1251")
    raise UnusableDataError(
        f"The file is not UTF-8 ({refused}), and its encoding can't be detected: save it as UTF-8 (in Excel: "
        f"'CSV UTF-8'), or name its encoding (perhaps ?encoding={maybe})."
    )


def _is_western(line: bytes) -> bool:
    if line.isascii():
        return True
    try:
        return FOREIGN.search(line.decode("cp1252")) is None
    except UnicodeDecodeError:
        return False


def _transcoded(file: BinaryIO, start: int, name: str, max_bytes: int, scratch: Scratch) -> BinaryIO:
    decoder = codecs.getincrementaldecoder(name)()
    transcoded = scratch.file()
    line, written = 1, 0
    blocks = _blocks(file, start)
    while True:
        block = next(blocks, b"")
        try:
            text = decoder.decode(block, final=not block)
            data = text.encode()
        except UnicodeError:
            raise UnusableDataError(
                f"The file is not {TITLES.get(name, name)}: it has invalid bytes after line {line}. Save it "
                "as UTF-8, or name another encoding (?encoding=windows-1252)."
            ) from None
        if "\0" in text:
            line += text.count("\n", 0, text.index("\0"))
            raise UnusableDataError(NO_TEXT_FILE.format(line=line))
        line += text.count("\n")
        written += transcoded.write(data)
        if written > max_bytes:
            raise TooLargeError(
                f"As text the file has more than {max_bytes >> 20} MB: send fewer rows or columns."
            )
        if not block:
            return transcoded


def _blocks(file: BinaryIO, start: int) -> Iterator[bytes]:
    file.seek(start)
    while block := file.read(CHUNK):
        yield block
