"""Add the reason and the deadline of fits with stop rules."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("models") as table:
        table.add_column(sa.Column("stopped", sa.JSON(none_as_null=True), nullable=True))
        table.add_column(sa.Column("deadline", sa.Double(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("models") as table:
        table.drop_column("deadline")
        table.drop_column("stopped")
