"""Continuation of models that have ended: retry and extend."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy.orm import Session

from app.services import datasets
from app.services.access import audit, quotas
from app.services.errors import ConflictError, Fault, InvalidRequestError, NotFoundError
from app.services.fits import models, stop_rules
from app.services.fits.costs import TooLongError, TooMuchMemoryError, check_memory, check_seconds
from app.services.fits.forecasts import planned_again
from app.services.fits.models import ModelView
from app.store import models as model_store
from app.store.queue import restarts as queue
from app.store.tables import CANCELLED, FAILED, SUCCEEDED, Model
from sampler import SettingsError
from sampler.host.fits import coded_columns, looks_seconds, next_look
from sampler.host.fits import estimate_memory as estimate
from sampler.host.posteriors import SCALARS, farthest, times_to_converge
from sampler.host.settings import LIMITS, TIMES_DRAWS, check_extends
from sampler.host.storage import with_counts

MAX_DRAWS = LIMITS["num_draws"][1]
TIMES = (TIMES_DRAWS, 16, 8, 4, 2)  # defaults of `max_draws`, in multiples of the draws at the first check


def retry(session: Session, owner: str, model_id: str) -> ModelView:
    """Continue a cancelled or failed model where its chains ended; return it.

    Raises
    ------
    NotFoundError
        The model doesn't exist.
    ConflictError
        It hasn't ended, or has succeeded.
    """
    model = _locked(session, owner, model_id)
    if model.state == SUCCEEDED:
        another = models.another_of_name(session, model, model_id, {CANCELLED, FAILED})
        raise ConflictError(f"The model has succeeded: POST /models/{{id}}/extend draws more.{another}")
    if model.state not in {CANCELLED, FAILED}:
        state = "is being cancelled: retry it afterwards" if model.cancel_requested else "is not finished"
        raise ConflictError(f"The model is {model.state} and {state}.")
    quotas.check_queued(session, owner)
    queue.retry(session, model)
    audit.record(session, owner, "model.retried", model.id)
    return _view(session, owner, model.id)


@dataclass(frozen=True, kw_only=True)
class ExtensionView:
    """The estimated cost of an extension."""

    model_id: str
    num_draws: Annotated[
        int, Field(description="Additional kept draws per chain, until a first check of stop rules.")
    ]
    expected_draws: Annotated[
        int,
        Field(
            description="Additional kept draws per chain that it will probably take: with stop "
            "rules those that the verdict converged takes, a rough estimate."
        ),
    ]
    seconds: Annotated[float, Field(description="Duration for these draws.")]
    most_seconds: Annotated[float, Field(description="Duration if the stop rules are never met.")]
    stop: Annotated[dict[str, Any] | None, Field(description="The stop rules, resolved.")]


def extend(
    session: Session,
    owner: str,
    model_id: str,
    num_draws: int | None = None,
    stop: Mapping[str, Any] | None = None,
    *,
    slots: int = 0,
) -> ModelView:
    """Continue every chain of a succeeded model; return it.

    Parameters
    ----------
    num_draws
        Additional kept draws per chain. With stop rules, until these are checked first: unless given, half as
        many as there are.
    stop
        Stop rules as in `POST /models`: draw until they hold.
    slots
        Chains that run at once (0: there is no worker; one is assumed).

    Raises
    ------
    NotFoundError
        The model doesn't exist.
    ConflictError
        It hasn't succeeded, or has no stored chain states (it was imported).
    InvalidRequestError
        Neither draws nor rules are given; a rule is invalid; the total exceeds the maximum of draws, a
        worker's memory, or the longest duration of a fit.
    QuotaError
        The owner's quota of queued work or stored bytes is exhausted.
    """
    model = _locked(session, owner, model_id)
    header, plan = _planned(session, owner, model, num_draws, stop, slots)
    settings = model.settings
    quotas.check_queued(session, owner)
    total = int(settings["num_draws"]) + plan.num_draws
    more = plan.num_draws if plan.stop is None else plan.stop["max_draws"] - int(settings["num_draws"])
    quotas.check_stored(session, owner, quotas.expected_bytes(settings | {"num_draws": more, "stop": None}))
    if not settings.get("time"):  # a forecaster's header changes with its draws, at the end
        header = with_counts(header, num_draws=total, num_chains=int(settings["num_chains"]))
    queue.extend(session, model, plan.num_draws, header, plan.stop)
    audit.record(session, owner, "model.extended", model.id)
    return _view(session, owner, model.id)


def plan_extension(
    session: Session,
    owner: str,
    model_id: str,
    num_draws: int | None = None,
    stop: Mapping[str, Any] | None = None,
    *,
    slots: int = 0,
) -> ExtensionView:
    """Check an extension and estimate its duration; nothing is started. Raises as `extend`, but no quota."""
    model = models.get(session, owner, model_id)
    return _planned(session, owner, model, num_draws, stop, slots)[1]


def _planned(
    session: Session,
    owner: str,
    model: Model,
    num_draws: int | None,
    stop: Mapping[str, Any] | None,
    slots: int,
) -> tuple[bytes, ExtensionView]:
    """Check an extension; return the model's header with it."""
    if model.state in {CANCELLED, FAILED}:
        raise ConflictError(f"The model is {model.state}: POST /models/{{id}}/retry finishes it first.")
    if model.state != SUCCEEDED:
        raise ConflictError(f"The model is {model.state}: extend it when it has succeeded.")
    settings = model.settings
    forecasts = bool(settings.get("time"))
    if forecasts and stop is not None:
        message = "a forecaster's fits have no stop rules: give num_draws"
        raise InvalidRequestError(errors=[Fault("stop", None, message, "not_applicable")])
    try:
        check_extends(str(settings.get("method", "bart")))
    except SettingsError as error:
        raise ConflictError(str(error)) from None
    if num_draws is None and stop is None:
        message = "give num_draws, stop rules, or both"
        raise InvalidRequestError(errors=[Fault("num_draws", None, message)])
    has, chains = int(settings.get("num_draws", 0)), int(settings.get("num_chains", 0))
    more = max(has // 2, 1) if num_draws is None else num_draws
    if has + more > MAX_DRAWS:
        message = f"each chain would have {has + more} draws; the maximum is {MAX_DRAWS}"
        raise InvalidRequestError(errors=[Fault("num_draws", None, message)])
    header = model_store.header(session, model.id)
    if forecasts and header is not None:
        return header, _of_forecaster(model, header, more, slots)
    if header is None or not chains or queue.checkpoints(session, model.id) != chains:
        raise ConflictError("The model has no stored states of its chains: they can't be continued.")
    return header, _costed(session, owner, model, more, stop, slots)


def _of_forecaster(model: Model, header: bytes, more: int, slots: int) -> ExtensionView:
    """Check the extension of a forecaster, and estimate its duration: rehearsals take fits of their own."""
    settings = model.settings | {"num_draws": int(model.settings["num_draws"]) + more}
    if model.dataset_id is None:
        raise ConflictError("The model was imported: extend its file in Python (load, then extend).")
    planned, rows = planned_again(settings, header)
    cost = planned.cost(rows, slots)
    check_memory(settings, rows, planned.columns)
    check_seconds(cost.seconds)
    return ExtensionView(
        model_id=model.id,
        num_draws=more,
        expected_draws=more,
        seconds=cost.seconds,
        most_seconds=cost.seconds,
        stop=None,
    )


def _costed(
    session: Session, owner: str, model: Model, more: int, stop: Mapping[str, Any] | None, slots: int
) -> ExtensionView:
    """Resolve stop rules and estimate the duration; raises for too much memory or time.

    The default of `max_draws` is reduced until the extension is accepted.
    """
    # The longest extension that is accepted, if none is asked for.
    choices = TIMES if stop is not None and stop.get("max_draws") is None else TIMES[:1]
    for times in choices:
        rules = stop_rules.resolve(
            stop, model.settings | {"num_draws": int(model.settings["num_draws"]) + more}, times
        )
        try:
            return _estimated(session, owner, model, more, rules, slots)
        except (TooMuchMemoryError, TooLongError):
            if times == choices[-1]:
                raise
    raise AssertionError


def _estimated(
    session: Session, owner: str, model: Model, more: int, stop: dict[str, Any] | None, slots: int
) -> ExtensionView:
    settings = model.settings
    has, chains = int(settings["num_draws"]), int(settings["num_chains"])
    most = more if stop is None else stop["max_draws"] - has
    expected = more
    while stop is not None and expected < min(_needed(model) - has, most):
        expected = next_look(has + expected, stop["max_draws"]) - has

    def cost(seconds: float, most_seconds: float) -> ExtensionView:
        return ExtensionView(
            model_id=model.id,
            num_draws=more,
            expected_draws=expected,
            seconds=seconds,
            most_seconds=most_seconds,
            stop=stop,
        )

    if model.dataset_id is None:
        return cost(0.0, 0.0)
    dataset = datasets.get(session, owner, model.dataset_id)
    columns = coded_columns(settings.get("columns") or {}, datasets.summaries_of(dataset))
    check_memory(settings | {"num_draws": has + most}, dataset.num_rows, columns)
    durations = []
    for draws in (expected, most):
        afresh = settings | {"num_draws": draws, "num_burnin": 0}
        each = estimate(afresh, dataset.num_rows, columns, slots=slots).seconds
        if stop is not None:
            each += looks_seconds(stop | {"max_draws": has + draws}, chains, slots)
            each = min(each, stop["max_seconds"] or each)
        durations.append(each)
    check_seconds(durations[1])
    return cost(*durations)


def _needed(model: Model) -> int:
    """Estimate the kept draws per chain at which the verdict is "converged"."""
    diagnostics = model.diagnostics or {}
    f = diagnostics.get("f") or {}
    chains = int(model.settings["num_chains"])
    rhats = {name: (diagnostics.get(name) or {}).get("rhat") for name in SCALARS}
    far = farthest(f.get("mcse_p95"), f.get("rhat_p95"), diagnostics.get("effects"))
    times = times_to_converge(*far, rhats, chains)
    return round(times * int(model.settings["num_draws"]))


def _locked(session: Session, owner: str, model_id: str) -> Model:
    quotas.hold(session, owner)
    model = queue.locked(session, owner, models.get(session, owner, model_id).id)
    if model is None:
        raise NotFoundError("The model was deleted.")
    return model


def _view(session: Session, owner: str, model_id: str) -> ModelView:
    session.flush()
    session.expire_all()  # the updates bypassed the session's copies
    return models.view(session, owner, model_id)
