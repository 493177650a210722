"""The tables. Portable types only: one migration chain serves SQLite and Postgres.

Lock order, so that nothing deadlocks: the rows of `units` first (several: in order of their id), then the
row of `predictions`, then that of `models`. A claim locks one unit (skipping locked ones), a slice its own.
"""

import secrets
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Double, ForeignKey, Index, LargeBinary, MetaData, String, Text, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from app.store.clock import UtcDateTime, utc_now

Json = dict[str, Any]

CHAIN, FINISH, PREDICTION = "chain", "finish", "prediction"  # kinds of units
QUEUED, RUNNING, DONE = "queued", "running", "done"  # states of units; models say succeeded for done
SUCCEEDED, FAILED, CANCELLED = "succeeded", "failed", "cancelled"
OPEN_STATES = (QUEUED, RUNNING)
NOBODY = ""  # the owner of what was deleted and is being removed (`app.store.deletion`); owners have names

# Large values are read only where a query says `undefer`; touching them otherwise is an error, not a query.
_LARGE: dict[str, Any] = {"deferred": True, "deferred_raiseload": True}


def new_id(prefix: str) -> str:
    """An opaque id that nobody guesses: 80 random bits."""
    return f"{prefix}_{secrets.token_hex(10)}"


class Base(DeclarativeBase):
    """Names of constraints are fixed, so that migrations can name them on both databases."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012  as SQLAlchemy documents it
        str: String(),
        int: BigInteger(),
        float: Double(),
        bytes: LargeBinary(),
        datetime: UtcDateTime(),
        Json: JSON(none_as_null=True),
        list[Json]: JSON(none_as_null=True),
        list[str]: JSON(none_as_null=True),
    }


class Dataset(Base):
    """An uploaded table; its columns' values are in `dataset_blocks`."""

    __tablename__ = "datasets"
    __table_args__ = (Index(None, "owner", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    name: Mapped[str] = mapped_column(Text)
    num_rows: Mapped[int]
    columns: Mapped[list[Json]]  # the inferred schema, a dict per column, in order
    profiles: Mapped[list[Json] | None] = mapped_column(**_LARGE)  # figures of each column, in order
    read_as: Mapped[Json | None]  # how the file was understood
    warnings: Mapped[list[str]]
    num_bytes: Mapped[int]  # stored
    sha256: Mapped[str]  # of the stored blocks' checksums, in order: equal tables have equal ones
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class DatasetBlock(Base):
    """Some rows of one column: an Arrow stream of one column, zstd inside."""

    __tablename__ = "dataset_blocks"

    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True)
    column_index: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    data: Mapped[bytes]
    checksum: Mapped[str]  # SHA-256 of `data`, hexadecimal


class Model(Base):
    """A forest posterior, being fitted or fitted, with its data schema."""

    __tablename__ = "models"
    __table_args__ = (Index(None, "owner", "created_at", "id"), Index(None, "owner", "name", "state"))

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    name: Mapped[str | None] = mapped_column(Text)
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id"), index=True)
    target: Mapped[str] = mapped_column(Text)
    settings: Mapped[Json]  # everything resolved, as the API shows it
    state: Mapped[str]
    header: Mapped[bytes | None] = mapped_column(**_LARGE)  # all that prediction needs but the draws
    verdict: Mapped[str | None]
    diagnostics: Mapped[Json | None]
    holdout: Mapped[Json | None]  # scores of the rows held out
    held_out: Mapped[Json | None] = mapped_column(**_LARGE)  # those rows one by one (`worker.scoring`)
    error: Mapped[Json | None]
    warnings: Mapped[list[str]] = mapped_column(default=list)
    stopped: Mapped[Json | None]  # what ended a fit with stop rules; they are not looked at again
    deadline: Mapped[float | None]  # of such a fit, by the database's clock
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class Unit(Base):
    """A unit of work: one chain, the finish of a model, a block of predictions."""

    __tablename__ = "units"
    __table_args__ = (
        Index(
            "ix_units_of_models",
            *("model_id", "kind", "ordinal"),
            unique=True,
            sqlite_where=text("prediction_id IS NULL"),
            postgresql_where=text("prediction_id IS NULL"),
        ),
        Index("ix_units_of_predictions", "prediction_id", "ordinal", unique=True),
        Index(None, "model_id"),
        Index(None, "state", "created_at"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"))
    prediction_id: Mapped[str | None] = mapped_column(ForeignKey("predictions.id", ondelete="CASCADE"))
    ordinal: Mapped[int]  # the chain's number, or that of the block of rows
    state: Mapped[str] = mapped_column(default=QUEUED)
    token: Mapped[int] = mapped_column(default=0)  # the fence: raised by every claim
    lease_until: Mapped[float | None]  # by the database's clock
    worker_id: Mapped[str | None]  # who has it, or had it last
    attempts: Mapped[int] = mapped_column(default=0)
    stalled_attempts: Mapped[int] = mapped_column(default=0)  # claims since the last progress
    phase: Mapped[str | None]  # compiling, burn_in, sampling
    iteration: Mapped[int] = mapped_column(default=0)  # of the chain; while compiling, kernels done
    iterations: Mapped[int] = mapped_column(default=0)
    num_draws: Mapped[int] = mapped_column(default=0)  # kept and stored
    rate: Mapped[float | None]  # iterations per second, lately
    statistics: Mapped[Json | None]
    checkpoint: Mapped[bytes | None] = mapped_column(**_LARGE)
    error: Mapped[Json | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    updated_at: Mapped[datetime] = mapped_column(default=utc_now, onupdate=utc_now)


class DrawBlock(Base):
    """Consecutive kept draws of one chain, packed. The last block of a chain grows until it is full."""

    __tablename__ = "draw_blocks"

    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), primary_key=True)
    chain: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    first_draw: Mapped[int]
    num_draws: Mapped[int]
    data: Mapped[bytes]
    checksum: Mapped[str]  # SHA-256 of `data`, hexadecimal


class BatchPrediction(Base):
    """Predictions of a stored dataset by a model, made in the background, block of rows by block of rows."""

    __tablename__ = "predictions"
    __table_args__ = (Index(None, "owner", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), index=True)
    # The dataset can't go while this is open; afterwards it may.
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id", ondelete="SET NULL"), index=True)
    num_rows: Mapped[int]
    request: Mapped[Json]  # levels, quantiles, the number of draws: resolved
    state: Mapped[str]
    flags: Mapped[Json | None]  # rows by column and flag, once succeeded
    error: Mapped[Json | None]
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class PredictionBlock(Base):
    """The predictions of a block of rows: an Arrow stream of one batch, zstd inside."""

    __tablename__ = "prediction_blocks"

    prediction_id: Mapped[str] = mapped_column(
        ForeignKey("predictions.id", ondelete="CASCADE"), primary_key=True
    )
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    num_rows: Mapped[int]
    data: Mapped[bytes]
    checksum: Mapped[str]  # SHA-256 of `data`, hexadecimal


class Worker(Base):
    """A worker's main process, as long as it lives; its dispatcher beats here."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str]
    pid: Mapped[int]
    slots: Mapped[int]
    beat_at: Mapped[float] = mapped_column(index=True)  # by the database's clock
    started_at: Mapped[datetime] = mapped_column(default=utc_now)
    draining: Mapped[bool] = mapped_column(
        default=False
    )  # it was asked to stop: its units end with their slice
    phase: Mapped[str]
    counts: Mapped[Json | None]  # of what it did since it began (`app.store.queue.counters`)


class ApiKey(Base):
    """Who may use a service that is not on loopback; of the secret only a hash is kept."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    hash: Mapped[str]
    name: Mapped[str] = mapped_column(Text, index=True)  # of an owner's keys in force no two have the same
    owner: Mapped[str] = mapped_column(Text)  # whom it acts for: what it makes is this one's
    scopes: Mapped[list[str]]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]


class AuditEntry(Base):
    """One change: who made it, of what, when. Outlives what it tells of."""

    __tablename__ = "audit_entries"
    __table_args__ = (Index(None, "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime]
    who: Mapped[str]  # a key's id, or where from
    owner: Mapped[str] = mapped_column(Text)
    action: Mapped[str]
    subject: Mapped[str]
    request_id: Mapped[str | None]


class BrowserSession(Base):
    """A browser that signed in with a key; of its token only a hash is kept."""

    __tablename__ = "sessions"

    hash: Mapped[str] = mapped_column(primary_key=True)
    key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime] = mapped_column(index=True)


class ModelEvent(Base):
    """What happened to a model, stored in the transaction that did it; numbered 1, 2, ... by model."""

    __tablename__ = "model_events"

    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), primary_key=True)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    kind: Mapped[str]
    at: Mapped[datetime] = mapped_column(default=utc_now)
    detail: Mapped[Json]


class IdempotentAnswer(Base):
    """What a request with an `Idempotency-Key` was answered, stored with what it made."""

    __tablename__ = "idempotent_answers"

    owner: Mapped[str] = mapped_column(primary_key=True)
    route: Mapped[str] = mapped_column(primary_key=True)  # method and path
    key: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[str]  # SHA-256 of what was sent, hexadecimal
    status: Mapped[int]
    headers: Mapped[Json]
    body: Mapped[bytes]
    created_at: Mapped[datetime] = mapped_column(default=utc_now, index=True)
