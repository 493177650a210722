"""Slow, endless or absent clients get an error or a closed connection (raw sockets, real server)."""

import contextlib
import json
import socket
import threading
import time

import httpx
import pytest

from tests.support.databases import only
from tests.support.processes import plain_http
from tests.support.processes.api_server import serving
from tests.support.waiting import stretched

PATIENCE = 60  # seconds until a test gives up
pytestmark = only("sqlite")


@pytest.fixture
def place(settings, _servers):
    """Return the address of a server with short timeouts."""
    hasty = {"body_seconds": 1.0, "body_bytes_per_second": 1000, "head_seconds": 1.0, "write_seconds": 1.0}
    return listening(_servers.address(settings.model_copy(update=hasty | {"max_connections": 20})))


def listening(address: str) -> tuple[str, int]:
    url = httpx.URL(address)
    return url.host, url.port


@contextlib.contextmanager
def talking(place, sent: bytes = b""):
    with socket.create_connection(place, timeout=PATIENCE) as connection:
        connection.sendall(sent)
        yield connection


def read_to_end(connection: socket.socket) -> bytes:
    """Return all bytes until the server closes; fail when it doesn't."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def refusal(reply: bytes, status: int) -> None:
    head, _, body = reply.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0].startswith(f"http/1.1 {status} ".encode()), reply
    assert b"content-type: application/problem+json" in lines
    assert b"connection: close" in lines
    problem = json.loads(body)
    assert problem["status"] == status
    assert f"x-request-id: {problem['request_id']}".encode() in lines


def well(place) -> None:
    assert plain_http.get(f"http://{place[0]}:{place[1]}/health/live", timeout=PATIENCE).status_code == 200


HEAD = b"POST /models HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CSV = b"POST /datasets HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"


@pytest.mark.parametrize("head", [HEAD, CSV], ids=["json", "csv"])
@pytest.mark.parametrize("more", [b"Content-Length: 500\r\n\r\n{", CHUNKED], ids=["declared", "chunked"])
def test_a_body_that_stops(place, head, more):
    """A declared or chunked body that never ends is a 408, and the connection is closed."""
    with talking(place, head + more) as connection:
        refusal(read_to_end(connection), 408)
    well(place)


def test_a_body_that_drips(place):
    """A body arriving below the minimum rate doesn't keep a request alive."""
    with talking(place, HEAD + b"Content-Length: 100000\r\n\r\n") as connection:
        listener = threading.Thread(target=lambda: answers.append(read_to_end(connection)))
        answers: list[bytes] = []
        listener.start()
        with contextlib.suppress(OSError):
            while listener.is_alive():
                connection.sendall(b" ")
                time.sleep(0.05)
        listener.join(PATIENCE)
    refusal(answers[0], 408)


def test_a_body_that_is_only_long(settings):
    """A body that arrives fast enough may take longer than the timeout for silence."""
    body = b"y,x\n" + b"1,2\n" * 3000
    head = CSV + f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    patient = settings.model_copy(update={"body_seconds": 5.0, "body_bytes_per_second": 100})
    with serving(patient) as address, talking(listening(address), head) as sender:
        for start in range(0, len(body), 600):
            sender.sendall(body[start : start + 600])
            time.sleep(0.3)
        assert read_to_end(sender).startswith(b"HTTP/1.1 201 ")


def test_headers_that_stop(place):
    """Incomplete headers, or none, end the connection, including one that was kept open."""
    with talking(place, b"GET /health/live HTTP/1.1\r\nHost: loc") as connection:
        refusal(read_to_end(connection), 408)
    with talking(place) as connection:
        assert read_to_end(connection) == b""
    with talking(place, b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n") as connection:
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: loc")
        reply = read_to_end(connection)
        refusal(reply[reply.index(b"HTTP/1.1 408") :], 408)


def test_headers_that_drip(place):
    """Headers arriving one per second don't keep a connection open."""
    with talking(place, b"GET / HTTP/1.1\r\n") as connection:
        answers: list[bytes] = []
        listener = threading.Thread(target=lambda: answers.append(read_to_end(connection)))
        listener.start()
        with contextlib.suppress(OSError):
            while listener.is_alive():
                connection.sendall(b"X-More: 1\r\n")
                time.sleep(0.05)
        listener.join(PATIENCE)
    refusal(answers[0], 408)


@pytest.mark.parametrize("part", [b"X-Long: " + b"x" * 300_000, b"X: 1\r\n" * 50_000, b"x" * 300_000])
def test_headers_without_end(place, part):
    """Headers beyond 64 KiB, in one or in many, are refused while they arrive."""
    with talking(place, b"GET /health/live HTTP/1.1\r\n") as connection:
        with contextlib.suppress(OSError):
            connection.sendall(part)
        reply = read_to_end(connection)
        if reply:  # otherwise the response would be lost with the data still being sent
            refusal(reply, 431 if b" 431 " in reply[:20] else 400)
    well(place)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /models HTTP/1.1\r\nHost: evil.example@127.0.0.1\r\n\r\n",
        b"GET /models HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /models HTTP/1.1\r\nHost: localhost\r\nhost: evil.example\r\n\r\n",
        b"GET /models HTTP/1.1\r\nHost: local host\r\n\r\n",
        b"GET /models HTTP/1.1\r\nHost: localhost/x\r\n\r\n",
        b"GET /models HTTP/1.1\r\nHost: localhost:x\r\n\r\n",
        b"GET /models HTTP/1.1\r\n\r\n",
        b"GET http://evil.example/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://a@localhost/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET ftp://localhost/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /models HTTP/1.1\r\nHost: a@localhost\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_wrong_host_headers_are_refused(place, head):
    """Invalid, repeated or contradictory Host headers are a 400, and the connection is closed."""
    with talking(place, head) as connection:
        refusal(read_to_end(connection), 400)


def test_a_request_with_an_absolute_target(place):
    """An absolute target, which a proxy may send, is accepted if it names the requested host."""
    head = b"GET http://LOCALHOST/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with talking(place, head) as connection:
        assert read_to_end(connection).startswith(b"HTTP/1.1 200 ")


def test_invalid_http_is_refused(place):
    """Invalid HTTP is refused with a problem document."""
    with talking(place, b"this is no HTTP\r\n\r\n") as connection:
        refusal(read_to_end(connection), 400)


def test_a_request_answered_before_its_body_came(place):
    """The unread rest of a body doesn't keep the connection open."""
    stranger = HEAD.replace(b"localhost", b"evil.example")
    with talking(place, stranger + b"Content-Length: 1000\r\n\r\n{") as connection:
        assert read_to_end(connection).startswith(b"HTTP/1.1 403 ")


def test_an_answer_that_nobody_reads(place):
    """A response that is never read is aborted and its resources freed for others."""
    lines = ["y,x" + "x" * 150, *("1,2" for _ in range(1000))]
    address = f"http://{place[0]}:{place[1]}"
    kind = {"Content-Type": "text/csv"}
    response = plain_http.post(
        f"{address}/datasets", content="\n".join(lines), headers=kind, timeout=PATIENCE
    )
    request = f"GET {response.headers['location']}/preview?rows=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack:
        readers = []
        for _ in range(10):
            reader = stack.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            reader.settimeout(PATIENCE)
            reader.connect(place)
            reader.sendall(request.encode() * 40)
            readers.append(reader)
        deadline = time.monotonic() + stretched(PATIENCE)
        while any(_open(reader) for reader in readers):
            assert time.monotonic() < deadline, "a reader that doesn't read is still served"
            time.sleep(0.1)
    well(place)


def _open(connection: socket.socket) -> bool:
    """Return whether the server still holds the connection; a reset shows that it doesn't."""
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0 and _sends(connection)


def _sends(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        connection.send(b"\r\n")
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


def test_too_many_connections(place):
    """A connection beyond the limit gets a problem document at once; closed ones make room."""
    with contextlib.ExitStack() as stack:
        replies = []
        for _ in range(25):
            connection = stack.enter_context(talking(place))
            replies.append(connection)
        refusal(read_to_end(replies[-1]), 503)
    deadline = time.monotonic() + stretched(PATIENCE)
    while True:
        with contextlib.suppress(httpx.HTTPError):
            if plain_http.get(f"http://{place[0]}:{place[1]}/health/live").status_code == 200:
                break
        assert time.monotonic() < deadline
        time.sleep(0.05)
