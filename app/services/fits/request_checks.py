"""Checks of a request for a fit: the rules of the service, and the sampler's plan, which refuses all else."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.services import datasets
from app.services.datasets import check_name
from app.services.errors import Fault, InvalidRequestError, UnusableDataError
from app.services.fits import stop_rules
from app.services.fits.requests import NOT_CALIBRATED, FitRequest
from app.store.tables import Dataset
from sampler import DataError, Settings, SettingsError
from sampler.host.data import (
    FOLDS,
    FeatureKind,
    Rows,
    Split,
    SplitPlan,
    find_copies,
    is_beyond,
    read,
    read_column,
    refuse_censoring,
    without_new_groups,
)
from sampler.host.fits import (
    FitPlan,
    arguments_of,
    calibration_splits,
    check_features,
    check_members,
    check_noise,
    check_several,
    families_of,
    members_of,
    plan,
    resolve_settings,
)
from sampler.host.settings import COLUMN_ROLES, NewRows, Subgroups, suggestion

MIN_ROWS = 10  # to fit; a rule of the HTTP API, not of the sampler
MAX_NAME = 200
EXACT = "numbers of 2^53 or more are stored rounded, so not as levels: upload it with ?kind={}:category"


def check_model_name(name: str) -> str:
    """Return a name for a model; raise InvalidRequestError for one that can't be part of URLs."""
    name = check_name(name, MAX_NAME)
    if "/" in name or name in {".", ".."} or name.startswith(("mdl_", "set_")):
        message = (
            "a model's name is part of URLs: it can't be . or .., contain a slash, or begin with mdl_ or set_"
        )
        raise InvalidRequestError(errors=[Fault("name", None, message)])
    return name


def check_columns(dataset: Dataset, request: FitRequest) -> list[str]:
    """Return the names of the columns that a plan reads.

    Raises UnusableDataError for names that are no columns of the dataset, or have two roles.
    """
    known = {column["name"] for column in dataset.columns}
    faults = [Fault(name, None, _absent(name, known)) for name in request.reserved if name not in known]
    whose = {request.target: ""}
    for name in request.others:
        if name in whose and not faults:
            faults.append(Fault(name, None, "it is named twice among the targets"))
        whose[name] = ""
    for role, name in request.roles.items():
        message = COLUMN_ROLES[role].twice
        if not faults and whose.setdefault(name, message) != message:
            faults.append(Fault(name, None, message))
    if faults:
        raise UnusableDataError(errors=faults)
    with refusing(request):
        new_rows = NewRows.read(request.new_rows, known)
        subgroups = Subgroups.read(request.subgroups, known)
    grouping = [*new_rows.columns, *subgroups.columns, *(_lacking(dataset) if subgroups.missing else ())]
    read = [*(request.data.get("slopes") or ()), request.data.get("propensity"), request.data.get("period")]
    return [*request.reserved, *(name for name in read if name in known), *grouping]


def _lacking(dataset: Dataset) -> list[str]:
    """Return the columns in which values are missing."""
    return [each.name for each in datasets.summaries_of(dataset) if each.missing]


def _absent(name: str, known: Collection[str]) -> str:
    return "the dataset has no such column" + suggestion(name, known)


def order_of(dataset: Dataset, request: FitRequest) -> tuple[str, ...]:
    """Return the order of the target's classes that the type of its file said; empty where it said none."""
    return next((each.order for each in datasets.summaries_of(dataset) if each.name == request.target), ())


def rows_of(table: pa.Table, request: FitRequest, alike: Sequence[str], order: tuple[str, ...]) -> Rows:
    """Read the rows of a dataset, with the columns that have a role.

    `alike` may repeat these; `order` is that of the target's classes, if they have one.
    """
    roles = {role: read_column(table.column(name), name) for role, name in request.roles.items()}
    copies = find_copies(read(table.select(alike)), roles)
    outcome = replace(read_column(table.column(request.target), request.target), levels=order)
    others = {name: read_column(table.column(name), name) for name in request.others}
    return Rows(read(table), outcome, roles, copies=copies, others=others)


@contextmanager
def refusing(request: FitRequest, rows: NDArray[np.int64] | None = None) -> Iterator[None]:
    """Raise what the sampler refuses as an error of the service; `rows` are the places of its rows."""
    try:
        yield
    except SettingsError as error:
        if error.field == "weights":  # the column is at fault, not a field of the model
            fault = Fault(request.roles["weights"], None, str(error), error.code)
            raise UnusableDataError(errors=[fault]) from None
        raise InvalidRequestError(errors=[Fault.of_setting(error)]) from None
    except DataError as error:
        faults = [Fault.of(problem) for problem in error.problems]
        if rows is not None:
            faults = [
                each if each.row is None else replace(each, row=int(rows[each.row - 1]) + 1)
                for each in faults
            ]
        raise UnusableDataError(errors=faults) from None


def resolve(request: FitRequest, rows: Rows) -> Settings:
    """Resolve the sampler's settings for the rows that have a target."""
    with refusing(request):
        settings = resolve_settings(rows, **request.settings, **_planned(request))
    if request.settings.get("num_trees") is None and "leaf_sd" not in (request.prior or {}):
        training = rows.num_rows - round(rows.num_rows * request.holdout)
        return stop_rules.with_trees(request.stop, settings, training)
    return settings  # the sd of leaves belongs to a number of trees


def _planned(request: FitRequest) -> dict[str, Any]:
    """Return what a plan takes besides rows and settings."""
    named = {role: value for role, value in request.data.items() if role not in request.roles}
    return named | {"prior": request.prior}


def plan_fit(
    request: FitRequest, dataset: Dataset, settings: Settings, rows: Rows, used: NDArray[np.int64]
) -> FitPlan:
    """Plan the fit by all rows with a target, the places `used`, and by those of them that are learnt from.

    Raises UnusableDataError or InvalidRequestError for everything that the fit would refuse.
    """
    summaries = [each for each in datasets.summaries_of(dataset) if each.name not in request.others]
    with refusing(request):
        rows = without_new_groups(rows, NewRows.read(request.new_rows), request.data)
    train, held = split_of(request, settings, rows)

    def planned(places: NDArray[np.int64]) -> FitPlan:
        with refusing(request, places):
            return plan(
                rows if len(places) == rows.num_rows else rows.take(places),
                summaries,
                settings,
                guessed=request.settings.get("family") == "auto",
                num_rows=dataset.num_rows,
                **_planned(request),
            )

    whole = planned(used)
    if len(held):
        planned(np.intersect1d(used, train))
    kinds = whole.choice.kinds
    rounded = [each.name for each in summaries if kinds.get(each.name) == "category" and is_beyond(each)]
    if rounded:
        raise UnusableDataError(errors=[Fault(name, None, EXACT.format(name)) for name in rounded])
    return whole


def of_several(request: FitRequest) -> FitRequest:
    """Return the request with what several outcomes leave no choice; raises InvalidRequestError."""
    if not request.others:
        return request
    with refusing(request):
        check_features(request.data.get("features"), [request.target, *request.others])
        given = {**request.data, **request.settings, "prior": request.prior, "calibrate": request.calibrate}
        check_several({**given, "new_rows": request.new_rows, "subgroups": request.subgroups})
    only = {"noise": request.settings.get("noise") or "constant", "transform": "none"}
    return replace(request, settings={**request.settings, **only})


def families_of_all(request: FitRequest, rows: Rows) -> list[str]:
    """List the families of the outcomes.

    Raises
    ------
    InvalidRequestError
        As `families_of`, or the first is no number: its settings are those of the fit, which classes have no
        place in.
    """
    with refusing(request):
        families = families_of(rows.outcomes, request.settings.get("family"))
    if families[request.target] != "gaussian":
        number = next(name for name, family in families.items() if family == "gaussian")
        message = f"{request.target} has two classes: name a number such as {number} first, and it after that"
        raise InvalidRequestError(errors=[Fault("target", None, message, "not_applicable")])
    with refusing(request):
        check_several({**request.settings, "families": [*families.values()]})
    return [*families.values()]


def of_outcome(request: FitRequest, name: str, family: str) -> FitRequest:
    """Return the request for one of several outcomes, beside which the others are no features."""
    others = [each for each in (request.target, *request.others) if each != name]
    features = request.data.get("features")
    given = arguments_of(name, family, {**request.settings, "prior": request.prior, "features": features})
    prior, features = given.pop("prior"), given.pop("features")
    data = {**request.data, "features": features}
    return replace(request, target=name, others=others, settings=given, prior=prior, data=data)


def plan_others(
    request: FitRequest, dataset: Dataset, settings: Settings, rows: Rows, families: Mapping[str, str]
) -> dict[str, FitPlan]:
    """Plan each further outcome by its rows, as `plan_fit` does the target."""
    plans = {}
    alike = not isinstance(request.data.get("features"), Mapping)
    for name in request.others:
        own = rows.of_outcome(name)
        mine = np.flatnonzero(own.has_outcome)
        check_rows(dataset, request.holdout, rows.num_rows - len(mine))
        alone = of_outcome(request, name, families[name])
        own_settings = settings if alike and families[name] == settings.family else resolve(alone, own)
        plans[name] = plan_fit(alone, dataset, own_settings, own, mine)
    return plans


def own_columns(
    request: FitRequest, plans: Mapping[str, FitPlan]
) -> tuple[dict[str, FeatureKind], dict[str, Any]]:
    """Return the kinds of the features of all outcomes, and the settings in which these differ, of all.

    There are none where outcomes have the same features; `plans` are by outcome, the first one's first.
    """
    with refusing(request):
        check_noise(plans[request.target].settings.noise, [each.choice.kinds for each in plans.values()])
    if not isinstance(request.data.get("features"), Mapping):
        return plans[request.target].choice.kinds, {}
    kinds = {name: kind for each in plans.values() for name, kind in each.choice.kinds.items()}
    settings: dict[str, Any] = {"features": {name: list(each.choice.kinds) for name, each in plans.items()}}
    if monotone := request.settings.get("monotone"):
        settings["monotone"] = monotone
    if cuts := (request.prior or {}).get("cuts"):
        settings["prior"] = {**plans[request.target].resolved_prior, "cuts": cuts}
    return kinds, settings


def rows_plan_of(request: FitRequest, settings: Settings, rows: Rows) -> SplitPlan:
    """Plan which rows are held out; raises what `SplitPlan.of` does."""
    new_rows = NewRows.read(request.new_rows)
    return SplitPlan.of(new_rows, rows.table.column, rows.num_rows, settings.seed)


def split_of(request: FitRequest, settings: Settings, rows: Rows) -> Split:
    """Return the rows to learn from and those held out; raises UnusableDataError or InvalidRequestError."""
    with refusing(request):
        return rows_plan_of(request, settings, rows).holdout(request.holdout)


def check_rows(dataset: Dataset, holdout: float, missing: int) -> None:
    """Raise UnusableDataError where too few rows are left to learn from."""
    held = round(dataset.num_rows * holdout)
    if dataset.num_rows - held - missing >= MIN_ROWS:
        return
    without = f", of which {held} are held out" if held else ""
    without += f", and {missing} without a target are left out" if missing else ""
    raise UnusableDataError(
        f"The dataset has {dataset.num_rows} rows{without}; a model needs at least {MIN_ROWS} to learn from."
    )


def check_calibration(request: FitRequest, settings: Settings, rows: Rows) -> None:
    """Check that there are rows enough to calibrate by.

    Raises
    ------
    InvalidRequestError
        Outcomes are censored, or too few rows are held out; says how many are needed.
    """
    if request.calibrate == NOT_CALIBRATED:
        return
    with refusing(request):
        refuse_censoring(request.roles, "calibrate")
        split_plan = rows_plan_of(request, settings, rows)
        if request.calibrate == "folds" and request.holdout:  # folds of the others alone
            split_plan = split_plan.take(split_plan.holdout(request.holdout).train)
        calibration_splits(split_plan, rows, request.calibrate, request.holdout)


def check_subgroups(
    request: FitRequest, settings: Settings, rows: Rows, used: NDArray[np.int64], planned: FitPlan
) -> None:
    """Check the subgroups by the rows that will calibrate, of those with a target, the places `used`.

    Raises
    ------
    InvalidRequestError, UnusableDataError
        They can't be told apart by these rows, or have too few of them; nothing is calibrated.
    """
    declared, by = Subgroups.read(request.subgroups), request.calibrate
    if declared.are_none:
        return
    if by == NOT_CALIBRATED:
        message = "subgroups are those in which calibrated intervals hold: set calibrate to holdout or folds"
        raise InvalidRequestError(errors=[Fault("subgroups", None, message, "not_applicable")])
    with refusing(request):
        split_plan = rows_plan_of(request, settings, rows)
        train, test = split_plan.holdout(request.holdout)
        training, judged = np.intersect1d(train, used), np.intersect1d(test, used)
        splits = [Split(train, judged)]
        if by == "folds":
            split_plan = rows_plan_of(request, settings, rows.take(training))
            splits = split_plan.folds(FOLDS)
            judged = training[np.concatenate([each.test for each in splits])]
    kinds = planned.choice.kinds | {each.name: each.kind for each in planned.groups}
    kinds = {name: kind for name, kind in kinds.items() if name in rows.table.names}
    with refusing(request, judged):
        members = members_of(declared, rows.take(judged), rows.take(training), kinds, planned.target)
        check_members(members, "folds" if by == "folds" else "holdout", split_plan, splits)


def may_repeat_roles(dataset: Dataset, request: FitRequest) -> list[str]:
    """Return the columns that may repeat one with a role, by the dataset's profiles, without its rows."""
    if not request.roles:
        return []
    profiles = dataset.profiles or [{}] * len(dataset.columns)
    facts = {}
    for column, profile in zip(dataset.columns, profiles, strict=True):
        counts = sorted(entry["count"] for entry in profile.get("top", ()))
        facts[column["name"]] = column["missing"], column["distinct"], counts, profile.get("mean")
    repeated = [(facts[name], COLUMN_ROLES[role].cells == "boolean") for role, name in request.roles.items()]
    return [
        name
        for name, own in facts.items()
        if name not in request.reserved
        and any(own[:3] == of[:3] and (any_scale or own[3] == of[3]) for of, any_scale in repeated)
    ]
