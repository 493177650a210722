"""What can go wrong when a service is asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import httpx


class ClientError(Exception):
    """Base of all of them; its text is one sentence."""


class NoAnswerError(ClientError):
    """The service can't be reached, or the connection broke."""


class WaitedTooLongError(ClientError):
    """What was waited for has not ended in the time given; it goes on in the service."""


class FitError(ClientError):
    """The model, or the background prediction, ended as failed or cancelled.

    Parameters
    ----------
    what
        "Model mdl_1", say.
    state
        Its state.
    detail
        The service's reason, when it has one.
    """

    def __init__(self, what: str, state: str, detail: str | None) -> None:
        self.state, self.detail = state, detail
        super().__init__(f"{what} ended as {state}" + (f": {detail}" if detail else "."))


@dataclass(frozen=True)
class Place:
    """One thing that is wrong with what was sent: a column of the data or a field, and a row from 1.

    `code` names the kind of fault where the service knows it (None elsewhere).
    """

    column: str | None
    row: int | None
    detail: str
    code: str | None = None


class ProblemError(ClientError):
    """The service refused, with a problem document (RFC 9457).

    Attributes
    ----------
    status, type, title, detail, request_id
        As in the document; `type` is stable, such as "/problems/unusable-data".
    errors
        Where, when the data or the request are to blame.
    document
        All of it.
    retry_after
        Seconds after which the service wants to be asked again, None when it doesn't say.
    """

    def __init__(self, status: int, document: Mapping[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        self.document = dict(document)
        self.type = str(document.get("type", "about:blank"))
        self.title = str(document.get("title", ""))
        self.detail = str(document.get("detail", ""))
        self.request_id = str(document.get("request_id", ""))
        self.errors = [
            Place(entry.get("column"), entry.get("row"), str(entry.get("detail", "")), entry.get("code"))
            for entry in document.get("errors") or []
        ]
        self.retry_after = retry_after
        super().__init__(f"{status} {self.title}: {self.detail}" if self.title else f"{status} {self.detail}")

    @classmethod
    def of(cls, answer: httpx.Response, retry_after: float | None) -> Self:
        """The exception of an answer that is no success."""
        try:
            document = answer.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):  # not ours: a proxy's page, or another service
            document = {"title": answer.reason_phrase, "detail": answer.text[:200].strip()}
        return cls(answer.status_code, document, retry_after)
