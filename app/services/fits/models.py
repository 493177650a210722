"""Models: viewing, cancelling and deleting them. `creation` accepts new ones."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from sqlalchemy import Engine
from sqlalchemy.orm import Session
from typing_extensions import TypedDict

from app.services import cursors
from app.services.access import audit
from app.services.cursors import Page
from app.services.errors import ConflictError, Fault, InvalidRequestError, NotFoundError
from app.services.fits.refit_views import RefitView
from app.services.group_names import in_words
from app.services.views import SHOWN, ErrorView, State, filled, if_any, schema_of
from app.store import models as store
from app.store.engine import session_scope
from app.store.errors import is_id
from app.store.outcomes import watches
from app.store.tables import CANCELLED, DONE, OPEN_STATES, RUNNING, SUCCEEDED, Model, Unit
from sampler.host.posteriors import (
    AnotherFit,
    ChainAgreement,
    EffectsUse,
    HeldOutIntervals,
    RefusedQuarter,
    Use,
    Verdict,
    judged_anew,
    use_of,
)
from sampler.host.settings import FAMILIES
from sampler.host.storage import Header

COMPILING, FINISHING = "compiling", "finishing"
PHASES = (COMPILING, "burn_in", "sampling")  # phases of a chain, in order
MAX_NAME = 200  # characters
ON_A_NAME = 50  # newest models of a name, of which one may be meant
NO_LONGER = "no_longer_hold"  # verdict of reported outcomes
ALMOST = 0.99  # the chains are done, the verdict is pending


@dataclass(frozen=True, kw_only=True)
class ChainView:
    """Progress of a chain."""

    chain: int
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    phase: Literal["compiling", "burn_in", "sampling"] | None
    iteration: int
    iterations: int


@dataclass(frozen=True, kw_only=True)
class ProgressView:
    """Progress of a model."""

    fraction: Annotated[
        float, Field(description="The share of iterations done, 0 to 1; 1 when it has succeeded.")
    ]
    phase: Annotated[
        Literal["compiling", "burn_in", "sampling", "finishing"] | None,
        Field(
            description="The phase of the running chain that is furthest behind. compiling: once "
            "per machine, a quarter of a minute for a default fit, up to a minute for "
            "others; finishing: all chains are done, the verdict and the scores are "
            "being computed."
        ),
    ] = None
    step: Annotated[
        Literal["compiling", "judging", "recalibrating", "scoring", "calibrating"] | None,
        Field(description="What is done once all chains are done."),
    ] = None
    iterations_per_second: Annotated[float | None, Field(description="The total over all running chains.")]
    eta_seconds: Annotated[float | None, Field(description="Remaining seconds at the present rate.")]
    chains: list[ChainView]


class StoppedView(TypedDict):
    """Reason why a fit with stop rules ended, and the figures at that time."""

    by: Annotated[
        Literal["rules", "max_seconds", "max_draws"], Field(description="rules: all given rules were met.")
    ]
    draws: Annotated[int, Field(description="Kept draws per chain.")]
    discarded: NotRequired[
        Annotated[
            int,
            Field(
                default=0,
                description="Draws per chain that came before these and were discarded: the first "
                "third, where the rules hold without them only.",
            ),
        ]
    ]
    held: Annotated[
        dict[str, bool], Field(description="Whether each rule was met, without limits of time and draws.")
    ]
    verdict: str
    rhat: Annotated[float | None, Field(description="The largest R-hat that max_rhat considers.")]
    ess: Annotated[
        float | None, Field(description="The smallest ESS that min_ess considers; null without that rule.")
    ]


class SubgroupClaimView(TypedDict):
    """Promise of calibrated intervals, or prediction sets, in one subgroup."""

    name: str
    rows: Annotated[int, Field(description="Calibration rows in it.")]
    at_least: Annotated[float | None, Field(description="As of all rows; null for an estimate.")]
    at_most: Annotated[float | None, Field(description="Expected share inside at most, without ties.")]
    text: Annotated[str, Field(description="The same in words.")]


class ClaimView(TypedDict):
    """Promise of calibrated intervals, or prediction sets, of one level."""

    level: float
    rows: Annotated[int, Field(description="Calibration rows.")]
    at_least: Annotated[
        float | None,
        Field(
            description="Expected share of new outcomes inside, at least; null where there is an "
            "estimate only."
        ),
    ]
    text: Annotated[str, Field(description="The same in words.")]
    subgroups: NotRequired[
        Annotated[
            list[SubgroupClaimView],
            Field(description="What holds in each named subgroup; absent without any."),
        ]
    ]


class IntervalCalibrationView(TypedDict):
    """Calibration of a model's intervals."""

    kind: Annotated[
        Literal["holdout", "folds", "outcomes"],
        Field(
            description="By rows held out, by fits to the other folds, or by outcomes reported after the fit."
        ),
    ]
    draws: Annotated[
        int, Field(description="Draws per chain of the predictions that are calibrated: all of them.")
    ]
    rows: int
    counted: NotRequired[Annotated[int, Field(description="Rows, or groups where each of them counts once.")]]
    checksum: Annotated[str, Field(description="Another one after another calibration.")]
    claims: Annotated[list[ClaimView], Field(description="Claims of the usual levels that the rows allow.")]


schema_of(ChainAgreement, "ChainAgreementView", "verdict mean ends noise_share")
schema_of(RefusedQuarter, "RefusedQuarterView", "code feature low high where rows observed")
schema_of(HeldOutIntervals, "HeldOutIntervalsView", "verdict rows level inside lower upper refused")
schema_of(AnotherFit, "AnotherFitView", "moves sds")
schema_of(
    EffectsUse,
    "EffectsUseView",
    "average rows average_rhat? average_error? average_limit? average_ess? rows_rhat? rows_error? "
    "rows_limit? rows_ess? text",
)
schema_of(Use, "UseView", "predictions intervals credible chains held_out another_fit unit text effects?")


@dataclass(frozen=True, kw_only=True)
class ModelView:
    """A model: fitted, being fitted, or ended early."""

    id: str
    name: str | None
    label: Annotated[
        str,
        Field(
            description="The name, or what it predicts from which dataset, numbered: mpg from auto_mpg, 2."
        ),
    ]
    state: State
    dataset_id: str | None
    target: str
    settings: Annotated[dict[str, Any], Field(description="All settings, resolved.")]
    progress: ProgressView
    draws: Annotated[int, Field(description="Kept draws per chain so far.")]
    verdict: Verdict | None
    diagnostics: Annotated[
        dict[str, Any] | None,
        Field(
            description="The verdict with its figures; `chosen` has what settings left to the data, "
            "`noise_choice` the evidence by which the noise was chosen."
        ),
    ]
    holdout: Annotated[dict[str, Any] | None, Field(description="Scores on the held-out rows.")]
    use: Annotated[
        Use | None, SHOWN, Field(description="What it can be used for; null before the verdict.")
    ] = None
    calibration: Annotated[
        IntervalCalibrationView | None,
        Field(description="How intervals are calibrated; null where they are not."),
    ] = None
    outcomes: Annotated[
        Literal["holds", "too_few", "no_longer_hold"] | None,
        Field(description="Whether the intervals hold by reported outcomes; null where there are none."),
    ] = None
    refit: Annotated[
        RefitView | None, Field(description="For a refit with a gate: of which model, and what was decided.")
    ] = None
    withheld: Annotated[
        bool,
        Field(
            description="Its name means an older model: it was refused or rolled back, or isn't decided yet."
        ),
    ] = False
    stopped: Annotated[StoppedView | None, Field(description="Why a fit with stop rules ended.")] = None
    error: ErrorView | None
    warnings: list[str]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    num_rows: Annotated[int | None, Field(exclude=True)]  # of its dataset, for pages
    set_id: Annotated[str | None, Field(exclude=True)]  # for pages


@dataclass(frozen=True)
class ModelPage(Page[ModelView]):
    """A page of models, newest first."""

    items: list[ModelView]


def get(session: Session, owner: str, model: str) -> Model:
    """Return the owner's model with this id, or the one that this name means, whatever is asked of it.

    A name means the newest that has succeeded and isn't withheld; until one has, the newest not withheld.

    Raises
    ------
    NotFoundError
        There is none.
    ConflictError
        All models of this name are withheld.
    """
    stored = None
    if model.startswith("mdl_"):
        stored = store.get(session, owner, model) if is_id(model) else None
    elif _may_be_name(model):
        stored = store.meant(session, owner, model)
    if stored is None:
        raise NotFoundError("There is no model with this id or name: GET /models lists yours.")
    if stored.withheld and stored.id != model:
        raise ConflictError(f"No model answers to this name. {_why_withheld(stored)}")
    return stored


def is_forecaster(engine: Engine, owner: str, model: str) -> bool:
    """Tell whether the model with this id or name is a forecaster; raises NotFoundError."""
    with session_scope(engine, read_only=True) as session:
        return bool(get(session, owner, model).settings.get("time"))


def _why_withheld(model: Model) -> str:
    """Say of the only model of a name why the name doesn't mean it, and what to do."""
    if model.verdict is None:
        until = "decided" if model.state in OPEN_STATES else "continued (POST /models/{id}/retry) and decided"
        return (
            f"Its newest, {model.id}, is {model.state}, and withheld until it is {until}: ask it by its id."
        )
    return (
        f"Its newest, {model.id}, is withheld, as it was refused or rolled back: ask it by its id, or let "
        f"the name mean it by POST /models/{model.id}/promote."
    )


def _may_be_name(text: str) -> bool:
    return text.isprintable() and 0 < len(text) <= MAX_NAME


def view(session: Session, owner: str, model_id: str, outcome: str | None = None) -> ModelView:
    """Return a model with its progress, as one of its first outcome or another.

    Raises
    ------
    NotFoundError, InvalidRequestError
        The model, or its outcome, doesn't exist.
    """
    model = get(session, owner, model_id)
    chains = store.chains(session, [model.id])[model.id]
    origin = store.origins(session, owner, [model.id])[model.id]
    step = store.steps(session, [model]).get(model.id)
    fitted = _fitted(model, chains, origin, watches.verdicts(session, [model.id]).get(model.id), step)
    if outcome in (None, model.target):
        return fitted
    check_outcome(model, outcome)
    holdout = store.of_outcome(model, model.holdout, outcome)
    use = use_of(model.diagnostics, holdout) if fitted.use and model.diagnostics else None
    joint = {"joint": (model.holdout or {}).get("joint")}
    family = (model.settings.get("families") or {}).get(outcome)
    return replace(
        fitted,
        target=outcome,
        use=use,
        holdout=None if holdout is None else judged_anew(holdout) | joint,
        settings={**model.settings, **({} if family is None else {"family": family})},
    )


def list_page(session: Session, owner: str, limit: int, cursor: str | None) -> ModelPage:
    """Return a page of the owner's models, newest first."""
    page: Page[Model] = cursors.cut(store.list_page(session, owner, limit + 1, cursors.after(cursor)), limit)
    ids = [model.id for model in page.items]
    chains, origins = store.chains(session, ids), store.origins(session, owner, ids)
    verdicts, steps = watches.verdicts(session, ids), store.steps(session, page.items)
    models = [
        _fitted(m, chains[m.id], origins[m.id], verdicts.get(m.id), steps.get(m.id)) for m in page.items
    ]
    return ModelPage(models, page.next_cursor)


def cancel(session: Session, owner: str, model_id: str) -> ModelView:
    """Cancel a model; its draws are kept. Cancelling it again has no effect.

    Raises
    ------
    NotFoundError
        The model doesn't exist.
    ConflictError
        It has succeeded or failed.
    """
    model = get(session, owner, model_id)
    if model.state not in {*OPEN_STATES, CANCELLED}:
        another = another_of_name(session, model, model_id, OPEN_STATES)
        raise ConflictError(f"The model has {model.state}: there is nothing left to cancel.{another}")
    if model.state != CANCELLED and not model.cancel_requested:
        audit.record(session, owner, "model.cancelled", model.id)
    store.cancel(session, owner, model.id)
    return view(session, owner, model.id)


def another_of_name(session: Session, model: Model, asked: str, states: Container[str]) -> str:
    """Name the newest model that was asked for by a name, but that the name doesn't mean; "" without any."""
    named = [] if asked == model.id else store.list_page(session, model.owner, ON_A_NAME, name=asked)
    other = next((each for each in named if each.state in states and each.id != model.id), None)
    return "" if other is None else f" {other.id} has this name too and is {other.state}: ask by its id."


def delete(session: Session, owner: str, model_id: str) -> str:
    """Delete a model with its draws, whatever its state; return its id.

    Raises
    ------
    NotFoundError
        The model doesn't exist.
    ConflictError
        Several models have the name: a repeated request would delete two of them.
    """
    model = get(session, owner, model_id)
    if model.id != model_id and len(store.list_page(session, owner, 2, name=model_id)) > 1:
        raise ConflictError(
            f"Several models have this name, which means {model.id}: delete by id; GET /models lists yours."
        )
    store.delete(session, owner, model.id)
    audit.record(session, owner, "model.deleted", model.id)
    return model.id


def unit_of(session: Session, model: ModelView, read_as: Mapping[str, Any] | None) -> str | None:
    """Return the unit of the outcomes: None for classes, and where the file has none.

    `read_as` says how the file of the model's dataset was read; without it the header does.
    """
    if FAMILIES[str(model.settings.get("family", "gaussian"))].has_classes:
        return None
    if read_as is not None:
        return (read_as.get("units") or {}).get(model.target)
    header = None if model.settings.get("time") else store.header(session, model.id)
    return None if header is None else Header.from_bytes(header).units.get(model.target)


def check_outcome(model: Model, outcome: str | None) -> None:
    """Raise InvalidRequestError for an outcome that the model doesn't have."""
    names = model.settings.get("outcomes", [model.target])
    if outcome not in (None, *names):
        message = f"the model's outcome is {' or '.join(names)}, not {outcome!r}"
        raise InvalidRequestError(errors=[Fault("outcome", None, message, "unknown")])


def _label(model: Model, origin: store.ModelOrigin) -> str:
    if model.name is not None:
        return model.name
    if model.set_group is not None:
        return f"{model.target}, {in_words(model.set_group)}"
    source = "imported" if origin.dataset_name is None else f"from {origin.dataset_name}"
    number = f", {origin.number}" if (origin.number or 1) > 1 else ""
    return f"{model.target} {source}{number}"


def _fitted(
    model: Model, chains: Sequence[Unit], origin: store.ModelOrigin, outcomes: str | None, step: str | None
) -> ModelView:
    use = None
    if model.verdict is not None and model.diagnostics and not model.settings.get("time"):
        no_longer = outcomes == NO_LONGER
        use = use_of(
            model.diagnostics, model.holdout, no_longer_hold=no_longer, calibration=model.calibration
        )
    return filled(
        ModelView,
        model,
        holdout=None if model.holdout is None else judged_anew(model.holdout),
        label=_label(model, origin),
        progress=progress(model.state, model.settings, chains, step),
        draws=draws_of(model, chains),
        use=use,
        calibration=if_any(IntervalCalibrationView, model.calibration),
        outcomes=outcomes,
        refit=if_any(RefitView, model.refit),
        withheld=bool(model.withheld),
        stopped=if_any(StoppedView, model.stopped),
        error=if_any(ErrorView, model.error),
        num_rows=origin.num_rows,
    )


def draws_of(model: Model, chains: Sequence[Unit]) -> int:
    """Return the kept draws per chain; chains without draws don't count once the model has succeeded."""
    ended = model.state == SUCCEEDED
    return min((chain.num_draws for chain in chains if chain.num_draws or not ended), default=0)


def progress(
    state: str, settings: Mapping[str, Any], chains: Sequence[Unit], step: Any = None
) -> ProgressView:
    """Return the progress of a fit by its chains, and the step of its finish.

    The fraction never falls, as more draws are expected.
    """
    made = int(settings.get("discarded", 0)) + int(settings["num_draws"])
    each = int(settings["num_burnin"]) + made * int(settings["thin"])
    if settings.get("time"):  # a unit is a member of a forecaster, with two fits
        each *= 2 * int(settings["num_chains"])
    # Stop rules that aren't met ask for more.
    more = max(int((settings.get("stop") or {}).get("max_draws") or 0) - int(settings["num_draws"]), 0)
    done = sum(
        each if c.state == DONE else 0 if c.phase == COMPILING else min(c.iteration, each) for c in chains
    )
    total = max(each * len(chains), 1)
    most = total + more * int(settings["thin"]) * len(chains)
    rates = [c.rate for c in chains if c.state == RUNNING and c.phase != COMPILING and c.rate]
    rate = sum(rates) if rates and state == RUNNING else None
    return ProgressView(
        fraction=1.0 if state == SUCCEEDED else min(done / most, ALMOST),
        phase=_phase(state, chains),
        step=step,
        iterations_per_second=rate,
        eta_seconds=(total - done) / rate if rate else None,
        chains=[filled(ChainView, chain, chain=chain.ordinal) for chain in chains],
    )


def _phase(state: str, chains: Sequence[Unit]) -> Any:
    """Return the phase of a running fit: that of the chain which is furthest behind, or `finishing`."""
    if state != RUNNING:
        return None
    if chains and all(chain.state == DONE for chain in chains):
        return FINISHING
    phases = {chain.phase for chain in chains if chain.state == RUNNING}
    return next((phase for phase in PHASES if phase in phases), None)
