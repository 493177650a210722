"""Decompression of uploaded files within limits, and detection of their format by signature."""

import errno
import gzip
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO, cast

from app.services.errors import TooLargeError, UnusableDataError
from app.services.readers.options import Format
from app.services.readers.scratch import Scratch

CHUNK = 1 << 20
MAX_RATIO = 200  # unpacked to packed bytes; real text has less than a tenth of it
RATIO_FROM = 32 << 20  # unpacked size below which any ratio is accepted
LAYERS = 2  # a .csv.gz file that was compressed again on its way
GZIP = b"\x1f\x8b"
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
MIB = 1 << 20
WORKBOOKS: dict[str, Format] = {"xl/workbook.xml": "xlsx", "xl/workbook.bin": "xlsb", "content.xml": "ods"}
JSON = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\{\s*["}]|\[\s*[\[{])')
NO_TABLES = (
    (b"%PDF", "a PDF document: send the table as CSV"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it, or compress it with gzip"),
    (b"BZh", "compressed with bzip2: unpack it, or compress it with gzip"),
    (b"\xfd7zXZ", "compressed with xz: unpack it, or compress it with gzip"),
    (b"7z\xbc\xaf", "a 7z archive: unpack it first"),
    (b"SQLite format 3", "a SQLite database: export the table as CSV"),
    (b"\x89HDF", "an HDF5 file: export the table as Parquet or CSV"),
    (b"FEA1", "an old Feather file: save it as Parquet or as an Arrow file"),
    (b"ORC", "an ORC file: save it as Parquet"),
    (b"Obj\x01", "an Avro file: save it as Parquet or CSV"),
    (b"<?xml", "an XML document: send the table as CSV"),
    (b"<!DOCTYPE", "a web page: send the table as CSV"),
    (b"<html", "a web page: send the table as CSV"),
)


def unpack(file: BinaryIO, max_bytes: int, scratch: Scratch) -> tuple[BinaryIO, str | None]:
    """Return the uncompressed file, and how it was compressed: "gzip", "zip" (of one file) or None.

    Raises
    ------
    TooLargeError
        It unpacks to more than `max_bytes`, or to far more than was sent.
    UnusableDataError
        The compressed data are damaged or truncated, or an archive has several files.
    """
    compression = None
    for _ in range(LAYERS + 1):
        file.seek(0)
        head, size = file.read(len(ZIP[0])), _size(file)
        if head.startswith(GZIP):
            compression, stream = "gzip", cast("IO[bytes]", gzip.GzipFile(fileobj=_at_start(file)))
        elif head in ZIP and (only := _only_member(file)) is not None:
            compression, stream = "zip", only
        else:
            return _at_start(file), compression
        with _damage_as_error(compression), stream:
            file = _unpack(stream, size, max_bytes, scratch)
    raise UnusableDataError("The file was compressed more than twice: unpack it first.")


def contents_of(archive: BinaryIO, max_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a zip archive by blocks, with their names; nothing for another file.

    Raises
    ------
    TooLargeError, UnusableDataError
        As `unpack`.
    """
    archive.seek(0)
    if archive.read(len(ZIP[0])) in ZIP:
        bounds = _Bounds(_size(archive), max_bytes)
        with _damage_as_error("zip"), zipfile.ZipFile(archive) as opened:
            for member in opened.infolist():
                with opened.open(member) as stream:
                    for block in bounds.blocks(stream):
                        yield member.filename, block
    archive.seek(0)


def _at_start(file: BinaryIO) -> BinaryIO:
    file.seek(0)
    return file


def _size(file: BinaryIO) -> int:
    return file.seek(0, 2)


def _only_member(archive: BinaryIO) -> IO[bytes] | None:
    """Open the only file of an archive; return None for a workbook."""
    with _damage_as_error("zip"):
        opened = zipfile.ZipFile(archive)
        members = opened.infolist()
        if not {member.filename for member in members}.isdisjoint(WORKBOOKS):
            return None
        files = [
            member
            for member in members
            if not member.is_dir()
            and not member.filename.startswith("__MACOSX/")
            and not member.filename.rpartition("/")[2].startswith(".")
        ]
        if len(files) != 1:
            names = ", ".join(repr(member.filename[:100]) for member in files[:3])
            listed = f" ({names}{', ...' if len(files) > 3 else ''})" if files else ""
            raise UnusableDataError(
                f"The zip archive has {len(files)} files{listed}: send one table, alone or in an archive."
            )
        return opened.open(files[0])


@contextmanager
def _damage_as_error(compression: str) -> Iterator[None]:
    """Convert errors of damaged data to UnusableDataError."""
    try:
        yield
    except _DAMAGE as error:
        if type(error) is RuntimeError:
            message = "The zip archive is protected by a password: send the file without one."
            raise UnusableDataError(message) from None
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise  # our own disk is full
        reason = "it ends too early" if isinstance(error, EOFError) else "its data are damaged"
        message = f"The gzip file can't be unpacked: {reason}. Compress it again."
        if compression == "zip":
            message = f"The zip archive or Excel workbook can't be unpacked: {reason}. Save it again."
        raise UnusableDataError(message) from None


_DAMAGE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, struct.error, ValueError, RuntimeError)


class _Bounds:
    """Bounds on what a file of some `size` unpacks to."""

    def __init__(self, size: int, max_bytes: int) -> None:
        self.size, self.max_bytes, self.unpacked = size, max_bytes, 0

    def blocks(self, stream: IO[bytes]) -> Iterator[bytes]:
        while block := stream.read(CHUNK):
            self.unpacked += len(block)
            if self.unpacked > self.max_bytes:
                raise TooLargeError(
                    f"The file unpacks to more than the limit of {self.max_bytes // MIB} MB: send fewer rows "
                    "or columns."
                )
            if self.unpacked > max(RATIO_FROM, self.size * MAX_RATIO):
                raise TooLargeError(
                    f"The file unpacks to more than {MAX_RATIO} times its size: send it uncompressed."
                )
            yield block


def _unpack(stream: IO[bytes], size: int, max_bytes: int, scratch: Scratch) -> BinaryIO:
    plain = scratch.file()
    plain.writelines(_Bounds(size, max_bytes).blocks(stream))
    return plain


def format_of(file: BinaryIO) -> Format | None:
    """Detect the format of an uncompressed file by its signature; None means possibly text.

    Raises
    ------
    UnusableDataError
        The file is not a table, or has an unsupported format.
    """
    file.seek(0)
    head = file.read(256)
    file.seek(0)
    for magic, kind in NO_TABLES:
        if head.startswith(magic):
            raise UnusableDataError(f"The file can't be read as a table: it is {kind}.")
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        return "xls"
    if head.startswith(ZIP):
        with _damage_as_error("zip"), zipfile.ZipFile(file) as archive:
            names = set(archive.namelist())
        return next(kind for name, kind in WORKBOOKS.items() if name in names)
    # An Arrow stream begins with a continuation marker, an Arrow file with its name.
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    return "json" if JSON.match(head) else None
