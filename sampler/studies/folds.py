"""Folds: rows held out from a fit and judged by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.errors import SettingsError
from sampler.preparation import prepare_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sampler.data.rows import Rows
    from sampler.prepared_fit import PreparedFit


FOLDS = 5  # folds of a calibration


def folds_of(num_rows: int, folds: int, seed: int) -> list[NDArray[np.int64]]:
    """Part the rows at random into folds whose sizes differ by at most one, each in ascending order."""
    if num_rows < 2 * folds:
        raise SettingsError(
            f"{folds} folds need {2 * folds} rows or more; there are {num_rows}",
            field="folds",
            code="out_of_range",
        )
    order = np.random.default_rng([seed, folds]).permutation(num_rows)
    return [np.sort(order[fold::folds]) for fold in range(folds)]


def prepare_without(rows: Rows, held: NDArray[np.int64], settings: Mapping[str, Any]) -> PreparedFit:
    """Prepare a fit to all rows but those held out; raises as `sampler.preparation.prepare_rows`."""
    return prepare_rows(rows.take(np.setdiff1d(np.arange(rows.num_rows), held)), **settings)
