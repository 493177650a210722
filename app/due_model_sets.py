"""A process that makes the models of accepted sets; workers start it (`worker.dispatcher`)."""

import logging
import signal

from app import logging as logs
from app.services.model_sets import making
from app.settings import read_settings
from app.store.engine import make_engine

LONGEST = 600  # seconds


def main() -> None:
    """Make models of every set that is due, then end."""
    signal.alarm(LONGEST)  # what it hasn't made by then is due again
    settings = read_settings()
    logs.configure(settings)
    engine = make_engine(settings.database_url, pool_size=1, max_overflow=1)
    made = making.run_due(engine, settings)
    logging.getLogger(__name__).info("%d models of sets were made", made)
    engine.dispose()


if __name__ == "__main__":
    main()
