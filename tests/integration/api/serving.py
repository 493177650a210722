"""A real uvicorn in a thread."""

import contextlib
import threading
import time
from collections.abc import Iterator

import uvicorn

from app.api.main import create_app
from app.settings import Settings


@contextlib.contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """The address of the application of those settings, on loopback whatever they say of the host."""
    config = uvicorn.Config(
        create_app(settings), host="127.0.0.1", port=0, log_level="error", lifespan="on", server_header=False
    )
    server = uvicorn.Server(config)
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
