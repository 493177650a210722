"""A fitted model as one file, `application/vnd.bartserve.model`: header, packed draws, statistics.

Layout, little-endian: the magic ``BARTMODL``, format version (uint16), CRC-32 of all bytes after it (uint32),
length of the index (uint32), the index (JSON, UTF-8), then, one after the other with the lengths that the
index lists, the header, each chain's blocks of draws, and the chains' last states if the fit saved them. The
file contains no code.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sampler.errors import PackedError

MEDIA_TYPE = "application/vnd.bartserve.model"
MAGIC = b"BARTMODL"
VERSION = 1
START = struct.Struct("<8sHII")


def save_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically."""
    target = Path(path)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def write_model(
    header: bytes,
    blocks: Sequence[Sequence[bytes]],
    statistics: Sequence[Mapping[str, Any]],
    checkpoints: Sequence[bytes] = (),
) -> bytes:
    """Assemble a model file; equal parts give equal bytes.

    Parameters
    ----------
    header
        Header, as `Header.to_bytes` encodes it.
    blocks
        Packed draws, by chain.
    statistics
        Counters of the moves, by chain; JSON values.
    checkpoints
        Last state of each chain; empty leaves them out.

    Returns
    -------
    bytes
        The contents of the file.

    """
    index: dict[str, Any] = {
        "header": len(header),
        "chains": [[len(block) for block in chain] for chain in blocks],
        "statistics": list(statistics),
    }
    if checkpoints:
        index["checkpoints"] = [len(checkpoint) for checkpoint in checkpoints]
    text = json.dumps(index, sort_keys=True, separators=(",", ":")).encode()
    body = (
        struct.pack("<I", len(text)) + text + header + b"".join(block for chain in blocks for block in chain)
    ) + b"".join(checkpoints)
    return MAGIC + struct.pack("<HI", VERSION, zlib.crc32(body)) + body


def read_parts(
    data: bytes, longest_index: int | None = None
) -> tuple[bytes, list[list[bytes]], list[dict[str, Any]], list[bytes]]:
    """Read header, blocks per chain, statistics and last states of a model file.

    Parameters
    ----------
    data
        The file.
    longest_index
        Largest accepted length of the index in bytes, checked before it is decoded; None for no limit.

    Returns
    -------
    tuple
        The parts, in this order.

    Raises
    ------
    PackedError
        For anything that is not a model file, damaged files and newer formats.

    """
    if len(data) < START.size or not data.startswith(MAGIC):
        raise PackedError("this is not a model file")
    _, version, checksum, length = START.unpack_from(data)
    if version > VERSION:
        raise PackedError(f"the model file has format {version}; this version reads up to {VERSION}")
    if longest_index is not None and length > longest_index:
        raise PackedError(f"the model file's index is longer than {longest_index} bytes")
    if zlib.crc32(memoryview(data)[START.size - 4 :]) != checksum:
        raise PackedError("the model file is damaged: its checksum doesn't match")
    try:
        index = json.loads(data[START.size : START.size + length])
        chains, statistics = index["chains"], index["statistics"]
        checkpoints = index.get("checkpoints", [])
        if not _are_all(list, [chains, statistics, checkpoints, *chains]) or not _are_all(dict, statistics):
            raise ValueError("its index is malformed")  # noqa: TRY301
        parts = _Parts(data, START.size + length)
        header = parts.take(index["header"])
        blocks = [[parts.take(size) for size in chain] for chain in chains]
        states = [parts.take(size) for size in checkpoints]
        parts.end()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PackedError(f"the model file can't be read: {error}") from error
    except RecursionError:
        raise PackedError("the model file can't be read: it is nested too deeply") from None
    return header, blocks, statistics, states


def _are_all(kind: type, values: Sequence[Any]) -> bool:
    return all(type(value) is kind for value in values)


class _Parts:
    def __init__(self, data: bytes, position: int) -> None:
        self._data, self._position = data, position

    def take(self, size: int) -> bytes:
        if type(size) is not int or not 0 <= size <= len(self._data) - self._position:
            raise ValueError("a part is longer than the file")
        self._position += size
        return self._data[self._position - size : self._position]

    def end(self) -> None:
        if self._position != len(self._data):
            raise ValueError("the file is longer than its parts")
