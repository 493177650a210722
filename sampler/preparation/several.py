"""Preparation of a fit to several outcomes: each as a fit of its own, to the rows that have it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.data_warnings import dependence_warnings
from sampler.data.level_sets import NAME as SETS_PART
from sampler.data.rows import Rows
from sampler.data.shared_columns import shared_columns
from sampler.data.table import RawColumn
from sampler.data.target import guess_family
from sampler.definitions.pairs import Combination
from sampler.definitions.several import are_several, every_feature, features_of
from sampler.errors import DataError, DataProblem, SettingsError, suggestion
from sampler.families import FAMILIES
from sampler.noise import CONSTANT, NOISES
from sampler.pairs import check
from sampler.preparation.encode import prepare_one
from sampler.preparation.from_header import prepare_one_again
from sampler.prepared_fit import PreparedFit
from sampler.settings import Settings
from sampler.storage.model_header import Header, with_counts
from sampler.training import SeveralTraining, Training, room_for_codes

ALONE = "fit it by itself"


def check_several(arguments: Mapping[str, Any]) -> None:
    """Raise SettingsError for settings that a fit of several outcomes has no place for."""
    check(Combination({**arguments, "outcomes": 2}))


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


def check_features(features: Any, outcomes: Collection[str]) -> None:
    """Raise SettingsError for features by outcome that name no outcome, or that are no names of columns."""
    if not isinstance(features, Mapping):
        return
    for name, own in features.items():
        fault = "" if name in outcomes else f"it is no outcome{suggestion(str(name), outcomes)}"
        if (
            not fault
            and own is not None
            and (isinstance(own, str) or not all(isinstance(k, str) for k in own))
        ):
            fault = "its columns must be a list of names"
        if fault:
            raise SettingsError(f"features names {name!r}, but {fault}", field="features", code="unknown")


def check_noise(noise: str | None, features: Iterable[Collection[str]]) -> None:
    """Raise SettingsError for noise by row of outcomes, with these features, that have none in common."""
    if noise in NOISES and NOISES[noise].forest and not set.intersection(*map(set, features)):
        raise SettingsError(
            f"noise={noise} differs by the features that all outcomes have, and there are none: set "
            f"noise={CONSTANT}, or name a feature for all outcomes",
            field="noise",
            code="contradiction",
        )


def arguments_of(outcome: str, family: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of one outcome's fit.

    Where outcomes have features of their own, it has those, and of directions and cut points those of them.
    Classes have no line, and no noise to say anything of.
    """
    features = arguments.get("features")
    own = {**arguments, "family": family}
    if isinstance(features, Mapping):
        own["features"] = mine = features_of(features, outcome)
        others = every_feature({name: each or () for name, each in features.items()}) or ()
        foreign = {*others} - {*(others if mine is None else mine)}
        if own.get("monotone"):  # the trees of all outcomes are as many, and move, as those with directions
            told = {
                name: own[name] for name in ("monotone", "moves", "num_trees") if own.get(name) is not None
            }
            alike = Settings.resolve(**told)
            own |= {"moves": alike.moves, "num_trees": alike.num_trees}
            own["monotone"] = _without(own["monotone"], foreign)
        if isinstance(cuts := (own.get("prior") or {}).get("cuts"), Mapping):
            own["prior"] = {**own["prior"], "cuts": _without(cuts, foreign)}
    if family == "gaussian":
        return own
    accepted = FAMILIES[family].prior
    prior = {name: value for name, value in (own.get("prior") or {}).items() if name in accepted}
    return own | {"linear": False, "prior": prior}


def _without(entries: Mapping[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """Leave out the entries of some columns."""
    return {name: value for name, value in entries.items() if name not in columns}


def prepare_several(
    rows: Rows,
    *,
    ignored: Sequence[str] = (),
    families: Mapping[str, str] | None = None,
    **arguments: Any,
) -> PreparedFit:
    """Plan and encode a fit of several outcomes.

    Parameters
    ----------
    rows
        The rows, with two to eight outcomes; missing ones are learnt from the others of their row. They are
        numbers, and with family "auto" one may have two classes.
    ignored
        Further names that new tables may contain.
    families
        Family of each outcome, as `families_of` chooses them; None chooses them.
    arguments
        Settings, as for `prepare_rows`; features may be by outcome, ``{"a": [..], "b": [..]}``.

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
    outcomes, names = rows.outcomes, [*rows.outcomes]
    if not rows.has_outcome.all():
        row = int(np.argmin(rows.has_outcome)) + 1
        detail = "the row has no outcome: leave such rows out (missing_target='leave_out')"
        raise DataError([DataProblem(name, row, detail) for name in names])
    check_features(arguments.get("features"), names)
    families = families_of(outcomes, arguments.get("family")) if families is None else families
    check_several({**arguments, "families": [*families.values()]})
    arguments |= {"noise": arguments.get("noise") or CONSTANT, "transform": "none"}
    uneven = NOISES[arguments["noise"]].forest
    prepared, places, warnings = [], [], []
    for name, column in outcomes.items():
        mine = np.flatnonzero(~column.is_missing)
        if not len(mine):
            raise DataError([DataProblem(name, None, "no row has this outcome: leave it out")])
        own = rows.of_outcome(name).take(mine)
        given = arguments_of(name, families[name], arguments)
        among = (rows.table, mine) if uneven else None  # the noise's trees need cut points of all
        prepared.append(prepare_one(own, ignored=[*names, *ignored], encodes=False, among=among, **given))
        places.append(mine)
        warnings += prepared[-1].warnings
    check_noise(arguments["noise"], [each.schema.kinds for each in prepared])
    numbers = {name: column.numbers for name, column in outcomes.items() if families[name] == "gaussian"}
    warnings += dependence_warnings({name: each for name, each in numbers.items() if each is not None})
    return _joined(prepared, places, rows.num_rows, list(dict.fromkeys(warnings)))


def prepare_several_again(header: Header, X: Any, Y: Any, weights: Any = None) -> PreparedFit:
    """Prepare a fitted model's training data of several outcomes again: see `prepare_again`.

    Raises
    ------
    DataError
        For rows that don't fit the model.

    """
    headers = [replace(header, others=()), *map(Header.from_bytes, header.others)]
    if not are_several(Y):
        raise DataError(f"the model was fitted to {len(headers)} outcomes: give a table of them")
    rows = Rows.read(X, Y, {"weights": weights})
    outcomes = rows.outcomes
    absent = [each.schema.target.name for each in headers if each.schema.target.name not in outcomes]
    if absent:
        raise DataError([DataProblem(name, None, "the model was fitted to this outcome") for name in absent])
    rows = rows.to_fit("leave_out")
    prepared, places = [], []
    for each in headers:
        column = rows.outcomes[each.schema.target.name]
        mine = np.flatnonzero(~column.is_missing)
        weight = rows.roles.get("weights") and rows.roles["weights"].part(mine)
        prepared.append(prepare_one_again(each, rows.table.part(mine), column.part(mine), weight))
        places.append(mine)
    return _joined(prepared, places, rows.num_rows, header.warnings)


def _joined(
    prepared: Sequence[PreparedFit],
    rows: Sequence[NDArray[np.int64]],
    num_rows: int,
    warnings: list[str],
) -> PreparedFit:
    """Put the fits of the outcomes together."""
    parts, weights = [], np.ones(num_rows)
    uneven = NOISES[prepared[0].training.settings.noise].forest
    for number, each in enumerate(prepared):
        constants = replace(each.training.constants, sigma_fixed=True)  # the covariance's draw has it
        of_one_size = replace(each.training.settings, noise=CONSTANT)
        part = replace(each.training, constants=constants, settings=of_one_size)
        if part.weights is not None:
            weights[rows[number]] = part.weights
        elif uneven or len({tuple(mine) for mine in rows}) > 1:  # rows may differ in what is known of them
            part = replace(part, weights=np.ones(len(rows[number])))
        parts.append(part)
    weighted = prepared[0].training.weights is not None
    noise = _noise_training(prepared, rows, num_rows) if uneven else None
    several = SeveralTraining(
        tuple(parts), tuple(rows), num_rows, weights=weights if weighted else None, noise=noise
    )
    first = prepared[0]
    return replace(
        first,
        training=replace(first.training, several=several),
        warnings=warnings,
        others=tuple(with_counts(each.header(), num_draws=1, num_chains=1) for each in prepared[1:]),
    )


def _noise_training(
    prepared: Sequence[PreparedFit], rows: Sequence[NDArray[np.int64]], num_rows: int
) -> Training:
    """Return what the noise of all rows runs on; see `SeveralTraining.noise`.

    Columns that it may not split on have one code: those that outcomes don't share, and monotone ones.
    """
    first, counts = prepared[0].training, np.zeros(num_rows)
    codes = room_for_codes(len(first.codes), num_rows)
    codes[:] = 0
    places = shared_columns(prepared)
    for own, each, mine in zip(places, prepared, rows, strict=True):
        codes[np.ix_(places[0], mine)] = each.training.codes[own]
        counts[mine] += 1
    for own, each in zip(places, prepared, strict=True):
        if (same := each.training.same_noise) is not None:
            codes[places[0][same[own]]] = 0
    parts = {name: own for name, own in first.parts.items() if name == SETS_PART}
    return replace(first, codes=codes, y=counts, weights=None, parts=parts)
