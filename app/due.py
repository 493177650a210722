"""A process that does what is due in a queue beside the units, in turns of owners; workers start it.

`worker.dispatcher` starts one for each queue that has something due.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable

from sqlalchemy import Engine

from app import logging as logs
from app.services import webhook_sending
from app.services.model_sets import making
from app.services.outcomes import schedules
from app.settings import Settings, read_settings
from app.store.engine import make_engine
from app.web.addresses import networks_of

LONGEST = 120  # seconds, after which another process goes on
PIECE = 600  # seconds that the last piece may take; what it hasn't done by then is due again


def send(engine: Engine, settings: Settings, seconds: float) -> int:
    """Send the deliveries of webhooks that are due, for as many seconds at most; return their number."""
    networks = networks_of(settings.webhook_networks)
    return asyncio.run(webhook_sending.run(engine, networks, seconds))


QUEUES: dict[str, Callable[[Engine, Settings, float], int]] = {
    "refits": schedules.run_due,
    "model_sets": making.run_due,
    "webhooks": send,
}


def main(queue: str) -> None:
    """Do what is due in a queue, then end."""
    signal.alarm(LONGEST + PIECE)
    settings = read_settings()
    logs.configure(settings)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # its lines have URLs, which may be secret
    engine = make_engine(settings.database_url, pool_size=2, max_overflow=2)
    done = QUEUES[queue](engine, settings, LONGEST)
    logging.getLogger(__name__).info("%s: %d pieces were done", queue, done)
    engine.dispose()


if __name__ == "__main__":
    main(sys.argv[1])
