"""The Python client against servers that refuse, break off, or are not bartserve."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from app.client import Client, ClientError, NoAnswerError, ProblemError

CARS = Path(__file__).parents[2] / "examples" / "auto_mpg.csv"
Answer = tuple[int, dict[str, str], bytes]
DATASET = {"id": "d", "name": "n", "num_rows": 1, "columns": [], "warnings": []}
MODEL = {
    "id": "m",
    "name": None,
    "state": "queued",
    "dataset_id": "d",
    "target": "y",
    "settings": {},
    "draws": 0,
    "verdict": None,
    "diagnostics": None,
    "holdout": None,
    "error": None,
    "warnings": [],
    "progress": {"fraction": 0.0, "iterations_per_second": None, "eta_seconds": None, "chains": []},
}


@contextmanager
def stubborn(script: list[Callable[[], Answer] | None]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Run a scripted server (None: it hangs up) and collect the headers that it receives."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            seen.append(dict(self.headers) | {"path": self.path})
            step = script[min(len(seen), len(script)) - 1]
            if step is None:
                self.close_connection = True
                return
            status, headers, body = step()
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815  as the base class wants them

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def responding(status: int, document: dict, **headers: str) -> Callable[[], Answer]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda: (status, {"Content-Type": "application/json"} | named, json.dumps(document).encode())


BUSY = responding(503, {"type": "/problems/busy", "title": "Busy", "detail": "later"}, Retry_After="0")


def test_busy_and_limited_services_are_asked_again():
    """503 and 429 are retried after Retry-After with the whole body, for any call."""
    limited = responding(429, {"title": "Too many"}, Retry_After="0")
    with stubborn([BUSY, limited, responding(201, DATASET)]) as (url, seen), Client(url) as client:
        assert client.upload(CARS).id == "d"

    assert len(seen) == 3
    assert {int(headers["Content-Length"]) for headers in seen} == {CARS.stat().st_size}


def test_repetition_ends():
    """The error is raised after the last retry, or if the pause would be too long."""
    with stubborn([BUSY]) as (url, seen), Client(url, retries=2) as client:
        with pytest.raises(ProblemError, match="later") as refused:
            client.dataset("d")
        assert len(seen) == 3
        assert refused.value.retry_after == 0
    patient = responding(503, {"detail": "later"}, Retry_After="3600")
    with stubborn([patient]) as (url, seen), Client(url) as client:
        with pytest.raises(ProblemError):
            client.dataset("d")
        assert len(seen) == 1


def test_a_lost_answer_is_asked_for_again_only_where_that_is_safe():
    """A lost response is retried for reads and under an Idempotency-Key, not for an upload."""
    with stubborn([None, responding(200, DATASET)]) as (url, seen), Client(url) as client:
        assert client.dataset("d").id == "d"
        assert len(seen) == 2
    with stubborn([None, responding(202, MODEL)]) as (url, seen), Client(url) as client:
        assert client.fit("d", "y").id == "m"
        assert len({headers["Idempotency-Key"] for headers in seen}) == 1
        assert len(seen) == 2
        client.fit("d", "y")
        assert len({headers["Idempotency-Key"] for headers in seen}) == 2
    with stubborn([None, responding(201, DATASET)]) as (url, seen), Client(url) as client:
        with pytest.raises(NoAnswerError, match="BARTSERVE_URL"):
            client.upload(CARS)
        assert len(seen) == 1


def test_an_answer_that_breaks_off_is_asked_for_again():
    """A connection lost within a body is retried like one lost before it."""

    def broken():
        return 200, {"Content-Type": "application/json", "Content-Length": "999"}, b'{"id": '

    with stubborn([broken, responding(200, DATASET)]) as (url, seen), Client(url) as client:
        assert client.dataset("d").id == "d"
    assert len(seen) == 2
    with stubborn([broken, responding(202, MODEL)]) as (url, seen), Client(url) as client:
        assert client.fit("d", "y").id == "m"
    assert len({headers["Idempotency-Key"] for headers in seen}) == 1
    assert len(seen) == 2
    with stubborn([broken, responding(201, DATASET)]) as (url, seen), Client(url) as client:
        with pytest.raises(NoAnswerError):
            client.upload(CARS)
        assert len(seen) == 1


def test_a_request_in_flight_is_waited_for():
    """A 409 request-in-flight is retried until the response exists."""
    flying = responding(409, {"type": "/problems/request-in-flight", "title": "In flight"}, Retry_After="0")
    conflict = responding(409, {"type": "/problems/conflict", "title": "No"})
    with stubborn([flying, responding(202, MODEL)]) as (url, seen), Client(url) as client:
        assert client.fit("d", "y").id == "m"
        assert len(seen) == 2
    with stubborn([conflict]) as (url, seen), Client(url) as client, pytest.raises(ProblemError):
        client.fit("d", "y")
    assert len(seen) == 1


def test_a_broken_stream_is_taken_up_again():
    """`follow` reconnects with the Last-Event-ID it saw and loses no event."""
    first = b'id: 1\nevent: created\ndata: {"at": "t", "detail": {}}\n\nid: 2\nevent: started\nda'
    rest = b'id: 2\nevent: started\ndata: {"at": "t", "detail": {"a": 1}}\n\n'
    end = b'event: progress\ndata: {"fraction": 0.5}\n\nid: 3\nevent: succeeded\ndata: {"detail": {}}\n\n'
    stream = {"Content-Type": "text/event-stream"}
    script = [
        lambda: (200, stream | {"Content-Length": "9999"}, first),
        lambda: (200, stream, rest + end),
    ]
    with stubborn(script) as (url, seen), Client(url) as client:
        events = list(client.follow("m"))

    assert [(event.sequence, event.kind) for event in events] == [
        (1, "created"),
        (2, "started"),
        (None, "progress"),
        (3, "succeeded"),
    ]
    assert events[2].detail == {"fraction": 0.5}
    assert seen[1]["Last-Event-ID"] == "1"


def test_a_stream_is_read_as_its_format_has_it():
    """Event streams are parsed by their standard: multi-line data, separators, comments, lasting ids."""
    document = {"detail": {"said": "a\u2028b\u0085c"}, "at": "t"}
    stream = (
        "retry: 5\r\nid: 1\r\nevent: created\r\ndata: {\r\ndata:}\r\n\r\n"
        ": still here\n\n"
        f"id: 2\nevent: told\ndata: {json.dumps(document, ensure_ascii=False)}\n\n"
        'event: progress\ndata: {"fraction": 0.5}\n\n'
        ": still here\n\n"
        'id: 3\nevent: succeeded\ndata: {"detail": {}}\n\n'
    ).encode()
    with (
        stubborn([lambda: (200, {"Content-Type": "text/event-stream"}, stream)]) as (url, _),
        Client(url) as client,
    ):
        events = list(client.follow("m"))

    assert [(event.sequence, event.kind, event.detail) for event in events] == [
        (1, "created", {}),
        (2, "told", document["detail"]),
        (None, "progress", {"fraction": 0.5}),
        (3, "succeeded", {}),
    ]


@pytest.mark.parametrize(
    ("kind", "body"), [("text/html", b"<html>"), ("text/event-stream", b"data: hello\n\n")]
)
def test_a_stream_of_another_server_is_an_error(kind, body):
    """`follow` ends with an error where the response is no event stream."""
    with stubborn([lambda: (200, {"Content-Type": kind}, body)]) as (url, seen), Client(url) as client:
        with pytest.raises(ClientError, match="doesn't come from bartserve"):
            next(client.follow("m"))
        assert len(seen) == 1


def test_another_server_is_no_surprise():
    """A response of another server is an error with its first words, never a KeyError."""
    page = lambda: (404, {"Content-Type": "text/html"}, b"<html>nothing here</html>")  # noqa: E731
    with stubborn([page]) as (url, _), Client(url) as client, pytest.raises(ProblemError, match="nothing"):
        client.dataset("d")
    text = lambda: (200, {"Content-Type": "application/json"}, b'"hello"')  # noqa: E731
    with stubborn([text]) as (url, _), Client(url) as client, pytest.raises(ClientError, match="come from"):
        client.dataset("d")
