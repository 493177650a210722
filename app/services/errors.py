"""What can go wrong on purpose: small classes with a status, rendered in one place (`app.web.errors`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar, Protocol

ENOUGH = 1000  # faults are not looked for beyond so many
MAX_DETAIL = 500  # characters of a fault: the sampler repeats the value, whose length is the sender's choice
SHOWN = 100  # entries of `errors` in an answer; `detail` says how many more there are


class Located(Protocol):
    """What the sampler's own problems with data look like."""

    @property
    def column(self) -> str | None: ...
    @property
    def row(self) -> int | None: ...
    @property
    def detail(self) -> str: ...


class RefusedSetting(Protocol):
    """What the sampler's `SettingsError` looks like."""

    @property
    def field(self) -> str | None: ...
    @property
    def code(self) -> str: ...
    def called(self, name: str) -> str: ...


@dataclass(frozen=True)
class Fault:
    """One thing wrong with what was sent.

    `column` is a column of the data or a field of the request, None when the whole is meant. `row` is the
    1-based data row (the header of a CSV file doesn't count). `detail` is a sentence that doesn't repeat
    the value sent. `code` says what is wrong for programs, where that is known; `field` is the place to the
    last step, as `prior.k`, where `column` is `prior`.
    """

    column: str | None
    row: int | None
    detail: str
    code: str | None = None
    field: str | None = None

    @classmethod
    def of(cls, problem: Located, column: str | None = None) -> "Fault":
        """The sampler's problem with data; `column`: the user's name of what it knows by its role."""
        return cls(column or problem.column, problem.row, problem.detail[:MAX_DETAIL])

    @classmethod
    def of_setting(cls, error: RefusedSetting, names: Mapping[str, str] | None = None) -> "Fault":
        """The sampler's refusal of a setting; `names`: what the request calls the sampler's settings."""
        field = error.field and (names or {}).get(error.field, error.field)
        column = field and field.partition(".")[0]
        return cls(column, None, error.called(field or "")[:MAX_DETAIL], error.code, field)

    def to_json(self) -> dict[str, str | int | None]:
        """An entry of `errors` in a problem document."""
        entry: dict[str, str | int | None] = {"column": self.column, "row": self.row, "detail": self.detail}
        return entry if self.code is None else entry | {"code": self.code}

    def __str__(self) -> str:
        return self.told("column ")

    def told(self, noun: str) -> str:
        """The whole sentence; `noun` stands before the name of a column."""
        where = [f"{noun}{self.column}"] if self.column is not None else []
        where += [f"row {self.row}"] if self.row is not None else []
        return f"{', '.join(where)}: {self.detail}" if where else self.detail


class ServiceError(Exception):
    """Base: `status`, `slug` (the problem type) and `title` belong to the class, the rest to the case.

    Parameters
    ----------
    detail
        What happened and what to do; made from `errors` when left out.
    errors
        Where, when the data or the request are to blame.
    retry_after
        Seconds after which trying again makes sense.
    """

    status: ClassVar[int] = 500
    slug: ClassVar[str] = "internal-error"
    title: ClassVar[str] = "Something went wrong on our side"
    noun: ClassVar[str] = "column "  # what a fault's place is called

    def __init__(
        self, detail: str = "", errors: Iterable[Fault] = (), *, retry_after: int | None = None
    ) -> None:
        found = list(errors)
        self.errors: Sequence[Fault] = [replace(fault) for fault in found[:SHOWN]]
        self.retry_after = retry_after
        self.detail = detail or _told(found, self.noun)
        super().__init__(self.detail)


def enough(faults: Iterable[Fault]) -> list[Fault]:
    """The first of what may be a million faults: nobody reads more, and each takes memory."""
    return list(islice(faults, ENOUGH))


def _told(faults: Sequence[Fault], noun: str) -> str:
    if not faults:
        return ""
    more = "many more" if len(faults) >= ENOUGH else f"{len(faults) - 1} more"
    first = faults[0].told(noun)
    return f"{first} (and {more})" if len(faults) > 1 else first


class NotFoundError(ServiceError):
    """No such thing, or not yours."""

    status, slug, title = 404, "not-found", "There is no such thing"


class ConflictError(ServiceError):
    """The state of the thing forbids it now."""

    status, slug, title = 409, "conflict", "The state of the thing forbids this"


class NotFinishedError(ConflictError):
    """The model can't answer yet, or never will."""

    slug, title = "model-not-finished", "The model has not finished"


class InUseError(ConflictError):
    """Something else still needs it."""

    slug, title = "in-use", "Something else still needs this"


class TooLargeError(ServiceError):
    """More than this service takes."""

    status, slug, title = 413, "too-large", "That is more than this service takes"


class UnsupportedMediaError(ServiceError):
    """A content type nobody here reads."""

    status, slug, title = 415, "unsupported-media-type", "That content type is not read here"


class InvalidRequestError(ServiceError):
    """A field of the request is absent, unknown or out of range."""

    status, slug, title = 422, "invalid-request", "The request can't be carried out as it is"
    noun = ""  # a field of the request, by its name


class UnusableDataError(ServiceError):
    """The data can't be used as they are; `errors` says what, where."""

    status, slug, title = 422, "unusable-data", "The data can't be used as they are"


class UnusableModelError(InvalidRequestError):
    """What was sent is no model file, or one that this version can't use."""

    slug, title = "unusable-model", "The model file can't be used"


class QuotaError(ServiceError):
    """More than one owner may have at once."""

    status, slug, title = 429, "quota", "That is more than your share"


class TooManyRequestsError(ServiceError):
    """Requests come faster than one owner may send them."""

    status, slug, title = 429, "too-many-requests", "Requests come too fast"


class BusyError(ServiceError):
    """Too much asked at once; later it works."""

    status, slug, title = 503, "busy", "The service is busy"


class AbandonedError(ServiceError):
    """Who asked has hung up: nobody reads this. The status is the one that proxies log then."""

    status, slug, title = 499, "abandoned", "Nobody waits for this answer any more"


class UnavailableError(ServiceError):
    """A part the service needs doesn't answer."""

    status, slug, title = 503, "unavailable", "A part of the service doesn't answer"


class DiskFullError(UnavailableError):
    """The database's disk has no room."""

    slug, title = "disk-full", "The disk is full"


class UnauthorizedError(ServiceError):
    """No key in force came with the request."""

    status, slug, title = 401, "unauthorized", "An API key is needed"


class ForbiddenError(ServiceError):
    """The request comes from where it may not come from."""

    status, slug, title = 403, "forbidden", "This request is not allowed"


class ScopeMissingError(ForbiddenError):
    """The key is in force, and not for this."""

    slug, title = "scope-missing", "The key is not for this"
