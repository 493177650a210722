"""Reports of outcomes and the scores of their rows."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
from sqlalchemy import Integer, cast, delete, func, insert, select
from sqlalchemy.orm import Session, undefer

from app.store.clock import utc_now
from app.store.column_codec import checksum
from app.store.engine import binary_results
from app.store.errors import CorruptBlockError
from app.store.statements import rows_changed
from app.store.tables import Json, KnownOutcome, OutcomeReport, OutcomeWatch, OutcomeWeek

_BATCH = 1000  # rows or keys of a statement


def add(session: Session, report: OutcomeReport, rows: Sequence[tuple[int, Json]]) -> None:
    """Store a report, and its rows with their numbers: what `KnownOutcome` has besides report and model."""
    session.add(report)
    session.flush()  # the rows refer to it
    own = {"report_id": report.id, "model_id": report.model_id}
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        session.execute(insert(KnownOutcome), [{**own, "row": number, **row} for number, row in batch])


def new_report(report_id: str, model_id: str, num_rows: int, draws: int, data: bytes) -> OutcomeReport:
    """Make a report of encoded rows (`app.store.predictions.encode`)."""
    return OutcomeReport(
        id=report_id,
        model_id=model_id,
        num_rows=num_rows,
        draws=draws,
        data=data,
        checksum=checksum(data),
        created_at=utc_now(),
    )


def keyed(session: Session, model_id: str, keys: Sequence[str]) -> dict[str, KnownOutcome]:
    """Return the model's outcomes that have one of the keys, by key."""
    outcomes: dict[str, KnownOutcome] = {}
    for start in range(0, len(keys), _BATCH):
        batch = keys[start : start + _BATCH]
        mine = select(KnownOutcome).where(KnownOutcome.model_id == model_id, KnownOutcome.key.in_(batch))
        outcomes |= {str(each.key): each for each in session.scalars(mine)}
    return outcomes


def reported_at(session: Session, model_id: str, keys: Sequence[str]) -> dict[str, datetime]:
    """Return when the outcomes that have one of the keys were reported, by key."""
    times: dict[str, datetime] = {}
    for start in range(0, len(keys), _BATCH):
        mine = (
            select(KnownOutcome.key, OutcomeReport.created_at)
            .join(OutcomeReport, OutcomeReport.id == KnownOutcome.report_id)
            .where(KnownOutcome.model_id == model_id, KnownOutcome.key.in_(keys[start : start + _BATCH]))
        )
        times |= {str(key): at for key, at in session.execute(mine)}
    return times


def remove(session: Session, model_id: str, keys: Sequence[str]) -> None:
    """Remove the outcomes with these keys; their values stay in the reports, unused."""
    for start in range(0, len(keys), _BATCH):
        batch = keys[start : start + _BATCH]
        mine = delete(KnownOutcome).where(KnownOutcome.model_id == model_id, KnownOutcome.key.in_(batch))
        rows_changed(session, mine)


class UnitCounts(NamedTuple):
    """Counts of the outcomes of a group, or of those without a known one, in a week."""

    unit: bytes | None
    week: int
    rows: int
    inside_50: int
    inside_90: int
    above: int


def counts_by_unit(session: Session, model_id: str, era: int) -> list[UnitCounts]:
    """Count the outcomes of an era by group and week, in the order of the weeks."""
    marks = (KnownOutcome.inside_50, KnownOutcome.inside_90, KnownOutcome.above)
    query = (
        select(
            KnownOutcome.unit, KnownOutcome.week, func.count(), *(func.sum(cast(m, Integer)) for m in marks)
        )
        .where(KnownOutcome.model_id == model_id, KnownOutcome.era == era)
        .group_by(KnownOutcome.unit, KnownOutcome.week)
        .order_by(KnownOutcome.week, KnownOutcome.unit)
    )
    return [UnitCounts._make(row) for row in session.execute(query)]


class ScoresInTime(NamedTuple):
    """Scores of outcomes by which a model may be calibrated, their groups, and the first and last time."""

    scores: list[float]
    units: list[bytes | None]
    first: datetime | None
    last: datetime | None


def newest_scores(
    session: Session, model_id: str, draws: int, week: int | None, most: int, *, of_groups: bool = False
) -> ScoresInTime:
    """Return the scores of the newest outcomes.

    Parameters
    ----------
    draws
        Of the model per chain: outcomes that were scored by fewer or more are left out.
    week
        The first week whose outcomes count; None: all.
    most
        Number of outcomes at most.
    of_groups
        Whether those of no known group are left out.
    """
    query = (
        select(KnownOutcome.score, KnownOutcome.unit, KnownOutcome.at)
        .join(OutcomeReport, OutcomeReport.id == KnownOutcome.report_id)
        .where(KnownOutcome.model_id == model_id, OutcomeReport.draws == draws)
    )
    if week is not None:
        query = query.where(KnownOutcome.week >= week)
    if of_groups:
        query = query.where(KnownOutcome.unit.is_not(None))
    order = query.order_by(KnownOutcome.at.desc(), KnownOutcome.report_id, KnownOutcome.row)
    rows = session.execute(order.limit(most)).all()
    times = [row.at for row in rows]
    units = [row.unit for row in rows]
    return ScoresInTime(
        [row.score for row in rows], units, min(times, default=None), max(times, default=None)
    )


def tables(session: Session, model_id: str, week: int | None = None) -> Iterator[pa.Table]:
    """Yield the values of the outcomes' rows, a table of each report, the oldest first.

    Parameters
    ----------
    week
        The first week whose outcomes count; None: all.

    Raises
    ------
    CorruptBlockError
        Stored bytes differ from their checksum.
    """
    query = select(KnownOutcome.report_id, KnownOutcome.row).where(KnownOutcome.model_id == model_id)
    if week is not None:
        query = query.where(KnownOutcome.week >= week)
    present: dict[str, list[int]] = {}
    for report_id, row in session.execute(query.order_by(KnownOutcome.report_id, KnownOutcome.row)):
        present.setdefault(report_id, []).append(row)
    mine = select(OutcomeReport.id).where(OutcomeReport.model_id == model_id)
    for report_id in session.scalars(mine.order_by(OutcomeReport.created_at, OutcomeReport.id)).all():
        if rows := present.get(report_id):
            yield _table(session, report_id).take(rows)


def _table(session: Session, report_id: str) -> pa.Table:
    query = select(OutcomeReport).where(OutcomeReport.id == report_id).options(undefer(OutcomeReport.data))
    report = session.scalars(query, execution_options=binary_results(session)).one()
    if checksum(report.data) != report.checksum:
        raise CorruptBlockError(f"Report {report_id} of outcomes is damaged.")
    return pa.ipc.open_stream(report.data).read_all()


def delete_all(session: Session, model_id: str) -> int:
    """Delete a model's outcomes with their watch; return their number."""
    removed = rows_changed(session, delete(KnownOutcome).where(KnownOutcome.model_id == model_id))
    for table in (OutcomeReport, OutcomeWeek, OutcomeWatch):
        rows_changed(session, delete(table).where(table.model_id == model_id))
    return removed
