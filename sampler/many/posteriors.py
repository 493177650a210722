"""Posteriors of many groups: a mapping, with a table of what they are, and predictions routed by group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.row_flags import Flag
from sampler.data.scalars import counted, shortened
from sampler.data.table import Table, read_rows
from sampler.errors import DataError, DataProblem, SettingsError
from sampler.many.folder import GroupFacts
from sampler.many.grouping import GroupKey, group_meant, group_named, read_by, rows_by_group
from sampler.posterior.core.intervals import Interval, Quantile
from sampler.posterior.posterior import Posterior
from sampler.posterior.results.answer import Answer
from sampler.posterior.results.prediction import Prediction, PredictionSet

REFUSE, FLAG = "refuse", "flag"
UNKNOWN_GROUP = "unknown_group"
NAMED = 5  # groups named in a message


@dataclass(frozen=True, repr=False, eq=False)
class ManyPosteriors(Answer, Mapping[Any, Posterior]):
    """Posteriors of many groups by group, ``posteriors["Leeds"]``; several columns make tuples.

    As a table (`to_pandas`), it has a row for each group, in the order of the data: rows, verdict of the
    chains, seconds, number of warnings, and why there is no model where a fit failed.

    Attributes
    ----------
    by
        Names of the columns that tell the group.
    target
        Name of the outcome.
    models
        Model file of each group: its contents, or where it is. It is read when the posterior is asked for.
    facts
        Rows, verdict, seconds and warnings of each group with a model.
    failures
        Why a group has no model.

    """

    by: tuple[str, ...]
    target: str
    models: Mapping[GroupKey, bytes | Path]
    facts: Mapping[GroupKey, GroupFacts]
    failures: Mapping[GroupKey, str] = field(default_factory=dict)

    def __getitem__(self, group: Any) -> Posterior:
        known = self._meant(group)
        if known not in self.models:
            why = self.failures.get(known, "it is none of the groups")
            raise KeyError(f"{', '.join(self.by)} {group!r} has no model: {why}")
        model = self.models[known]
        return Posterior.from_bytes(model.read_bytes() if isinstance(model, Path) else model)

    def __contains__(self, group: object) -> bool:
        return self._meant(group) in self.models

    def _meant(self, group: Any) -> GroupKey:
        return group_meant(group_named(group, len(self.by)), {**self.failures, **self.models})

    def __iter__(self) -> Iterator[GroupKey]:
        return iter(self.models)

    def __len__(self) -> int:
        return len(self.models)

    def columns(self) -> dict[str, Any]:
        """Arrange the groups as columns: those of `by`, rows, verdict, seconds, warnings, failure."""
        groups = [*self.models, *self.failures]
        facts = [self.facts.get(group) for group in groups]
        parts = [(group,) if isinstance(group, str) else group for group in groups]
        return {name: [part[j] for part in parts] for j, name in enumerate(self.by)} | {
            "rows": [None if each is None else each.rows for each in facts],
            "verdict": ["" if each is None else each.verdict for each in facts],
            "seconds": [None if each is None else each.seconds for each in facts],
            "warnings": [0 if each is None else len(each.warnings) for each in facts],
            "failure": [self.failures.get(group, "") for group in groups],
        }

    def predict(
        self,
        X: Any,
        level: float | Sequence[float] | None = 0.9,
        interval: str | None = None,
        quantiles: float | Sequence[float] | None = None,
        num_draws: int | None = None,
        *,
        unknown: str = REFUSE,
        ignore_extra: bool = False,
    ) -> Prediction:
        """Predict each row by the model of its group.

        Parameters
        ----------
        X
            Rows, as for `Posterior.predict`, with the columns of `by`.
        level, interval, quantiles, num_draws, ignore_extra
            As for `Posterior.predict`.
        unknown
            Rows of groups without a model: "refuse", or "flag", which predicts NaN for them, with the flag
            "unknown_group".

        Returns
        -------
        Prediction
            Predictions in the order of the rows. What calibrated intervals claim is said by the groups' own.

        Raises
        ------
        DataError
            For rows of groups without a model, which are named, and rows that don't fit their model.
        SettingsError
            For invalid options, and where models of classes don't have the same ones.

        """
        routed = RoutedRows.read(X, self.by).meaning(self.models)

        def predict_part(group: GroupKey, part: Table) -> Prediction:
            return self[group].predict(
                part, level, interval, quantiles, num_draws=num_draws, ignore_extra=ignore_extra
            )

        return routed.predict(self.models, predict_part, unknown)


@dataclass(frozen=True)
class RoutedRows:
    """Rows to predict, and which of them are a group's.

    Attributes
    ----------
    by
        Names of the columns that tell the group.
    table
        All columns of the rows.
    groups
        Positions of each group's rows, int64 each.

    """

    by: tuple[str, ...]
    table: Table
    groups: Mapping[GroupKey, NDArray[np.int64]]

    @classmethod
    def read(cls, X: Any, by: Sequence[str]) -> RoutedRows:
        """Read rows; raise DataError for one without a group, SettingsError where a column is absent."""
        table = read_rows(X)
        names = read_by(by, table.names)
        table = table.reading_once(table.names)
        return cls(names, table, rows_by_group(table, names))

    def meaning(self, known: Collection[GroupKey]) -> RoutedRows:
        """Return the rows by the known groups that their keys mean, however these are spelled."""
        groups: dict[GroupKey, NDArray[np.int64]] = {}
        for group, rows in self.groups.items():
            meant = group_meant(group, known)
            groups[meant] = np.sort(np.concatenate([groups[meant], rows])) if meant in groups else rows
        return replace(self, groups=groups)

    def predict(
        self, known: Collection[GroupKey], predict_part: Callable[[GroupKey, Table], Prediction], unknown: str
    ) -> Prediction:
        """Predict each group's rows by its model, and put the predictions in order.

        Parameters
        ----------
        known
            Groups that have a model.
        predict_part
            Predicts a group's rows, which are without the columns of `by`.
        unknown
            Rows of other groups: "refuse" or "flag".

        Returns
        -------
        Prediction
            As of `ManyPosteriors.predict`.

        Raises
        ------
        DataError
            For rows of groups without a model, which are named, and rows that don't fit their model.
        SettingsError
            For another `unknown`, and where models of classes don't have the same ones.

        """
        if unknown not in {REFUSE, FLAG}:
            raise SettingsError(
                f"unknown must be {REFUSE} or {FLAG}, not {unknown!r}", field="unknown", code="not_accepted"
            )
        strange = {group: rows for group, rows in self.groups.items() if group not in known}
        if strange and (unknown == REFUSE or len(strange) == len(self.groups)):
            advice = 'leave these rows out, or have them predicted as missing with unknown="flag"'
            first = int(min(rows[0] for rows in strange.values())) + 1
            raise DataError([DataProblem(self.by[0], first, f"{self._strange_in_words(strange)}: {advice}")])
        rest = self.table.without(self.by)
        found = {
            group: self._predict(group, rest, rows, predict_part)
            for group, rows in self.groups.items()
            if group not in strange
        }
        whole = merge_predictions([(self.groups[g], each) for g, each in found.items()], self.table.num_rows)
        for rows in strange.values():
            for row in rows.tolist():
                whole.flags[row] = [Flag(self.by[0], UNKNOWN_GROUP)]
        texts = _in_words(
            [(self._name(g), text) for g, part in found.items() for text in part.warnings], found
        )
        unknown_rows = [self._strange_in_words(strange)] if strange else []
        return replace(whole, labels=self.table.labels, warnings=[*unknown_rows, *texts])

    def _predict(
        self,
        group: GroupKey,
        table: Table,
        rows: NDArray[np.int64],
        predict_part: Callable[[GroupKey, Table], Prediction],
    ) -> Prediction:
        try:
            return predict_part(group, table.part(rows))
        except DataError as error:
            raise DataError(
                [
                    DataProblem(
                        each.column,
                        None if each.row is None else int(rows[each.row - 1]) + 1,
                        f"{each.detail} ({self._name(group)})",
                    )
                    for each in error.problems
                ]
            ) from error

    def _name(self, group: GroupKey) -> str:
        values = (group,) if isinstance(group, str) else group
        return ", ".join(f"{name} {shortened(value)}" for name, value in zip(self.by, values, strict=True))

    def _strange_in_words(self, strange: Mapping[GroupKey, NDArray[np.int64]]) -> str:
        names = [self._name(group) for group in [*strange][:NAMED]]
        more = f" and {len(strange) - NAMED} more" if len(strange) > NAMED else ""
        return f"no model for {'; '.join(names)}{more} ({counted(sum(map(len, strange.values())), 'row')})"


def _in_words(said: Sequence[tuple[str, str]], groups: Collection[GroupKey]) -> list[str]:
    """Say once what was said of several groups, and of which."""
    of: dict[str, list[str]] = {}
    for group, text in said:
        of.setdefault(text, []).append(group)
    return [
        text
        if len(names) == len(groups)
        else f"{names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)}: {text}"
        for text, names in of.items()
    ]


def merge_predictions(parts: Sequence[tuple[NDArray[np.int64], Prediction]], num_rows: int) -> Prediction:
    """Put predictions of parts of the rows, given with their positions, in order; other rows are NaN.

    Their warnings are left out, since they count rows of parts.

    Raises
    ------
    SettingsError
        Where the parts have different classes.

    """
    first = parts[0][1]
    if any(each.classes != first.classes for _, each in parts):
        raise SettingsError(
            "the groups' models have different classes: predict each group by its own posterior",
            field="by",
            code="not_applicable",
        )

    def merged(values: list[NDArray[Any]], fill: Any) -> NDArray[Any]:
        whole = np.full((num_rows, *values[0].shape[1:]), fill, values[0].dtype)
        for (rows, _), part in zip(parts, values, strict=True):
            whole[rows] = part
        return whole

    predictions = [each for _, each in parts]
    flags: list[list[Flag]] = [[] for _ in range(num_rows)]
    for rows, each in parts:
        for row, flagged in zip(rows.tolist(), each.flags, strict=True):
            flags[row] = flagged
    return Prediction(
        mean=merged([each.mean for each in predictions], np.nan),
        sd=merged([each.sd for each in predictions], np.nan),
        intervals=[
            Interval(
                interval.level,
                merged([np.asarray(each.intervals[i].lower) for each in predictions], np.nan),
                merged([np.asarray(each.intervals[i].upper) for each in predictions], np.nan),
            )
            for i, interval in enumerate(first.intervals)
        ],
        quantiles=[
            Quantile(
                quantile.q, merged([np.asarray(each.quantiles[i].values) for each in predictions], np.nan)
            )
            for i, quantile in enumerate(first.quantiles)
        ],
        warnings=[],
        draws=min(each.draws for each in predictions),
        interval=first.interval,
        flags=flags,
        classes=first.classes,
        sets=[
            PredictionSet(each.level, merged([other.sets[i].members for other in predictions], fill=False))
            for i, each in enumerate(first.sets)
        ],
        groups=first.groups,
    )
