"""Checks of a request for a fit by the sampler's own validators: every refusal comes before the 202."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.services import datasets
from app.services.datasets import check_name
from app.services.errors import Fault, InvalidRequestError, UnusableDataError
from app.services.fits import stop_rules
from app.services.fits.requests import NOT_CALIBRATED, FitRequest
from app.store.tables import Dataset
from sampler import ColumnSummary, DataError, Settings, SettingsError, choose, holdout_rows
from sampler.data.censoring.outcomes import ROLES as CENSORING_ROLES
from sampler.data.censoring.outcomes import (
    censoring_roles,
    check_censoring,
    choose_censored_transform,
    read_censored_target,
    refuse_censoring,
)
from sampler.data.columns import is_beyond
from sampler.data.cut_points import given_cuts
from sampler.data.groupings import check_groups as check_group_settings
from sampler.data.groupings import check_names, group_names, read_groups, slope_columns
from sampler.data.groupings import check_slopes as check_slope_kinds
from sampler.data.rows import find_copies
from sampler.data.schema import Choice, Column
from sampler.data.table import read, read_column
from sampler.data.target import family_warnings, guess_family, read_exposure, read_target, read_weights
from sampler.data.transform import check_outcomes
from sampler.definitions.new_rows import LIKE_TRAINING
from sampler.definitions.prior import SCHEMES
from sampler.errors import DataProblem, suggestion
from sampler.methods import METHODS
from sampler.preparation.prior_checks import check_exposure, check_weights, checked_prior
from sampler.storage.conformal_table import check_calibration_size

MIN_ROWS = 10  # to fit; a rule of the HTTP API, not of the sampler
MAX_NAME = 200


def check_model_name(name: str) -> str:
    """Return a name for a model; raise InvalidRequestError for one that can't be part of URLs."""
    name = check_name(name, MAX_NAME)
    if "/" in name or name in {".", ".."} or name.startswith("mdl_"):
        message = "a model's name is part of URLs: it can't be . or .., contain a slash, or begin with mdl_"
        raise InvalidRequestError(errors=[Fault("name", None, message)])
    return name


def resolve(request: FitRequest, table: pa.Table) -> tuple[Settings, dict[str, Any]]:
    """Resolve the sampler's settings and the prior, except entries that depend on the features."""
    knobs = dict(request.settings)
    if knobs.get("family") == "auto":
        censored = any(request.roles.get(role) for role in CENSORING_ROLES)
        column = table.column(request.target)
        knobs["family"] = "gaussian" if censored else guess_family(column, str(knobs.get("method", "bart")))
    prior = dict(request.prior or {})
    cuts = {"cuts": prior.pop("cuts")} if "cuts" in prior else {}
    try:
        settings = Settings.resolve(**knobs)
        if knobs.get("num_trees") is None and "leaf_sd" not in prior:  # which belongs to a number of trees
            rows = table.num_rows - round(table.num_rows * request.holdout)
            settings = stop_rules.with_trees(request.stop, settings, rows)
        return settings, checked_prior(prior, settings) | cuts
    except SettingsError as error:
        raise _refused(error) from None


def family_notes(table: pa.Table, request: FitRequest, settings: Settings) -> list[str]:
    """Say how two whole numbers, or text that looks like numbers, were taken, if others may be meant."""
    if any(request.roles.get(role) for role in CENSORING_ROLES):
        return []
    outcomes = read_column(table.column(request.target), request.target)
    return family_warnings(outcomes, settings.family, guessed=request.settings.get("family") == "auto")


def _refused(error: SettingsError) -> InvalidRequestError:
    return InvalidRequestError(errors=[Fault.of_setting(error)])


def _unusable(error: DataError, column: str | None = None) -> UnusableDataError:
    """Convert the sampler's findings; `column` is the user's name for a column known by its role."""
    return UnusableDataError(errors=[Fault.of(problem, column) for problem in error.problems])


def check_columns(dataset: Dataset, names: Sequence[str]) -> None:
    """Raise UnusableDataError for names that are no columns of the dataset."""
    known = {column["name"] for column in dataset.columns}
    faults = [Fault(name, None, _absent(name, known)) for name in names if name not in known]
    if faults:
        raise UnusableDataError(errors=faults)


def _absent(name: str, known: Collection[str]) -> str:
    return "the dataset has no such column" + suggestion(name, known)


def check_values(table: pa.Table, request: FitRequest, settings: Settings) -> Column:
    """Check the target and the weights; return the target's column."""
    columns = {role: name for role in CENSORING_ROLES if (name := request.roles.get(role))}
    target = _check_target(table, request, settings, columns)
    _check_row_weights(table, request, settings)
    _check_exposure(table, request, settings)
    return target


def _check_target(
    table: pa.Table, request: FitRequest, settings: Settings, columns: Mapping[str, str]
) -> Column:
    """Check the target, and the columns that tell of censored outcomes, {role: name}, if any."""
    others = [request.target, *(name for role, name in request.roles.items() if role not in columns)]
    if doubled := [name for name in columns.values() if name in others]:
        message = "a column of events or limits can't have another role as well"
        raise UnusableDataError(errors=[Fault(name, None, message) for name in doubled])
    y = table.column(request.target)
    try:
        if not columns:
            target, outcomes = read_target(y, request.target, table.num_rows, settings.family)
            check_outcomes(settings.transform, outcomes)
            return target
        roles = censoring_roles(
            {role: read_column(table.column(name), name) for role, name in columns.items()}
        )
        of_trees = METHODS[settings.method].engine.forests
        weighted = request.roles.get("weights") is not None
        check_censoring(settings, of_trees=of_trees, weighted=weighted)
        target, censored = read_censored_target(y, request.target, roles, table.num_rows)
        choose_censored_transform(settings.transform, request.target, censored.y, roles)
    except SettingsError as error:
        raise _refused(error) from None
    except DataError as error:
        raise _unusable(error) from None
    return target


def _check_row_weights(table: pa.Table, request: FitRequest, settings: Settings) -> None:
    weights = request.roles.get("weights")
    if weights is None:
        return
    try:
        check_weights(settings, weighted=True)
    except SettingsError as error:
        raise UnusableDataError(errors=[Fault(weights, None, str(error), error.code)]) from None
    if weights == request.target:
        message = "the target can't be the weights as well"
        raise UnusableDataError(errors=[Fault(weights, None, message)])
    try:
        read_weights(table.column(weights), table.num_rows)
    except DataError as error:
        raise _unusable(error, weights) from None


def _check_exposure(table: pa.Table, request: FitRequest, settings: Settings) -> None:
    exposure = request.roles.get("exposure")
    if exposure is None:
        return
    try:
        check_exposure(settings)
    except SettingsError as error:
        raise _refused(error) from None
    if exposure in (request.target, request.roles.get("weights")):
        message = "the column of exposures can't have another role as well"
        raise UnusableDataError(errors=[Fault(exposure, None, message)])
    try:
        read_exposure(table.column(exposure), exposure, table.num_rows)
    except DataError as error:
        raise _unusable(error) from None


def check_groups(table: pa.Table, request: FitRequest, settings: Settings) -> int:
    """Check the columns of groups; return the number of groups of all of them."""
    taken = {"target": request.target, **request.roles}
    try:
        names = group_names(request.groups)
        check_group_settings(settings, names)
        check_names(names, table.column_names, taken, request.features)
    except SettingsError as error:
        raise _refused(error) from None
    try:
        columns, _ = read_groups([read_column(table.column(name), name) for name in names])
    except DataError as error:
        raise _unusable(error) from None
    return sum(len(column.levels) for column in columns)


def check_slopes(request: FitRequest, choice: Choice, rows: pa.Table) -> None:
    """Raise InvalidRequestError for slopes by group without groups, or of others than varying numbers.

    `rows` are those to learn from, with the columns that have slopes.
    """
    single = {
        name
        for name in request.slopes
        if name in rows.column_names and pc.count_distinct(rows.column(name)).as_py() < 2
    }
    try:
        check_slope_kinds(slope_columns(request.slopes, request.groups), choice.kinds, single)
    except SettingsError as error:
        raise _refused(error) from None


def check_particles(dataset: Dataset, settings: Settings) -> None:
    """Check the memory of a particle filter, whose particles each hold every row."""
    try:
        METHODS[settings.method].check_size(settings.num_draws, dataset.num_rows)
    except SettingsError as error:
        raise _refused(error) from None


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


def check_calibration(
    request: FitRequest, settings: Settings, dataset: Dataset, target: pa.ChunkedArray
) -> None:
    """Check that there are rows enough to calibrate by; `target` has all rows of the dataset.

    Raises
    ------
    InvalidRequestError
        Outcomes are censored, or too few rows are held out; says how many are needed.
    """
    if request.calibrate == NOT_CALIBRATED:
        return
    try:
        refuse_censoring(request.roles, "calibrate")
    except SettingsError as error:
        raise _refused(error) from None
    if request.calibrate != "holdout":
        return
    held = holdout_rows(dataset.num_rows, request.holdout, settings.seed)
    used = int(pc.sum(pc.is_valid(target.take(held))).as_py() or 0) if len(held) else 0
    try:
        check_calibration_size(used, LIKE_TRAINING, "holdout")
    except SettingsError as error:
        raise _refused(error) from None


def choose_features(
    dataset: Dataset, reserved: Sequence[str], request: FitRequest, table: pa.Table, alike: Sequence[str]
) -> Choice:
    """Choose the features and their kinds; raise UnusableDataError or InvalidRequestError.

    `table` has all rows of the columns with a role, and those `alike` (`may_repeat_roles`).
    """
    roles = {role: read_column(table.column(name), name) for role, name in request.roles.items()}
    summaries = datasets.summaries_of(dataset)
    try:
        choice = choose(
            summaries,
            reserved=reserved,
            features=request.features,
            columns=request.columns,
            num_rows=dataset.num_rows,
            unfit=find_copies(read(table.select(alike)), roles),
        )
        _check_levels(summaries, choice)
    except DataError as error:
        raise _unusable(error) from None
    except SettingsError as error:
        raise _refused(error) from None
    return choice


def may_repeat_roles(dataset: Dataset, request: FitRequest) -> list[str]:
    """Return the columns that may repeat one with a role, by the dataset's profiles, without its rows."""
    if not request.roles:
        return []
    profiles = dataset.profiles or [{}] * len(dataset.columns)
    facts = {}
    for column, profile in zip(dataset.columns, profiles, strict=True):
        counts = sorted(entry["count"] for entry in profile.get("top", ()))
        facts[column["name"]] = column["missing"], column["distinct"], counts, profile.get("mean")
    reserved = {request.target, *request.roles.values(), *request.groups}
    repeated = [(facts[name], role == "event") for role, name in request.roles.items()]
    return [
        name
        for name, own in facts.items()
        if name not in reserved
        and any(own[:3] == of[:3] and (any_scale or own[3] == of[3]) for of, any_scale in repeated)
    ]


def _check_levels(summaries: Sequence[ColumnSummary], choice: Choice) -> None:
    """Refuse categories of numbers that float64 storage has rounded."""
    message = (
        "numbers of 2^53 or more are stored rounded, so not as levels: upload it with ?kind=NAME:category"
    )
    rounded = [
        column.name
        for column in summaries
        if choice.kinds.get(column.name) == "category" and is_beyond(column)
    ]
    if rounded:
        raise DataError([DataProblem(name, None, message.replace("NAME", name)) for name in rounded])


def check_cuts(cuts: Any, choice: Choice) -> None:
    """Check the part of `prior` that depends on the columns; its values are checked where they are used."""
    if isinstance(cuts, str) and cuts in SCHEMES:
        return
    if not isinstance(cuts, dict) or set(cuts) - set(choice.kinds):
        message = 'prior["cuts"] is "quantile", "uniform", "mixed", or cut points by the name of a feature'
        raise InvalidRequestError(errors=[Fault("prior", None, message, "not_accepted", "prior.cuts")])
    try:
        for name, points in cuts.items():
            given_cuts(name, points)
    except SettingsError as error:
        raise _refused(error) from None
