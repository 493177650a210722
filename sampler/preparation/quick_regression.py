"""Quick regression by boosted trees, to judge transforms of the outcome by rows that it was not fitted to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.linear_terms import ridge_fit
from sampler.kernels.jit import warm

Bins = NDArray[np.uint8]

GROUP = "boosting"  # group of compiled kernels, see `sampler.kernels.groups`
BINS = 32  # of a column
MOST_COLUMNS = 30  # of the trees: those that explain most alone
MOST_TERMS = 250  # of a line
LEAST = 0.02  # share of squared residuals raised to the next: near 0 their logarithms fall without end
TREES, DEPTH, RATE = 40, 3, 0.2
SHRINKAGE = 2.0  # weight, in rows, of a leaf value of 0
FOLDS = 3


def held_out_residuals(codes: NDArray[np.uint8], z: Floats | None, y: Floats, weights: Floats) -> Floats:
    """Predict each of three parts of the rows by a fit to the others; return what that leaves of y.

    Parameters
    ----------
    codes
        Coded columns, uint8 [column, n].
    z
        Terms of a line whose residuals the trees fit (`standardised`), float64 [term, n]; None for trees
        alone.
    y, weights
        Outcomes and weights, float64 [n].

    Returns
    -------
    NDArray
        float64 [n].

    """
    warm(GROUP)
    rows = len(y)
    part = np.empty(rows, np.int64)
    part[np.random.default_rng(0).permutation(rows)] = np.arange(rows) % FOLDS
    binned = _binned(codes, y, weights)
    residual = np.array(y)
    for fold in range(FOLDS):
        held = part == fold
        seen = np.where(held, 0.0, weights)
        if not seen.any():
            continue
        left = y if z is None else y - ridge_fit(z, y, seen)
        left = left - np.average(left, weights=seen)
        residual[held] = (left - _boost(binned, left, seen))[held]
    return residual


def held_out_log_variances(codes: NDArray[np.uint8], f: Floats, squares: Floats, weights: Floats) -> Floats:
    """Predict logarithms of squared residuals of each of three parts of the rows by a fit to the others.

    Parameters
    ----------
    codes
        Coded columns, uint8 [column, n].
    f
        Predicted outcomes, a further column of these fits, float64 [n].
    squares, weights
        Squared residuals times weights, and weights, float64 [n].

    Returns
    -------
    NDArray
        float64 [n], of mean 0 over rows with weight.

    """
    seen = weights > 0
    if not squares[seen].any():
        return np.zeros(len(f))
    positive = squares[seen & (squares > 0)]
    logs = np.log(np.maximum(squares, np.quantile(positive, LEAST)))
    place = np.argsort(np.argsort(f, kind="stable"), kind="stable")
    predicted = (place * BINS // len(f)).astype(np.uint8)
    known = np.where(seen, 1.0, 0.0)
    level = logs - held_out_residuals(np.concatenate([codes, predicted[None]]), None, logs, known)
    return np.asarray(level - level[seen].mean())


def standardised(design: Floats) -> Floats | None:
    """Standardise the columns [column, n], missing values at the mean; None for too many columns."""
    if not 0 < len(design) <= MOST_TERMS:
        return None
    known = np.isfinite(design)
    count = np.maximum(known.sum(axis=1, keepdims=True), 1)
    mean = np.where(known, design, 0.0).sum(axis=1, keepdims=True) / count
    centred = np.where(known, design - mean, 0.0)
    scale = np.sqrt(np.sum(centred**2, axis=1, keepdims=True) / count)
    return np.asarray(np.divide(centred, scale, out=np.zeros_like(centred), where=scale > 0))


def _binned(codes: NDArray[np.uint8], y: Floats, weights: Floats) -> Bins:
    """Merge codes into at most 32 bins, of the 30 columns that explain most of y by their bins' means."""
    columns = []
    for column in codes:
        _, level = np.unique(column, return_inverse=True)
        count = int(level.max()) + 1
        columns.append(level * min(BINS, count) // count)
    binned = np.array(columns, np.uint8).reshape(len(codes), len(y))
    if len(binned) <= MOST_COLUMNS or not weights.any():
        return binned[:MOST_COLUMNS]
    centred = y - np.average(y, weights=weights)
    explained = []
    for column in binned:
        total = np.bincount(column, weights * centred)
        size = np.bincount(column, weights)
        explained.append(np.sum(total * total / (size + SHRINKAGE)))
    return binned[np.sort(np.argsort(explained, kind="stable")[-MOST_COLUMNS:])]


def _boost(binned: Bins, y: Floats, weights: Floats) -> Floats:
    """Fit boosted trees by weighted least squares; return their sum at every row, also those of weight 0."""
    from sampler.kernels.boosting import boost  # noqa: PLC0415  # kernels load late

    columns, rows = binned.shape
    fit = np.zeros(rows)
    if columns:
        sums, leaf = np.empty((columns * BINS << DEPTH, 2)), np.empty(rows, np.int64)
        split = np.zeros(1 << DEPTH, np.int64)  # of undefined gains none is the best
        boost(binned, y, weights, TREES, DEPTH, BINS, RATE, SHRINKAGE, sums, split, leaf, fit)
    return fit
