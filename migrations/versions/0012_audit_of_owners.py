"""Index the audit log by owner."""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

NAME, TABLE = "ix_audit_entries_owner_created_at_id", "audit_entries"


def upgrade() -> None:
    op.create_index(NAME, TABLE, ["owner", "created_at", "id"])


def downgrade() -> None:
    op.drop_index(NAME, TABLE)
