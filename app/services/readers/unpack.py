"""Decompression of uploaded files within limits, and detection of their format by signature."""

import errno
import gzip
import zlib
from typing import BinaryIO

from app.services.errors import TooLargeError, UnusableDataError
from app.services.readers.options import Format
from app.services.readers.scratch import Scratch

CHUNK = 1 << 20
MAX_RATIO = 200  # unpacked to packed bytes; real text has less than a tenth of it
RATIO_FROM = 32 << 20  # unpacked size below which any ratio is accepted
LAYERS = 2  # a .csv.gz file that was compressed again on its way
GZIP = b"\x1f\x8b"
MIB = 1 << 20
NO_TABLES = (
    (b"PK\x03\x04", "an Excel workbook or another zip archive: save the sheet as CSV, or unpack it first"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook: save the sheet as CSV"),
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


def unpack(file: BinaryIO, max_bytes: int, scratch: Scratch) -> tuple[BinaryIO, int]:
    """Return the uncompressed file and its number of gzip layers.

    Raises
    ------
    TooLargeError
        It unpacks to more than `max_bytes`, or to far more than was sent.
    UnusableDataError
        The compressed data are damaged or truncated.
    """
    for layer in range(LAYERS + 1):
        file.seek(0)
        if file.read(len(GZIP)) != GZIP:
            file.seek(0)
            return file, layer
        if layer < LAYERS:
            file = _unpack(file, max_bytes, scratch)
    raise UnusableDataError("The file was compressed more than twice: unpack it first.")


def _unpack(packed: BinaryIO, max_bytes: int, scratch: Scratch) -> BinaryIO:
    packed.seek(0, 2)
    size = packed.tell()
    packed.seek(0)
    plain = scratch.file()
    written = 0
    try:
        with gzip.GzipFile(fileobj=packed) as stream:
            while chunk := stream.read(CHUNK):
                written += len(chunk)
                if written > max_bytes:
                    raise TooLargeError(
                        f"The file unpacks to more than the limit of {max_bytes // MIB} MB: send fewer rows "
                        "or columns."
                    )
                if written > max(RATIO_FROM, size * MAX_RATIO):
                    raise TooLargeError(
                        f"The file unpacks to more than {MAX_RATIO} times its size: send it uncompressed."
                    )
                plain.write(chunk)
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise  # our own disk is full
        reason = "it ends too early" if isinstance(error, EOFError) else "its data are damaged"
        raise UnusableDataError(f"The gzip file can't be unpacked: {reason}. Compress it again.") from None
    return plain


def format_of(file: BinaryIO) -> Format | None:
    """Detect the format of an uncompressed file by its signature; None means possibly text.

    Raises
    ------
    UnusableDataError
        The file is not a table, or has an unsupported format.
    """
    file.seek(0)
    head = file.read(32)
    file.seek(0)
    for magic, kind in NO_TABLES:
        if head.startswith(magic):
            raise UnusableDataError(f"The file can't be read as a table: it is {kind}.")
    if head.startswith(b"PAR1"):
        return "parquet"
    # An Arrow stream begins with a continuation marker, an Arrow file with its name.
    return "arrow" if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")) else None
