"""Schema of a model: its features and their kinds, and the matching of new columns by name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

from sampler.data.columns import MAX_LEVELS, ColumnSummary
from sampler.definitions.data import NO_FEATURES
from sampler.definitions.prior import MOST
from sampler.errors import DataError, DataProblem, SettingsError, suggestion

LONGEST_NAME = 200  # characters
ROW_LABELS = re.compile(r"__index_level_\d+__")  # what pandas calls those without a name in Arrow and Parquet
FeatureKind = Literal["number", "boolean", "category", "date", "encoded"]
KINDS: tuple[FeatureKind, ...] = get_args(FeatureKind)
OF_LEVELS = ("category", "encoded")  # kinds of columns whose cells are names
FEWEST_IDENTIFIED = 20  # rows from which values that all differ identify them
MOST_ENCODED = 20_000  # levels whose means a model keeps


@dataclass(frozen=True)
class Column:
    """A feature, or the target, as it was in training.

    Attributes
    ----------
    name
        Name of the column.
    kind
        "number", "boolean", "category", "date" or "encoded": text that counts as the mean of its level.
    levels
        Levels of a category, sorted; of encoded text the most frequent first.
    missing
        Number of missing training values; in a category, missing is a level of its own.
    min, max
        Range of the training values (days since 1970 for a date); None for categories and empty columns.
    from_text
        Whether the training column was text converted to `kind` on request; then text is accepted in
        prediction too.
    zoned
        Whether the times of a date's training column had a zone; None where only some had, or it isn't known.
    means
        Value of each level of encoded text (`sampler.data.level_means`); a new level has 0.

    """

    name: str
    kind: FeatureKind
    levels: tuple[str, ...] = ()
    missing: int = 0
    min: float | None = None
    max: float | None = None
    from_text: bool = False
    zoned: bool | None = None
    means: tuple[float, ...] = ()

    @cached_property
    def mean_of(self) -> dict[str, float]:
        """Value of each level of encoded text."""
        return dict(zip(self.levels, self.means, strict=True))

    @cached_property
    def indicators(self) -> tuple[str | None, ...]:
        """The level that each coded column stands for (None: missing); a single None unless a category.

        Two levels need one indicator, of the second; more levels have one each (Chipman, George and McCulloch
        2010).
        """
        if self.kind != "category":
            return (None,)
        levels = (*self.levels, *([None] if self.missing else []))
        return levels if len(levels) > 2 else levels[1:] or levels

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        fields = asdict(self) | {"levels": list(self.levels), "means": list(self.means) or None}
        later = ("zoned", "means")
        return {name: value for name, value in fields.items() if name not in later or value is not None}


@dataclass(frozen=True)
class LeftOut:
    """Name of a training column that the model doesn't use, and the reason."""

    name: str
    why: str


@dataclass(frozen=True)
class Schema:
    """Columns of a model: its features in order, its target, and the training columns that it doesn't use.

    `groups` are columns whose levels have an intercept beside the trees; they are no features.
    """

    columns: tuple[Column, ...]
    target: Column
    left_out: tuple[LeftOut, ...] = ()
    ignored: tuple[str, ...] = ()  # all other names of the training table; ignored in prediction too
    groups: tuple[Column, ...] = ()

    @cached_property
    def coded(self) -> tuple[tuple[int, str | None], ...]:
        """(index into `columns`, level or None) of each coded column."""
        return tuple((j, level) for j, column in enumerate(self.columns) for level in column.indicators)

    @property
    def inputs(self) -> tuple[Column, ...]:
        """Columns that new rows need: the features, then the columns of groups."""
        return (*self.columns, *self.groups)

    @property
    def kinds(self) -> dict[str, FeatureKind]:
        """Kinds of the columns that new rows need, by name."""
        return {column.name: column.kind for column in self.inputs}

    def of(self, column: Column) -> Schema:
        """Return the schema of one feature alone."""
        return replace(self, columns=(column,), groups=())

    def match(self, names: Sequence[str], *, ignore_extra: bool = False) -> list[str]:
        """Check the column names of new data, in any order, and return warnings.

        Columns that the training data left out, and with `ignore_extra` all unknown ones, are left out.

        Raises
        ------
        DataError
            For absent and for unknown columns.

        """
        known = {column.name for column in self.inputs}
        present = set(names)
        absent = known - present
        problems = [
            DataProblem(
                column.name, None, "the model needs this column; send it, with empty cells where unknown"
            )
            for column in self.columns
            if column.name not in present
        ]
        problems += [
            DataProblem(
                column.name,
                None,
                "the model has an intercept for each of its groups; send the column, with empty cells or new "
                "groups for rows of none that it knows",
            )
            for column in self.groups
            if column.name not in present
        ]
        unused = [name for name in names if name not in known]
        problems += [
            DataProblem(
                name, None, f"there was no such column in the training data{suggestion(name, absent)}"
            )
            for name in unused
            if name not in self.ignored and not ignore_extra and not ROW_LABELS.fullmatch(name)
        ]
        if problems:
            raise DataError(problems)
        return [f"not used by the model: {_listed(unused)}"] if unused else []

    def to_json(self) -> dict[str, Any]:
        """Return the schema as JSON values."""
        return {
            "columns": [column.to_json() for column in self.columns],
            "target": self.target.to_json(),
            "left_out": [asdict(item) for item in self.left_out],
            "ignored": list(self.ignored),
            **({"groups": [column.to_json() for column in self.groups]} if self.groups else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Schema:
        """Read the schema that `to_json` wrote."""
        return cls(
            columns=tuple(_column(item) for item in data["columns"]),
            target=_column(data["target"]),
            left_out=tuple(LeftOut(**item) for item in data["left_out"]),
            ignored=tuple(data["ignored"]),
            groups=tuple(_column(item) for item in data.get("groups", ())),
        )


def _column(data: Mapping[str, Any]) -> Column:
    column = Column(**{**data, "levels": tuple(data["levels"]), "means": tuple(data.get("means", ()))})
    if column.kind not in KINDS or not all(isinstance(text, str) for text in (column.name, *column.levels)):
        raise ValueError(f"a column of unknown kind {column.kind!r}, or with names that are not text")
    return column


def name_fault(name: str) -> str:
    """Say what is wrong with the name of a column; nothing of one that a dataset may have."""
    if not name.strip():
        return "is empty: name it"
    if len(name) > LONGEST_NAME:
        return f"has more than {LONGEST_NAME} characters: shorten it"
    return "" if name.isprintable() else "contains unprintable characters: rename it"


def _listed(names: Sequence[str], most: int = 10) -> str:
    hidden = len(names) - most
    return ", ".join(names[:most]) + (f" and {hidden} more" if hidden > 0 else "")


@dataclass(frozen=True)
class Choice:
    """Columns chosen as features, and their kinds, in the order of the table."""

    kinds: dict[str, FeatureKind]
    left_out: tuple[LeftOut, ...] = ()
    ignored: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)


def choose(
    summaries: Iterable[ColumnSummary],
    *,
    reserved: Sequence[str] = (),
    features: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    num_rows: int | None = None,
    unfit: Mapping[str, str] | None = None,
    encodes: bool = False,
) -> Choice:
    """Choose the features of a table from the summaries of its columns, without reading the data.

    Parameters
    ----------
    summaries
        One summary per column, in order.
    reserved
        Names that can't be features: the target and the weights.
    features
        Names to use; None takes every usable column and leaves out text with more than 50 levels, unusable
        types, columns without any value, and those that only identify rows, where others are left.
    columns
        Kinds to use instead of the inferred ones, by name.
    num_rows
        Number of rows, by which columns without any value are recognised; None skips that check.
    unfit
        Why columns can't be features, whatever their kinds, by name.
    encodes
        Whether the outcome has means by which text of more than 50 levels may be encoded.

    Returns
    -------
    Choice
        The kinds of the features, the columns left out, and warnings.

    Raises
    ------
    DataError
        For features that don't exist or can't be used.
    SettingsError
        For an unknown kind, or a kind for an unknown column.

    """
    by_name = {summary.name: summary for summary in summaries}
    overrides = _overrides(columns or {}, by_name, encodes=encodes)
    chosen = [name for name in by_name if name not in reserved] if features is None else list(features)
    _check_features(chosen, by_name, reserved)
    kinds: dict[str, FeatureKind] = {}
    left_out: list[LeftOut] = []
    identifying: list[LeftOut] = []
    encoded: list[str] = []
    problems: list[DataProblem] = []
    for name in chosen:
        if encodes and name not in (unfit or {}) and _is_encoded(by_name[name], overrides, num_rows):
            kinds[name] = "encoded"
            encoded.append(
                f"{name} is text with {by_name[name].distinct} levels: each counts as the mean outcome of "
                "its rows, drawn towards that of all (of training rows by the others of five folds), and a "
                f"new level as the mean of all; columns={{{name!r}: 'category'}} gives each a column, and "
                f"groups={name!r} an intercept, as subjects or sites have"
            )
            continue
        why = (unfit or {}).get(name) or _why_left_out(
            by_name[name], overrides.get(name), num_rows, named=features is not None
        )
        if why and features is not None:
            problems.append(DataProblem(name, None, why))
        elif why:
            left_out.append(LeftOut(name, why))
        elif (
            features is None and name not in overrides and (why := why_it_identifies(by_name[name], num_rows))
        ):
            identifying.append(LeftOut(name, why))
        else:
            kinds[name] = overrides.get(name) or _default_kind(by_name[name])
    if problems:
        raise DataError(problems)
    if kinds:
        left_out += identifying
    else:
        kinds = {item.name: _default_kind(by_name[item.name]) for item in identifying}
    if not kinds:
        reasons = [DataProblem(item.name, None, item.why) for item in left_out]
        raise DataError([DataProblem(None, None, "there is no column to learn from"), *reasons])
    warnings = [f"{item.name} is left out: {item.why}" for item in left_out]
    ignored = tuple(name for name in by_name if name not in kinds)
    return Choice(kinds, tuple(left_out), ignored, [*warnings, *encoded])


def _is_encoded(summary: ColumnSummary, overrides: Mapping[str, FeatureKind], num_rows: int | None) -> bool:
    """Tell whether text that would be left out has levels of enough rows each to be encoded."""
    enough = num_rows is not None and 0 < num_rows <= 2 * summary.repeated
    return enough and summary.name not in overrides and not summary.note and summary.distinct <= MOST_ENCODED


def _overrides(
    columns: Mapping[str, str], by_name: Mapping[str, ColumnSummary], *, encodes: bool
) -> dict[str, FeatureKind]:
    overrides: dict[str, FeatureKind] = {}
    for name, kind in columns.items():
        if name not in by_name:
            raise SettingsError(
                f"columns names {name!r}, which the table doesn't have{suggestion(name, by_name)}",
                field="columns",
                code="unknown",
            )
        override: FeatureKind | None = next(
            (k for k in KINDS if k == ("category" if kind == "text" else kind)), None
        )
        if override is None:
            raise SettingsError(
                f"columns[{name!r}] must be one of {', '.join(KINDS)}; it is {kind!r}",
                field="columns",
                code="not_accepted",
            )
        if override == "encoded" and not encodes:
            raise SettingsError(
                f"columns[{name!r}]: levels are encoded by means of one outcome, which is a number, a count "
                "or one of two classes, without a treatment or limits: make it a category, or leave it out",
                field="columns",
                code="not_applicable",
            )
        overrides[name] = override
    return overrides


def _check_features(
    features: Sequence[str], by_name: Mapping[str, ColumnSummary], reserved: Sequence[str]
) -> None:
    problems = [
        DataProblem(str(name), None, f"there is no such column{suggestion(name, by_name)}")
        for name in features
        if name not in by_name and name not in reserved
    ]
    problems += [
        DataProblem(
            name,
            None,
            f"it can't be a feature: it has another role ({NO_FEATURES})",
        )
        for name in features
        if name in reserved
    ]
    problems += [
        DataProblem(name, None, "it is named twice among the features")
        for name in sorted({name for name in features if features.count(name) > 1})
    ]
    if problems:
        raise DataError(problems)


def _default_kind(summary: ColumnSummary) -> FeatureKind:
    return "category" if summary.kind in {"text", "unusable"} else summary.kind  # type: ignore[return-value]


def _why_left_out(
    summary: ColumnSummary, kind: FeatureKind | None, num_rows: int | None, *, named: bool
) -> str | None:
    if not named and ROW_LABELS.fullmatch(summary.name):
        return "it has the row labels of pandas: give them a name if they are a feature"
    if num_rows is not None and summary.missing == num_rows and not summary.note:
        return "it has no value at all"
    if kind in {None, "number"} and (why := why_too_large(summary.min, summary.max)):
        return why
    if kind is None and summary.kind == "unusable":
        return summary.note
    if kind is None and summary.kind == "text" and not named:
        note = f"; {summary.note}" if summary.note else ""
        if num_rows is not None and not note and 2 * summary.distinct <= num_rows:
            note = "; if they are subjects or sites, name it in groups"
        of_text = f"it is text with {summary.distinct} different values"
        return f"{of_text}, and up to {MAX_LEVELS} make a category{note}"
    return None


def why_it_identifies(summary: ColumnSummary, num_rows: int | None) -> str:
    """Say that a column has another value in each row, which is its number 1 to n or a text; "" otherwise."""
    if num_rows is None or num_rows < FEWEST_IDENTIFIED or summary.distinct != num_rows:
        return ""
    if summary.kind == "number" and (summary.min, summary.max) == (1.0, float(num_rows)):
        return (
            f"it only numbers the rows, from 1 to {num_rows} (choose it as a feature if their order says "
            "something, as that of time does)"
        )
    if summary.kind in {"category", "text"}:
        return "every row has another text (choose it as a feature if such texts say something of new rows)"
    return ""


def why_too_large(low: Any, high: Any) -> str:
    """Say that a column of such a range has numbers that calculations would not survive; "" otherwise."""
    largest = max((abs(end) for end in (low, high) if isinstance(end, float)), default=0.0)
    if largest <= MOST or largest == math.inf:  # infinite cells are named by row
        return ""
    return f"its numbers reach {largest:g}, and up to {MOST:g} are accepted: rescale it, or make them missing"
