"""Add sets of models, one for each group of rows."""

import sqlalchemy as sa
from alembic import op

from app.store import clock as store

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

ALONE = sa.text("set_id IS NULL")


def upgrade() -> None:
    op.create_table(
        "model_sets",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("dataset_id", sa.String(), nullable=True),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("by", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("request", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("settings", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("num_groups", sa.BigInteger(), nullable=False),
        sa.Column("made", sa.BigInteger(), nullable=False),
        sa.Column("created_at", store.UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"],
            ["datasets.id"],
            name=op.f("fk_model_sets_dataset_id_datasets"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_sets")),
    )
    with op.batch_alter_table("model_sets") as table:
        table.create_index(table.f("ix_model_sets_owner_created_at_id"), ["owner", "created_at", "id"])
        table.create_index(table.f("ix_model_sets_dataset_id"), ["dataset_id"])
    with op.batch_alter_table("datasets") as table:
        table.add_column(sa.Column("set_id", sa.String(), nullable=True))
        table.create_index(table.f("ix_datasets_set_id"), ["set_id"])
    with op.batch_alter_table("models") as table:
        table.add_column(sa.Column("set_id", sa.String(), nullable=True))
        table.add_column(sa.Column("set_group", sa.Text(), nullable=True))
        table.create_index("ix_models_of_sets", ["set_id", "created_at", "id", "set_group", "state"])
        table.create_index(table.f("ix_models_set_id_set_group"), ["set_id", "set_group"])
    for name in ("datasets", "models"):
        op.create_index(
            f"ix_{name}_alone",
            name,
            ["owner", "created_at", "id"],
            sqlite_where=ALONE,
            postgresql_where=ALONE,
        )


def downgrade() -> None:
    for name in ("datasets", "models"):
        op.drop_index(f"ix_{name}_alone", name)
    op.drop_index("ix_models_of_sets", "models")
    op.drop_index("ix_models_set_id_set_group", "models")
    op.drop_index("ix_datasets_set_id", "datasets")
    with op.batch_alter_table("models") as table:
        table.drop_column("set_group")
        table.drop_column("set_id")
    with op.batch_alter_table("datasets") as table:
        table.drop_column("set_id")
    op.drop_table("model_sets")
