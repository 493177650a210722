"""Alembic's environment. `app.store.schema.migrate` passes a connection under the migration lock.

To generate a revision after changing the tables:

    python -m migrations "what changes"
"""

from alembic import context

from app.store.tables import Base


def _run() -> None:
    connection = context.config.attributes["connection"]
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=True,  # SQLite alters a table by copying it
        user_module_prefix="store.",
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()


_run()
