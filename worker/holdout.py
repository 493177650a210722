"""Which rows are held out: a pure function, so that every worker, and the user, finds the same."""

import numpy as np
from numpy.typing import NDArray

_STREAM = 0x686F6C64  # "hold": apart from the chains' streams, which are 0, 1, 2, ...


def holdout_rows(num_rows: int, fraction: float | None, seed: int) -> NDArray[np.int64]:
    """The held-out row numbers, sorted, 0-based.

    Parameters
    ----------
    num_rows
        Rows of the dataset, n.
    fraction
        Part to hold out, rounded to whole rows, at least one; None or 0: none.
    seed
        The model's.

    """
    if not fraction:
        return np.zeros(0, np.int64)
    count = min(max(round(num_rows * fraction), 1), num_rows - 1)
    # Raw words, whose stream numpy promises for good; that of its distributions may change with a version.
    words = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(_STREAM,))).random_raw(num_rows)
    return np.sort(np.argsort(words, kind="stable")[:count]).astype(np.int64)
