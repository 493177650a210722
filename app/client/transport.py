"""HTTP exchange with a service: the key, safe retries, and errors as exceptions."""

import contextlib
import email.utils
import itertools
import random
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import httpx

from app.client.errors import ClientError, NoAnswerError, ProblemError

JSON = "application/json"
LATER = frozenset({429, 503})  # refused before any change: a retry is always safe
GATEWAY = frozenset({502, 504})  # the proxy lost the service, which may have processed the request
IN_FLIGHT = "/problems/request-in-flight"
FIRST_PAUSE, LAST_PAUSE = (
    0.25,
    8.0,
)  # first and longest pause before a retry, if the service asks for none
TIMEOUT = httpx.Timeout(connect=5.0, read=120.0, write=120.0, pool=30.0)


@dataclass(frozen=True)
class Call:
    """One request.

    Parameters
    ----------
    repeatable
        It is safe to repeat, so it is retried after a lost connection.
    keyed
        It creates an object: an Idempotency-Key makes it repeatable.
    """

    method: str
    path: str
    query: Mapping[str, Any] | None = None
    json: Any = None
    content: bytes | IO[bytes] | None = None
    content_type: str | None = None
    accept: str = JSON
    last_event_id: int | None = None
    repeatable: bool = False
    keyed: bool = False


class Transport:
    """Sender of calls; see `app.client.Client` for the parameters."""

    def __init__(self, http: httpx.Client, *, retries: int, patience_seconds: float) -> None:
        self.http = http
        self._retries = retries
        self._patience = patience_seconds

    def send(self, call: Call) -> httpx.Response:
        """Send a call and return the successful response.

        Raises
        ------
        ProblemError
            The service refused, also after retries.
        NoAnswerError
            The service can't be reached, or the connection broke and the call is not repeatable.
        """
        return self._answered(call, stream=False)

    @contextlib.contextmanager
    def open(self, call: Call) -> Iterator[httpx.Response]:
        """Send a call and yield the successful response, with its body still unread; close it at the end."""
        with contextlib.closing(self._answered(call, stream=True)) as answer:
            yield answer

    def _answered(self, call: Call, *, stream: bool) -> httpx.Response:
        headers = self._headers(call)
        deadline = time.monotonic() + self._patience
        for attempt in itertools.count():
            try:
                return self._once(call, headers, stream=stream)
            except ClientError as error:
                pause = _pause(error, call, attempt)
                if pause is None or attempt == self._retries or time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
        raise AssertionError("the loop ends with a response or an error")

    def _once(self, call: Call, headers: Mapping[str, str], *, stream: bool) -> httpx.Response:
        if call.content is not None and not isinstance(call.content, bytes):
            call.content.seek(0)
        request = self.http.build_request(
            call.method,
            call.path,
            params=call.query,
            json=call.json,
            content=call.content,
            headers=dict(headers),
        )
        try:
            answer = self.http.send(request, stream=stream)
            if answer.is_success:
                return answer
            with contextlib.closing(answer):
                answer.read()
        except httpx.TransportError as error:
            raise self._no_answer(error) from error
        raise ProblemError.of(answer, _retry_after(answer.headers.get("retry-after")))

    def _headers(self, call: Call) -> dict[str, str]:
        headers = {"Accept": call.accept}
        if call.content_type is not None:
            headers["Content-Type"] = call.content_type
        if call.last_event_id is not None:
            headers["Last-Event-ID"] = str(call.last_event_id)
        if call.keyed:
            headers["Idempotency-Key"] = str(uuid.uuid4())
        return headers

    def _no_answer(self, error: httpx.TransportError) -> NoAnswerError:
        cause = str(error) or type(error).__name__
        return NoAnswerError(
            f"No response from {self.http.base_url}: {cause}. Is the service running there "
            "(bartserve up, or BARTSERVE_URL for another URL)?"
        )


def _pause(error: ClientError, call: Call, attempt: int) -> float | None:
    """Return the seconds until a retry, or None if there must be none."""
    again = call.repeatable or call.keyed
    if isinstance(error, ProblemError):
        worth = error.status in LATER or error.type == IN_FLIGHT or (error.status in GATEWAY and again)
        if worth and error.retry_after is not None:
            return error.retry_after
    else:
        unsent = isinstance(error.__cause__, (httpx.ConnectError, httpx.ConnectTimeout))
        worth = unsent or again
    # Exponential backoff with jitter.
    return min(LAST_PAUSE, FIRST_PAUSE * 2.0**attempt) * random.uniform(0.75, 1.25) if worth else None


def _retry_after(text: str | None) -> float | None:
    """Return the seconds of a Retry-After header, which holds a number or a date."""
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None
