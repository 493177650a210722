"""Least squares on a model's columns, the baseline of its scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.encode import numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.data.schema import Schema

    Floats = NDArray[np.float64]


def linear_predictions(schema: Schema, X: Any, y: Floats, weights: Floats | None, X_new: Any) -> Floats:
    """Predict new rows by least squares on the encoded columns; the solution of least norm if not unique.

    Parameters
    ----------
    schema
        Columns of the model; a missing value counts as its column's mean.
    X, y, weights
        Rows to learn from: a table, and float64 [row]; weights are precisions, or None.
    X_new
        Rows to predict, a table.

    Returns
    -------
    ndarray
        float64 [new row], in units of y.

    """
    design = numbers(X, schema)
    with np.errstate(invalid="ignore"):
        centre = np.nan_to_num(np.nanmean(design, axis=1))
    root = np.ones(design.shape[1]) if weights is None else np.sqrt(weights)
    scale = np.nan_to_num(np.nanstd(design, axis=1))
    scale[scale == 0] = 1.0

    def encode(values: Floats) -> Floats:
        filled = np.nan_to_num((values - centre[:, None]) / scale[:, None])
        return np.column_stack([np.ones(values.shape[1]), filled.T])

    fitted, *_ = np.linalg.lstsq(encode(design) * root[:, None], y * root)
    predictions: Floats = encode(numbers(X_new, schema)) @ fitted
    return predictions
