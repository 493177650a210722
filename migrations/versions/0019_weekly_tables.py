"""Add tables of calibration that move each week, and which outcomes moved them."""

import sqlalchemy as sa
from alembic import op

from app.store import clock as store

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "weekly_tables",
        sa.Column("model_id", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", store.UtcDateTime(timezone=True), nullable=False),
        sa.Column("checksum", sa.String(), nullable=False),
        sa.Column("counted", sa.BigInteger(), nullable=False),
        sa.Column("outside", sa.BigInteger(), nullable=False),
        sa.Column("made", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("scores", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_weekly_tables_model_id_models"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("model_id", "number", name=op.f("pk_weekly_tables")),
    )
    with op.batch_alter_table("outcomes") as table:
        table.add_column(sa.Column("counted", sa.BigInteger(), nullable=True))
    with op.batch_alter_table("outcome_watches") as table:
        table.add_column(sa.Column("weekly_from", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("outcome_watches") as table:
        table.drop_column("weekly_from")
    with op.batch_alter_table("outcomes") as table:
        table.drop_column("counted")
    op.drop_table("weekly_tables")
