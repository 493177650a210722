"""Create the first tables."""

import sqlalchemy as sa
from alembic import op

from app.store import clock as store

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("created_at", store.UtcDateTime(timezone=True), nullable=False),
        sa.Column("expires_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("num_rows", sa.BigInteger(), nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("num_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("created_at", store.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
    )
    with op.batch_alter_table("datasets") as batch:
        batch.create_index(
            batch.f("ix_datasets_owner_created_at_id"), ["owner", "created_at", "id"], unique=False
        )

    op.create_table(
        "workers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("slots", sa.BigInteger(), nullable=False),
        sa.Column("beat_at", sa.Double(), nullable=False),
        sa.Column("started_at", store.UtcDateTime(timezone=True), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
    with op.batch_alter_table("workers") as batch:
        batch.create_index(batch.f("ix_workers_beat_at"), ["beat_at"], unique=False)

    op.create_table(
        "dataset_blocks",
        sa.Column("dataset_id", sa.String(), nullable=False),
        sa.Column("column_index", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("checksum", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"],
            ["datasets.id"],
            name=op.f("fk_dataset_blocks_dataset_id_datasets"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("dataset_id", "column_index", "seq", name=op.f("pk_dataset_blocks")),
    )
    op.create_table(
        "models",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("dataset_id", sa.String(), nullable=True),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("header", sa.LargeBinary(), nullable=True),
        sa.Column("verdict", sa.String(), nullable=True),
        sa.Column("diagnostics", sa.JSON(), nullable=True),
        sa.Column("holdout", sa.JSON(), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("created_at", store.UtcDateTime(timezone=True), nullable=False),
        sa.Column("started_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.Column("finished_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_models_dataset_id_datasets")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_models")),
    )
    with op.batch_alter_table("models") as batch:
        batch.create_index(batch.f("ix_models_dataset_id"), ["dataset_id"], unique=False)
        batch.create_index(
            batch.f("ix_models_owner_created_at_id"), ["owner", "created_at", "id"], unique=False
        )
        batch.create_index(batch.f("ix_models_owner_name_state"), ["owner", "name", "state"], unique=False)

    op.create_table(
        "draw_blocks",
        sa.Column("model_id", sa.String(), nullable=False),
        sa.Column("chain", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("first_draw", sa.BigInteger(), nullable=False),
        sa.Column("num_draws", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("checksum", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_draw_blocks_model_id_models"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("model_id", "chain", "seq", name=op.f("pk_draw_blocks")),
    )
    op.create_table(
        "units",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("model_id", sa.String(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.Double(), nullable=True),
        sa.Column("worker_id", sa.String(), nullable=True),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("stalled_attempts", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.String(), nullable=True),
        sa.Column("iteration", sa.BigInteger(), nullable=False),
        sa.Column("iterations", sa.BigInteger(), nullable=False),
        sa.Column("num_draws", sa.BigInteger(), nullable=False),
        sa.Column("rate", sa.Double(), nullable=True),
        sa.Column("statistics", sa.JSON(), nullable=True),
        sa.Column("checkpoint", sa.LargeBinary(), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("created_at", store.UtcDateTime(timezone=True), nullable=False),
        sa.Column("updated_at", store.UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_units_model_id_models"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_units")),
    )
    with op.batch_alter_table("units") as batch:
        batch.create_index(
            batch.f("ix_units_model_id_kind_ordinal"), ["model_id", "kind", "ordinal"], unique=True
        )
        batch.create_index(batch.f("ix_units_state_created_at"), ["state", "created_at"], unique=False)

    if op.get_bind().dialect.name == "postgresql":
        # The blocks are already compressed: keep Postgres from compressing them again.
        for table in ("draw_blocks", "dataset_blocks"):
            op.execute(f"ALTER TABLE {table} ALTER COLUMN data SET STORAGE EXTERNAL")


def downgrade() -> None:
    with op.batch_alter_table("units") as batch:
        batch.drop_index(batch.f("ix_units_state_created_at"))
        batch.drop_index(batch.f("ix_units_model_id_kind_ordinal"))

    op.drop_table("units")
    op.drop_table("draw_blocks")
    with op.batch_alter_table("models") as batch:
        batch.drop_index(batch.f("ix_models_owner_name_state"))
        batch.drop_index(batch.f("ix_models_owner_created_at_id"))
        batch.drop_index(batch.f("ix_models_dataset_id"))

    op.drop_table("models")
    op.drop_table("dataset_blocks")
    with op.batch_alter_table("workers") as batch:
        batch.drop_index(batch.f("ix_workers_beat_at"))

    op.drop_table("workers")
    with op.batch_alter_table("datasets") as batch:
        batch.drop_index(batch.f("ix_datasets_owner_created_at_id"))

    op.drop_table("datasets")
    op.drop_table("api_keys")
