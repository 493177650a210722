"""Count the groups that a cancelled set leaves out."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("model_sets") as table:
        table.add_column(sa.Column("left_out", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    with op.batch_alter_table("model_sets") as table:
        table.drop_column("left_out")
