"""Processes that kill themselves at a commit; forked, so that compiled kernels need not be loaded again.

The hook listens to SQLAlchemy from outside; the service doesn't know of it.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Session

TABLE = {"before": "before_commit", "after": "after_commit"}


def die_at_commit(when: str, number: int) -> None:
    """Kill this process with SIGKILL just before or after its n-th commit of a change (`number`)."""
    left = [number]

    def count(session: Session) -> None:
        if session.get_bind().get_execution_options().get("bartserve_read_only"):
            return
        if when == "before":
            session.flush()  # everything sent, nothing committed
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Session, TABLE[when], count)


def in_a_child(act: Callable[[], Any]) -> int:
    """Run `act` in a forked process and return its exit code; negative: the signal that ended it."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            act()
        except BaseException:  # noqa: BLE001  it must not return into pytest
            traceback.print_exc()
            code = 1
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
