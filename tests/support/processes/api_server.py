"""A real uvicorn server in a thread."""

import asyncio
import contextlib
import io
import sys
import threading
import time
import traceback
from collections.abc import Iterator

from app.server import server as make_server
from app.settings import Settings
from tests.support.waiting import stretched


@contextlib.contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """Serve the application with the settings and yield its URL, on loopback whatever `host` says."""
    server = make_server(settings, port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + stretched(20)
    while not server.started:
        assert thread.is_alive(), "the server ended"
        assert time.monotonic() < deadline, "the server doesn't start"
        time.sleep(0.005)
    try:
        loop = server.servers[0].get_loop()
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(stretched(20))
        assert not thread.is_alive(), f"the server doesn't end:\n{_stacks()}\n{_tasks(loop)}"


def _tasks(loop: asyncio.AbstractEventLoop) -> str:
    """Return what every task of a server waits for."""
    lines = io.StringIO()
    for task in asyncio.all_tasks(loop):
        task.print_stack(file=lines)
    return lines.getvalue()


def _stacks() -> str:
    """Return what every thread of this process is doing."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame, 12))}"
        for ident, frame in sys._current_frames().items()
    )


class Servers:
    """Running servers by their settings, each started when it is first asked for; the last few are kept."""

    most = 4

    def __init__(self) -> None:
        self._running: dict[Settings, tuple[str, contextlib.ExitStack]] = {}

    def address(self, settings: Settings) -> str:
        """Return the address of the server of those settings."""
        if settings in self._running:
            self._running[settings] = self._running.pop(settings)  # the latest is last
        else:
            while len(self._running) >= self.most:
                self._running.pop(next(iter(self._running)))[1].close()
            stack = contextlib.ExitStack()
            self._running[settings] = stack.enter_context(serving(settings)), stack
        return self._running[settings][0]

    def close(self) -> None:
        """Stop all servers."""
        while self._running:
            self._running.popitem()[1][1].close()
