"""Add column profiles and reading reports of datasets."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("datasets", sa.Column("profiles", sa.JSON(), nullable=True))
    op.add_column("datasets", sa.Column("read_as", sa.JSON(), nullable=True))


def downgrade() -> None:
    # Not in batch mode, which recreates the table, to which blocks and models refer.
    op.drop_column("datasets", "read_as")
    op.drop_column("datasets", "profiles")
