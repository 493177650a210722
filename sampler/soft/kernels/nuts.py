"""Log density of a tree of soft splits as a sampling library calls it: through its address.

Everything it needs stands in one buffer of 64-bit words, `pack_model`'s, room to work included: so one buffer
serves one thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray as _carray  # type: ignore[attr-defined]
from numba import types
from numpy.typing import NDArray

from sampler.kernels.jit import pointer_kernel
from sampler.soft.kernels.density import density
from sampler.soft.kernels.state import LINE, SoftRoom, SoftRows, SoftShape, zeros

# the head of the buffer
COLUMNS, ROWS, KINDS, CLASSES, SPLITS, CONSTANTS, SIZE, WIDTH = 0, 1, 2, 3, 4, 5, 6, 7
HEAD = LINE

carray: Any = _carray
_pointer: Any = types.CPointer
_floats = _pointer(types.float64)
_density_t = types.int64(types.uint64, _floats, _floats, _floats, _floats)
_copy_t = types.int64(types.uint64, types.uint64, _floats, _floats, _floats)


def _log_density(size: Any, u: Any, slope: Any, log: Any, data: Any) -> Any:
    head = carray(data, (HEAD,))
    p, n, k = int(head[COLUMNS]), int(head[ROWS]), int(head[KINDS])
    classes, splits, num_constants = int(head[CLASSES]), int(head[SPLITS]), int(head[CONSTANTS])
    nodes = 2 * splits + 1
    kinds = max(classes, 1)
    words = carray(data, (int(head[SIZE]),))
    at = HEAD
    x = words[at : at + p * n].reshape((p, n))
    at += p * n
    count = words[at : at + n * k].reshape((k, n))
    at += n * k
    mean = words[at : at + n]
    at += n
    go = words[at : at + splits * n].reshape((splits, n))
    at += splits * n
    stay = words[at : at + splits * n].reshape((splits, n))
    at += splits * n
    flow = words[at : at + nodes * n].reshape((nodes, n))
    at += nodes * n
    below = words[at : at + nodes * n].reshape((nodes, n))
    at += nodes * n
    law = words[at : at + num_constants]
    at += num_constants
    right = words[at : at + nodes].view(np.int64)
    at += nodes
    slot = words[at : at + nodes].view(np.int64)
    at += nodes
    axis = words[at : at + splits].view(np.int64)
    at += splits
    threshold = words[at : at + splits]
    at += splits
    direction = words[at : at + splits * p].reshape((splits, p))
    at += splits * p
    gradient = words[at : at + p]
    at += p
    table = words[at : at + (splits + 1) * kinds].reshape((splits + 1, kinds))
    rows = SoftRows(x, count, mean, classes, law)
    shape = SoftShape(right, slot, axis)
    room = SoftRoom(go, stay, flow, below, threshold, direction, gradient, table)
    log_p = density(rows, shape, head[WIDTH], carray(u, (int(size),)), carray(slope, (int(size),)), room)
    carray(log, (1,))[0] = log_p
    return 0 if np.isfinite(log_p) else 1


def _copy(size: Any, _expanded: Any, u: Any, into: Any, _data: Any) -> Any:
    source, target = carray(u, (int(size),)), carray(into, (int(size),))
    for i in range(int(size)):
        target[i] = source[i]
    return 0


LOG_DENSITY = pointer_kernel(__name__, _density_t, _log_density, arrays=True)
COPY = pointer_kernel(__name__, _copy_t, _copy, arrays=True)


def pack_model(rows: SoftRows, shape: SoftShape, width: float) -> NDArray[np.float64]:
    """Pack a topology and its rows into one buffer.

    It begins at a cache line, and what has a number for each row comes first: so with rows padded to whole
    registers none of these is in two lines.
    """
    (p, n), k, splits = rows.x.shape, len(rows.count), len(shape.axis)
    nodes = 2 * splits + 1
    wide, narrow = 2 * n * (splits + nodes), splits * (p + 1) + p + (splits + 1) * max(rows.classes, 1)
    parts = [part.reshape(-1) for part in (rows.x, rows.count, rows.mean, np.zeros(wide), rows.constants)]
    parts += [part.view(np.float64) for part in (shape.right, shape.slot, shape.axis)]
    body = np.concatenate([*parts, np.zeros(narrow)])
    head = np.array([p, n, k, rows.classes, splits, len(rows.constants), HEAD + len(body), width], np.float64)
    numbers = zeros(HEAD + len(body))
    numbers[:HEAD], numbers[HEAD:] = head, body
    return numbers
