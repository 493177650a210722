"""Models: viewing, cancelling and deleting them. `creation` accepts new ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from app.services import cursors
from app.services.access import audit
from app.services.cursors import Page, is_id
from app.services.errors import ConflictError, NotFoundError
from app.store import models as store
from app.store.outcomes import watches
from app.store.tables import CANCELLED, DONE, OPEN_STATES, RUNNING, SUCCEEDED, Json, Model, Unit
from sampler.families import FAMILIES
from sampler.posterior.verdict.use import Use, use_of
from sampler.storage.model_header import Header

COMPILING, FINISHING = "compiling", "finishing"
PHASES = (COMPILING, "burn_in", "sampling")  # phases of a chain, in order
MAX_NAME = 200  # characters
NO_LONGER = "no_longer_hold"  # verdict of reported outcomes
ALMOST = 0.99  # the chains are done, the verdict is pending


@dataclass(frozen=True)
class ChainProgress:
    """Progress of a chain."""

    chain: int
    state: str
    phase: str | None
    iteration: int
    iterations: int


@dataclass(frozen=True)
class FitProgress:
    """Progress of a fit.

    `fraction` is the share of iterations done; `phase` that of the running chain which is furthest behind, or
    "finishing" after the last chain, None of a model that is not running; `eta_seconds` assumes that the
    present rate continues, and is None while the rate is unknown.
    """

    fraction: float
    phase: str | None
    iterations_per_second: float | None
    eta_seconds: float | None
    chains: list[ChainProgress]


@dataclass(frozen=True)
class FittedModel:
    """A model with its progress.

    `label` is its name, or what it predicts from which dataset, numbered; `num_rows` those of its dataset;
    `outcomes` the verdict of reported outcomes on its intervals, None where there are none.
    """

    id: str
    name: str | None
    label: str
    num_rows: int | None
    state: str
    dataset_id: str | None
    target: str
    settings: Json
    progress: FitProgress
    draws: int
    verdict: str | None
    diagnostics: Json | None
    holdout: Json | None
    calibration: Json | None
    outcomes: str | None
    stopped: Json | None
    error: Json | None
    warnings: list[str]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def use(self) -> Use | None:
        """Uses, by chains, held-out rows and reported outcomes; None before the verdict."""
        if self.verdict is None or not self.diagnostics:
            return None
        return use_of(self.diagnostics, self.holdout, no_longer_hold=self.outcomes == NO_LONGER)


def get(session: Session, owner: str, model: str, *, succeeded: bool = False) -> Model:
    """Return the owner's model with this id, or the newest with this name; raises NotFoundError.

    `succeeded`: for a name, prefer the newest that has succeeded.
    """
    stored = None
    if model.startswith("mdl_"):
        stored = store.get(session, owner, model) if is_id(model) else None
    elif _may_be_name(model):
        stored = store.newest_succeeded(session, owner, model) if succeeded else None
        stored = stored or next(iter(store.list_page(session, owner, 1, name=model)), None)
    if stored is None:
        raise NotFoundError("There is no model with this id or name: GET /models lists yours.")
    return stored


def _may_be_name(text: str) -> bool:
    return text.isprintable() and 0 < len(text) <= MAX_NAME


def view(session: Session, owner: str, model_id: str) -> FittedModel:
    """Return a model with its progress; raises NotFoundError."""
    model = get(session, owner, model_id)
    chains = store.chains(session, [model.id])[model.id]
    origin = store.origins(session, owner, [model.id])[model.id]
    return _fitted(model, chains, origin, watches.verdicts(session, [model.id]).get(model.id))


def list_page(session: Session, owner: str, limit: int, cursor: str | None) -> Page[FittedModel]:
    """Return a page of the owner's models, newest first."""
    page: Page[Model] = cursors.cut(store.list_page(session, owner, limit + 1, cursors.after(cursor)), limit)
    ids = [model.id for model in page.items]
    chains, origins = store.chains(session, ids), store.origins(session, owner, ids)
    verdicts = watches.verdicts(session, ids)
    models = [_fitted(m, chains[m.id], origins[m.id], verdicts.get(m.id)) for m in page.items]
    return Page(models, page.next_cursor)


def cancel(session: Session, owner: str, model_id: str) -> FittedModel:
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
        raise ConflictError(f"The model has {model.state}: there is nothing left to cancel.")
    if model.state != CANCELLED and not model.cancel_requested:
        audit.record(session, owner, "model.cancelled", model.id)
    store.cancel(session, owner, model.id)
    return view(session, owner, model.id)


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
            f"Several models have this name, the newest is {model.id}: delete by id; GET /models lists yours."
        )
    store.delete(session, owner, model.id)
    audit.record(session, owner, "model.deleted", model.id)
    return model.id


def unit_of(session: Session, model: FittedModel, read_as: Mapping[str, Any] | None) -> str | None:
    """Return the unit of the outcomes: None for classes, and where the file has none.

    `read_as` says how the file of the model's dataset was read; without it the header does.
    """
    if FAMILIES[str(model.settings.get("family", "gaussian"))].target in {"two", "classes"}:
        return None
    if read_as is not None:
        return (read_as.get("units") or {}).get(model.target)
    header = store.header(session, model.id)
    return None if header is None else Header.from_bytes(header).units.get(model.target)


def _label(model: Model, origin: store.ModelOrigin) -> str:
    if model.name is not None:
        return model.name
    source = "imported" if origin.dataset_name is None else f"from {origin.dataset_name}"
    number = f", {origin.number}" if (origin.number or 1) > 1 else ""
    return f"{model.target} {source}{number}"


def _fitted(
    model: Model, chains: Sequence[Unit], origin: store.ModelOrigin, outcomes: str | None
) -> FittedModel:
    return FittedModel(
        id=model.id,
        name=model.name,
        label=_label(model, origin),
        num_rows=origin.num_rows,
        state=model.state,
        dataset_id=model.dataset_id,
        target=model.target,
        settings=model.settings,
        progress=progress(model.state, model.settings, chains),
        draws=draws_of(model, chains),
        verdict=model.verdict,
        diagnostics=model.diagnostics,
        holdout=model.holdout,
        calibration=model.calibration,
        outcomes=outcomes,
        stopped=model.stopped,
        error=model.error,
        warnings=model.warnings,
        created_at=model.created_at,
        started_at=model.started_at,
        finished_at=model.finished_at,
    )


def draws_of(model: Model, chains: Sequence[Unit]) -> int:
    """Return the kept draws per chain; chains without draws don't count once the model has succeeded."""
    ended = model.state == SUCCEEDED
    return min((chain.num_draws for chain in chains if chain.num_draws or not ended), default=0)


def progress(state: str, settings: Mapping[str, Any], chains: Sequence[Unit]) -> FitProgress:
    """Return the progress of a fit by its chains."""
    made = int(settings.get("discarded", 0)) + int(settings["num_draws"])
    each = int(settings["num_burnin"]) + made * int(settings["thin"])
    done = sum(
        each if c.state == DONE else 0 if c.phase == COMPILING else min(c.iteration, each) for c in chains
    )
    total = max(each * len(chains), 1)
    rates = [c.rate for c in chains if c.state == RUNNING and c.phase != COMPILING and c.rate]
    rate = sum(rates) if rates and state == RUNNING else None
    return FitProgress(
        fraction=1.0 if state == SUCCEEDED else min(done / total, ALMOST),
        phase=_phase(state, chains),
        iterations_per_second=rate,
        eta_seconds=(total - done) / rate if rate else None,
        chains=[ChainProgress(c.ordinal, c.state, c.phase, c.iteration, c.iterations) for c in chains],
    )


def _phase(state: str, chains: Sequence[Unit]) -> str | None:
    """Return the phase of a running fit: that of the chain which is furthest behind, or `finishing`."""
    if state != RUNNING:
        return None
    if chains and all(chain.state == DONE for chain in chains):
        return FINISHING
    phases = {chain.phase for chain in chains if chain.state == RUNNING}
    return next((phase for phase in PHASES if phase in phases), None)
