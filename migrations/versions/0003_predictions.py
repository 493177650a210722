"""Add background predictions of stored datasets."""

import sqlalchemy as sa
from alembic import op

from app.store import clock as store

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "predictions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("model_id", sa.String(), nullable=False),
        sa.Column("dataset_id", sa.String(), nullable=True),
        sa.Column("num_rows", sa.BigInteger(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("flags", sa.JSON(), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("created_at", store.UtcDateTime(timezone=True), nullable=False),
        sa.Column("started_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.Column("finished_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_predictions_model_id_models"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["dataset_id"],
            ["datasets.id"],
            name=op.f("fk_predictions_dataset_id_datasets"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_predictions")),
    )
    with op.batch_alter_table("predictions") as batch:
        batch.create_index(batch.f("ix_predictions_dataset_id"), ["dataset_id"], unique=False)
        batch.create_index(batch.f("ix_predictions_model_id"), ["model_id"], unique=False)
        batch.create_index(
            batch.f("ix_predictions_owner_created_at_id"), ["owner", "created_at", "id"], unique=False
        )

    op.create_table(
        "prediction_blocks",
        sa.Column("prediction_id", sa.String(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("num_rows", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("checksum", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["prediction_id"],
            ["predictions.id"],
            name=op.f("fk_prediction_blocks_prediction_id_predictions"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("prediction_id", "seq", name=op.f("pk_prediction_blocks")),
    )
    with op.batch_alter_table("units") as batch:
        batch.add_column(sa.Column("prediction_id", sa.String(), nullable=True))
        batch.create_foreign_key(
            batch.f("fk_units_prediction_id_predictions"),
            "predictions",
            ["prediction_id"],
            ["id"],
            ondelete="CASCADE",
        )
        batch.drop_index(batch.f("ix_units_model_id_kind_ordinal"))
    with op.batch_alter_table("units") as batch:
        batch.create_index(
            "ix_units_of_models",
            ["model_id", "kind", "ordinal"],
            unique=True,
            sqlite_where=sa.text("prediction_id IS NULL"),
            postgresql_where=sa.text("prediction_id IS NULL"),
        )
        batch.create_index("ix_units_of_predictions", ["prediction_id", "ordinal"], unique=True)
        batch.create_index(batch.f("ix_units_model_id"), ["model_id"], unique=False)

    if op.get_bind().dialect.name == "postgresql":
        # The blocks are already compressed: keep Postgres from compressing them again.
        op.execute("ALTER TABLE prediction_blocks ALTER COLUMN data SET STORAGE EXTERNAL")


def downgrade() -> None:
    op.execute("DELETE FROM units WHERE prediction_id IS NOT NULL")
    with op.batch_alter_table("units") as batch:
        batch.drop_index(batch.f("ix_units_model_id"))
        batch.drop_index("ix_units_of_predictions")
        batch.drop_index("ix_units_of_models")
    with op.batch_alter_table("units") as batch:
        batch.drop_constraint(batch.f("fk_units_prediction_id_predictions"), type_="foreignkey")
        batch.drop_column("prediction_id")
        batch.create_index(
            batch.f("ix_units_model_id_kind_ordinal"), ["model_id", "kind", "ordinal"], unique=True
        )

    op.drop_table("prediction_blocks")
    with op.batch_alter_table("predictions") as batch:
        batch.drop_index(batch.f("ix_predictions_owner_created_at_id"))
        batch.drop_index(batch.f("ix_predictions_model_id"))
        batch.drop_index(batch.f("ix_predictions_dataset_id"))

    op.drop_table("predictions")
