"""Add outcomes that became known after a fit, and the watch on a model's intervals."""

import sqlalchemy as sa
from alembic import op

from app.store import clock as store

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "outcome_reports",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("model_id", sa.String(), nullable=False),
        sa.Column("num_rows", sa.BigInteger(), nullable=False),
        sa.Column("draws", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("checksum", sa.String(), nullable=False),
        sa.Column("created_at", store.UtcDateTime(timezone=True), nullable=False),
        _of_model("outcome_reports"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outcome_reports")),
    )
    with op.batch_alter_table("outcome_reports") as batch:
        batch.create_index(
            batch.f("ix_outcome_reports_model_id_created_at_id"), ["model_id", "created_at", "id"]
        )
    op.create_table(
        "outcomes",
        sa.Column("report_id", sa.String(), nullable=False),
        sa.Column("row", sa.BigInteger(), nullable=False),
        sa.Column("model_id", sa.String(), nullable=False),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("at", store.UtcDateTime(timezone=True), nullable=False),
        sa.Column("era", sa.BigInteger(), nullable=False),
        sa.Column("week", sa.BigInteger(), nullable=False),
        sa.Column("pit", sa.Double(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("log_score", sa.Double(), nullable=False),
        sa.Column("error", sa.Double(), nullable=True),
        sa.Column("inside_50", sa.Boolean(), nullable=False),
        sa.Column("inside_90", sa.Boolean(), nullable=False),
        sa.Column("above", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["report_id"],
            ["outcome_reports.id"],
            name=op.f("fk_outcomes_report_id_outcome_reports"),
            ondelete="CASCADE",
        ),
        _of_model("outcomes"),
        sa.PrimaryKeyConstraint("report_id", "row", name=op.f("pk_outcomes")),
    )
    with op.batch_alter_table("outcomes") as batch:
        batch.create_index(batch.f("ix_outcomes_model_id_at"), ["model_id", "at"])
        batch.create_index(batch.f("ix_outcomes_model_id_key"), ["model_id", "key"], unique=True)
    op.create_table(
        "outcome_weeks",
        sa.Column("model_id", sa.String(), nullable=False),
        sa.Column("era", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("week", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("sums", sa.JSON(none_as_null=True), nullable=False),
        _of_model("outcome_weeks"),
        sa.PrimaryKeyConstraint("model_id", "era", "week", name=op.f("pk_outcome_weeks")),
    )
    op.create_table(
        "outcome_watches",
        sa.Column("model_id", sa.String(), nullable=False),
        sa.Column("era", sa.BigInteger(), nullable=False),
        sa.Column("first_week", sa.BigInteger(), nullable=False),
        sa.Column("num_rows", sa.BigInteger(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("alerted_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.Column("updated_at", store.UtcDateTime(timezone=True), nullable=False),
        _of_model("outcome_watches"),
        sa.PrimaryKeyConstraint("model_id", name=op.f("pk_outcome_watches")),
    )


def downgrade() -> None:
    for table in ("outcome_watches", "outcome_weeks", "outcomes", "outcome_reports"):
        op.drop_table(table)


def _of_model(table: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_model_id_models")
    return sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=name, ondelete="CASCADE")
