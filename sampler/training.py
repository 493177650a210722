"""Everything a chain needs to run: coded rows, outcomes, and constants."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sampler.errors import DataError, SettingsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.prior import Constants
    from sampler.settings import Settings

LANES = 64  # rows are padded to whole vector registers


@dataclass(frozen=True)
class Training:
    """Coded training data and the resolved model.

    Attributes
    ----------
    codes
        uint8 [p, n], C-contiguous; present codes 0..num_codes[j]-1, 255 is missing.
    num_codes
        int64 [p], at most 255.
    y
        float64 [n], finite.
    weights
        float64 [n] or None.
    constants
        The prior, absolute, in units of y.
    settings
        Every knob.

    """

    codes: NDArray[np.uint8]
    num_codes: NDArray[np.int64]
    y: NDArray[np.float64]
    weights: NDArray[np.float64] | None
    constants: Constants
    settings: Settings

    def __post_init__(self) -> None:
        if self.codes.dtype != np.uint8 or self.codes.ndim != 2 or self.codes.shape[1] != len(self.y):
            raise DataError(
                f"codes must be uint8 [columns, {len(self.y)}], not {self.codes.dtype} {self.codes.shape}"
            )
        if len(self.y) == 0 or len(self.codes) == 0:
            raise DataError("there must be at least one row and one column")
        largest = float(np.max(np.abs(self.y - self.constants.offset))) / self.constants.step
        if not largest < 2**25:  # also catches NaN
            raise SettingsError("y leaves the grid: give a larger prior step, or leave step out")

    @cached_property
    def padded_codes(self) -> NDArray[np.uint8]:
        """The codes with rows padded to a multiple of 64, shared by all chains; no copy where none is needed."""
        columns, rows = self.codes.shape
        if rows % LANES == 0 and self.codes.flags.c_contiguous:
            return self.codes
        padded = np.zeros((columns, -(-rows // LANES) * LANES), np.uint8)
        padded[:, :rows] = self.codes
        return padded

    @cached_property
    def grid_y(self) -> NDArray[np.int32]:
        """Y minus the offset, in whole grid steps, int32 [n]."""
        return np.rint((self.y - self.constants.offset) / self.constants.step).astype(np.int32)

    @cached_property
    def fingerprint(self) -> int:
        """A checksum of data and model: a checkpoint fits only the training it was made from."""
        check = zlib.crc32(np.ascontiguousarray(self.codes))
        check = zlib.crc32(self.grid_y, check)
        if self.weights is not None:
            check = zlib.crc32(np.ascontiguousarray(self.weights), check)
        return zlib.crc32(repr((self.constants, self.settings.num_trees, self.settings.seed)).encode(), check)
