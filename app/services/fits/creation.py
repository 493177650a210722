"""Acceptance of a fit: every refusal comes before the 202, from the sampler's own validators."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services import datasets
from app.services.access import audit, quotas
from app.services.datasets import check_name
from app.services.errors import ConflictError, Fault, InvalidRequestError, NotFoundError, UnusableDataError
from app.services.fits import models, stop_rules
from app.services.fits.costs import Cost, check_memory, check_seconds, coded_columns, estimate
from app.services.fits.durations import looks_seconds
from app.services.request_context import actor
from app.store import datasets as dataset_store
from app.store import models as store
from app.store.engine import session_scope
from app.store.errors import DatasetGoneError
from app.store.tables import Dataset
from sampler import ColumnSummary, DataError, Settings, SettingsError, choose
from sampler.data.columns import is_beyond
from sampler.data.schema import KINDS, Choice, Column
from sampler.data.target import guess_family, read_exposure, read_target, read_weights
from sampler.definitions.data import COLUMN_ROLES, ROLES
from sampler.definitions.prior import SCHEMES
from sampler.errors import DataProblem, suggestion
from sampler.families import FAMILIES
from sampler.methods import METHODS
from sampler.preparation import check_exposure, check_weights, checked_prior
from sampler.settings import EVERY, SETTINGS

CHOICES: dict[str, tuple[str, ...]] = {
    "family": tuple(FAMILIES),
    "method": tuple(METHODS),
    "kind": KINDS,
}
FAMILY_LABELS = {
    "auto": "detected from the target",
    **{name: family.label for name, family in FAMILIES.items()},
}
DEFINITIONS = EVERY  # of all settings, by name
MIN_ROWS = 10  # to fit; a rule of the HTTP API, not of the sampler
MAX_NAME = 200


@dataclass(frozen=True)
class FitRequest:
    """A request for a fit (`POST /models`); None means the default."""

    dataset_id: str
    target: str
    name: str | None = None
    features: Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    roles: Mapping[str, str] = field(default_factory=dict)  # columns by role, such as weights
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the model and its chains
    prior: Mapping[str, Any] | None = None
    stop: Mapping[str, Any] | None = None
    holdout: float = 0.0
    leave_out_missing: bool = False  # rows without a target


def like(
    engine: Engine, owner: str, model_id: str, *, holdout: float = 0.0, name: str | None = None
) -> FitRequest:
    """Return the request for a fit with the settings of another model, except its holdout and its name.

    Raises
    ------
    NotFoundError
        The model doesn't exist.
    ConflictError
        It was imported, so it has no dataset.
    """
    with session_scope(engine, read_only=True) as session:
        model = models.get(session, owner, model_id)
    if model.dataset_id is None:
        raise ConflictError("The model was imported: it has no dataset to fit it to again.")
    settings = model.settings
    stop = settings.get("stop")
    draws = {} if stop is None else {"num_draws": stop["first_look"]}
    known = {name: settings[name] for name, each in SETTINGS.items() if each.requested and name in settings}
    return FitRequest(
        dataset_id=model.dataset_id,
        target=model.target,
        name=model.name if name is None else name,
        features=settings.get("features"),
        columns=settings.get("columns"),
        roles={role: settings[role] for role in COLUMN_ROLES if settings.get(role) is not None},
        settings={name: value for name, value in (known | draws).items() if value is not None},
        prior=settings.get("prior"),
        stop=stop and {rule: value for rule, value in stop.items() if rule != "first_look"},
        holdout=holdout,
        leave_out_missing=settings.get("missing_target") == "leave_out",
    )


@dataclass(frozen=True)
class FitPlan:
    """A valid request with every setting resolved."""

    name: str | None
    target: str
    dataset: Dataset
    settings: Settings
    choice: Choice
    spec: dict[str, Any]
    stop: dict[str, Any] | None

    @property
    def at_most(self) -> dict[str, Any]:
        """The settings of a fit whose stop rules are never met."""
        return self.spec if self.stop is None else self.spec | {"num_draws": self.stop["max_draws"]}

    @property
    def shown(self) -> dict[str, Any]:
        """The settings as the model will show them."""
        return self.spec | ({} if self.stop is None else {"stop": self.stop})

    def most(self, slots: int) -> Cost:
        """Estimate the cost of a fit whose stop rules are never met, with `slots` parallel chains."""
        most = estimate(self.at_most, self.dataset.num_rows, self.coded_columns, slots=slots)
        if self.stop is None:
            return most
        seconds = most.seconds + looks_seconds(self.stop, self.settings.num_chains, slots)
        if (limit := self.stop["max_seconds"]) is not None:
            seconds = min(seconds, limit + most.finish_seconds)
        return replace(most, seconds=seconds)

    @property
    def coded_columns(self) -> int:
        return coded_columns(self.choice.kinds, datasets.summaries_of(self.dataset))


def plan(engine: Engine, owner: str, request: FitRequest, *, slots: int = 0) -> FitPlan:
    """Check a request and resolve its settings; writes nothing and holds no transaction during the checks.

    `slots` chains run at once (0: there is no worker; one is assumed).

    Raises
    ------
    NotFoundError
        The dataset doesn't exist.
    InvalidRequestError, UnusableDataError
        A setting is out of range, or the target, a feature or the weights can't be used; names the column.
    TooMuchMemoryError
        No worker has enough memory.
    TooLongError
        The estimated duration exceeds the limit of a fit.
    """
    found = _planned(engine, owner, request)
    check_memory(found.at_most, found.dataset.num_rows, found.coded_columns)
    check_seconds(found.most(slots).seconds)
    return found


def accept(session: Session, owner: str, plan: FitPlan) -> models.FittedModel:
    """Create the planned model with a unit of work per chain, and return it.

    Raises
    ------
    NotFoundError
        The dataset was deleted meanwhile.
    QuotaError
        The owner's quota of queued work or stored bytes is exhausted.
    """
    quotas.check_queued(session, owner)
    quotas.check_stored(session, owner, quotas.expected_bytes(plan.shown))
    with _dataset_kept():
        model = store.create(
            session,
            owner=owner,
            name=plan.name,
            dataset_id=plan.dataset.id,
            target=plan.target,
            settings=plan.shown,
            num_chains=plan.settings.num_chains,
            iterations=plan.settings.iterations,
            warnings=plan.choice.warnings,
        )
    audit.record(session, owner, "model.created", model.id)
    return models.view(session, owner, model.id)


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of a request if it were accepted now.

    `slots` chains run at once (0: there is no worker; one is assumed). `most` is the cost of a fit whose stop
    rules are never met, `memory_limit` the memory a worker has for one fit (None: unknown), `seconds_limit`
    the longest allowed duration (None: unlimited).
    """

    cost: Cost
    most: Cost
    slots: int
    memory_limit: int | None
    seconds_limit: float | None
    settings: dict[str, Any]
    warnings: list[str]

    @property
    def fits(self) -> bool:
        """Whether a worker has enough memory and the fit is not too long; otherwise it is refused."""
        return not self.too_long and (self.memory_limit is None or self.most.bytes <= self.memory_limit)

    @property
    def too_long(self) -> bool:
        """Whether the fit exceeds the longest allowed duration."""
        return self.seconds_limit is not None and self.most.seconds > self.seconds_limit


def estimated(engine: Engine, owner: str, request: FitRequest, slots: int) -> Estimate:
    """Estimate the memory and duration of a request without starting it. Raises as `plan`."""
    found = _planned(engine, owner, request)
    cost = estimate(found.spec, found.dataset.num_rows, found.coded_columns, slots=slots)
    limits = actor().limits
    return Estimate(
        cost,
        found.most(slots),
        slots,
        limits.fit_memory,
        limits.fit_seconds,
        found.shown,
        found.choice.warnings,
    )


def _planned(engine: Engine, owner: str, request: FitRequest) -> FitPlan:
    name = None if request.name is None else check_model_name(request.name)
    with session_scope(engine, read_only=True) as session:
        dataset = datasets.get(session, owner, request.dataset_id)
        reserved = [request.target, *request.roles.values()]
        _check_columns(dataset, reserved)
        table = dataset_store.read(session, dataset.id, list(dict.fromkeys(reserved)))
    missing = table.column(request.target).null_count if request.leave_out_missing else 0
    if missing:
        table = table.filter(pc.is_valid(table.column(request.target)))
    settings, prior = _resolve(request, table)
    stop = stop_rules.resolve(request.stop, settings.to_json())
    _check_rows(dataset, request.holdout, missing)
    _check_particles(dataset, settings)
    choice = _choose(dataset, reserved, request)
    _check_cuts(prior.get("cuts", {}), choice)
    target = _check_values(table, request, settings)
    several = METHODS[settings.method].forests_of(settings.family, len(target.levels)) > 1
    spec = settings.to_json() | {
        **({"classes": len(target.levels)} if several else {}),
        "features": list(choice.kinds),
        "columns": dict(choice.kinds),
        **{
            role: request.roles.get(role)
            for role in COLUMN_ROLES
            if role in request.roles or not ROLES[role].sparing
        },
        "prior": prior,
        "holdout": request.holdout,
    }
    if missing:
        spec["missing_target"] = "leave_out"
        told = f"{missing} rows without {request.target} are left out"
        choice = replace(choice, warnings=[*choice.warnings, told])
    return FitPlan(name, request.target, dataset, settings, choice, spec, stop)


@contextmanager
def _dataset_kept() -> Iterator[None]:
    """Report a dataset deleted during acceptance as not found."""
    try:
        yield
    except DatasetGoneError:
        raise NotFoundError("The dataset was deleted while the model was being accepted.") from None


def check_model_name(name: str) -> str:
    name = check_name(name, MAX_NAME)
    if "/" in name or name in {".", ".."} or name.startswith("mdl_"):
        told = "a model's name is part of URLs: it can't be . or .., contain a slash, or begin with mdl_"
        raise InvalidRequestError(errors=[Fault("name", None, told)])
    return name


def _resolve(request: FitRequest, table: pa.Table) -> tuple[Settings, dict[str, Any]]:
    """Resolve the sampler's settings and the prior, except entries that depend on the features."""
    knobs = dict(request.settings)
    if knobs.get("family") == "auto":
        knobs["family"] = guess_family(table.column(request.target), str(knobs.get("method", "bart")))
    prior = dict(request.prior or {})
    cuts = {"cuts": prior.pop("cuts")} if "cuts" in prior else {}
    try:
        settings = Settings.resolve(**knobs)
        return settings, checked_prior(prior, settings) | cuts
    except SettingsError as error:
        raise _refused(error) from None


def _refused(error: SettingsError) -> InvalidRequestError:
    return InvalidRequestError(errors=[Fault.of_setting(error)])


def _unusable(error: DataError, column: str | None = None) -> UnusableDataError:
    """Convert the sampler's findings; `column` is the user's name for a column known by its role."""
    return UnusableDataError(errors=[Fault.of(problem, column) for problem in error.problems])


def _check_columns(dataset: Dataset, names: Sequence[str]) -> None:
    known = {column["name"] for column in dataset.columns}
    faults = [Fault(name, None, _absent(name, known)) for name in names if name not in known]
    if faults:
        raise UnusableDataError(errors=faults)


def _absent(name: str, known: Collection[str]) -> str:
    return "the dataset has no such column" + suggestion(name, known)


def _check_values(table: pa.Table, request: FitRequest, settings: Settings) -> Column:
    """Check the target and the weights; return the target's column."""
    try:
        target, _ = read_target(table.column(request.target), request.target, table.num_rows, settings.family)
    except DataError as error:
        raise _unusable(error) from None
    _check_row_weights(table, request, settings)
    _check_exposure(table, request, settings)
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
        told = "the target can't be the weights as well"
        raise UnusableDataError(errors=[Fault(weights, None, told)])
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
        told = "the column of exposures can't have another role as well"
        raise UnusableDataError(errors=[Fault(exposure, None, told)])
    try:
        read_exposure(table.column(exposure), exposure, table.num_rows)
    except DataError as error:
        raise _unusable(error) from None


def _check_particles(dataset: Dataset, settings: Settings) -> None:
    """Check the memory of a particle filter, whose particles each hold every row."""
    try:
        METHODS[settings.method].check_size(settings.num_draws, dataset.num_rows)
    except SettingsError as error:
        raise _refused(error) from None


def _check_rows(dataset: Dataset, holdout: float, missing: int) -> None:
    held = round(dataset.num_rows * holdout)
    if dataset.num_rows - held - missing >= MIN_ROWS:
        return
    kept = f", of which {held} are held out" if held else ""
    kept += f", and {missing} without a target are left out" if missing else ""
    raise UnusableDataError(
        f"The dataset has {dataset.num_rows} rows{kept}; a model needs at least {MIN_ROWS} to learn from."
    )


def _choose(dataset: Dataset, reserved: Sequence[str], request: FitRequest) -> Choice:
    summaries = datasets.summaries_of(dataset)
    try:
        choice = choose(
            summaries,
            reserved=reserved,
            features=request.features,
            columns=request.columns,
            num_rows=dataset.num_rows,
        )
        _check_levels(summaries, choice)
    except DataError as error:
        raise _unusable(error) from None
    except SettingsError as error:
        raise _refused(error) from None
    return choice


def _check_levels(summaries: Sequence[ColumnSummary], choice: Choice) -> None:
    """Refuse categories of numbers that float64 storage has rounded."""
    told = "numbers of 2^53 or more are stored rounded, so not as levels: upload it with ?kind=NAME:category"
    rounded = [
        found.name for found in summaries if choice.kinds.get(found.name) == "category" and is_beyond(found)
    ]
    if rounded:
        raise DataError([DataProblem(name, None, told.replace("NAME", name)) for name in rounded])


def _check_cuts(cuts: Any, choice: Choice) -> None:
    """Check the part of `prior` that depends on the columns; its values are checked where they are used."""
    if isinstance(cuts, str) and cuts in SCHEMES:
        return
    if not isinstance(cuts, dict) or set(cuts) - set(choice.kinds):
        told = 'prior["cuts"] is "quantile", "uniform", "mixed", or cut points by the name of a feature'
        raise InvalidRequestError(errors=[Fault("prior", None, told, "not_accepted", "prior.cuts")])
