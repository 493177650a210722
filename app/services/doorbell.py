"""Doorbell of the workers: a message after a commit that saves up to one polling interval.

It is optional, since the dispatchers poll the database anyway.
"""

import logging

from celery import Celery
from kombu.exceptions import OperationalError

from app.settings import BELL_QUEUE, BELL_TASK, Settings

TIMEOUT_SECONDS = 0.5  # an unresponsive broker must not block a thread
log = logging.getLogger(__name__)


class Bell:
    """Doorbell through the broker; does nothing without one, where the dispatcher polls often enough."""

    def __init__(self, settings: Settings) -> None:
        self._app: Celery | None = None
        if settings.redis_url is not None:
            self._app = Celery("bartserve", broker=settings.redis_url, set_as_current=False)
            self._app.conf.update(
                task_ignore_result=True,
                result_backend=None,
                broker_transport_options={
                    "socket_timeout": TIMEOUT_SECONDS,
                    "socket_connect_timeout": TIMEOUT_SECONDS,
                    "global_keyprefix": settings.key_prefix,
                },
                broker_connection_timeout=TIMEOUT_SECONDS,
            )

    def ring(self, times: int = 1) -> None:
        """Send one message per unit; only log a failure, since the dispatcher finds the units anyway."""
        if self._app is None:
            return
        try:
            for _ in range(times):
                self._app.send_task(BELL_TASK, queue=BELL_QUEUE, retry=False, ignore_result=True)
        except (OperationalError, OSError) as error:
            log.warning("The doorbell could not be sent: %s", error)

    def close(self) -> None:
        """Close the connections to the broker."""
        if self._app is not None:
            self._app.close()
