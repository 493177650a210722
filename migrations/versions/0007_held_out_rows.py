"""Add predictions of the held-out rows of a model."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("models", sa.Column("held_out", sa.JSON(), nullable=True))


def downgrade() -> None:
    # Not in batch mode, which recreates the table, to which units and draws refer.
    op.drop_column("models", "held_out")
