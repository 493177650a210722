"""Add the group of an outcome, where groups count once each."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("outcomes") as table:
        table.add_column(sa.Column("unit", sa.LargeBinary(8), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("outcomes") as table:
        table.drop_column("unit")
