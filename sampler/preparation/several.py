"""Preparation of a fit to several outcomes: each as a fit of its own, to the rows that have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.rows import Rows
from sampler.data.table import RawColumn, Table, check_row_labels, is_array, read
from sampler.data.target import guess_family
from sampler.definitions.data import COLUMN_ROLES
from sampler.definitions.prior import ABSOLUTE
from sampler.definitions.several import MAX_OUTCOMES
from sampler.errors import DataError, DataProblem, SettingsError
from sampler.families import FAMILIES
from sampler.preparation.encode import prepare_rows, resemblance_warnings
from sampler.preparation.from_header import prepare_again
from sampler.storage.model_header import Header, with_counts
from sampler.training import SeveralTraining

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.prepared_fit import PreparedFit

ABSENT = (*COLUMN_ROLES, "levels", "propensity", "groups", "slopes", "holdout", "new_rows", "subgroups")
ALONE = "fit it by itself"
# settings that several outcomes have one value of
ONLY: dict[str, tuple[Any, ...]] = {
    "family": ("gaussian", "auto"),
    "method": ("bart",),
    "start": ("stumps",),
    "noise": (None, "constant"),
    "transform": (None, "none"),
    "recipe": ("none", "cgm10"),
    "calibrate": ("none",),
}


def check_several(arguments: Mapping[str, Any]) -> None:
    """Raise SettingsError for settings that a fit of several outcomes has no place for."""
    for name in ABSENT:
        if arguments.get(name) is not None:
            _refuse(name, f"{name} doesn't go with several outcomes: fit each by itself")
    for name, accepted in ONLY.items():
        value = arguments.get(name, accepted[0])
        if value not in accepted:
            words = " or ".join(str(each) for each in accepted if each is not None)
            _refuse(name, f"several outcomes need {name} {words}, not {value!r}: or fit each by itself")
    moves = arguments.get("moves", "default")
    if moves == "pg" or (isinstance(moves, Mapping) and moves.get("pg")):
        _refuse("moves", "several outcomes have no particle Gibbs: leave pg out of moves")
    for name in arguments.get("prior") or {}:
        if name in ABSOLUTE:
            _refuse(
                f"prior.{name}", f"prior entry {name} is in units of one outcome: leave it out for several"
            )


def families_of(outcomes: Mapping[str, RawColumn], family: str | None) -> dict[str, str]:
    """Choose the family of each outcome: of a number, or with family "auto" of two classes for at most one.

    Raises DataError for further outcomes of classes, and for those of more than two.
    """
    if family != "auto":
        return dict.fromkeys(outcomes, "gaussian")
    found = {name: guess_family(column) for name, column in outcomes.items()}
    problems = [
        DataProblem(name, None, f"beside other outcomes it may have two classes, not more: {ALONE}")
        for name, each in found.items()
        if each not in ("gaussian", "probit")
    ]
    of_two = [name for name, each in found.items() if each == "probit"]
    if len(of_two) > 1:
        detail = 'one of several outcomes may have two classes: family="gaussian" takes 0 and 1 as numbers'
        problems += [DataProblem(name, None, f"{detail}; or {ALONE}") for name in of_two[1:]]
    if problems:
        raise DataError(problems)
    return found


def arguments_of(family: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of one outcome's fit: classes have no line, and no noise to say anything of."""
    own = {**arguments, "family": family}
    if family == "gaussian":
        return own
    accepted = FAMILIES[family].prior
    prior = {name: value for name, value in (arguments.get("prior") or {}).items() if name in accepted}
    return own | {"linear": False, "prior": prior}


def _refuse(field: str, message: str) -> None:
    raise SettingsError(message, field=field, code="not_applicable")


def prepare_several(
    X: Any,
    Y: Any,
    *,
    target_name: Sequence[str] | None = None,
    missing_target: str = "refuse",
    ignored: Sequence[str] = (),
    families: Mapping[str, str] | None = None,
    **arguments: Any,
) -> PreparedFit:
    """Read, check and encode the data of a fit of several outcomes.

    Parameters
    ----------
    X
        A table of n rows.
    Y
        A table of two to eight outcomes, n rows; missing ones are learnt from the others of their row. They
        are numbers, and with family "auto" one may have two classes.
    target_name
        Names of the outcomes; None takes those of Y, and y1, y2, .. of an array.
    missing_target
        What to do with rows without any outcome: "refuse" them, or "leave_out" these rows.
    ignored
        Further names that new tables may contain.
    families
        Family of each outcome, as `families_of` chooses them; None chooses them.
    arguments
        Settings, as for `prepare_rows`.

    Returns
    -------
    PreparedFit
        That of the first outcome, with what the others add.

    Raises
    ------
    DataError
        For unusable data, with column and row.
    SettingsError
        For settings that several outcomes have no place for.

    """
    check_several(arguments)
    table, outcomes = _read(X, Y, target_name)
    names = list(outcomes)
    known = np.stack([~column.is_missing for column in outcomes.values()])
    empty = ~known.any(axis=0)
    if missing_target != "leave_out" and empty.any():
        row = int(np.argmax(empty)) + 1
        detail = "the row has no outcome: leave such rows out (missing_target='leave_out')"
        raise DataError([DataProblem(name, row, detail) for name in names])
    places = np.cumsum(~empty) - 1  # of a row among those with an outcome
    families = families_of(outcomes, arguments.get("family")) if families is None else families
    arguments |= {"noise": "constant", "transform": "none"}
    arguments = {name: value for name, value in arguments.items() if name not in COLUMN_ROLES}
    prepared, rows, warnings = [], [], []
    for number, (name, column) in enumerate(outcomes.items()):
        mine = np.flatnonzero(known[number])
        if not len(mine):
            raise DataError([DataProblem(name, None, "no row has this outcome: leave it out")])
        own = Rows(table.part(mine), column.part(mine))
        given = arguments_of(families[name], arguments)
        prepared.append(prepare_rows(own, ignored=[*names, *ignored], **given))
        rows.append(places[mine])
        warnings += prepared[-1].warnings
    warnings += resemblance_warnings(Rows(table, next(iter(outcomes.values()))), prepared[0])
    return _joined(prepared, rows, int((~empty).sum()), list(dict.fromkeys(warnings)))


def prepare_several_again(header: Header, X: Any, Y: Any) -> PreparedFit:
    """Prepare a fitted model's training data of several outcomes again: see `prepare_again`.

    Raises
    ------
    DataError
        For rows that don't fit the model.

    """
    headers = [replace(header, others=()), *map(Header.from_bytes, header.others)]
    table, outcomes = _read(X, Y, None)
    absent = [each.schema.target.name for each in headers if each.schema.target.name not in outcomes]
    if absent:
        raise DataError([DataProblem(name, None, "the model was fitted to this outcome") for name in absent])
    known = [~outcomes[each.schema.target.name].is_missing for each in headers]
    some = np.logical_or.reduce(known)
    places = np.cumsum(some) - 1
    prepared, rows = [], []
    for each, there in zip(headers, known, strict=True):
        mine = np.flatnonzero(there)
        prepared.append(prepare_again(each, table.part(mine), outcomes[each.schema.target.name].part(mine)))
        rows.append(places[mine])
    return _joined(prepared, rows, int(some.sum()), header.warnings)


def _joined(
    prepared: Sequence[PreparedFit],
    rows: Sequence[NDArray[np.int64]],
    num_rows: int,
    warnings: list[str],
) -> PreparedFit:
    """Put the fits of the outcomes together."""
    parts = []
    for number, each in enumerate(prepared):
        constants = replace(each.training.constants, sigma_fixed=True)  # the covariance's draw has it
        part = replace(each.training, constants=constants)
        if len({tuple(mine) for mine in rows}) > 1:  # rows may differ in what is known of them
            part = replace(part, weights=np.ones(len(rows[number])))
        parts.append(part)
    several = SeveralTraining(tuple(parts), tuple(rows), num_rows)
    first = prepared[0]
    return replace(
        first,
        training=replace(first.training, several=several),
        warnings=warnings,
        others=tuple(with_counts(each.header(), num_draws=1, num_chains=1) for each in prepared[1:]),
    )


def _read(X: Any, Y: Any, target_name: Sequence[str] | None) -> tuple[Table, dict[str, RawColumn]]:
    """Read the table without the outcomes' columns, and the outcomes by name."""
    table, columns = read(X), read(Y)
    check_row_labels({"the table": table.labels, "the outcomes": columns.labels})
    names = list(target_name) if target_name is not None else list(columns.names)
    if target_name is None and is_array(Y):
        names = [f"y{number + 1}" for number in range(len(columns.names))]
    if len(names) != len(columns.names) or len({*names}) < len(names):
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
    return replace(table, names=kept, readers=readers), outcomes
