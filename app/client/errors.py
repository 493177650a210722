"""Exceptions of the client."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import httpx


class ClientError(Exception):
    """Base class of the client's exceptions; the message is one sentence."""


class NoAnswerError(ClientError):
    """The service can't be reached, or the connection broke."""


class WaitedTooLongError(ClientError):
    """The time limit of a wait has passed; the work continues in the service."""


class NoHoldoutError(ClientError):
    """The model has no held-out rows, on which the answer would rest."""


class FitError(ClientError):
    """A model, background prediction or study failed or was cancelled.

    Parameters
    ----------
    what
        The object, such as "Model mdl_1".
    state
        Its state.
    detail
        The service's reason, if any.
    """

    def __init__(self, subject: str, state: str, detail: str | None) -> None:
        self.state, self.detail = state, detail
        super().__init__(f"{subject} ended as {state}" + (f": {detail}" if detail else "."))


@dataclass(frozen=True)
class Place:
    """One fault in a request: a column of the data or a field, and a row counted from 1.

    `code` identifies the kind of fault if the service gives one, else it is None.
    """

    column: str | None
    row: int | None
    detail: str
    code: str | None = None


class ProblemError(ClientError):
    """The service refused a request with a problem document (RFC 9457).

    Attributes
    ----------
    status, type, title, detail, request_id
        Fields of the document; `type` is stable, such as "/problems/unusable-data".
    errors
        The faults, if the data or the request are at fault.
    document
        The whole document.
    retry_after
        Seconds after which the service asks for a retry, None if it doesn't.
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
        """Make the exception for an error response."""
        try:
            document = answer.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):  # from a proxy or another service
            document = {"title": answer.reason_phrase, "detail": answer.text[:200].strip()}
        return cls(answer.status_code, document, retry_after)
