"""The single Celery task: a doorbell that starts work on a claimable unit."""

from worker import context, units


def work() -> None:
    """Work on the oldest claimable units, if there are any."""
    units.run_several(context.current())
