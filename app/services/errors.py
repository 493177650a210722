"""Expected errors: small classes with an HTTP status, rendered in one place (`app.web.errors`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar, Protocol

ENOUGH = 1000  # faults collected at most
MAX_DETAIL = 500  # characters of a fault: the sampler repeats values, which may be of any length
SHOWN = 100  # entries of `errors` in a response; `detail` gives the number of the others


class Located(Protocol):
    """Interface of the sampler's problems with data."""

    @property
    def column(self) -> str | None: ...
    @property
    def row(self) -> int | None: ...
    @property
    def detail(self) -> str: ...
    @property
    def count(self) -> int: ...


class RefusedSetting(Protocol):
    """Interface of the sampler's `SettingsError`."""

    @property
    def field(self) -> str | None: ...
    @property
    def code(self) -> str: ...
    def message_for(self, name: str) -> str: ...


@dataclass(frozen=True)
class Fault:
    """One fault in a request or in data.

    `column` is a column of the data or a field of the request, None when the fault concerns the whole. `row`
    is the 1-based data row (the header of a CSV file doesn't count). `detail` is a sentence that doesn't
    repeat the value sent. `code` identifies the kind of fault for programs, where there is one; `field` is
    the full path, such as `prior.k`, where `column` is `prior`. `count` is how many faults it stands for.
    """

    column: str | None
    row: int | None
    detail: str
    code: str | None = None
    field: str | None = None
    count: int = 1

    @classmethod
    def of(cls, problem: Located, column: str | None = None) -> "Fault":
        """Convert the sampler's problem with data; `column` is the user's name for it, if it has a role."""
        return cls(column or problem.column, problem.row, problem.detail[:MAX_DETAIL], count=problem.count)

    @classmethod
    def of_setting(cls, error: RefusedSetting, names: Mapping[str, str] | None = None) -> "Fault":
        """Convert the sampler's refusal of a setting; `names` maps its settings to request fields."""
        field = error.field and (names or {}).get(error.field, error.field)
        column = field and field.partition(".")[0]
        # Some messages begin with the field, which `sentence` names already.
        detail = error.message_for(field or "").removeprefix(f"{field}: ")
        return cls(column, None, detail[:MAX_DETAIL], error.code, field)

    def to_json(self) -> dict[str, str | int | None]:
        """Return the entry of `errors` in a problem document."""
        entry: dict[str, str | int | None] = {"column": self.column, "row": self.row, "detail": self.detail}
        return entry if self.code is None else entry | {"code": self.code}

    def __str__(self) -> str:
        return self.sentence("column ")

    def sentence(self, noun: str) -> str:
        """Return the fault as one sentence; `noun` precedes the name of a column."""
        where = [f"{noun}{self.column}"] if self.column is not None else []
        where += [f"row {self.row}"] if self.row is not None else []
        return f"{', '.join(where)}: {self.detail}" if where else self.detail


class ServiceError(Exception):
    """Base class of expected errors; `status`, `slug` (the problem type) and `title` belong to the class.

    Parameters
    ----------
    detail
        What happened and what to do; derived from `errors` when omitted.
    errors
        The faults, when the data or the request caused the error.
    retry_after
        Seconds after which a retry makes sense.
    """

    status: ClassVar[int] = 500
    slug: ClassVar[str] = "internal-error"
    title: ClassVar[str] = "Internal server error"
    noun: ClassVar[str] = "column "  # precedes the name of a fault's column

    def __init__(
        self, detail: str = "", errors: Iterable[Fault] = (), *, retry_after: int | None = None
    ) -> None:
        faults = list(errors)
        self.errors: Sequence[Fault] = [replace(fault) for fault in faults[:SHOWN]]
        self.retry_after = retry_after
        self.detail = detail or _summary(faults, self.noun)
        super().__init__(self.detail)


def enough(faults: Iterable[Fault]) -> list[Fault]:
    """Return the first `ENOUGH` faults: there may be a million, and each takes memory."""
    return list(islice(faults, ENOUGH))


def _summary(faults: Sequence[Fault], noun: str) -> str:
    if not faults:
        return ""
    more = "many more" if len(faults) >= ENOUGH else f"{sum(fault.count for fault in faults[1:])} more"
    first = faults[0].sentence(noun)
    return f"{first} (and {more})" if len(faults) > 1 else first


class NotFoundError(ServiceError):
    """The object doesn't exist or belongs to another owner."""

    status, slug, title = 404, "not-found", "Not found"


class ConflictError(ServiceError):
    """The current state of the object forbids the request."""

    status, slug, title = 409, "conflict", "Conflict with the current state"


class NotFinishedError(ConflictError):
    """The model can't answer yet, or never will."""

    slug, title = "model-not-finished", "The model has not finished"


class InUseError(ConflictError):
    """Other objects still need this one."""

    slug, title = "in-use", "Still in use"


class TooLargeError(ServiceError):
    """The request or its work exceeds a limit of the service."""

    status, slug, title = 413, "too-large", "Too large"


class UnsupportedMediaError(ServiceError):
    """The content type is not supported."""

    status, slug, title = 415, "unsupported-media-type", "Unsupported media type"


class InvalidRequestError(ServiceError):
    """A field of the request is missing, unknown or out of range."""

    status, slug, title = 422, "invalid-request", "Invalid request"
    noun = ""  # a field of the request, by its name


class UnusableDataError(ServiceError):
    """The data can't be used; `errors` names the places and reasons."""

    status, slug, title = 422, "unusable-data", "Unusable data"


class UnusableModelError(InvalidRequestError):
    """The upload is not a model file, or not one that this version can use."""

    slug, title = "unusable-model", "Unusable model file"


class QuotaError(ServiceError):
    """The request exceeds the owner's quota."""

    status, slug, title = 429, "quota", "Quota exceeded"


class TooManyRequestsError(ServiceError):
    """The owner sends requests faster than the rate limit."""

    status, slug, title = 429, "too-many-requests", "Too many requests"


class BusyError(ServiceError):
    """The service is overloaded now; a later retry can succeed."""

    status, slug, title = 503, "busy", "Service busy"


class AbandonedError(ServiceError):
    """The client closed the connection; nobody reads the response. The status is the one that proxies log."""

    status, slug, title = 499, "abandoned", "Client closed the request"


class UnavailableError(ServiceError):
    """A component that the service needs doesn't respond."""

    status, slug, title = 503, "unavailable", "Service unavailable"


class DiskFullError(UnavailableError):
    """The database's disk is full."""

    slug, title = "disk-full", "Disk full"


class UnauthorizedError(ServiceError):
    """The request has no valid API key."""

    status, slug, title = 401, "unauthorized", "API key required"


class ForbiddenError(ServiceError):
    """The request comes from a forbidden origin or client."""

    status, slug, title = 403, "forbidden", "Forbidden"


class ScopeMissingError(ForbiddenError):
    """The key is valid but lacks the required scope."""

    slug, title = "scope-missing", "Missing scope"
