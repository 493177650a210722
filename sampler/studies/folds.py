"""Rows of a study, of which some are held out from a fit and judged by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.table import Table, as_array, read
from sampler.errors import SettingsError
from sampler.posterior.assessment.scoring import LabelledRows
from sampler.preparation import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sampler.posterior.posterior import Posterior
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


@dataclass(frozen=True)
class StudyRows:
    """Rows with their outcomes, weights and exposures (or None)."""

    table: Table
    y: Any
    weights: Any = None
    exposure: Any = None

    @classmethod
    def read(cls, X: Any, y: Any, weights: Any = None, exposure: Any = None) -> StudyRows:
        """Read rows as `fit` takes them."""
        roles = (None if each is None else as_array(each) for each in (weights, exposure))
        return cls(read(X), as_array(y), *roles)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.table.num_rows

    def prepare(self, rows: NDArray[np.int64], settings: Mapping[str, Any]) -> PreparedFit:
        """Prepare a fit to some of the rows; raises as `sampler.preparation.prepare`."""
        weights, exposure = (None if each is None else each[rows] for each in (self.weights, self.exposure))
        return prepare(self.table.part(rows), self.y[rows], weights=weights, exposure=exposure, **settings)

    def prepare_without(self, held: NDArray[np.int64], settings: Mapping[str, Any]) -> PreparedFit:
        """Prepare a fit to all rows but those held out; raises as `sampler.preparation.prepare`."""
        return self.prepare(np.setdiff1d(np.arange(self.num_rows), held), settings)

    def labelled(self, posterior: Posterior, rows: NDArray[np.int64]) -> LabelledRows:
        """Encode some of the rows and their outcomes for a model."""
        table = self.table
        if self.exposure is not None and posterior.exposure is not None:
            also = read({posterior.exposure: self.exposure})
            names = [*table.names, *(name for name in also.names if name not in table.names)]
            table = Table(names, table.num_rows, {**table.readers, **also.readers})
        weights = None if self.weights is None else self.weights[rows]
        return LabelledRows.read(posterior, table.part(rows), self.y[rows], weights)
