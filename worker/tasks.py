"""The one Celery task, a thin shell: the bell rang, see what there is to do."""

from worker import context, units


def work() -> None:
    """Work on the oldest claimable unit, if there is one."""
    units.run_one(context.current())
