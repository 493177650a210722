"""Write an owner and the time of its last service on units, and index whose turn it is."""

import sqlalchemy as sa
from alembic import op

from app.store import clock as store

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("units") as table:
        table.add_column(sa.Column("owner", sa.String(), nullable=False, server_default=""))
        table.add_column(sa.Column("served_at", store.UtcDateTime(timezone=True), nullable=True))
        table.drop_index(table.f("ix_units_state_created_at"))
    op.execute("UPDATE units SET owner = (SELECT owner FROM models WHERE models.id = units.model_id)")
    with op.batch_alter_table("units") as table:
        table.create_index("ix_units_in_turn", ["state", "kind", "owner", "created_at", "ordinal"])
        which = sa.text("served_at IS NOT NULL")
        columns = ["owner", "served_at"]
        table.create_index("ix_units_served", columns, sqlite_where=which, postgresql_where=which)


def downgrade() -> None:
    with op.batch_alter_table("units") as table:
        table.drop_index("ix_units_served")
        table.drop_index("ix_units_in_turn")
        table.create_index(table.f("ix_units_state_created_at"), ["state", "created_at"])
        table.drop_column("served_at")
        table.drop_column("owner")
