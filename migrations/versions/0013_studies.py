"""Add studies of models, with units of their own."""

import sqlalchemy as sa
from alembic import op

from app.store import clock as store

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "studies",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("model_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("num_fits", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("created_at", store.UtcDateTime(timezone=True), nullable=False),
        sa.Column("started_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.Column("finished_at", store.UtcDateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_studies_model_id_models"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_studies")),
    )
    with op.batch_alter_table("studies") as batch:
        batch.create_index(batch.f("ix_studies_model_id"), ["model_id"], unique=False)
        batch.create_index(
            batch.f("ix_studies_owner_created_at_id"), ["owner", "created_at", "id"], unique=False
        )
    with op.batch_alter_table("units") as batch:
        batch.drop_index("ix_units_of_models")
        batch.add_column(sa.Column("study_id", sa.String(), nullable=True))
        batch.create_foreign_key(
            batch.f("fk_units_study_id_studies"), "studies", ["study_id"], ["id"], ondelete="CASCADE"
        )
    _index_units_of_models("prediction_id IS NULL AND study_id IS NULL")
    op.create_index("ix_units_of_studies", "units", ["study_id", "ordinal"], unique=True)


def downgrade() -> None:
    op.execute("DELETE FROM units WHERE study_id IS NOT NULL")
    with op.batch_alter_table("units") as batch:
        batch.drop_index("ix_units_of_studies")
        batch.drop_index("ix_units_of_models")
    with op.batch_alter_table("units") as batch:
        batch.drop_constraint(batch.f("fk_units_study_id_studies"), type_="foreignkey")
        batch.drop_column("study_id")
    _index_units_of_models("prediction_id IS NULL")
    op.drop_table("studies")


def _index_units_of_models(which: str) -> None:
    op.create_index(
        "ix_units_of_models",
        "units",
        ["model_id", "kind", "ordinal"],
        unique=True,
        sqlite_where=sa.text(which),
        postgresql_where=sa.text(which),
    )
