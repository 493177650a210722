"""Processes that kill themselves at a commit: forked, so that compiled kernels needn't be loaded again.

The hook listens to SQLAlchemy from outside; nothing in the service knows of it.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Session

WHEN = ("before", "after")  # the commit has happened, or hasn't
TABLE = {"before": "before_commit", "after": "after_commit"}


def die_at_commit(when: str, number: int) -> None:
    """SIGKILL for this process, just before or just after its so manyth commit of a change."""
    left = [number]

    def count(session: Session) -> None:
        if session.get_bind().get_execution_options().get("bartserve_read_only"):
            return
        if when == "before":
            session.flush()  # everything is sent, nothing committed
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Session, TABLE[when], count)


def in_a_child(act: Callable[[], Any]) -> int:
    """The exit code of a forked process that does it; negative: the signal that ended it."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            act()
        except BaseException:  # noqa: BLE001  it must not come back into pytest
            traceback.print_exc()
            code = 1
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
