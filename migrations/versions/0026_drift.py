"""Add counts by week of the rows that models predict for, beside those of their training rows."""

import sqlalchemy as sa
from alembic import op

from app.store import clock as store

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "drift_watches",
        sa.Column("model_id", sa.String(), nullable=False),
        sa.Column("parts", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("first_week", sa.BigInteger(), nullable=True),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("alerted_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.Column("updated_at", store.UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_drift_watches_model_id_models"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("model_id", name=op.f("pk_drift_watches")),
    )
    op.create_table(
        "drift_weeks",
        sa.Column("model_id", sa.String(), nullable=False),
        sa.Column("week", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("num_rows", sa.BigInteger(), nullable=False),
        sa.Column("counts", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_drift_weeks_model_id_models"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("model_id", "week", name=op.f("pk_drift_weeks")),
    )


def downgrade() -> None:
    op.drop_table("drift_weeks")
    op.drop_table("drift_watches")
