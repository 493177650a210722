"""Magic, version and record kinds in the heads of all blocks of draws."""

from __future__ import annotations

MAGIC = b"BDRW"
VERSION = 1
SHARP_TREES, SOFT_TREES, SINGLE_TREES, FORESTS = 1, 2, 3, 4
