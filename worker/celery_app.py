"""The Celery app and its settings. A message is only a doorbell: the database is authoritative."""

from typing import Any

from celery import Celery
from kombu.entity import Queue

from app.settings import BELL_QUEUE, BELL_TASK, Settings
from worker import tasks
from worker.places import MORE_PROCESSES

EMBEDDED_BROKER = "memory://localhost"
POLL_SECONDS = 0.05  # polling interval of the embedded broker


def make_app(settings: Settings) -> Celery:
    """Make the Celery app of one worker, with its single task."""
    app = Celery("bartserve", set_as_current=False)
    app.conf.update(_configuration(settings))
    app.task(name=BELL_TASK)(tasks.work)
    return app


def _configuration(settings: Settings) -> dict[str, Any]:
    return {
        "broker_url": settings.redis_url or EMBEDDED_BROKER,
        "broker_transport_options": _transport_options(settings),
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "result_backend": None,
        # Early acknowledgement: late ones make long tasks run twice, or forever, on Redis (measured).
        "task_acks_late": False,
        "task_reject_on_worker_lost": False,
        "task_ignore_result": True,
        "task_serializer": "json",
        "accept_content": ["json"],
        # No time limits and signals in tasks: an exception during a commit leaves its outcome unknown.
        "task_soft_time_limit": None,
        "task_time_limit": None,
        "task_default_queue": BELL_QUEUE,
        "task_queues": [Queue(BELL_QUEUE)],  # type: ignore[no-untyped-call]
        "task_create_missing_queues": False,
        "task_publish_retry_policy": {"max_retries": 2, "interval_max": 0.5},
        "worker_pool": "prefork",
        "worker_pool_start_method": "fork",
        "worker_concurrency": settings.worker_slots + MORE_PROCESSES,
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": not settings.embedded,  # the memory transport would only warn
        "worker_max_tasks_per_child": 50,
        "worker_max_memory_per_child": settings.worker_memory_kib,
        # SIGTERM stays a warm shutdown; the soft one would sleep its whole time. Units drain within a slice,
        # and the dispatcher ends the process if one doesn't.
        "worker_soft_shutdown_timeout": 20,
        # A dead child holds its slot until its result is abandoned; there are no results.
        "worker_lost_wait": 1.0,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
    }


def _transport_options(settings: Settings) -> dict[str, Any]:
    if settings.embedded:
        return {"polling_interval": POLL_SECONDS}
    return {
        "visibility_timeout": 300,
        "unacked_restore_interval": 10,
        "unacked_restore_throttle": 1,
        "socket_keepalive": True,
        "health_check_interval": 25,
        "global_keyprefix": settings.key_prefix,
    }
