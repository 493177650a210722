"""Claimed units of work: slice, release, finish. Leases have a fencing token and use the database's clock.

A claim (`app.store.queue.claims`) raises the unit's token, and every later write is conditional on it
(`_fenced`). So a worker that wakes up after another one has claimed its unit writes nothing.

Rows of units are locked first, then the row of the prediction or study, then the model's
(`app.store.tables.LOCK_ORDER`).
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, case, delete, null, select, update
from sqlalchemy.orm import Session

from app.store import draws, events
from app.store.clock import db_now, db_utc_now, utc_now
from app.store.errors import LeaseLostError
from app.store.outcomes import watches
from app.store.queue import claims, lifecycle, restarts
from app.store.queue.claims import Claim
from app.store.statements import rows_changed
from app.store.tables import (
    CANCELLED,
    CHAIN,
    DONE,
    FAILED,
    FINISH,
    OPEN_STATES,
    PROMOTED,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    Job,
    Json,
    Model,
    Unit,
    Worker,
)


class Directive(enum.Enum):
    """Instruction to the worker, returned by each commit."""

    CONTINUE = "continue"
    CANCEL = "cancel"  # end the unit: `stop`
    DRAIN = "drain"  # this worker shall stop: `release` the unit
    GIVE_WAY = "give_way"  # another owner waits: `release` the chain, which continues later
    TIME_UP = "time_up"  # the model's time is over: end the chain with `finish_early`


@dataclass(frozen=True)
class Progress:
    """Progress of a chain, of a block of predictions (in rows) or of a part of a study (in fits)."""

    phase: str  # compiling, burn_in, sampling, predicting, studying, or the step of a finish
    iteration: int
    iterations: int
    num_draws: int = 0
    rate: float | None = None  # iterations per second


@dataclass(frozen=True)
class Slice:
    """Result of one slice of a chain, stored in one transaction."""

    progress: Progress
    checkpoint: bytes
    statistics: Json
    blocks: Sequence[draws.StoredBlock] = ()


@dataclass(frozen=True)
class Cut:
    """Settings and header of a fit with other draws than those planned.

    Attributes
    ----------
    settings, header, warnings
        Those of a fit that was planned like this.
    blocks
        Blocks of every chain, which replace the stored ones; None where these stay.

    """

    settings: Json
    header: bytes
    warnings: list[str]
    blocks: list[list[draws.StoredBlock]] | None = None


@dataclass(frozen=True)
class Calibrated:
    """Header of a fit with its calibration, and a summary of that."""

    header: bytes
    summary: Json


def checkpoint(session: Session, claim: Claim) -> bytes | None:
    """Return the checkpoint from which the claimed chain continues, None at its beginning."""
    return session.scalar(select(Unit.checkpoint).where(Unit.id == claim.unit_id))


def num_iterations(session: Session, claim: Claim) -> int:
    """Return how many iterations, rows or fits the unit takes in all."""
    return session.scalar(select(Unit.iterations).where(Unit.id == claim.unit_id)) or 0


def heartbeat(session: Session, claim: Claim, progress: Progress | None = None) -> Directive:
    """Renew the lease without progress of the chain itself.

    Raises
    ------
    LeaseLostError
        The unit no longer belongs to this worker.
    """
    counts = {} if progress is None else _counts(progress)
    _fenced(session, claim, lease_until=db_now() + claim.lease_seconds, **counts)
    return _directive(session, claim)


def keep_header(session: Session, claim: Claim, header: bytes, warnings: Sequence[str]) -> bytes:
    """Store the header of a model, and warnings, unless it has one; return the one that it has.

    Raises as `heartbeat`.
    """
    _fenced(session, claim, lease_until=db_now() + claim.lease_seconds)
    first = update(Model).where(Model.id == claim.model_id, Model.header.is_(None))
    if rows_changed(session, first.values(header=header, warnings=list(warnings))):
        return header
    kept = session.scalar(select(Model.header).where(Model.id == claim.model_id))
    assert kept is not None, "it has one"
    return kept


def awaits_header(session: Session, claim: Claim) -> bool:
    """Tell whether an earlier chain of a model without a header is being worked on."""
    earlier = and_(Unit.model_id == claim.model_id, Unit.kind == CHAIN, Unit.ordinal < claim.ordinal)
    query = select(Unit.id).join(Model, Model.id == Unit.model_id).where(Model.header.is_(None), earlier)
    return session.scalar(query.where(lifecycle.is_leased()).limit(1)) is not None


def commit_slice(session: Session, claim: Claim, slice_: Slice, *, gives_way: bool = False) -> Directive:
    """Store one slice of a chain; raises as `heartbeat`.

    `gives_way`: the chain has run long enough to yield if another owner waits.
    """
    _store_slice(session, claim, slice_, state=RUNNING, lease_until=db_now() + claim.lease_seconds)
    directive = _directive(session, claim)
    if directive is Directive.CONTINUE and gives_way and claims.somebody_waits(session, claim):
        return Directive.GIVE_WAY
    return directive


def finish_chain(session: Session, claim: Claim, slice_: Slice) -> None:
    """Store the chain's last slice. The chain that finishes last inserts the model's `finish` unit."""
    _store_slice(session, claim, slice_, state=DONE, lease_until=None)
    ended = {"chain": claim.ordinal, "draws": slice_.progress.num_draws}
    events.append(session, claim.model_id, "chain_finished", ended)
    lifecycle.settle(session, claim.model_id)


def finish_early(session: Session, claim: Claim) -> None:
    """End a chain because its model's time is up; its last slice is already stored."""
    _fenced(session, claim, state=DONE, lease_until=None, rate=None)
    num_draws = session.scalar(select(Unit.num_draws).where(Unit.id == claim.unit_id))
    events.append(session, claim.model_id, "chain_finished", {"chain": claim.ordinal, "draws": num_draws})
    lifecycle.settle(session, claim.model_id)


def release(session: Session, claim: Claim) -> None:
    """Return the unit to the queue without counting an attempt; another worker continues it."""
    _fenced(
        session,
        claim,
        state=QUEUED,
        lease_until=None,
        worker_id=None,
        stalled_attempts=case((Unit.stalled_attempts > 0, Unit.stalled_attempts - 1), else_=0),
    )
    table, parent_id = lifecycle.parent(claim)
    parent: Model | Job | None = session.get(table, parent_id)
    if parent is None or parent.cancel_requested or parent.state not in OPEN_STATES:
        rows_changed(session, update(Unit).where(Unit.id == claim.unit_id).values(state=CANCELLED))
        lifecycle.settle_parent(session, claim)


def stop(session: Session, claim: Claim) -> None:
    """End the unit as cancelled, following its directive; kept draws stay."""
    _fenced(session, claim, state=CANCELLED, lease_until=None)
    table, parent_id = lifecycle.parent(claim)
    query = select(table.state, table.cancel_requested).where(table.id == parent_id)
    state, cancel_requested = session.execute(query).one()
    if claim.kind in {CHAIN, FINISH} and state in OPEN_STATES and not cancel_requested:
        # Retried since the directive was read: somebody must continue it.
        rows_changed(session, update(Unit).where(Unit.id == claim.unit_id).values(state=QUEUED))
    lifecycle.settle_parent(session, claim)


def note_loss(session: Session, claim: Claim) -> None:
    """Record on a unit taken over by another worker that its former worker was alive, only late."""
    is_taken = and_(Unit.id == claim.unit_id, Unit.token > claim.token, Unit.state.in_(OPEN_STATES))
    rows_changed(session, update(Unit).where(is_taken).values(error=lifecycle.LEASE_LOST))


def fail(session: Session, claim: Claim, error: Json) -> None:
    """End the unit and its model or job as failed.

    `error` is `{type, detail}`; detail is a sentence.
    """
    lifecycle.lock_siblings(session, claim)
    _fenced(session, claim, state=FAILED, lease_until=None, error=error)
    lifecycle.fail_parent(session, claim, error)


def finish_part(session: Session, claim: Claim, done: int, statistics: Json) -> None:
    """End a block of predictions or a part of a study; the last one makes the job succeed.

    `done` is the number of rows or fits.
    """
    _fenced(
        session,
        claim,
        state=DONE,
        lease_until=None,
        phase=None,  # a last one of compiling would hide the iterations
        iteration=done,
        statistics=statistics,
        rate=None,
    )
    lifecycle.settle_parent(session, claim)


def finish_model(
    session: Session,
    claim: Claim,
    *,
    verdict: str,
    diagnostics: Json,
    holdout: Json | None,
    held_out: Json | None = None,
    stopped: Json | None = None,
    cut: Cut | None = None,
    header: bytes | None = None,
    warnings: list[str] | None = None,
    calibrated: Calibrated | None = None,
    refit: Json | None = None,
) -> None:
    """End the `finish` unit; the model has succeeded when this commits.

    Parameters
    ----------
    stopped
        Why a fit with stop rules ended.
    cut
        What is left of a fit whose time was over or whose first draws are discarded; chains without draws
        are removed.
    header
        Header of the fit (or of what was cut of it), where it is another now.
    warnings
        All warnings of the model, where there are others than so far.
    calibrated
        Header of a fit (or of what was cut of it) with its calibration.
    refit
        The decision whether the name moves to this refit, where one has been made now.
    """
    if cut is not None:
        lifecycle.lock_all(session, claim.model_id)
    _fenced(session, claim, state=DONE, lease_until=None)
    values: dict[str, Any] = {
        "verdict": verdict,
        "diagnostics": diagnostics,
        "holdout": holdout,
        "held_out": held_out,
        **({} if refit is None else {"refit": refit, "withheld": refit["decision"] != PROMOTED}),
    }
    if stopped is not None:
        values |= {"stopped": stopped, "deadline": None}
    if cut is not None:
        values |= {"settings": cut.settings, "header": cut.header, "warnings": cut.warnings}
    if header is not None:
        values["header"] = header
    if warnings is not None:
        values["warnings"] = warnings
    if calibrated is not None:
        values |= {"header": calibrated.header, "calibration": calibrated.summary}
    state = case((Model.cancel_requested, CANCELLED), else_=SUCCEEDED)
    open_ = update(Model).where(Model.id == claim.model_id, Model.state.in_(OPEN_STATES))
    if rows_changed(session, open_.values(state=state, finished_at=db_utc_now(), **values)):
        if cut is not None:
            drawless = delete(Unit).where(Unit.model_id == claim.model_id, Unit.kind == CHAIN)
            rows_changed(session, drawless.where(Unit.num_draws == 0))
            _replace_draws(session, claim.model_id, cut)
        if calibrated is not None:
            watches.begin_era(session, claim.model_id)
        _log_end(session, claim.model_id, verdict, stopped, refit)


def _log_end(session: Session, model_id: str, verdict: str, stopped: Json | None, refit: Json | None) -> None:
    """Log how a fit ended; the event that ends streams comes last."""
    if stopped is not None:
        events.append(session, model_id, "stopped", stopped)
    ended = session.scalar(select(Model.state).where(Model.id == model_id))
    if refit is not None and ended == SUCCEEDED:
        told = {name: refit[name] for name in ("champion", "text")}
        events.append(session, model_id, refit["decision"], told)
    events.append(session, model_id, ended or CANCELLED, {"verdict": verdict})


def _replace_draws(session: Session, model_id: str, cut: Cut) -> None:
    for ordinal, blocks in enumerate(cut.blocks or []):
        draws.write(session, model_id, ordinal, blocks)
        chain = update(Unit).where(Unit.model_id == model_id, Unit.kind == CHAIN, Unit.ordinal == ordinal)
        rows_changed(session, chain.values(num_draws=sum(block.num_draws for block in blocks)))


def continue_sampling(session: Session, claim: Claim, num_draws: int, header: bytes, looked: Json) -> None:
    """End a `finish` unit whose model has not met its stop rules, and queue more draws of every chain.

    Parameters
    ----------
    num_draws
        Kept draws per chain at the next check of the rules.
    header
        Header of a fit with that many draws.
    looked
        Result of this check, for the event log.
    """
    lifecycle.lock_all(session, claim.model_id)
    _fenced(session, claim, state=DONE, lease_until=None)
    events.append(session, claim.model_id, "looked", looked)
    model = session.get_one(Model, claim.model_id, populate_existing=True)
    if model.cancel_requested or model.state not in OPEN_STATES:
        lifecycle.settle(session, model.id)
    else:
        restarts.draw_on(session, model, num_draws, header)
        session.flush()


def _fenced(session: Session, claim: Claim, **values: Any) -> None:
    mine = and_(Unit.id == claim.unit_id, Unit.token == claim.token, Unit.state == RUNNING)
    if values.get("state", RUNNING) != RUNNING:
        values["served_at"] = db_utc_now()
    if rows_changed(session, update(Unit).where(mine).values(updated_at=utc_now(), **values)) != 1:
        raise LeaseLostError(f"Unit {claim.unit_id} is no longer held with token {claim.token}.")


def _store_slice(session: Session, claim: Claim, slice_: Slice, **values: Any) -> None:
    _fenced(
        session,
        claim,
        **_counts(slice_.progress),
        stalled_attempts=0,
        error=None,  # clears the record of an earlier lost lease
        checkpoint=slice_.checkpoint,
        statistics=slice_.statistics,
        **values,
    )
    draws.write(session, claim.model_id, claim.ordinal, slice_.blocks)


def _counts(progress: Progress) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "phase": progress.phase,
        "iteration": progress.iteration,
        "iterations": progress.iterations,
        "rate": progress.rate,
    }
    if progress.phase != "compiling":
        return counts | {"num_draws": progress.num_draws}
    begun = Unit.checkpoint.is_not(None)  # a chain that goes on elsewhere keeps the iterations it has
    return {name: case((begun, getattr(Unit, name)), else_=value) for name, value in counts.items()}


def _directive(session: Session, claim: Claim) -> Directive:
    table, parent_id = lifecycle.parent(claim)
    left = Model.deadline - db_now() if table is Model else null()
    draining = select(Worker.draining).where(Worker.id == claim.worker_id).scalar_subquery()
    query = select(table.state, table.cancel_requested, left, draining).where(table.id == parent_id)
    state, cancel_requested, seconds_left, drains = session.execute(query).one()
    if cancel_requested or state not in OPEN_STATES:
        return Directive.CANCEL
    if drains:
        return Directive.DRAIN
    if seconds_left is None:
        return Directive.CONTINUE
    lifecycle.set_deadline(session, parent_id)
    return Directive.TIME_UP if seconds_left < 0 else Directive.CONTINUE
