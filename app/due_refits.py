"""A process that fits again what schedules have made due; workers start it (`worker.dispatcher`)."""

import logging
import signal

from app import logging as logs
from app.services.outcomes import schedules
from app.settings import read_settings
from app.store.engine import make_engine

LONGEST = 600  # seconds


def main() -> None:
    """Give every schedule that is due its turn, then end."""
    signal.alarm(LONGEST)  # what it hasn't done by then is due again
    settings = read_settings()
    logs.configure(settings)
    engine = make_engine(settings.database_url, pool_size=1, max_overflow=1)
    turns = schedules.run_due(engine, settings)
    logging.getLogger(__name__).info("%d schedules had their turn", turns)
    engine.dispose()


if __name__ == "__main__":
    main()
