"""A process that sends deliveries of webhooks that are due; workers start it (`worker.dispatcher`)."""

import asyncio
import logging
import signal

from app import logging as logs
from app.services import webhook_sending
from app.settings import read_settings
from app.store.engine import make_engine
from app.web.addresses import networks_of

LONGEST = 120  # seconds


def main() -> None:
    """Send what is due, then end."""
    signal.alarm(LONGEST + 30)  # what it hasn't sent by then is due again
    settings = read_settings()
    logs.configure(settings)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # its lines have URLs, which may be secret
    engine = make_engine(settings.database_url, pool_size=2, max_overflow=2)
    attempts = asyncio.run(webhook_sending.run(engine, networks_of(settings.webhook_networks), LONGEST))
    logging.getLogger(__name__).info("%d deliveries of webhooks were attempted", attempts)
    engine.dispose()


if __name__ == "__main__":
    main()
