"""Creation of a fit: its plan with every setting resolved and checked, its cost, and its acceptance."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import Field
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services import datasets
from app.services.access import audit, quotas
from app.services.errors import NotFoundError
from app.services.fits import forecasts, models, request_checks, stop_rules
from app.services.fits.costs import check_memory, check_seconds
from app.services.fits.requests import NOT_CALIBRATED, FitRequest
from app.services.request_context import actor
from app.services.views import SHOWN, filled, schema_of
from app.store import datasets as dataset_store
from app.store import models as store
from app.store.engine import session_scope
from app.store.errors import CorruptBlockError, DatasetGoneError
from app.store.tables import ALWAYS, Dataset, Model
from sampler import Settings
from sampler.host.data import MOST_CELLS, Choice, Resemblance, counted, read, read_column, undeclared
from sampler.host.fits import Cost, coded_columns, looks_seconds, next_look
from sampler.host.fits import estimate_memory as estimate
from sampler.host.settings import (
    CHOSEN,
    DEFAULT_CORES,
    DEFAULT_ROWS,
    DEFAULT_SECONDS,
    FAMILIES,
    METHODS,
    ROLES,
    NewRows,
    Subgroups,
)


@dataclass(frozen=True)
class PlannedModel:
    """A valid request with every setting resolved."""

    name: str | None
    target: str
    dataset: Dataset
    settings: Settings
    choice: Choice
    spec: dict[str, Any]
    stop: dict[str, Any] | None
    refit: dict[str, Any] | None = None
    forecast: forecasts.PlannedForecast | None = None

    @property
    def num_units(self) -> int:
        """The number of units of work before the finish."""
        return self.settings.num_chains if self.forecast is None else self.forecast.units

    @property
    def iterations(self) -> int:
        """The iterations of each."""
        return (self.settings if self.forecast is None else self.forecast).iterations

    @property
    def at_most(self) -> dict[str, Any]:
        """The settings of a fit whose stop rules are never met."""
        return self.spec if self.stop is None else self.spec | {"num_draws": self.stop["max_draws"]}

    @property
    def stored_settings(self) -> dict[str, Any]:
        """The settings as the model will show them."""
        return self.spec | ({} if self.stop is None else {"stop": self.stop})

    def expected(self, slots: int) -> Cost:
        """Estimate the cost of a fit that ends at the first look, with `slots` parallel chains."""
        if self.forecast is not None:
            return self.forecast.cost(self.dataset.num_rows, slots)
        return estimate(self.spec, self.dataset.num_rows, self.coded_columns, slots=slots)

    def most(self, slots: int) -> Cost:
        """Estimate the cost of a fit whose stop rules are never met, with `slots` parallel chains."""
        if self.stop is None:
            return self.expected(slots)
        most = estimate(self.at_most, self.dataset.num_rows, self.coded_columns, slots=slots)
        seconds = most.seconds + looks_seconds(self.stop, self.settings.num_chains, slots)
        if (limit := self.stop["max_seconds"]) is not None:
            seconds = min(seconds, limit + most.finish_seconds)
        return replace(most, seconds=seconds)

    def bounded(self, slots: int) -> "PlannedModel":
        """Bound the draws of a fit that ends by its verdict by default; `slots` chains run at once.

        The bound is the last look that the estimate puts within a minute of two cores for 5,000 rows, and in
        proportion for more: a number of draws, so that equal requests give equal fits on every machine whose
        limits of memory and time allow it.
        """
        if self.stop is None:
            return self
        seconds = DEFAULT_SECONDS * max(1.0, self.dataset.num_rows / DEFAULT_ROWS)
        limits, end = actor().limits, int(self.stop["max_draws"])
        memory, longest = limits.fit_memory() or math.inf, limits.fit_seconds or math.inf
        bound = replace(self, stop=self.stop | {"max_draws": self.stop["first_look"]})
        while bound.stop is not None and (draws := bound.stop["max_draws"]) < end:
            longer = replace(self, stop=self.stop | {"max_draws": next_look(draws, end)})
            on_this, on_two = longer.most(slots), longer.most(DEFAULT_CORES)
            if on_two.seconds > seconds or on_this.bytes > memory or on_this.seconds > longest:
                break
            bound = longer
        return bound

    def of_dataset(self, dataset: Dataset) -> "PlannedModel":
        """Return the plan for the stored dataset of the rows that it was made for."""
        return replace(self, dataset=dataset)

    @property
    def coded_columns(self) -> int:
        if self.forecast is not None:
            return self.forecast.columns
        return coded_columns(self.choice.kinds, datasets.summaries_of(self.dataset))


def plan(engine: Engine, owner: str, request: FitRequest, *, slots: int = 0) -> PlannedModel:
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
    return _checked(_planned(engine, owner, request, slots), slots)


def plan_rows(dataset: Dataset, table: pa.Table, request: FitRequest, *, slots: int) -> PlannedModel:
    """Check a request and resolve its settings, as `plan`, for rows that are at hand.

    Parameters
    ----------
    dataset
        Description of the rows, with its profiles; it need not be stored.
    table
        All of its columns.
    """
    return _checked(_plan(dataset, table.select, request, slots), slots)


def accept(session: Session, owner: str, plan: PlannedModel) -> models.ModelView:
    """Create the planned model with a unit of work per chain, and return it.

    Raises
    ------
    NotFoundError
        The dataset was deleted meanwhile.
    QuotaError
        The owner's quota of queued work or stored bytes is exhausted.
    """
    quotas.check_queued(session, owner)
    quotas.check_stored(session, owner, quotas.expected_bytes(plan.stored_settings))
    with _dataset_kept():
        model = create(session, owner, plan)
    audit.record(session, owner, "model.created", model.id)
    return models.view(session, owner, model.id)


def create(session: Session, owner: str, plan: PlannedModel, **of_set: str) -> Model:
    """Store the planned model; `of_set` names its set and group, whose quotas were checked together."""
    return store.create(
        session,
        owner=owner,
        name=plan.name,
        dataset_id=plan.dataset.id,
        target=plan.target,
        settings=plan.stored_settings,
        num_chains=plan.num_units,
        iterations=plan.iterations,
        warnings=plan.choice.warnings,
        refit=plan.refit,
        withheld=plan.refit is not None and plan.refit["promote"] != ALWAYS,
        **of_set,
    )


RESEMBLANCE = schema_of(
    Resemblance,
    "ResemblanceView",
    "kind column correlation values rows text",
    "A column by whose values rows resemble each other.",
)


@dataclass(frozen=True, kw_only=True)
class EstimateView:
    """The estimated cost of a fit. Time assumes a core per slot; it was within a factor of 1.5 in 21 fits."""

    seconds: Annotated[float, Field(description="Duration from the start of the first chain to the end.")]
    most_seconds: Annotated[float, Field(description="Duration if the stop rules are never met.")]
    slots: Annotated[
        int, Field(description="Chains that this service runs at once; 0: there is no worker now.")
    ]
    memory_bytes: Annotated[int, Field(description="Peak memory of a worker process.")]
    memory_limit_bytes: Annotated[
        int | None, Field(description="Memory that a worker has for one fit; null: unknown.")
    ]
    seconds_limit: Annotated[
        float | None,
        Field(description="The largest accepted `most_seconds` (BARTSERVE_FIT_SECONDS); null: unlimited."),
    ]
    fits: Annotated[
        bool,
        Field(
            description="Whether a worker has the memory and the fit is not too long; else it would "
            "be refused."
        ),
    ]
    settings: Annotated[dict[str, Any], Field(description="All settings, resolved.")]
    history: Annotated[
        str | None,
        Field(
            description="Of a forecast: the step that was found, and how many series, gaps and early ends."
        ),
    ]
    warnings: list[str]
    resemblances: Annotated[
        list[Resemblance],
        SHOWN,
        Field(
            description="Columns by whose values rows resemble each other beyond the features, though new "
            "rows aren't declared to differ by them (`new_rows`): held-out rows then say how well other rows "
            "of these values are predicted. Of at most 65,536 rows, and 4,000,000 cells."
        ),
    ]

    @property
    def too_long(self) -> bool:
        """Whether the fit exceeds the longest allowed duration."""
        return self.seconds_limit is not None and self.most_seconds > self.seconds_limit


def estimated(engine: Engine, owner: str, request: FitRequest, slots: int) -> EstimateView:
    """Estimate the memory and duration of a request without starting it. Raises as `plan`.

    `slots` chains run at once (0: there is no worker; one is assumed).
    """
    planned = _planned(engine, owner, request, slots)
    return cost_of(planned, slots, _resemblances(engine, request, planned))


def cost_of(planned: PlannedModel, slots: int, resemblances: Sequence[Resemblance] = ()) -> EstimateView:
    """Return the estimated cost of a planned model."""
    cost = planned.expected(slots)
    most, limits = planned.most(slots), actor().limits
    memory, seconds = limits.fit_memory(), limits.fit_seconds
    return EstimateView(
        seconds=cost.seconds,
        most_seconds=most.seconds,
        slots=slots,
        memory_bytes=most.bytes,
        memory_limit_bytes=memory,
        seconds_limit=seconds,
        fits=(seconds is None or most.seconds <= seconds) and (memory is None or most.bytes <= memory),
        settings=planned.stored_settings,
        history=None if planned.forecast is None else planned.forecast.found,
        warnings=planned.choice.warnings,
        resemblances=[filled(RESEMBLANCE, each) for each in resemblances],
    )


def _resemblances(engine: Engine, request: FitRequest, planned: PlannedModel) -> list[Resemblance]:
    dataset = planned.dataset
    names = [column["name"] for column in dataset.columns]
    if request.forecast or len(names) * min(dataset.num_rows, dataset_store.BLOCK_ROWS) > MOST_CELLS:
        return []
    try:
        with session_scope(engine, read_only=True) as session, _dataset_kept():
            table = dataset_store.read_block(session, dataset.id, names, 0)
    except CorruptBlockError:  # of a column that the fit doesn't need
        return []
    return undeclared(
        read(table),
        read_column(table.column(request.target), request.target),
        has_classes=FAMILIES[planned.settings.family].has_classes,
        features=planned.choice.kinds,
        taken=[request.target, *request.others, *request.roles.values()],
        groups=[name for name in [request.data.get("adoption"), *(request.data.get("groups") or ())] if name],
        new_rows=NewRows.read(request.new_rows),
    )


def _planned(engine: Engine, owner: str, asked: FitRequest, slots: int) -> PlannedModel:
    with session_scope(engine, read_only=True) as session:
        dataset = datasets.get(session, owner, asked.dataset_id, profiles=bool(asked.roles))

    def read_columns(names: Sequence[str]) -> pa.Table:
        with session_scope(engine, read_only=True) as session:
            return dataset_store.read(session, dataset.id, names)

    return _plan(dataset, read_columns, asked, slots)


def _checked(planned: PlannedModel, slots: int) -> PlannedModel:
    check_memory(planned.at_most, planned.dataset.num_rows, planned.coded_columns)
    check_seconds(planned.most(slots).seconds)
    return planned


def _plan(
    dataset: Dataset, read_columns: Callable[[Sequence[str]], pa.Table], asked: FitRequest, slots: int
) -> PlannedModel:
    if asked.forecast:
        name = None if asked.name is None else request_checks.check_model_name(asked.name)
        of_series, choice = forecasts.plan(dataset, read_columns, asked), Choice({})
        settings, spec = of_series.settings, of_series.spec
        refit = _refit_of(asked)
        return PlannedModel(name, asked.target, dataset, settings, choice, spec, None, refit, of_series)
    asked = request_checks.of_several(asked)
    request = stop_rules.given_or_default(asked)
    name = None if request.name is None else request_checks.check_model_name(request.name)
    names = request_checks.check_columns(dataset, request)
    alike = request_checks.may_repeat_roles(dataset, request)
    table = read_columns(list(dict.fromkeys([*names, *alike])))
    order = request_checks.order_of(dataset, request)
    whole = request_checks.rows_of(table, request, alike, order)
    rows = whole.of_outcome(request.target)
    used = np.arange(rows.num_rows)
    if request.leave_out_missing:
        used = np.flatnonzero(rows.has_outcome)
    missing = rows.num_rows - len(used)
    families, of_all = {}, request
    if request.others:
        found = request_checks.families_of_all(request, whole)
        families = dict(zip([request.target, *request.others], found, strict=True))
        request = request_checks.of_outcome(request, request.target, "gaussian")
    settings = request_checks.resolve(request, rows.take(used) if missing else rows)
    if order and FAMILIES[settings.family].has_order:  # workers read no types of files
        request = replace(request, data={"levels": list(order), **request.data})
    stop = stop_rules.resolve(request.stop, settings.to_json())
    request_checks.check_rows(dataset, request.holdout, missing)
    request_checks.check_calibration(request, settings, rows)
    planned = request_checks.plan_fit(request, dataset, settings, rows, used)
    request_checks.check_subgroups(request, settings, rows, used, planned)
    others = request_checks.plan_others(of_all, dataset, settings, whole, families)
    warnings = [*request.warnings, *planned.warnings]
    kinds, by_outcome = request_checks.own_columns(of_all, {request.target: planned, **others})
    choice, target = replace(planned.choice, warnings=warnings, kinds=kinds), planned.target
    several = METHODS[settings.method].forests_of(settings.family, len(target.levels)) > 1
    spec = settings.to_json() | {
        **({"classes": len(target.levels)} if several else {}),
        **({"outcomes": [request.target, *request.others]} if request.others else {}),
        **({"families": families} if {*families.values()} > {"gaussian"} else {}),
        "features": list(choice.kinds),
        "columns": dict(choice.kinds),
        **{
            role: request.data.get(role) or None
            for role, each in ROLES.items()
            if role not in CHOSEN and (request.data.get(role) or not each.sparing)
        },
        **({"num_groups": sum(len(each.levels) for each in planned.groups)} if planned.groups else {}),
        **({"num_arms": len(planned.arms)} if len(planned.arms) > 2 else {}),
        "prior": planned.resolved_prior,
        "holdout": request.holdout,
        **by_outcome,
    }
    if request.calibrate != NOT_CALIBRATED:
        spec["calibrate"] = request.calibrate
    if not (new_rows := NewRows.read(request.new_rows)).are_like_these:
        spec["new_rows"] = new_rows.to_json()
    if not (named := Subgroups.read(request.subgroups)).are_none:
        spec["subgroups"] = named.to_json()
    if missing:
        spec["missing_target"] = "leave_out"
        warning = (
            f"{counted(missing, 'row')} without {request.target} {'is' if missing == 1 else 'are'} left out"
        )
        choice = replace(choice, warnings=[*choice.warnings, warning])
    model = PlannedModel(name, request.target, dataset, settings, choice, spec, stop, _refit_of(request))
    return model if request is asked else model.bounded(slots)


def _refit_of(request: FitRequest) -> dict[str, Any] | None:
    return None if request.refit is None else dict(request.refit)


@contextmanager
def _dataset_kept() -> Iterator[None]:
    """Report a dataset deleted during acceptance as not found."""
    try:
        yield
    except DatasetGoneError:
        raise NotFoundError("The dataset was deleted while the model was being accepted.") from None
