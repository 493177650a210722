"""Usage per owner: stored bytes and open work.

Every table that grows with what an owner does counts against its quota by way of `OWNED` or `PARTS`.
"""

import zlib
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    LargeBinary,
    Text,
    and_,
    exists,
    func,
    or_,
    select,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.functions import FunctionElement

from app.store.tables import (
    OPEN_STATES,
    BatchPrediction,
    Dataset,
    DrawBlock,
    DriftWatch,
    DriftWeek,
    IdempotentAnswer,
    Json,
    Model,
    ModelEvent,
    ModelSet,
    OutcomeReport,
    OutcomeWatch,
    OutcomeWeek,
    PredictionBlock,
    RefitSchedule,
    Study,
    Unit,
    Webhook,
    WebhookDelivery,
    WeeklyTable,
)

ROW_BYTES = 64  # approximate size of a row besides its large values
OUTCOME_BYTES = 160  # and of an outcome besides its row's values
COLUMN_BYTES = 1400  # of the rows of a small group: a column's block without its values, its profile
OWNED: tuple[Any, ...] = (
    Dataset,
    Model,
    ModelSet,
    BatchPrediction,
    Study,
    Webhook,
    RefitSchedule,
    IdempotentAnswer,
)
PARTS: tuple[tuple[Any, Any, ColumnElement[bool]], ...] = (  # with the table that has their owner
    (DrawBlock, Model, DrawBlock.model_id == Model.id),
    (ModelEvent, Model, ModelEvent.model_id == Model.id),
    (OutcomeReport, Model, OutcomeReport.model_id == Model.id),
    (OutcomeWeek, Model, OutcomeWeek.model_id == Model.id),
    (OutcomeWatch, Model, OutcomeWatch.model_id == Model.id),
    (WeeklyTable, Model, WeeklyTable.model_id == Model.id),
    (DriftWatch, Model, DriftWatch.model_id == Model.id),
    (DriftWeek, Model, DriftWeek.model_id == Model.id),
    (Unit, Model, and_(Unit.model_id == Model.id, Unit.prediction_id.is_(None), Unit.study_id.is_(None))),
    (Unit, BatchPrediction, Unit.prediction_id == BatchPrediction.id),
    (Unit, Study, Unit.study_id == Study.id),
    (PredictionBlock, BatchPrediction, PredictionBlock.prediction_id == BatchPrediction.id),
    (WebhookDelivery, Webhook, WebhookDelivery.webhook_id == Webhook.id),
)
# Sizes of rows that another table tells.
ELSEWHERE: dict[Any, Any] = {
    Dataset: Dataset.num_bytes,  # of its blocks
    OutcomeReport: OUTCOME_BYTES * OutcomeReport.num_rows,  # of its outcomes
}


class stored_size(FunctionElement[int]):  # noqa: N801  reads as the SQL function it is
    """Size of a value; on Postgres as it is stored, without reading it."""

    type = BigInteger()
    inherit_cache = True


@compiles(stored_size, "sqlite")
def _sqlite(element: Any, compiler: Any, **kw: Any) -> str:
    return f"length(CAST({compiler.process(element.clauses, **kw)} AS BLOB))"


@compiles(stored_size, "postgresql")
def _postgres(element: Any, compiler: Any, **kw: Any) -> str:
    return f"pg_column_size({compiler.process(element.clauses, **kw)})"


def hold(session: Session, owner: str) -> None:
    """Lock an owner's counts until this transaction ends, so that no concurrent request evades a quota.

    SQLite needs no lock: it has one writer at a time.
    """
    if session.get_bind().dialect.name == "postgresql":
        lock = text("SELECT pg_advisory_xact_lock(:space, :owner)")
        session.execute(lock, {"space": 0x71756F74, "owner": zlib.crc32(owner.encode()) - 2**31})


def stored_bytes(session: Session, owner: str) -> int:
    """Return the stored bytes of everything of an owner."""
    queries = [_bytes(table).where(table.owner == owner) for table in OWNED]
    queries += [
        _bytes(table).join(parent, belongs).where(parent.owner == owner) for table, parent, belongs in PARTS
    ]
    sizes = [func.coalesce(query.scalar_subquery(), 0) for query in queries]
    return sum(int(size) for size in session.execute(select(*sizes)).one())


def _bytes(table: Any) -> Any:
    large = [
        func.coalesce(func.length(column) if isinstance(column.type, LargeBinary) else stored_size(column), 0)
        for column in table.__table__.columns
        if isinstance(column.type, LargeBinary | JSON | Text)
    ]
    return select(func.sum(sum(large, ELSEWHERE.get(table, 0) + ROW_BYTES))).select_from(table)


def count_open_fits(session: Session, owner: str) -> int:
    """Return the number of the owner's queued and running models; those of a set count as one together."""
    is_open = Model.state.in_(OPEN_STATES)
    alone = select(func.count()).where(Model.owner == owner, Model.set_id.is_(None), is_open)
    works = exists().where(Model.set_id == ModelSet.id, is_open)
    sets = select(func.count()).where(
        ModelSet.owner == owner, or_(ModelSet.made < ModelSet.num_groups, works)
    )
    return (session.scalar(alone) or 0) + (session.scalar(sets) or 0)


def unmade(session: Session, owner: str) -> list[tuple[Json, int, int]]:
    """Return settings, number and bytes of rows of the models that are still to be made, by set."""
    left = ModelSet.num_groups - ModelSet.made
    query = select(ModelSet.settings, left, ModelSet.num_groups, Dataset.num_bytes, Dataset.columns)
    query = query.join(Dataset, Dataset.id == ModelSet.dataset_id).where(ModelSet.owner == owner, left > 0)
    return [
        (settings, count, part_bytes(size, columns, groups) * count)
        for settings, count, groups, size, columns in session.execute(query)
    ]


def part_bytes(num_bytes: int, columns: list[Json], num_groups: int) -> int:
    """Estimate what the rows of a group of a dataset take, which are stored again."""
    return ROW_BYTES + num_bytes // num_groups + COLUMN_BYTES * len(columns)


def open_settings(session: Session, owner: str) -> list[Json]:
    """Return the settings of the owner's queued and running models."""
    mine = select(Model.settings).where(Model.owner == owner, Model.state.in_(OPEN_STATES))
    return list(session.scalars(mine))
