"""Background jobs of models, predictions and studies: queries, and the end of their units.

`app.store.queue.lifecycle` does this for fits, and finds out which of them a unit belongs to.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, and_, func, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.store import deletion
from app.store.clock import db_utc_now, utc_now
from app.store.statements import After, lock_rows, page, rows_changed
from app.store.tables import (
    CANCELLED,
    FAILED,
    OPEN_STATES,
    QUEUED,
    SUCCEEDED,
    BatchPrediction,
    Job,
    Json,
    Study,
    Unit,
)
from app.store.webhooks import outbox

T = TypeVar("T", bound=Job)
UNSEEN = "unseen"  # in a prediction's request, once succeeded: first levels by column that training had not
MOST_UNSEEN = 6  # as many as a unit reports


@dataclass(frozen=True)
class Jobs(Generic[T]):
    """The jobs of a table.

    Attributes
    ----------
    table
        Table of the jobs.
    column
        Column of `units` with the id of a job.
    ended
        The event of webhooks when a job ends.
    outcome
        Values that a job gets when it succeeds, from its request and the statistics of its units.

    """

    table: type[T]
    column: InstrumentedAttribute[str | None]
    ended: str
    outcome: Callable[[Json, Iterable[Json | None]], Json]

    def id_of(self, unit: Any) -> str | None:
        """Return the id of the job that a unit, or a claim of one, belongs to; None if to none of these."""
        job_id: str | None = getattr(unit, self.column.key)
        return job_id

    def are_open(self) -> ColumnElement[bool]:
        """Return the condition that a job is open and not being cancelled."""
        return and_(self.table.state.in_(OPEN_STATES), self.table.cancel_requested.is_(False))

    def get(self, session: Session, owner: str, job_id: str) -> T | None:
        """Return the owner's job with this id, or None."""
        return session.scalar(select(self.table).where(self.table.id == job_id, self.table.owner == owner))

    def list_page(
        self,
        session: Session,
        owner: str,
        limit: int,
        after: After | None = None,
        model_id: str | None = None,
    ) -> list[T]:
        """Return a page of the owner's jobs (of one model), newest first."""
        mine = select(self.table).where(self.table.owner == owner)
        if model_id is not None:
            mine = mine.where(self.table.model_id == model_id)
        return list(session.scalars(page(mine, self.table, limit, after)))

    def done(self, session: Session, job_id: str) -> int:
        """Return the number of rows or fits done so far, including those of unfinished units."""
        done = select(func.sum(Unit.iteration)).where(
            self.column == job_id, Unit.phase.is_distinct_from("compiling")
        )
        return int(session.scalar(done) or 0)

    def cancel(self, session: Session, owner: str, job_id: str) -> T | None:
        """Request cancellation of an open job; return None when the owner has none with this id.

        A job that has ended stays unchanged.
        """
        if self.get(session, owner, job_id) is None:
            return None
        self.lock_all(session, job_id)
        cancellation = update(self.table).where(self.table.id == job_id, self.table.state.in_(OPEN_STATES))
        if rows_changed(session, cancellation.values(cancel_requested=True)):
            self._cancel_queued(session, job_id)
            self.settle(session, job_id)
        session.expire_all()  # the updates went past the session's copies
        return self.get(session, owner, job_id)

    def delete(self, session: Session, owner: str, job_id: str) -> bool:
        """Delete a job and its results; return False when the owner has none with this id.

        Workers on its units lose their leases.
        """
        if self.get(session, owner, job_id) is None:
            return False
        self.lock_all(session, job_id)
        deleted = deletion.give_up_job(session, self.table, self.column, job_id)
        session.expire_all()  # the updates went past the session's copies
        return deleted

    def lock_all(self, session: Session, job_id: str) -> None:
        """Lock every unit of a job, in order, before changing several units or the final state."""
        lock_rows(session, Unit, self.column == job_id)

    def settle(self, session: Session, job_id: str) -> None:
        """End a job that has no open units as succeeded or cancelled.

        Its row is locked during the check, so that the last of several units sees the others.
        """
        query = select(self.table).where(self.table.id == job_id).with_for_update(key_share=True)
        job = session.scalar(query, execution_options={"populate_existing": True})
        if job is None or job.state not in OPEN_STATES:
            return
        mine = self.column == job_id
        if session.scalar(select(Unit.id).where(mine, Unit.state.in_(OPEN_STATES)).limit(1)) is not None:
            return
        job.finished_at = session.scalar(select(db_utc_now()))
        if job.cancel_requested:
            job.state = CANCELLED
        else:
            job.state = SUCCEEDED
            statistics = session.scalars(select(Unit.statistics).where(mine))
            for name, value in self.outcome(job.request, statistics).items():
                setattr(job, name, value)
        session.flush()
        outbox.note_job(session, self.ended, job)

    def fail(self, session: Session, job_id: str, error: Json) -> None:
        """End the job as failed and cancel its queued units."""
        self._cancel_queued(session, job_id)
        open_ = update(self.table).where(self.table.id == job_id, self.table.state.in_(OPEN_STATES))
        if rows_changed(session, open_.values(state=FAILED, error=error, finished_at=db_utc_now())):
            outbox.note_job(session, self.ended, session.get_one(self.table, job_id, populate_existing=True))

    def _cancel_queued(self, session: Session, job_id: str) -> None:
        queued = update(Unit).where(self.column == job_id, Unit.state == QUEUED)
        rows_changed(session, queued.values(state=CANCELLED, updated_at=utc_now()))


def _flags(request: Json, statistics: Iterable[Json | None]) -> Json:
    """Add up the numbers of flagged rows by column and flag; put the first unseen levels into the request."""
    total: dict[str, dict[str, Any]] = {}
    unseen: dict[str, set[str]] = {}
    for one in statistics:
        for column, counts in ((one or {}).get("flags") or {}).items():
            into = total.setdefault(column, {})
            for flag, rows in counts.items():
                into[flag] = into.get(flag, 0) + rows
        for column, names in ((one or {}).get("unseen") or {}).items():
            unseen.setdefault(column, set()).update(names)
    first = {column: sorted(names)[:MOST_UNSEEN] for column, names in unseen.items()}
    return {"flags": total} | ({"request": request | {UNSEEN: first}} if first else {})


PREDICTIONS = Jobs(BatchPrediction, Unit.prediction_id, "prediction.ended", _flags)
STUDIES = Jobs(
    Study, Unit.study_id, "study.ended", lambda *_: {}
)  # the units' statistics are read where they are
JOBS: tuple[Jobs[Any], ...] = (PREDICTIONS, STUDIES)


def job_of(unit: Any) -> tuple[Jobs[Any], str] | None:
    """Return the job that a unit, or a claim of one, belongs to; None for a unit of a fit."""
    for jobs in JOBS:
        if (job_id := jobs.id_of(unit)) is not None:
            return jobs, job_id
    return None


def count_open(session: Session, owner: str) -> int:
    """Return the number of the owner's queued and running background predictions and studies."""
    count = 0
    for jobs in JOBS:
        mine = select(func.count()).where(jobs.table.owner == owner, jobs.table.state.in_(OPEN_STATES))
        count += session.scalar(mine) or 0
    return count
