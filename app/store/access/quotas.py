"""Usage per owner: stored bytes and open work."""

import zlib

from sqlalchemy import Text, cast, exists, func, or_, select, text
from sqlalchemy.orm import Session

from app.store.tables import (
    OPEN_STATES,
    BatchPrediction,
    Dataset,
    DrawBlock,
    IdempotentAnswer,
    Json,
    Model,
    ModelSet,
    OutcomeReport,
    PredictionBlock,
    Study,
    Unit,
)

OUTCOME_BYTES = 160  # approximate size of an outcome besides its row's values


def hold(session: Session, owner: str) -> None:
    """Lock an owner's counts until this transaction ends, so that no concurrent request evades a quota.

    SQLite needs no lock: it has one writer at a time.
    """
    if session.get_bind().dialect.name == "postgresql":
        lock = text("SELECT pg_advisory_xact_lock(:space, :owner)")
        session.execute(lock, {"space": 0x71756F74, "owner": zlib.crc32(owner.encode()) - 2**31})


def stored_bytes(session: Session, owner: str) -> int:
    """Return the stored bytes of an owner's datasets, models, jobs, and answers kept for repetitions."""
    datasets = select(func.coalesce(func.sum(Dataset.num_bytes), 0)).where(Dataset.owner == owner)
    draws = (
        select(func.coalesce(func.sum(func.length(DrawBlock.data)), 0))
        .join(Model, Model.id == DrawBlock.model_id)
        .where(Model.owner == owner)
    )
    headers = select(func.coalesce(func.sum(func.length(Model.header)), 0)).where(Model.owner == owner)
    predictions = (
        select(func.coalesce(func.sum(func.length(PredictionBlock.data)), 0))
        .join(BatchPrediction, BatchPrediction.id == PredictionBlock.prediction_id)
        .where(BatchPrediction.owner == owner)
    )
    studies = (
        select(func.coalesce(func.sum(func.length(cast(Unit.statistics, Text))), 0))
        .join(Study, Study.id == Unit.study_id)
        .where(Study.owner == owner)
    )
    sizes = func.length(OutcomeReport.data) + OUTCOME_BYTES * OutcomeReport.num_rows
    outcomes = (
        select(func.coalesce(func.sum(sizes), 0))
        .join(Model, Model.id == OutcomeReport.model_id)
        .where(Model.owner == owner)
    )
    kept = func.length(IdempotentAnswer.body) + func.length(cast(IdempotentAnswer.headers, Text))
    answers = select(func.coalesce(func.sum(kept), 0)).where(IdempotentAnswer.owner == owner)
    queries = (datasets, headers, draws, predictions, studies, outcomes, answers)
    return sum(int(session.scalar(query) or 0) for query in queries)


def count_open_fits(session: Session, owner: str) -> int:
    """Return the number of the owner's queued and running models; those of a set count as one together."""
    is_open = Model.state.in_(OPEN_STATES)
    alone = select(func.count()).where(Model.owner == owner, Model.set_id.is_(None), is_open)
    works = exists().where(Model.set_id == ModelSet.id, is_open)
    sets = select(func.count()).where(
        ModelSet.owner == owner, or_(ModelSet.made < ModelSet.num_groups, works)
    )
    return (session.scalar(alone) or 0) + (session.scalar(sets) or 0)


def unmade(session: Session, owner: str) -> list[tuple[Json, int]]:
    """Return settings and number of the models that are still to be made, by set."""
    left = ModelSet.num_groups - ModelSet.made
    query = select(ModelSet.settings, left).where(ModelSet.owner == owner, left > 0)
    return [(settings, count) for settings, count in session.execute(query)]


def open_settings(session: Session, owner: str) -> list[Json]:
    """Return the settings of the owner's queued and running models."""
    mine = select(Model.settings).where(Model.owner == owner, Model.state.in_(OPEN_STATES))
    return list(session.scalars(mine))
