"""Tables of calibration that move each week: those that were in force, and the outcomes that move them."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, func, select, update
from sqlalchemy.orm import Session, undefer

from app.store.engine import binary_results
from app.store.statements import rows_changed
from app.store.tables import KnownOutcome, OutcomeReport, WeeklyTable


class ScoreInTime(NamedTuple):
    """The score of an outcome, the time of its row, and its group."""

    at: datetime
    score: float
    unit: bytes | None


def tables(session: Session, model_id: str, first: int = 0) -> list[WeeklyTable]:
    """Return the tables of a model from a number on, without their scores, in the order of time."""
    query = select(WeeklyTable).where(WeeklyTable.model_id == model_id, WeeklyTable.number >= first)
    return [*session.scalars(query.order_by(WeeklyTable.number))]


def with_scores(session: Session, model_id: str, *conditions: ColumnElement[bool]) -> list[WeeklyTable]:
    """Return tables of a model with their scores, in the order of time."""
    query = select(WeeklyTable).where(WeeklyTable.model_id == model_id, *conditions)
    loaded = query.order_by(WeeklyTable.number).options(undefer(WeeklyTable.scores))
    options = binary_results(session) | {"populate_existing": True}
    return [*session.scalars(loaded, execution_options=options)]


def last_number(session: Session, model_id: str) -> int:
    """Return the number of the newest table of a model; 0 where it never had any."""
    mine = select(func.max(WeeklyTable.number)).where(WeeklyTable.model_id == model_id)
    return session.scalar(mine) or 0


def add(session: Session, table: WeeklyTable) -> None:
    """Store a table; the caller has locked the model."""
    session.add(table)
    session.flush()


def _scores(model_id: str, draws: int, *, of_groups: bool) -> Select[datetime, float, bytes | None]:
    """Select outcomes that were scored by as many draws per chain; where groups count, of known ones."""
    query = (
        select(KnownOutcome.at, KnownOutcome.score, KnownOutcome.unit)
        .join(OutcomeReport, OutcomeReport.id == KnownOutcome.report_id)
        .where(KnownOutcome.model_id == model_id, OutcomeReport.draws == draws)
    )
    return query.where(KnownOutcome.unit.is_not(None)) if of_groups else query


def waiting(
    session: Session, model_id: str, draws: int, before: int, *, of_groups: bool
) -> list[ScoreInTime]:
    """Return outcomes of weeks before one that no table has counted, in the order of time.

    `draws` are the model's per chain: outcomes that were scored by fewer or more are left out; `of_groups`:
    so are those of no known group.
    """
    query = (
        _scores(model_id, draws, of_groups=of_groups)
        .where(KnownOutcome.counted.is_(None), KnownOutcome.week < before)
        .order_by(KnownOutcome.at, KnownOutcome.report_id, KnownOutcome.row)
    )
    return [ScoreInTime._make(row) for row in session.execute(query)]


def num_waiting(session: Session, model_id: str, *, of_groups: bool) -> int:
    """Return the number of outcomes that no table has counted; where groups count, of known ones."""
    mine = select(func.count()).where(KnownOutcome.model_id == model_id, KnownOutcome.counted.is_(None))
    mine = mine.where(KnownOutcome.unit.is_not(None)) if of_groups else mine
    return session.scalar(mine) or 0


def count(session: Session, model_id: str, number: int, before: int | None = None) -> None:
    """Note at which table's making outcomes were counted: those not counted yet, of weeks before one."""
    mine = update(KnownOutcome).where(KnownOutcome.model_id == model_id, KnownOutcome.counted.is_(None))
    if before is not None:
        mine = mine.where(KnownOutcome.week < before)
    rows_changed(session, mine.values(counted=number))


def newest_counted(
    session: Session, model_id: str, draws: int, most: int, *, of_groups: bool
) -> list[ScoreInTime]:
    """Return the newest counted outcomes, in the order of time."""
    query = (
        _scores(model_id, draws, of_groups=of_groups)
        .where(KnownOutcome.counted.is_not(None))
        .order_by(KnownOutcome.at.desc(), KnownOutcome.report_id.desc(), KnownOutcome.row.desc())
    )
    return [ScoreInTime._make(row) for row in session.execute(query.limit(most))][::-1]


def times_counted(session: Session, model_id: str, first: int) -> list[tuple[datetime, bytes | None, int]]:
    """Return the times and groups of outcomes that tables after one counted, and the tables' numbers."""
    query = select(KnownOutcome.at, KnownOutcome.unit, KnownOutcome.counted).where(
        KnownOutcome.model_id == model_id, KnownOutcome.counted > first
    )
    return [(at, unit, number) for at, unit, number in session.execute(query) if number is not None]
