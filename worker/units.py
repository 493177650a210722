"""Processing of one unit of work: claim it, run its kind, and end it in the database whatever happens."""

import logging
import time
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from app.logging import bound
from app.store.engine import session_scope
from app.store.errors import AWAY, LeaseLostError, ModelGoneError
from app.store.queue import claims, units
from app.store.queue.claims import Claim
from app.store.queue.counters import JOBS, LOST
from app.store.queue.units import Directive
from app.store.tables import CHAIN, FINISH, PREDICTION, STUDY, TOTALS, Json
from sampler.host.data import interrupt
from worker.context import Context
from worker.errors import Stopped, sentence
from worker.fits.chain import run_chain
from worker.fits.finish import run_finish
from worker.fits.tracking import log_fit
from worker.heartbeat import END, EndedError, Watch
from worker.prediction import run_prediction
from worker.studies.unit import run_study

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5

_RUN: dict[str, Callable[[Context, Claim, Watch], None]] = {
    CHAIN: run_chain,
    FINISH: run_finish,
    PREDICTION: run_prediction,
    STUDY: run_study,
    TOTALS: run_prediction,
}
OUTCOMES = {
    Directive.CANCEL: "cancelled",
    Directive.DRAIN: "released",
    Directive.GIVE_WAY: "gave_way",
    Directive.TIME_UP: "done",
}


def run_one(context: Context) -> bool:
    """Claim a unit and work on it until it ends or this worker stops; return False if there was none.

    After a chain that yielded, the next unit is claimed at once, because its owner waits.
    """
    outcome = ""
    try:
        while outcome in {"", "gave_way"} and (claim := _claim(context)) is not None:
            outcome = _run(context, claim)
    finally:
        context.places.leave()
    if outcome not in {"", "released"}:  # the slot is free for the next one, which may be as short
        context.places.wake()
    return outcome != ""


def _claim(context: Context) -> Claim | None:
    """Claim a unit that no process of this worker runs; a long one only if the worker has a free slot."""
    places = context.places
    try:
        with places.claiming(), session_scope(context.engine) as session:
            claim = claims.claim(
                session,
                context.worker_id,
                context.settings.lease_seconds,
                busy=places.busy(),
                long=places.free_slots() > 0,
                beside=places.kinds_beside(),
            )
            if claim is not None:
                places.take(claim.unit_id, claim.kind)
            return claim
    except SQLAlchemyError as error:
        places.leave()
        log.warning("No work could be claimed from the database: %s", error)
        return None


def _run(context: Context, claim: Claim) -> str:
    about = {"unit_id": claim.unit_id, "kind": claim.kind, "model_id": claim.model_id, "token": claim.token}
    part = {
        "chain": claim.ordinal if claim.kind == CHAIN else None,
        "prediction_id": claim.prediction_id,
        "study_id": claim.study_id,
    }
    began = time.monotonic()
    with bound(**about, **{k: v for k, v in part.items() if v is not None}, worker_id=claim.worker_id):
        log.info("claimed a %s", claim.kind, extra={"event": "unit_claimed"})
        outcome = _worked(context, claim)
        seconds = time.monotonic() - began
        fields = {"event": "unit_ended", "outcome": outcome, "duration_ms": round(1000 * seconds, 1)}
        log.info("a %s ended: %s", claim.kind, outcome, extra=fields)
        if outcome == "done" and claim.kind == FINISH:
            log_fit(context, claim.model_id)
    context.counts.observe(JOBS, seconds, claim.kind, outcome)
    if outcome == "lost":
        context.counts.add(LOST)
    return outcome


def _worked(context: Context, claim: Claim) -> str:
    """Run the unit and return its outcome, one of `app.store.queue.counters.ENDS`."""
    watch = Watch(context, claim)
    try:
        with watch, interrupt.by(watch.flag):
            _RUN[claim.kind](context, claim, watch)
    except Stopped as stopped:
        _end(context, claim, stopped.directive)
        return OUTCOMES[stopped.directive]
    except (EndedError, LeaseLostError, ModelGoneError, interrupt.InterruptedWorkError):
        if watch.ended is not None:
            return OUTCOMES[watch.ended]
        log.warning(
            "Unit %s was taken over by another worker or deleted; its remaining work is dropped.",
            claim.unit_id,
        )
        _note_loss(context, claim)
        return "lost"
    except AWAY as error:
        # Whether the last commit happened is unknown; the database is consistent either way.
        log.warning("Unit %s lost the database: %s", claim.unit_id, " ".join(str(error.orig).split()))
        _give_back(context, claim)
        return "released"
    except Exception as error:  # the unit must end whatever happened
        log.exception("Unit %s failed", claim.unit_id)
        _fail(context, claim, sentence(error))
        return "failed"
    return "done"


def _end(context: Context, claim: Claim, directive: Directive) -> None:
    try:
        _in_session(context, claim, END[directive])
    except (LeaseLostError, DBAPIError) as error:
        log.warning("The end of unit %s couldn't be written: %s", claim.unit_id, error)


def _note_loss(context: Context, claim: Claim) -> None:
    """Record that the lease was lost while this process was alive."""
    try:
        _in_session(context, claim, units.note_loss)
    except DBAPIError as error:
        log.warning("The lost lease of unit %s couldn't be recorded: %s", claim.unit_id, error)


def _give_back(context: Context, claim: Claim) -> None:
    """Release the unit once the database accepts writes again, however long that takes.

    So nobody has to wait for its lease to expire, and no attempt is counted. There is no other work
    meanwhile.
    """
    while True:
        time.sleep(RETRY_SECONDS)
        try:
            return _in_session(context, claim, units.release)
        except LeaseLostError:
            return None  # it has ended, or another worker has it
        except AWAY:
            continue


def _fail(context: Context, claim: Claim, error: Json) -> None:
    try:
        with session_scope(context.engine) as session:
            units.fail(session, claim, error)
    except (LeaseLostError, DBAPIError) as problem:
        log.warning("The failure of unit %s couldn't be written: %s", claim.unit_id, problem)


def _in_session(context: Context, claim: Claim, end: Callable[..., None]) -> None:
    with session_scope(context.engine) as session:
        end(session, claim)
