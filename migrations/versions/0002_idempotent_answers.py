"""Add the responses to requests with an Idempotency-Key."""

import sqlalchemy as sa
from alembic import op

from app.store import clock as store

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "idempotent_answers",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("route", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("status", sa.BigInteger(), nullable=False),
        sa.Column("headers", sa.JSON(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", store.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("owner", "route", "key", name=op.f("pk_idempotent_answers")),
    )
    with op.batch_alter_table("idempotent_answers") as batch:
        batch.create_index(batch.f("ix_idempotent_answers_created_at"), ["created_at"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("idempotent_answers") as batch:
        batch.drop_index(batch.f("ix_idempotent_answers_created_at"))

    op.drop_table("idempotent_answers")
