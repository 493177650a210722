"""One HTTP exchange with a service: the key, repetitions where they are safe, errors as exceptions."""

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
LATER = frozenset({429, 503})  # refused before anything was done: asking again is always safe
GATEWAY = frozenset({502, 504})  # a proxy that lost the service: it may have been done
IN_FLIGHT = "/problems/request-in-flight"
FIRST_PAUSE, LAST_PAUSE = (
    0.25,
    8.0,
)  # seconds before the first repetition, and at most, where none are asked for
TIMEOUT = httpx.Timeout(connect=5.0, read=120.0, write=120.0, pool=30.0)


@dataclass(frozen=True)
class Call:
    """One request.

    Parameters
    ----------
    repeatable
        It may be done twice without harm, so that a lost connection is no reason to give up.
    keyed
        It makes something: it goes with an Idempotency-Key, which makes it repeatable.
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
    """Sends calls; see `app.client.Client` for the parameters."""

    def __init__(self, http: httpx.Client, *, retries: int, patience_seconds: float) -> None:
        self.http = http
        self._retries = retries
        self._patience = patience_seconds

    def send(self, call: Call) -> httpx.Response:
        """The answer, which is a success.

        Raises
        ------
        ProblemError
            The service refused, and goes on refusing.
        NoAnswerError
            It can't be reached, or broke off and the call is not known to be repeatable.
        """
        return self._answered(call, stream=False)

    @contextlib.contextmanager
    def open(self, call: Call) -> Iterator[httpx.Response]:
        """The same with its body yet to be read; closed at the end."""
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
        raise AssertionError("the loop ends by an answer or an error")

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
        said = str(error) or type(error).__name__
        return NoAnswerError(
            f"No answer from {self.http.base_url}: {said}. Is the service running there "
            "(bartserve up, or BARTSERVE_URL for another address)?"
        )


def _pause(error: ClientError, call: Call, attempt: int) -> float | None:
    """Seconds until the call may be sent again; None: not at all."""
    again = call.repeatable or call.keyed
    if isinstance(error, ProblemError):
        worth = error.status in LATER or error.type == IN_FLIGHT or (error.status in GATEWAY and again)
        if worth and error.retry_after is not None:
            return error.retry_after
    else:
        unsent = isinstance(error.__cause__, (httpx.ConnectError, httpx.ConnectTimeout))
        worth = unsent or again
    # Longer after each attempt, and not the same for everybody.
    return min(LAST_PAUSE, FIRST_PAUSE * 2.0**attempt) * random.uniform(0.75, 1.25) if worth else None


def _retry_after(text: str | None) -> float | None:
    """Seconds of a Retry-After header, which has them or a date."""
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
