"""A forecaster as one file, `application/vnd.bartserve.forecaster`: header, arrays, members' models.

Layout, little-endian: the magic ``BARTFCST``, format version (uint16), CRC-32 of all bytes after it (uint32),
length of the header (uint32), the header (JSON, UTF-8), then its parts, of the lengths that it lists: arrays
of float64, compressed by zlib, and model files. The file contains no code.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.errors import PackedError

MEDIA_TYPE = "application/vnd.bartserve.forecaster"
MAGIC = b"BARTFCST"
VERSION = 1
START = struct.Struct("<8sHII")
MOST_CELLS = 1 << 26  # of one array


def write_forecaster(
    header: Mapping[str, Any], arrays: Mapping[str, Floats], models: Sequence[bytes]
) -> bytes:
    """Assemble the file of a forecaster; equal parts give equal bytes."""
    packed = [zlib.compress(np.ascontiguousarray(each, "<f8").tobytes(), 6) for each in arrays.values()]
    index = {
        "header": header,
        "arrays": [
            [name, list(each.shape), len(own)]
            for (name, each), own in zip(arrays.items(), packed, strict=True)
        ],
        "models": [len(each) for each in models],
    }
    text = json.dumps(index, sort_keys=True, separators=(",", ":")).encode()
    body = struct.pack("<I", len(text)) + text + b"".join(packed) + b"".join(models)
    return MAGIC + struct.pack("<HI", VERSION, zlib.crc32(body)) + body


def read_forecaster(data: bytes) -> tuple[dict[str, Any], dict[str, Floats], list[bytes]]:
    """Read header, arrays and model files; raise PackedError for anything but a forecaster's file."""
    if len(data) < START.size or not data.startswith(MAGIC):
        raise PackedError("this is not the file of a forecaster")
    _, version, checksum, length = START.unpack_from(data)
    if version > VERSION:
        raise PackedError(f"the forecaster has format {version}; this version reads up to {VERSION}")
    if zlib.crc32(memoryview(data)[START.size - 4 :]) != checksum:
        raise PackedError("the file of the forecaster is damaged: its checksum doesn't match")
    try:
        index = json.loads(data[START.size : START.size + length])
        at = START.size + length
        arrays, models = {}, []
        for name, shape, size in index["arrays"]:
            cells = math.prod(int(each) for each in shape)
            if not 0 <= cells <= MOST_CELLS or min(shape, default=0) < 0 or size < 0:
                raise ValueError("an array is too large")  # noqa: TRY301
            unpacked = zlib.decompressobj().decompress(data[at : at + size], 8 * cells + 1)
            arrays[name] = np.frombuffer(unpacked, "<f8").astype(np.float64).reshape(shape)
            at += size
        for size in index["models"]:
            models.append(data[at : at + size])
            at += size
        if at != len(data):
            raise ValueError("it is longer or shorter than its parts")  # noqa: TRY301
        return index["header"], arrays, models
    except (ValueError, KeyError, TypeError, OverflowError, zlib.error, RecursionError) as error:
        raise PackedError(f"the file of the forecaster can't be read: {error}") from error


def with_models(data: bytes, models: Sequence[bytes]) -> bytes:
    """Return a file with the same header and arrays, and other models."""
    header, arrays, _ = read_forecaster(data)
    return write_forecaster(header, arrays, models)


def is_forecaster(data: bytes) -> bool:
    """Tell whether a file is that of a forecaster, by its first bytes."""
    return data.startswith(MAGIC)
