"""Rows with known outcomes, encoded for a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.censoring.outcomes import read_censored
from sampler.data.convert import to_labels
from sampler.data.encode import Coded
from sampler.data.rows import Rows, censoring_roles, named, one_by_name, read_roles_again
from sampler.data.table import RawColumn, read_rows
from sampler.data.target import read_outcomes, read_weights, reject_rows
from sampler.errors import DataError, DataProblem
from sampler.posterior.refusals import check

if TYPE_CHECKING:
    from sampler.posterior.laws.law import Law


def check_weighted(law: Law, *, weighted: bool) -> None:
    """Raise SettingsError where rows have weights and the model takes none."""
    if weighted:
        check("weights", law)


@dataclass(frozen=True)
class LabelledRows:
    """Rows with known outcomes, encoded for a model.

    Attributes
    ----------
    coded
        The rows.
    y
        float64 [row]: the outcomes; for classes their indices in `classes`.
    weights
        float64 [row], precisions; None where all are 1.
    classes
        The model's classes, then those that only these rows have; None for numbers.
    unit
        int64 [row], the group of each row, where groups count once (`of_groups`); else None.

    """

    coded: Coded
    y: Floats
    weights: Floats | None = None
    classes: tuple[str, ...] | None = None
    unit: NDArray[np.int64] | None = None

    @classmethod
    def read(cls, law: Law, X: Any, y: Any, weights: Any = None, coded: Coded | None = None) -> LabelledRows:
        """Check, encode and return rows as people give them.

        Parameters
        ----------
        law
            Law of the model.
        X, y, weights
            Rows with the model's columns, also those of exposures, events or limits where it has such; their
            outcomes; and their weights, the name of their column, or None.
        coded
            The rows, if they are encoded already.

        Raises
        ------
        DataError
            For rows that don't fit the model, lack what it was fitted with, or are labelled otherwise than
            their outcomes; for classes that the model doesn't have.
        SettingsError
            For weights where the model takes none.

        """
        header = law.draws.header
        check_weighted(law, weighted=weights is not None)
        table = read_rows(X) if header.panel is None else header.panel.of_rows(read_rows(X))
        if coded is None:
            coded = law.draws.encode(table, beside=named(weights))
        roles = read_roles_again(table, y, weights, header.roles, weighted=header.weighted)
        return cls._with_outcomes(law, coded, y, roles)

    @classmethod
    def read_groups(cls, law: Law, X: Any, y: Any, weights: Any, groups: Any) -> LabelledRows:
        """Check, encode and return rows; those of one value of the column `groups` count as one group.

        None takes the column by which new rows differ, where the model is calibrated for such and the rows
        have it. Raises as `read`; DataError for missing values of the column, SettingsError for an unknown
        one.
        """
        table = read_rows(X)
        if groups is None and (calibrated := law.draws.header.calibration) is not None:
            known = calibrated.new_rows.groups
            groups = known if known in table.names else None
        elif groups is not None:
            table, groups = one_by_name(table, "groups", groups)
        if groups is None:
            return cls.read(law, table, y, weights)
        coded = law.draws.encode(table, beside=[groups, *named(weights)])
        return cls.read(law, table, y, weights, coded).of_groups(table.column(groups))

    @classmethod
    def of(cls, law: Law, rows: Rows) -> LabelledRows:
        """Encode rows of the data that the model was fitted to; they may have classes that it didn't see."""
        coded = law.draws.encode(rows.table_of(law.draws.header.roles))
        return cls._with_outcomes(law, coded, rows.outcome, rows.roles, new_classes=True)

    @classmethod
    def _with_outcomes(
        cls,
        law: Law,
        coded: Coded,
        y: Any,
        roles: Mapping[str, RawColumn],
        *,
        new_classes: bool = False,
    ) -> LabelledRows:
        target, censoring, weights = law.schema.target, censoring_roles(roles), roles.get("weights")
        if censoring:
            censored = read_censored(y, target.name, censoring, coded.num_rows)
            return cls(replace(coded, limits=censored.limits), censored.y)
        classes, outcomes = read_outcomes(y, target, coded.num_rows, new_classes=new_classes)
        precisions = None if weights is None else read_weights(weights, coded.num_rows)
        return cls(coded, outcomes, precisions, classes)

    def part(self, rows: slice | NDArray[np.int64]) -> LabelledRows:
        """Select some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        unit = None if self.unit is None else self.unit[rows]
        return LabelledRows(self.coded.part(rows), self.y[rows], weights, self.classes, unit)

    def of_groups(self, column: RawColumn) -> LabelledRows:
        """Let rows of one value of a column count as one group; raises DataError for missing values."""
        problems: list[DataProblem] = []
        labels = to_labels(column, problems)
        if problems:
            raise DataError(problems)
        reject_rows(column.name, labels.index < 0, "the group is missing")
        return replace(self, unit=labels.index.astype(np.int64))

    def batches(self, size: int) -> Iterator[tuple[slice, LabelledRows]]:
        """Yield all rows, up to `size` at a time, with their positions."""
        for start in range(0, len(self.y), size):
            rows = slice(start, min(start + size, len(self.y)))
            yield rows, self.part(rows)
