"""The watch on a model's intervals: its eras, sums by week, and verdict."""

from collections.abc import Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.store import events
from app.store.clock import utc_now
from app.store.errors import ModelGoneError
from app.store.tables import NOBODY, DriftWatch, Json, Model, OutcomeWatch, OutcomeWeek

Weeks = dict[int, Json]  # sums by week
WEEKLY_ENDED = "weekly_recalibration_ended"  # the event of a model whose calibration was made anew meanwhile


def lock(session: Session, owner: str, model_id: str) -> OutcomeWatch | None:
    """Return a model's watch, None before its first outcome; no other transaction changes it until this ends.

    Raises
    ------
    ModelGoneError
        The owner has no model with this id, or no longer.
    """
    mine = select(Model.id).where(Model.id == model_id, Model.owner == owner)
    if session.scalar(mine.with_for_update(key_share=True)) is None:
        raise ModelGoneError(f"Model {model_id} was deleted.")
    return session.get(OutcomeWatch, model_id, populate_existing=True)


def begin(session: Session, model_id: str, week: int, verdict: str) -> OutcomeWatch:
    """Store a new watch from a week on; the caller has locked the model."""
    watch = OutcomeWatch(model_id=model_id, era=0, first_week=week, num_rows=0, verdict=verdict)
    session.add(watch)
    session.flush()
    return watch


def judge(session: Session, watch: OutcomeWatch | DriftWatch, verdict: str, *, alarm: bool) -> bool:
    """Store a verdict; return whether it is an alarm and wasn't before."""
    begins = alarm and watch.alerted_at is None
    watch.verdict, watch.updated_at = verdict, utc_now()
    watch.alerted_at = watch.updated_at if begins else watch.alerted_at if alarm else None
    session.flush()
    return begins


def begin_era(session: Session, model_id: str) -> None:
    """Begin a new era of a watch, if there is one: outcomes before have judged other intervals.

    Weekly recalibration ends with the calibration that it began from, and the model's log says so.
    """
    watch = session.get(OutcomeWatch, model_id, populate_existing=True)
    if watch is not None:
        watch.era += 1
        if watch.weekly_from is not None:  # its tables were moved from another calibration
            watch.weekly_from = None
            events.append(session, model_id, WEEKLY_ENDED)
        judge(session, watch, "too_few", alarm=False)


def get(session: Session, model_id: str) -> OutcomeWatch | None:
    """Return a model's watch; None before its first outcome."""
    return session.get(OutcomeWatch, model_id)


def weeks(session: Session, model_id: str) -> dict[int, Weeks]:
    """Return the sums of each week, by era."""
    by_era: dict[int, Weeks] = {}
    mine = select(OutcomeWeek).where(OutcomeWeek.model_id == model_id)
    for each in session.scalars(mine.order_by(OutcomeWeek.era, OutcomeWeek.week)):
        by_era.setdefault(each.era, {})[each.week] = each.sums
    return by_era


def save_weeks(session: Session, model_id: str, era: int, sums: Mapping[int, Json]) -> None:
    """Store the sums of some weeks of an era in place of what they had."""
    for week, values in sums.items():
        session.merge(OutcomeWeek(model_id=model_id, era=era, week=week, sums=dict(values)))
    session.flush()


def verdicts(session: Session, model_ids: Sequence[str]) -> dict[str, str]:
    """Return the verdicts on the models that have outcomes."""
    query = select(OutcomeWatch.model_id, OutcomeWatch.verdict).where(OutcomeWatch.model_id.in_(model_ids))
    return {row[0]: row[1] for row in session.execute(query)}


def counts(session: Session, watch: type[OutcomeWatch | DriftWatch]) -> dict[str, int]:
    """Return the number of models by the verdict of such a watch."""
    query = (
        select(watch.verdict, func.count())
        .join(Model, Model.id == watch.model_id)
        .where(Model.owner != NOBODY)
        .group_by(watch.verdict)
    )
    return {row[0]: row[1] for row in session.execute(query)}
