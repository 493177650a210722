"""What the heads of all blocks of draws have in common."""

from __future__ import annotations

MAGIC = b"BDRW"


VERSION = 1


SHARP_TREES = 1


SOFT_TREES = 2


SINGLE_TREES = 3
