"""Rows of a fit: a table, the outcomes, and columns with other roles, each read and checked once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.repeated_columns import find_copies, repeats
from sampler.data.table import (
    RawColumn,
    Table,
    check_row_labels,
    is_array,
    one_column,
    read,
    read_column,
    row_labels,
)
from sampler.data.target import check_length
from sampler.definitions.data import CENSORING, COLUMN_ROLES, MISSING_TARGET, NAMED, ROLES
from sampler.definitions.several import MAX_OUTCOMES, are_several
from sampler.engines import load_code
from sampler.errors import DataError, DataProblem, SettingsError, suggestion

NAMED_COLUMNS = 10  # in a refusal
UNNAMED = ("y", "target")  # names of outcomes that have none


@dataclass(frozen=True)
class Rows:
    """Rows with their outcomes.

    Attributes
    ----------
    table
        The table of features; it may have the other columns too.
    outcome
        The outcomes, n values; of several the first.
    roles
        The other columns by role (`sampler.definitions.data.COLUMN_ROLES`), n values each, as far as there
        are any. A column's name is that under which new rows have theirs.
    named
        Whether the outcome has a name of its own, under which new rows may have it.
    copies
        Why columns of the table that repeat one with a role are no features, by name.
    others
        Further outcomes than the first, n values each, by name; a row may lack some.

    """

    table: Table
    outcome: RawColumn
    roles: Mapping[str, RawColumn] = field(default_factory=dict)
    named: bool = True
    copies: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, RawColumn] = field(default_factory=dict)

    @classmethod
    def of_arguments(
        cls, X: Any, y: Any, arguments: dict[str, Any], target_name: str | Sequence[str] | None = None
    ) -> Rows:
        """Read rows with the columns to which arguments of a fit give a role; see `read`, which this calls.

        Of the arguments it takes those of `COLUMN_ROLES` out, and puts names in place of the values of
        columns that stay in the table (`NAMED`).
        """
        table = read(X)
        for role in NAMED:
            table, names = by_name(table, role, arguments.get(role))
            if names is not arguments.get(role):
                if role not in ("groups", "adoption") and arguments.get("features") is not None:
                    arguments["features"] = [*dict.fromkeys([*arguments["features"], *names])]
                arguments[role] = names[0] if ROLES[role].kind == "column" else names
        return cls.read(table, y, {role: arguments.pop(role, None) for role in COLUMN_ROLES}, target_name)

    @classmethod
    def read(
        cls,
        X: Any,
        y: Any,
        roles: Mapping[str, Any] | None = None,
        target_name: str | Sequence[str] | None = None,
    ) -> Rows:
        """Read and check rows as `fit` takes them.

        Parameters
        ----------
        X
            A table of any supported library, n rows.
        y
            n outcomes, or a table of several.
        roles
            n values by role, the name of a column of the table, or None. Values without a name take that of
            the column of the table that has them, or else that of the role.
        target_name
            Name of the outcomes; None takes their own, or else "y" ("target" where a feature is called so).
            Of several their names; None takes those of the table, and y1, y2, .. of an array.

        Returns
        -------
        Rows
            The rows.

        Raises
        ------
        DataError
            For columns of other lengths or row labels, and for one called as a column of the table that has
            other values.
        SettingsError
            For another number of names, or of several outcomes, than there may be, and for a role whose name
            no column has.

        """
        table, others, name = read(X), list[RawColumn](), None
        if are_several(y):
            table, (outcome, *others) = _several_outcomes(table, y, target_name)
            labels, name = {"the table": table.labels, "the outcomes": read(y).labels}, outcome.name
        elif target_name is not None and not isinstance(target_name, str):
            raise SettingsError(
                "target_name must be one name: there is one outcome", field="target_name", code="not_accepted"
            )
        else:
            y = one_column(y)
            name = target_name or _own_name(y)
            outcome = read_column(y, name or UNNAMED[0])
            labels = {"the table": table.labels, "the target": row_labels(y)}
        given = {
            role: named_column(table, role, values) if isinstance(values, str) else one_column(values)
            for role, values in (roles or {}).items()
            if values is not None
        }
        check_row_labels(
            labels | {f"the {COLUMN_ROLES[role].noun}": row_labels(each) for role, each in given.items()}
        )
        columns = {role: read_column(values, _own_name(values) or role) for role, values in given.items()}
        for column in (outcome, *columns.values()):
            check_length(column, table.num_rows)
        if name is None:
            outcome = _freely_named(outcome, table, UNNAMED)
        if "weights" in given and _own_name(given["weights"]) is None:  # no later call needs their name
            columns["weights"] = _freely_named(columns["weights"], table, ("weights",))
        copies = {}
        for role, column in columns.items():
            unnamed = _own_name(given[role]) is None and column.name not in table.names
            if unnamed and (found := _same_column(table, column)) is not None:
                columns[role] = replace(column, name=found)
                whose = f"the values of the {COLUMN_ROLES[role].noun}, and is their column"
                copies[found] = f"it has {whose}: new rows have theirs in it"
        copies |= find_copies(table, columns)
        _check_names(table, outcome, columns)
        return cls(
            table, outcome, columns, name is not None, copies, {column.name: column for column in others}
        )

    @property
    def num_rows(self) -> int:
        """Number of rows, n."""
        return self.table.num_rows

    @property
    def taken(self) -> list[str]:
        """Names of the columns with a role, which are no features."""
        return [*self.outcomes, *(column.name for column in self.roles.values())]

    @property
    def outcomes(self) -> dict[str, RawColumn]:
        """All outcomes by name: one, or several."""
        return {self.outcome.name: self.outcome, **self.others}

    def of_outcome(self, name: str) -> Rows:
        """Return the rows with one of several outcomes alone."""
        return replace(self, outcome=self.outcomes[name], others={})

    @property
    def known(self) -> list[str]:
        """Names of columns with a role that new rows may have."""
        roles = [column.name for role, column in self.roles.items() if role != "weights"]
        return [*([self.outcome.name] if self.named else []), *self.others, *roles]

    @property
    def has_outcome(self) -> NDArray[np.bool_]:
        """Whether a row has an outcome, of several any, or a limit of it, bool [n]."""
        known = ~self.outcome.is_missing
        for column in self.others.values():
            known |= ~column.is_missing
        for role in ("lower", "upper"):
            if role in self.roles and (limits := self.roles[role].numbers) is not None:
                known |= np.isfinite(limits)
        return known

    def numbers(self) -> dict[str, NDArray[np.float64]]:
        """Read and check the numbers of columns with a role, but for those of the outcome; by role."""
        return read_roles(self.roles, self.num_rows)

    def to_fit(self, missing_target: str) -> Rows:
        """Leave out rows without an outcome if `missing_target` is "leave_out"; raise SettingsError."""
        if MISSING_TARGET.check("missing_target", missing_target) != "leave_out":
            return self
        return self.take(np.flatnonzero(self.has_outcome))

    def apart(self) -> Rows:
        """Read all columns, so that other processes can be sent the rows."""
        table = self.table
        return replace(self, table=table.with_columns({name: table.column(name) for name in table.names}))

    def take(self, rows: NDArray[np.int64]) -> Rows:
        """Select rows by their positions."""
        return self.with_outcomes(rows, self.table.part(rows))

    def with_outcomes(self, rows: NDArray[np.int64], table: Table) -> Rows:
        """Give the rows of a table the outcomes, and what goes with these, of some rows."""
        roles = {role: column.part(rows) for role, column in self.roles.items()}
        others = {name: column.part(rows) for name, column in self.others.items()}
        return replace(self, table=table, outcome=self.outcome.part(rows), roles=roles, others=others)

    def table_of(self, names: Mapping[str, str]) -> Table:
        """Return the table with the columns of some roles, called as a model does."""
        return self.table.with_columns(
            {name: self.roles[role] for role, name in names.items() if role in self.roles}
        )


def named(given: Any) -> list[str]:
    """List the name that was given for a column with a role; none for values."""
    return [given] if isinstance(given, str) else []


def named_column(table: Table, role: str, name: str) -> RawColumn:
    """Read the column of a name that was given for a role; raise SettingsError where there is none."""
    if name not in table.names:
        advice = suggestion(name, table.names) or f"; it has {', '.join(table.names[:NAMED_COLUMNS])}"
        advice += ", .." if len(table.names) > NAMED_COLUMNS and "did you mean" not in advice else ""
        message = f"{role} names {name!r}, which the table doesn't have{advice}"
        raise SettingsError(message, field=role, code="unknown")
    return table.column(name)


def by_name(table: Table, role: str, given: Any) -> tuple[Table, Any]:
    """Put columns with a role that are given by their values into the table, and return it with their names.

    Names are returned as they are given. Raises DataError as `Rows.read`.
    """
    names = named(given) or given
    if given is None or (
        isinstance(names, list | tuple)
        and all(isinstance(name, str) for name in names)
        and (len(names) != table.num_rows or {*names} <= {*table.names})
    ):
        return table, given
    check_row_labels({"the table": table.labels, f"the {role}": row_labels(given)})
    given = one_column(given)
    if isinstance(given, Mapping) or hasattr(given, "columns") or is_array(given):
        own = read(given)
        columns = [own.column(name) for name in own.names]
    else:
        column = read_column(given, _own_name(given) or role)
        same = None if _own_name(given) is not None else _same_column(table, column)
        columns = [column if same is None else replace(column, name=same)]
    for column in columns:
        check_length(column, table.num_rows)
        if column.name in table.names and not table.column(column.name).equals(column):
            detail = f"{role} has a column of this name with other values: rename one of the two"
            raise DataError([DataProblem(column.name, None, detail)])
    return table.with_columns({column.name: column for column in columns}), [each.name for each in columns]


def one_by_name(table: Table, role: str, given: Any) -> tuple[Table, str]:
    """Put a column into a table as `by_name`, and return it with the name of that one column."""
    table, names = by_name(table, role, given)
    names = named(names) or names
    if len(names) != 1:
        raise SettingsError(f"{role} is one column here, not {len(names)}", field=role, code="not_accepted")
    named_column(table, role, names[0])
    return table, names[0]


def read_roles(
    columns: Mapping[str, Any], num_rows: int, arms: tuple[str, ...] | None = None
) -> dict[str, NDArray[np.float64]]:
    """Read and check the numbers of columns by role, but for those of the outcome, float64 [n] each.

    `arms` are the names of those of a model's treatment, none of a dose; None for a model to be made.

    Raises
    ------
    DataError
        For numbers that no row of such a role has, by column and row.

    """
    return {
        role: load_code(COLUMN_ROLES[role].reader)(column, num_rows, *([arms] if role == "treatment" else []))
        for role, column in columns.items()
        if not COLUMN_ROLES[role].of_outcome
    }


def read_roles_again(
    table: Table, y: Any, weights: Any, names: Mapping[str, str], *, weighted: bool
) -> dict[str, RawColumn]:
    """Read what a fitted model needs beside features of rows with known outcomes.

    Parameters
    ----------
    table
        The rows.
    y, weights
        Their outcomes, and weights, the name of their column, or None.
    names
        Names of the columns that have a role, {role: name}.
    weighted
        Whether the model was fitted with weights.

    Returns
    -------
    dict
        The columns by role.

    Raises
    ------
    DataError
        For columns that the table doesn't have, weights that aren't given, and other row labels than the
        table's.

    """
    if isinstance(weights, str):
        weights = named_column(table, "weights", weights)
    check_row_labels(
        {"the rows": table.labels, "the outcomes": row_labels(y), "the weights": row_labels(weights)}
    )
    absent = {role: name for role, name in names.items() if name not in table.names}
    if weighted and weights is None:
        absent["weights"] = "weights"
    if absent:
        raise DataError([missing_role(role, name) for role, name in absent.items()])
    return {role: table.column(name) for role, name in names.items()} | (
        {} if weights is None else {"weights": read_column(weights, "weights")}
    )


def censoring_roles(roles: Mapping[str, RawColumn]) -> dict[str, RawColumn]:
    """Return the columns that tell of censoring among those with a role: event, or lower and upper."""
    return {role: roles[role] for role in CENSORING if role in roles}


def absent_roles(names: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Say what predictions take rows for that lack columns with a role, {role: name}."""
    return [COLUMN_ROLES[role].absent.format(name=name) for role, name in names.items() if name not in known]


def missing_role(role: str, name: str) -> DataProblem:
    """Say that rows lack what the model was fitted with."""
    return DataProblem(
        name, None, f"the model was fitted with {COLUMN_ROLES[role].noun}: these rows need theirs too"
    )


def _several_outcomes(
    table: Table, Y: Any, target_name: str | Sequence[str] | None
) -> tuple[Table, list[RawColumn]]:
    """Read several outcomes of the rows of a table, and return the table without their columns."""
    columns = read(Y)
    names = list(columns.names) if target_name is None else list(target_name)
    if target_name is None and is_array(Y):
        names = [f"y{number + 1}" for number in range(len(columns.names))]
    if isinstance(target_name, str) or len(names) != len(columns.names) or len({*names}) < len(names):
        raise SettingsError(
            f"target_name must have a name of its own for each of the {len(columns.names)} outcomes",
            field="target_name",
            code="not_accepted",
        )
    if not 2 <= len(names) <= MAX_OUTCOMES:
        raise SettingsError(
            f"several outcomes are from 2 to {MAX_OUTCOMES}, not {len(names)}",
            field="target_name",
            code="out_of_range",
        )
    if columns.num_rows != table.num_rows:
        raise DataError(f"there are {table.num_rows} rows, and outcomes of {columns.num_rows}")
    outcomes = {
        name: replace(columns.column(own), name=name) for name, own in zip(names, columns.names, strict=True)
    }
    for name, column in outcomes.items():
        if name in table.names and not table.column(name).equals(column):
            detail = "an outcome is called so, and has other values than this column: rename one of the two"
            raise DataError([DataProblem(name, None, detail)])
    kept = [name for name in table.names if name not in outcomes]
    readers = {name: table.readers[name] for name in kept}
    return replace(table, names=kept, readers=readers), list(outcomes.values())


def _own_name(values: Any) -> str | None:
    name = getattr(values, "name", None)
    unnamed = name is None or (name == "" and not isinstance(values, RawColumn))
    return None if unnamed else str(name)


def _same_column(table: Table, column: RawColumn) -> str | None:
    """Return the name of the first column of the table that has the values of another, which vary."""
    exact = (each for each in map(table.column, table.names) if each.equals(column))
    names = column.numbers is None and len({*(column.cells or ())}) > 1
    return next((each.name for each in exact if names or repeats(each, column)), None)


def _freely_named(column: RawColumn, table: Table, names: Sequence[str]) -> RawColumn:
    """Name a column without a name as none with other values is called."""
    for name in names:
        if name not in table.names or table.column(name).equals(column):
            return replace(column, name=name)
    name = names[-1]
    while name in table.names:
        name += "_"
    return replace(column, name=name)


def _check_names(table: Table, outcome: RawColumn, columns: Mapping[str, RawColumn]) -> None:
    """Raise DataError for a column with a role that is called as another one with other values."""
    problems = []
    name = outcome.name
    if name in table.names and not table.column(name).equals(outcome):
        detail = (
            "the target is called so, and has other values than this column: give it another name "
            "(target_name) if the column is a feature, or else leave the column out"
        )
        problems.append(DataProblem(name, None, detail))
    for role, column in columns.items():
        name = column.name
        others = [other for other in (outcome, *columns.values()) if other.name == name]
        if all(column.equals(other) for other in ([table.column(name)] if name in table.names else others)):
            continue
        whose = "column of the table" if name in table.names else "column with another role"
        later = "" if role == "weights" else ", from which later calls would take those of new rows"
        noun = COLUMN_ROLES[role].noun
        detail = (
            f"the {noun} are called so, and have other values than the {whose}{later}: rename one of the two"
        )
        if name in table.names:
            detail += f", or leave out the {whose}"
        problems.append(DataProblem(name, None, detail))
    if problems:
        raise DataError(problems)
