"""Friedman's first function, the standard test problem."""

import numpy as np
import pyarrow as pa


def friedman(num_rows: int, seed: int, num_columns: int = 10) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, the function of its first five columns, and outcomes with noise of sd 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(num_rows, num_columns))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, f, f + rng.normal(size=num_rows)


def friedman_table(num_rows: int = 300, seed: int = 0) -> pa.Table:
    """Return Friedman data as a table to upload, with a missing value and an irrelevant category."""
    X, _, y = friedman(num_rows, seed, num_columns=5)
    columns: dict[str, list[float | str | None]] = {f"x{j + 1}": X[:, j].tolist() for j in range(5)}
    columns["x1"][3] = None
    columns["town"] = [f"town {row % 3}" for row in range(num_rows)]
    return pa.table({**columns, "y": y})
