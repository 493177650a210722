"""Least squares on a model's columns, the baseline of its scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.data.encode import cross_fitted_columns, numbers
from sampler.data.level_means import LevelOutcomes
from sampler.data.schema import Schema
from sampler.data.table import Table, read

MOST_CELLS = 1 << 22  # of which a design is made: 32 MB
BLOCK_CELLS = 1 << 19
LEAST_SIZE = 1e-10  # eigenvalue, as a share of the largest, from which on columns count as independent


def linear_predictions(schema: Schema, X: Any, y: Floats, weights: Floats | None, X_new: Any) -> Floats:
    """Predict new rows by least squares on the encoded columns; the solution of least norm if not unique.

    Of more than 4 million cells, by the normal equations summed over blocks of rows.

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
    table, new = read(X), read(X_new)
    if len(schema.coded) * max(table.num_rows, new.num_rows) > MOST_CELLS:
        return _by_blocks(schema, table, y, np.ones(len(y)) if weights is None else weights, new)
    design = numbers(table, schema)
    for position, own in _crossed(table, schema, y, weights).items():
        design[position] = own
    with np.errstate(invalid="ignore"):
        centre = np.nan_to_num(np.nanmean(design, axis=1))
    root = np.ones(design.shape[1]) if weights is None else np.sqrt(weights)
    scale = np.nan_to_num(np.nanstd(design, axis=1))
    scale[scale == 0] = 1.0

    def encode(values: Floats) -> Floats:
        filled = np.nan_to_num((values - centre[:, None]) / scale[:, None])
        return np.column_stack([np.ones(values.shape[1]), filled.T])

    fitted, *_ = np.linalg.lstsq(encode(design) * root[:, None], y * root)
    predictions: Floats = encode(numbers(new, schema)) @ fitted
    return predictions


def _by_blocks(schema: Schema, table: Table, y: Floats, weights: Floats, new: Table) -> Floats:
    """Do what `linear_predictions` does in the memory of a block of rows."""
    count, total, squares = np.zeros((3, len(schema.coded)))
    crossed = _crossed(table, schema, y, weights)
    for _, values in _blocks(table, schema, crossed):
        known = np.isfinite(values)
        count += known.sum(axis=1)
        total += np.where(known, values, 0.0).sum(axis=1)
    centre = total / np.maximum(count, 1)
    for _, values in _blocks(table, schema, crossed):
        squares += np.nansum((values - centre[:, None]) ** 2, axis=1)
    scale = np.sqrt(squares / np.maximum(count, 1))
    scale[scale == 0] = 1.0

    def encode(values: Floats) -> Floats:
        return np.vstack(
            [np.ones(values.shape[1]), np.nan_to_num((values - centre[:, None]) / scale[:, None])]
        )

    gram, moment, middle = np.zeros((len(scale) + 1, len(scale) + 1)), np.zeros(len(scale) + 1), y.mean()
    for rows, values in _blocks(table, schema, crossed):
        x = encode(values)
        gram += (x * weights[rows]) @ x.T
        moment += x @ (weights[rows] * (y[rows] - middle))
    fitted = np.linalg.lstsq(gram, moment, LEAST_SIZE)[0]
    return np.concatenate([middle + fitted @ encode(values) for _, values in _blocks(new, schema, {})])


def _crossed(table: Table, schema: Schema, y: Floats, weights: Floats | None) -> dict[int, Floats]:
    """Return encoded text as training rows have it, which doesn't know their own outcomes."""
    return cross_fitted_columns(
        table, schema, LevelOutcomes.of(y, {} if weights is None else {"weights": weights})
    )


def _blocks(table: Table, schema: Schema, crossed: Mapping[int, Floats]) -> Iterator[tuple[slice, Floats]]:
    """Read the coded columns before binning of some rows at a time, float64 [coded column, row]."""
    schema, size = replace(schema, groups=()), max(BLOCK_CELLS // len(schema.coded), 1)
    for start in range(0, table.num_rows, size):
        rows = slice(start, min(start + size, table.num_rows))
        columns = {column.name: table.column(column.name, rows) for column in schema.columns}
        values = numbers(columns, schema)
        for position, own in crossed.items():
            values[position] = own[rows]
        yield rows, values
