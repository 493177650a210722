"""Choice of held-out rows: a pure function, so that every process chooses the same ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STREAM = 0x686F6C64  # "hold": distinct from the chains' streams, which are 0, 1, 2, ...


def random_words(count: int, seed: int, *stream: int) -> NDArray[np.uint64]:
    """Draw words for an order of rows or groups; `stream` tells uses of one seed apart."""
    # NumPy guarantees the stream of raw words; its distributions may change between versions.
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(_STREAM, *stream))).random_raw(count)


def holdout_rows(num_rows: int, fraction: float | None, seed: int, *stream: int) -> NDArray[np.int64]:
    """Choose the rows that a fit holds out: sorted 0-based row numbers, int64.

    A model of the service with the same `holdout` fraction and seed holds out the same rows of its dataset.

    Parameters
    ----------
    num_rows
        Number of rows of the dataset, n.
    fraction
        Fraction to hold out, rounded to whole rows, at least one row; None or 0 holds out none.
    seed
        Seed of the model, a non-negative integer.
    stream
        Tells uses of one seed apart.

    Returns
    -------
    ndarray
        The rows held out.

    """
    if not fraction:
        return np.zeros(0, np.int64)
    count = min(max(round(num_rows * fraction), 1), num_rows - 1)
    words = random_words(num_rows, seed, *stream)
    return np.sort(np.argsort(words, kind="stable")[:count]).astype(np.int64)
