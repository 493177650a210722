"""One unit of work: claim it, do what its kind says, and end it in the database whatever happens."""

import logging
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from app.store import units
from app.store.engine import session_scope
from app.store.errors import LeaseLostError
from app.store.tables import CHAIN, FINISH, Json
from app.store.units import Claim, Directive
from worker.chain import run_chain
from worker.context import Context
from worker.errors import Stopped, sentence
from worker.finish import run_finish

log = logging.getLogger(__name__)

_RUN: dict[str, Callable[[Context, Claim], None]] = {CHAIN: run_chain, FINISH: run_finish}


def run_one(context: Context) -> bool:
    """Claim the oldest unit and work on it to its end, or to this worker's; False when there was none."""
    try:
        with session_scope(context.engine) as session:
            claim = units.claim(session, context.worker_id, context.settings.lease_seconds)
    except SQLAlchemyError as error:
        log.warning("The database can't be asked for work: %s", error)
        return False
    if claim is None:
        return False
    _run(context, claim)
    return True


def _run(context: Context, claim: Claim) -> None:
    try:
        _RUN[claim.kind](context, claim)
    except Stopped as stopped:
        _end(context, claim, stopped.directive)
    except LeaseLostError:
        log.warning("Unit %s went to another worker; what this one still had is dropped.", claim.unit_id)
    except DBAPIError as error:
        # Whether the last commit happened is unknown: the lease decides who goes on from the last checkpoint.
        log.warning("Unit %s is left to its lease: %s", claim.unit_id, error)
    except Exception as error:  # the unit must end, whatever its data did to us
        log.exception("Unit %s failed", claim.unit_id)
        _fail(context, claim, sentence(error))


def _end(context: Context, claim: Claim, directive: Directive) -> None:
    end = units.stop if directive is Directive.CANCEL else units.release
    _write(context, claim, lambda: _in_session(context, claim, end))


def _fail(context: Context, claim: Claim, error: Json) -> None:
    def write() -> None:
        with session_scope(context.engine) as session:
            units.fail(session, claim, error)

    _write(context, claim, write)


def _in_session(context: Context, claim: Claim, end: Callable[..., None]) -> None:
    with session_scope(context.engine) as session:
        end(session, claim)


def _write(context: Context, claim: Claim, write: Callable[[], None]) -> None:
    try:
        write()
    except (LeaseLostError, DBAPIError) as error:
        log.warning("The end of unit %s of %s wasn't written: %s", claim.unit_id, context.worker_id, error)
