"""Add refits with a gate, and their schedules."""

import sqlalchemy as sa
from alembic import op

from app.store import clock as store

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("models") as table:
        table.add_column(sa.Column("refit", sa.JSON(none_as_null=True), nullable=True))
        table.add_column(sa.Column("withheld", sa.Boolean(), nullable=True))
    op.create_table(
        "refit_schedules",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("dataset_name", sa.Text(), nullable=False),
        sa.Column("every", sa.BigInteger(), nullable=True),
        sa.Column("on_alarm", sa.Boolean(), nullable=False),
        sa.Column("request", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("due_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.Column("told", sa.Text(), nullable=True),
        sa.Column("last_model_id", sa.String(), nullable=True),
        sa.Column("last_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.Column("created_at", store.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("owner", "name", name=op.f("pk_refit_schedules")),
    )
    with op.batch_alter_table("refit_schedules") as table:
        table.create_index(table.f("ix_refit_schedules_due_at"), ["due_at"])


def downgrade() -> None:
    op.drop_table("refit_schedules")
    with op.batch_alter_table("models") as table:
        table.drop_column("withheld")
        table.drop_column("refit")
