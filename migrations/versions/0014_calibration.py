"""Add the summary of a model's calibration."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("models") as table:
        table.add_column(sa.Column("calibration", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("models") as table:
        table.drop_column("calibration")
