"""Large responses: slow readers get all of them; connections of stalled readers are reset."""

import socket
import threading
import time

import pytest
import uvicorn

from app.server import Deadlines
from app.web.scopes import KEY

PATIENCE = 60  # seconds until a test gives up
BODY = 12_000_000  # more than an operating system buffers of a response


@pytest.fixture(params=["known", "stranger"])
def large(request):
    """Return a connection to a response of `BODY` bytes with a minimum rate of 1000 bytes a second."""
    is_known = request.param == "known"

    async def app(scope, receive, send):
        scope |= {KEY: "a key"} if is_known else {}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(BODY)})

    seconds = {"write_seconds": 1.0, "keyless_seconds": 1000.0} if is_known else {"keyless_seconds": 1.0}
    hasty = type("Hasty", (Deadlines,), {"write_rate": 1000} | seconds)
    config = uvicorn.Config(app, port=0, http=hasty, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        reader.settimeout(PATIENCE)
        reader.connect(server.servers[0].sockets[0].getsockname())
        reader.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        yield reader
    server.should_exit = True
    thread.join(PATIENCE)


def test_an_answer_that_is_read_slowly_comes_whole(large):
    """A response arrives completely however slowly it is read."""
    began, count = time.monotonic(), 0
    while part := large.recv(200_000):
        count += len(part)
        time.sleep(0.05)
    assert count > BODY
    assert time.monotonic() - began > 2.5


def drip(reader):
    """Read ten bytes ten times a second."""
    for _ in range(10 * PATIENCE):
        reader.recv(10)
        reader.send(b"\r\n")
        time.sleep(0.1)


def test_an_answer_that_is_hardly_read_is_given_up(large):
    """A connection read below the minimum rate is reset."""
    with pytest.raises(OSError, match=r"reset|pipe"):
        drip(large)
