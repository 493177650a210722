"""Add webhooks and their deliveries."""

import sqlalchemy as sa
from alembic import op

from app.store import clock as store

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("events", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("secret", sa.String(), nullable=False),
        sa.Column("old_secret", sa.String(), nullable=True),
        sa.Column("old_until", store.UtcDateTime(timezone=True), nullable=True),
        sa.Column("created_at", store.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
    )
    with op.batch_alter_table("webhooks") as table:
        table.create_index(table.f("ix_webhooks_owner_created_at_id"), ["owner", "created_at", "id"])
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("webhook_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("due_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.Column("told", sa.Text(), nullable=True),
        sa.Column("last_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.Column("created_at", store.UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
            name=op.f("fk_webhook_deliveries_webhook_id_webhooks"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
    )
    with op.batch_alter_table("webhook_deliveries") as table:
        table.create_index(
            table.f("ix_webhook_deliveries_webhook_id_created_at_id"), ["webhook_id", "created_at", "id"]
        )
        table.create_index(table.f("ix_webhook_deliveries_state_due_at"), ["state", "due_at"])


def downgrade() -> None:
    op.drop_table("webhook_deliveries")
    op.drop_table("webhooks")
