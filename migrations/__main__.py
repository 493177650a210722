"""Generate a migration from the difference between the tables and the present migrations."""

import sys
import tempfile
from pathlib import Path

from alembic import command

from app.store import schema
from app.store.engine import make_engine


def main(message: str) -> None:
    """Migrate an empty database to head, compare it with the tables, and write the revision file."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'empty.db'}"
        schema.migrate(url)
        engine = make_engine(url)
        with engine.connect() as connection:
            command.revision(schema.config(connection), message, autogenerate=True)
        engine.dispose()


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
