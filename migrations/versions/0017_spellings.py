"""Add the spellings of a dataset's columns."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("datasets") as table:
        table.add_column(sa.Column("spellings", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("datasets") as table:
        table.drop_column("spellings")
