"""Add the memory that a fit may take of a worker."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("workers") as table:
        table.add_column(sa.Column("fit_memory", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("workers") as table:
        table.drop_column("fit_memory")
