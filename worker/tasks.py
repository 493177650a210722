"""The single Celery task: a doorbell that starts work on a claimable unit."""

from worker import context, units


def work() -> None:
    """Work on the oldest claimable unit, if there is one."""
    units.run_one(context.current())
