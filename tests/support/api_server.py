"""A real uvicorn in a thread."""

import contextlib
import threading
import time
from collections.abc import Iterator

from app.server import server as make_server
from app.settings import Settings


@contextlib.contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """The address of the application of those settings, on loopback whatever they say of the host."""
    server = make_server(settings, port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive(), "the server ended"
        assert time.monotonic() < deadline, "the server doesn't start"
        time.sleep(0.005)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
