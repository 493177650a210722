"""Call of a forest's compiled sweep, whose arguments are unpacked once rather than at every call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.bart.kernels.state import Forest, Work
from sampler.bart.kernels.steps.forest_call import (
    SWEEP_FOREST,
    store_arguments,
)
from sampler.kernels.arrays import Data
from sampler.kernels.jit import Kernel, address

GROUP = "forest-call"  # group of compiled kernels, see `sampler.kernels.groups`
_SWEEP = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_void_p] * 4)  # without the GIL


class ForestCall:
    """Sweep of one forest of a chain.

    To unpack its some seventy arrays takes as long as a sweep over a hundred rows. So they are stored where
    the sweep finds them, until one of the arguments is another object than before.
    """

    def __init__(self, entry: Kernel = SWEEP_FOREST) -> None:
        """Store nothing yet. `entry`: the kernel to call."""
        self._entry = entry
        self._arguments: tuple[Any, ...] = (None,) * 4

    def __call__(self, data: Data, forest: Forest, model: Any, work: Work) -> float:
        """Update every tree once; return the residual's weighted sum of squares, where leaves are normal.

        There must be room (`sampler.bart.kernels.forest_sweep.room_for_trees`).
        """
        places = self.places_of(data, forest, model, work)
        result: float = self._sweep(*places)
        return result

    def places_of(self, data: Data, forest: Forest, model: Any, work: Work) -> list[int]:
        """Return the addresses of the arguments, valid until the next call with others."""
        held = self._arguments
        if held[1] is not forest or held[3] is not work or held[2] is not model or held[0] is not data:
            self._store(data, forest, model, work)
        return self._places

    def _store(self, data: Data, forest: Forest, model: Any, work: Work) -> None:

        self._arguments = data, forest, model, work  # keeps their arrays alive
        self._room = stored(store_arguments, *self._arguments)
        self._places: list[int] = self._room[:4].tolist()
        self._sweep = _SWEEP(address(self._entry, type(model)))


def stored(store: Callable[..., int], *arguments: Any) -> NDArray[np.int64]:
    """Return int64 words where a kernel that calls `store_members` has stored its arguments."""
    room = np.zeros(store(*arguments, np.zeros(0, np.int64)), np.int64)
    store(*arguments, room)
    return room
