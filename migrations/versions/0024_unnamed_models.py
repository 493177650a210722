"""Index models without a name, which are numbered in lists."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_models_unnamed",
        "models",
        ["owner", "dataset_id", "target", "created_at", "id", "set_id", "name"],
        sqlite_where=sa.text("set_id IS NULL AND name IS NULL"),
        postgresql_where=sa.text("set_id IS NULL AND name IS NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_models_unnamed", "models")
