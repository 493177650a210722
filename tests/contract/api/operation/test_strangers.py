"""Bounds on what clients without a key hold: a kilobyte, a few seconds, a part of the connections."""

import contextlib
import socket
import threading
import time

import pytest

from app.server import MAX_PIPELINED
from app.web.scopes import KEYLESS_BYTES
from tests.contract.api.operation.test_slow import listening, read_to_end, refusal, talking
from tests.support.api_calls import bearer, make_key
from tests.support.databases import only
from tests.support.processes import plain_http
from tests.support.processes.api_server import serving

pytestmark = only("sqlite")
SIGN_IN = (
    b"POST /ui/sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
)
LIVE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def team_settings(settings, database):
    """Return the settings of a service that asks for keys; bodies keep 1000 bytes a second."""
    hasty = {"body_seconds": 1.0, "body_bytes_per_second": 1000, "keyless_seconds": 1.0, "write_seconds": 1.0}
    return settings.model_copy(update=hasty | {"host": "0.0.0.0", "max_connections": 20})


@pytest.fixture
def place(team_settings):
    with serving(team_settings) as address:
        yield listening(address)


@contextlib.contextmanager
def sending(place, head: bytes, piece: bytes, pause: float):
    """Send a piece of a body again and again; give a function that returns the whole response."""
    with talking(place, head) as connection:
        replies: list[bytes] = []
        listener = threading.Thread(target=lambda: replies.append(read_to_end(connection)))
        listener.start()

        def reply() -> bytes:
            with contextlib.suppress(OSError):
                while listener.is_alive():
                    connection.sendall(piece)
                    time.sleep(pause)
            listener.join(60)
            return replies[0]

        yield reply


def test_a_form_before_sign_in_is_a_kilobyte(place):
    """A longer body is refused, by its declared length or while it arrives, and one of a kilobyte is read."""
    declared = SIGN_IN + f"Content-Length: {KEYLESS_BYTES + 1}\r\n\r\n".encode()
    with talking(place, declared) as connection:
        refusal(read_to_end(connection), 413)
    chunked = SIGN_IN + b"Transfer-Encoding: chunked\r\n\r\n"
    with talking(place, chunked + b"%x\r\n" % (KEYLESS_BYTES + 1) + b"k" * (KEYLESS_BYTES + 1)) as connection:
        refusal(read_to_end(connection), 413)
    form = b"key=" + b"k" * (KEYLESS_BYTES - 4)
    last = SIGN_IN + f"Content-Length: {len(form)}\r\nConnection: close\r\n\r\n".encode()
    with talking(place, last + form) as connection:
        assert read_to_end(connection).startswith(b"HTTP/1.1 401 ")


def test_a_form_before_sign_in_has_a_few_seconds(team_settings):
    """However fast it has come until then: bytes buy no time while the key isn't known."""
    fast = team_settings.model_copy(update={"body_bytes_per_second": 1, "body_seconds": 1000.0})
    with serving(fast) as address:
        head = SIGN_IN + b"Content-Length: 1000\r\n\r\n"
        with sending(listening(address), head, b"k", 0.05) as reply:
            refusal(reply(), 408)


def test_a_body_that_came_fast_and_then_stops(place, database):
    """A body that was ahead of its rate earns no time to stand: half a megabyte would earn eight minutes."""
    key = bearer(make_key(database, "ann"))["Authorization"]
    head = f"POST /datasets HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nAuthorization: {key}\r\n"
    body = b"x,y\n" + b"1,2\n" * 125_000
    sent = head.encode() + b"Content-Length: 1000000\r\n\r\n" + body
    with talking(place) as connection:
        connection.sendall(sent)
        refusal(read_to_end(connection), 408)


def test_connections_of_one_address_are_a_part_of_all(team_settings):
    """An address has its part of the connections, whatever it sends; another address still has room."""
    for update, refused in (({}, True), ({"trusted_proxies": "127.0.0.0/30"}, False)):
        parted = team_settings.model_copy(update={"max_connections_per_address": 5} | update)
        with serving(parted) as address, contextlib.ExitStack() as stack:
            place = listening(address)
            held = [stack.enter_context(talking(place, SIGN_IN)) for _ in range(5)]
            more = stack.enter_context(talking(place, b"" if refused else LIVE))
            if refused:
                refusal(read_to_end(more), 429)
            else:
                assert more.recv(65536).startswith(b"HTTP/1.1 200 ")
            other = stack.enter_context(socket.socket())
            other.bind(("127.0.0.2", 0))
            other.settimeout(60)
            other.connect(place)
            other.sendall(LIVE)
            assert other.recv(65536).startswith(b"HTTP/1.1 200 ")
            held[0].close()


def test_a_trailer_is_no_header(place, database):
    """A key that follows the body in a trailer isn't one of the request's headers."""
    key = bearer(make_key(database, "ann"))["Authorization"]
    head = b"POST /models/estimate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n"
    with talking(place, head + b"2\r\n{}\r\n0\r\n" + f"Authorization: {key}\r\n\r\n".encode()) as connection:
        assert read_to_end(connection).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("begun", [b"0\r\nX-Long: ", b"1;ext="], ids=["trailer", "extension"])
def test_a_body_is_not_padded_without_end(team_settings, begun):
    """A trailer or the extension of a chunk, which the parser keeps, is refused beyond 64 KiB."""
    patient = team_settings.model_copy(update={"keyless_seconds": 1000.0, "body_seconds": 1000.0})
    head = SIGN_IN + b"Transfer-Encoding: chunked\r\n\r\n" + begun
    with serving(patient) as address, sending(listening(address), head, b"x" * 10_000, 0.005) as reply:
        refusal(reply(), 400)


def test_headers_are_few(place):
    """Each takes more memory than its text: beyond 200 a request is refused."""
    with talking(place, LIVE[:-2] + b"a:\r\n" * 1000) as connection:
        refusal(read_to_end(connection), 431)


def test_requests_sent_ahead_are_few(team_settings):
    """Those before the limit are answered, others not parsed; such a connection counts as many."""
    parted = team_settings.model_copy(update={"max_connections_per_address": 5})
    with serving(parted) as address, contextlib.ExitStack() as stack:
        place = listening(address)
        few = stack.enter_context(talking(place, LIVE * 20 + LIVE[:-2] + b"Connection: close\r\n\r\n"))
        assert read_to_end(few).count(b"HTTP/1.1 200 ") == 21
        many = stack.enter_context(talking(place, LIVE * 200))
        assert read_to_end(many).count(b"HTTP/1.1 200 ") == MAX_PIPELINED + 1
        refusal(read_to_end(stack.enter_context(talking(place))), 429)
        other = stack.enter_context(socket.socket())
        other.bind(("127.0.0.2", 0))
        other.settimeout(60)
        other.connect(place)
        other.sendall(LIVE)
        assert other.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_clients_behind_a_proxy_are_counted_apart(team_settings):
    """A trusted proxy names the client that is counted; other clients can't name another one."""
    slow = team_settings.model_copy(update={"quota_requests_per_second": 2})
    for trusted, others in (("127.0.0.1", {401}), ("", {429})):
        chosen = slow.model_copy(update={"trusted_proxies": trusted})
        with serving(chosen) as address, plain_http.Client(base_url=address, timeout=60) as client:

            def ask(of: str, client=client) -> int:
                return client.get("/datasets", headers={"X-Forwarded-For": of}).status_code

            # 41 requests are more than two windows take.
            assert {ask("203.0.113.1") for _ in range(41)} == {401, 429}
            assert {ask("203.0.113.2") for _ in range(5)} == others
