"""Separate a key's owner from its name."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

USUAL = ["read", "predict", "train"]  # the permissions of every earlier key


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("owner", sa.Text(), nullable=True))
    keys = sa.table("api_keys", sa.column("owner"), sa.column("name"), sa.column("scopes", sa.JSON()))
    op.execute(keys.update().values(owner=keys.c.name, scopes=USUAL))
    with op.batch_alter_table("api_keys") as table:
        table.alter_column("owner", existing_type=sa.Text(), nullable=False)
        table.create_index(op.f("ix_api_keys_name"), ["name"])


def downgrade() -> None:
    with op.batch_alter_table("api_keys") as table:
        table.drop_index(op.f("ix_api_keys_name"))
        table.drop_column("owner")
