"""The database tables. Portable types only: one chain of migrations serves SQLite and Postgres.

`LOCK_ORDER` is the order in which every transaction takes its locks, which prevents deadlocks.
"""

import secrets
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Double, ForeignKey, Index, LargeBinary, MetaData, String, Text, text
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column

from app.store.clock import UtcDateTime, utc_now

Json = dict[str, Any]

# Kinds of units; among one owner's, finishes come first, then predictions, then the oldest of the others.
FINISH, PREDICTION, CHAIN, STUDY, TOTALS = KINDS = ("finish", "prediction", "chain", "study", "totals")
LONG_KINDS = (CHAIN, STUDY, TOTALS)  # take a slot of a worker; the others are short
LASTING_KINDS = (STUDY, TOTALS)  # of these, those that don't yield
QUEUED, RUNNING, DONE = "queued", "running", "done"  # states of units; a finished model is "succeeded"
SUCCEEDED, FAILED, CANCELLED = "succeeded", "failed", "cancelled"
OPEN_STATES = (QUEUED, RUNNING)
AUTO, ALWAYS, NEVER = "auto", "always", "never"  # whether a name moves to a refit
PROMOTED, REFUSED, KEPT = "promoted", "refused", "kept"  # and what was decided

QUOTA = "quota"  # an owner's counts (`app.store.access.quotas.hold`), locked like a row
# A transaction takes its first lock of each kind in this order, and several rows of a table by id
# (`app.store.statements.lock_rows`). Rows of other tables are written by whoever has locked their parent.
# A claim locks one unit (skipping locked ones), a slice its own.
LOCK_ORDER = (
    QUOTA,
    "model_sets",
    "datasets",
    "units",
    "predictions",
    "studies",
    "models",
    "webhooks",
    "idempotent_answers",
)
NOBODY = ""  # the owner of deleted objects until their rows are removed (`app.store.deletion`)

_ALONE = text("set_id IS NULL")  # rows that belong to no set
_UNNAMED = text("set_id IS NULL AND name IS NULL")

# Large values are loaded only where a query says `undefer`; access without it is an error, not a query.
_LARGE: dict[str, Any] = {"deferred": True, "deferred_raiseload": True}


def new_id(prefix: str) -> str:
    """Make an unguessable id with 80 random bits."""
    return f"{prefix}_{secrets.token_hex(10)}"


class Base(DeclarativeBase):
    """Base class of the tables.

    Constraint names are fixed, so that migrations can use them on both databases.
    """

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
        list[list[int]]: JSON(none_as_null=True),
    }


class Dataset(Base):
    """An uploaded table; the values of its columns are in `dataset_blocks`."""

    __tablename__ = "datasets"
    __table_args__ = (
        Index(None, "owner", "created_at", "id"),
        Index(
            "ix_datasets_alone",
            *("owner", "created_at", "id"),
            sqlite_where=_ALONE,
            postgresql_where=_ALONE,
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    name: Mapped[str] = mapped_column(Text)
    num_rows: Mapped[int]
    columns: Mapped[list[Json]]  # the inferred schema, a dict per column, in order
    profiles: Mapped[list[Json] | None] = mapped_column(**_LARGE)  # summaries of each column, in order
    read_as: Mapped[Json | None]  # the format and dialect the file was read with
    spellings: Mapped[Json | None]  # by column, where not the usual (`app.store.column_codec`); None: unknown
    warnings: Mapped[list[str]]
    num_bytes: Mapped[int]  # stored size
    sha256: Mapped[str]  # hash of the blocks' checksums in order: equal tables have equal ones
    set_id: Mapped[str | None] = mapped_column(index=True)  # of a set of models: the rows of one group
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class DatasetBlock(Base):
    """A block of rows of one column: an Arrow stream of one column, with zstd inside."""

    __tablename__ = "dataset_blocks"

    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True)
    column_index: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    data: Mapped[bytes]
    checksum: Mapped[str]  # SHA-256 of `data`, hexadecimal


class Model(Base):
    """A posterior of tree models, fitted or being fitted, with the schema of its data."""

    __tablename__ = "models"
    __table_args__ = (
        Index(None, "owner", "created_at", "id"),
        Index(None, "owner", "name", "state"),
        Index(
            "ix_models_alone",
            *("owner", "created_at", "id"),
            sqlite_where=_ALONE,
            postgresql_where=_ALONE,
        ),
        # Numbers of models without a name are counted in this alone: SQLite reads a row for a column of the
        # condition that the index lacks.
        Index(
            "ix_models_unnamed",
            *("owner", "dataset_id", "target", "created_at", "id", "set_id", "name"),
            sqlite_where=_UNNAMED,
            postgresql_where=_UNNAMED,
        ),
        # Lists and counts of a set read this alone: rows have large headers.
        Index("ix_models_of_sets", "set_id", "created_at", "id", "set_group", "state"),
        Index(None, "set_id", "set_group"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    name: Mapped[str | None] = mapped_column(Text)
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id"), index=True)
    target: Mapped[str] = mapped_column(Text)
    settings: Mapped[Json]  # all resolved, as the API shows them
    state: Mapped[str]
    header: Mapped[bytes | None] = mapped_column(**_LARGE)  # everything prediction needs except the draws
    verdict: Mapped[str | None]
    diagnostics: Mapped[Json | None]
    holdout: Mapped[Json | None]  # scores on the held-out rows
    held_out: Mapped[Json | None] = mapped_column(**_LARGE)  # by row, and importances (`worker.fits.scoring`)
    calibration: Mapped[Json | None]  # what the header's calibration is, which it changes with
    error: Mapped[Json | None]
    warnings: Mapped[list[str]] = mapped_column(default=list)
    refit: Mapped[Json | None]  # of which model, and whether its name moves to it (`worker.fits.promotion`)
    withheld: Mapped[bool | None]  # its name means an older one instead
    set_id: Mapped[str | None]  # of its set (`ModelSet`)
    set_group: Mapped[str | None] = mapped_column(Text)  # whose rows it has, of all columns in one text
    stopped: Mapped[Json | None]  # why a fit with stop rules ended; the rules are not checked again
    deadline: Mapped[float | None]  # for a fit with stop rules: when it must end, by the database's clock
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class ModelSet(Base):
    """A model for each group of a dataset's rows; they are made from it one after the other."""

    __tablename__ = "model_sets"
    __table_args__ = (Index(None, "owner", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(Text)
    name: Mapped[str | None] = mapped_column(Text)
    # The dataset can't be deleted before all models are made; afterwards it can.
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id", ondelete="SET NULL"), index=True)
    target: Mapped[str] = mapped_column(Text)
    by: Mapped[list[str]]  # columns that tell a row's group
    request: Mapped[Json]  # for a fit to all rows, as each group's is
    settings: Mapped[Json]  # of the first group's fit, all resolved
    num_groups: Mapped[int]
    made: Mapped[int] = mapped_column(default=0)  # groups that have their model, or will have none
    left_out: Mapped[int] = mapped_column(default=0)  # of these, the last ones, since the set was cancelled
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


_OF_FITS = "prediction_id IS NULL AND study_id IS NULL"  # units of fits, of which a model has one each
_SERVED = text("served_at IS NOT NULL")


class Unit(Base):
    """A unit of work: one chain, the finish of a model, a block of predictions, totals, a part of a study."""

    __tablename__ = "units"
    __table_args__ = (
        Index(
            "ix_units_of_models",
            *("model_id", "kind", "ordinal"),
            unique=True,
            sqlite_where=text(_OF_FITS),
            postgresql_where=text(_OF_FITS),
        ),
        Index("ix_units_of_predictions", "prediction_id", "ordinal", unique=True),
        Index("ix_units_of_studies", "study_id", "ordinal", unique=True),
        Index(None, "model_id"),
        # Whose units wait, and the oldest of each kind, are single steps in it, however long the queue is.
        Index("ix_units_in_turn", "state", "kind", "owner", "created_at", "ordinal"),
        Index(
            "ix_units_served",
            *("owner", "served_at"),
            sqlite_where=_SERVED,  # not for the steps above, which it would make scans
            postgresql_where=_SERVED,
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    owner: Mapped[str] = mapped_column(server_default="")  # of its model; the default is for old rows
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"))
    prediction_id: Mapped[str | None] = mapped_column(ForeignKey("predictions.id", ondelete="CASCADE"))
    study_id: Mapped[str | None] = mapped_column(ForeignKey("studies.id", ondelete="CASCADE"))
    ordinal: Mapped[int]  # the number of the chain, of the block of rows, of the part of a study
    state: Mapped[str] = mapped_column(default=QUEUED)
    token: Mapped[int] = mapped_column(default=0)  # fencing token, raised by every claim
    lease_until: Mapped[float | None]  # by the database's clock
    worker_id: Mapped[str | None]  # the current or last holder
    served_at: Mapped[datetime | None]  # the last claim, or end of one
    attempts: Mapped[int] = mapped_column(default=0)
    stalled_attempts: Mapped[int] = mapped_column(default=0)  # claims since the last progress
    phase: Mapped[str | None]  # as of `app.store.queue.units.Progress`
    iteration: Mapped[int] = mapped_column(default=0)  # while compiling: kernels compiled
    iterations: Mapped[int] = mapped_column(default=0)
    num_draws: Mapped[int] = mapped_column(default=0)  # kept and stored
    rate: Mapped[float | None]  # recent iterations per second
    statistics: Mapped[Json | None]
    checkpoint: Mapped[bytes | None] = mapped_column(**_LARGE)
    error: Mapped[Json | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    updated_at: Mapped[datetime] = mapped_column(default=utc_now, onupdate=utc_now)


class DrawBlock(Base):
    """Consecutive kept draws of one chain, packed. The chain's last block grows until it is full."""

    __tablename__ = "draw_blocks"

    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), primary_key=True)
    chain: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    first_draw: Mapped[int]
    num_draws: Mapped[int]
    data: Mapped[bytes]
    checksum: Mapped[str]  # SHA-256 of `data`, hexadecimal


class Job:
    """Columns of the background jobs of a model, which are done in units of work."""

    @declared_attr.directive
    def __table_args__(cls) -> Any:  # noqa: N805  a class method to SQLAlchemy
        """Index the owner's list."""
        return (Index(None, "owner", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), index=True)
    request: Mapped[Json]  # all resolved
    state: Mapped[str]
    error: Mapped[Json | None]
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class BatchPrediction(Job, Base):
    """A background prediction: a model's predictions of a stored dataset, made in units of some rows."""

    __tablename__ = "predictions"

    # The dataset can't be deleted while this is open; afterwards it can.
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id", ondelete="SET NULL"), index=True)
    num_rows: Mapped[int]
    flags: Mapped[Json | None]  # number of rows by column and flag, once succeeded


class Study(Job, Base):
    """Fits besides the model's own that answer a question about it; the units' statistics are the answer."""

    __tablename__ = "studies"

    kind: Mapped[str]
    num_fits: Mapped[int]  # chains of all units


class PredictionBlock(Base):
    """The predictions of a block of rows: an Arrow stream of one batch, with zstd inside."""

    __tablename__ = "prediction_blocks"

    prediction_id: Mapped[str] = mapped_column(
        ForeignKey("predictions.id", ondelete="CASCADE"), primary_key=True
    )
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    num_rows: Mapped[int]
    data: Mapped[bytes]
    checksum: Mapped[str]  # SHA-256 of `data`, hexadecimal


class OutcomeReport(Base):
    """Rows whose outcomes became known after a fit, as they were reported."""

    __tablename__ = "outcome_reports"
    __table_args__ = (Index(None, "model_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"))
    num_rows: Mapped[int]
    draws: Mapped[int]  # per chain, of the model that scored them
    data: Mapped[bytes] = mapped_column(**_LARGE)  # an Arrow stream of one batch, with zstd inside
    checksum: Mapped[str]  # SHA-256 of `data`, hexadecimal
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class KnownOutcome(Base):
    """The scores of one outcome; its row's values are in the report."""

    __tablename__ = "outcomes"
    __table_args__ = (Index(None, "model_id", "key", unique=True), Index(None, "model_id", "at"))

    report_id: Mapped[str] = mapped_column(
        ForeignKey("outcome_reports.id", ondelete="CASCADE"), primary_key=True
    )
    row: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)  # in the report, from 0
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"))
    key: Mapped[str | None] = mapped_column(Text)  # the user's name of the row
    at: Mapped[datetime]
    era: Mapped[int]
    week: Mapped[int]  # number of the week of `at`, counted from Monday 5 January 1970
    unit: Mapped[bytes | None] = mapped_column(LargeBinary(8))  # of its group, where groups count once each
    pit: Mapped[float]
    score: Mapped[float]  # by which the model may be calibrated
    log_score: Mapped[float]
    error: Mapped[float | None]
    inside_50: Mapped[bool]
    inside_90: Mapped[bool]
    above: Mapped[bool]
    counted: Mapped[int | None]  # number of the weekly table at whose making it was counted


class OutcomeWeek(Base):
    """Sums over the outcomes of a week and an era."""

    __tablename__ = "outcome_weeks"

    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), primary_key=True)
    era: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    week: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    sums: Mapped[Json]


class OutcomeWatch(Base):
    """The watch on a model's intervals; a calibration by outcomes begins a new era, which judges others."""

    __tablename__ = "outcome_watches"

    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), primary_key=True)
    era: Mapped[int] = mapped_column(default=0)
    first_week: Mapped[int]  # the era's first week
    num_rows: Mapped[int] = mapped_column(default=0)  # outcomes in all eras together
    verdict: Mapped[str]
    alerted_at: Mapped[datetime | None]  # since when the verdict has been an alarm
    updated_at: Mapped[datetime] = mapped_column(default=utc_now)
    weekly_from: Mapped[
        int | None
    ]  # number of the table that weekly recalibration began from; None: it is off


class WeeklyTable(Base):
    """A calibration of a model that weekly recalibration began from, or put in force."""

    __tablename__ = "weekly_tables"

    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[datetime]  # since when it has been in force
    checksum: Mapped[str]  # of the calibration, as answers name it
    counted: Mapped[int]  # outcomes that were counted at its making
    outside: Mapped[int]  # of these, outside the 90% intervals in force at their time
    made: Mapped[Json]  # the calibration without its scores
    scores: Mapped[bytes] = mapped_column(**_LARGE)  # float64, little-endian


class DriftWatch(Base):
    """The watch on the rows that a model predicts for: whether they resemble its training rows."""

    __tablename__ = "drift_watches"

    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), primary_key=True)
    parts: Mapped[list[Json]]  # features and predictions, with the training rows in each of their cells
    first_week: Mapped[int | None]  # of the rows that were predicted for; None before any
    verdict: Mapped[str]
    alerted_at: Mapped[datetime | None]  # since when the verdict has been an alarm
    updated_at: Mapped[datetime] = mapped_column(default=utc_now)


class DriftWeek(Base):
    """Number of rows of a week that a model predicted for, in each cell of each part of its watch."""

    __tablename__ = "drift_weeks"

    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), primary_key=True)
    week: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    num_rows: Mapped[int]
    counts: Mapped[list[list[int]]]


class RefitSchedule(Base):
    """A habit of fitting the model of a name again, as soon as the time in `due_at` has come."""

    __tablename__ = "refit_schedules"

    owner: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    dataset_name: Mapped[str] = mapped_column(Text)  # whose newest one is new data
    every: Mapped[int | None]  # seconds
    on_alarm: Mapped[bool]  # also when the outcomes of the model that answers no longer hold
    request: Mapped[Json]  # holdout and promote
    due_at: Mapped[datetime | None] = mapped_column(index=True)
    told: Mapped[str | None] = mapped_column(Text)  # what came of the last time, in a sentence
    last_model_id: Mapped[str | None]
    last_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class Webhook(Base):
    """An address that is told of an owner's events, with the secrets that sign what is sent there."""

    __tablename__ = "webhooks"
    __table_args__ = (Index(None, "owner", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(Text)
    url: Mapped[str] = mapped_column(Text)
    model: Mapped[str | None] = mapped_column(Text)  # of this model alone, by its id or name
    events: Mapped[list[str]]  # kinds (`app.store.webhooks.outbox.EVENTS`)
    secret: Mapped[str]
    old_secret: Mapped[str | None]
    old_until: Mapped[datetime | None]  # until when the old one signs too
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class WebhookDelivery(Base):
    """A delivery: what a webhook is told, stored in the transaction of the event, and what came of it."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (Index(None, "webhook_id", "created_at", "id"), Index(None, "state", "due_at"))

    id: Mapped[str] = mapped_column(primary_key=True)
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    kind: Mapped[str]
    body: Mapped[str] = mapped_column(Text)  # as it is sent, each time the same
    state: Mapped[str] = mapped_column(default=QUEUED)  # then succeeded or failed, which is a dead letter
    attempts: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime | None] = mapped_column(default=utc_now)
    told: Mapped[str | None] = mapped_column(Text)  # what came of the last attempt, in a sentence
    last_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class Worker(Base):
    """A worker's main process while it lives; its dispatcher writes heartbeats here."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str]
    pid: Mapped[int]
    slots: Mapped[int]
    fit_memory: Mapped[int | None]  # bytes that one fit may take
    beat_at: Mapped[float] = mapped_column(index=True)  # by the database's clock
    started_at: Mapped[datetime] = mapped_column(default=utc_now)
    draining: Mapped[bool] = mapped_column(
        default=False
    )  # asked to stop: its units end with their current slice
    phase: Mapped[str]
    counts: Mapped[Json | None]  # counters since its start (`app.store.queue.counters`)


class ApiKey(Base):
    """An API key. Only a hash of the secret is stored."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    hash: Mapped[str]
    name: Mapped[str] = mapped_column(Text, index=True)  # unique among an owner's active keys
    owner: Mapped[str] = mapped_column(Text)  # the owner of everything created with this key
    scopes: Mapped[list[str]]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]


class AuditEntry(Base):
    """One change: who made it, to which object, and when. It outlives the object."""

    __tablename__ = "audit_entries"
    __table_args__ = (Index(None, "created_at", "id"), Index(None, "owner", "created_at", "id"))

    id: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime]
    who: Mapped[str]  # a key's id, or the origin of the request
    owner: Mapped[str] = mapped_column(Text)
    action: Mapped[str]
    subject: Mapped[str]
    request_id: Mapped[str | None]


class BrowserSession(Base):
    """A browser that signed in with a key; only a hash of its token is stored."""

    __tablename__ = "sessions"

    hash: Mapped[str] = mapped_column(primary_key=True)
    key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime] = mapped_column(index=True)


class ModelEvent(Base):
    """An event of a model, stored in the transaction that caused it; numbered 1, 2, ... per model."""

    __tablename__ = "model_events"

    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), primary_key=True)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    kind: Mapped[str]
    at: Mapped[datetime] = mapped_column(default=utc_now)
    detail: Mapped[Json]


class IdempotentAnswer(Base):
    """The response to a request with an `Idempotency-Key`, stored with the object it created."""

    __tablename__ = "idempotent_answers"

    owner: Mapped[str] = mapped_column(primary_key=True)
    route: Mapped[str] = mapped_column(primary_key=True)  # method and path
    key: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[str]  # SHA-256 of the request, hexadecimal
    status: Mapped[int]
    headers: Mapped[Json]
    body: Mapped[bytes]
    created_at: Mapped[datetime] = mapped_column(default=utc_now, index=True)
