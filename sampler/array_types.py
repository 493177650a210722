"""Types of arrays that many modules name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.uint8]  # bins of features, or other bytes by row
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]
Words = NDArray[np.uint64]
