"""The rows that a model holds out: a pure function, so that every process finds the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STREAM = 0x686F6C64  # "hold": apart from the chains' streams, which are 0, 1, 2, ...


def holdout_rows(num_rows: int, fraction: float | None, seed: int) -> NDArray[np.int64]:
    """Choose the rows that a fit holds out: their numbers, int64, sorted, 0-based.

    A model of the service with that part of `holdout` and that seed holds out the same rows of its dataset.

    Parameters
    ----------
    num_rows
        Rows of the dataset, n.
    fraction
        Part to hold out, rounded to whole rows, at least one; None or 0: none.
    seed
        The model's, an integer from 0.

    """
    if not fraction:
        return np.zeros(0, np.int64)
    count = min(max(round(num_rows * fraction), 1), num_rows - 1)
    # Raw words, whose stream numpy promises for good; that of its distributions may change with a version.
    words = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(_STREAM,))).random_raw(num_rows)
    return np.sort(np.argsort(words, kind="stable")[:count]).astype(np.int64)
