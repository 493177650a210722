"""Errors of the store: refusals, deleted objects and damaged data."""

from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError

# The database is unreachable, full or has aborted; any other error of it is our mistake.
AWAY = (OperationalError, InterfaceError, InternalError)
# Error codes of SQLite and Postgres for a full disk.
SQLITE_FULL = frozenset({"SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"})
POSTGRES_FULL = "53100"


def is_disk_full(error: BaseException) -> bool:
    """Return whether the database failed because its disk is full."""
    reason = error.orig if isinstance(error, DBAPIError) else error
    name, state = getattr(reason, "sqlite_errorname", None), getattr(reason, "sqlstate", None)
    return name in SQLITE_FULL or state == POSTGRES_FULL


def is_storable(text: str) -> bool:
    """Return whether both databases store a text: it has no NUL and no half of a surrogate pair."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text))


def is_id(text: str) -> bool:
    """Return whether a text has the form of an id; other path values never reach the database."""
    return len(text) <= 64 and text.isascii() and text.replace("_", "").isalnum()


class StoreError(Exception):
    """Base class of the store's errors; the message is one sentence."""


class StillNeededError(StoreError):
    """Refusal to delete a dataset that models or predictions need; `ids` names up to ten of them."""

    def __init__(self, dataset_id: str, ids: list[str], advice: str = "delete those models first") -> None:
        self.ids = ids
        super().__init__(f"Dataset {dataset_id} is needed by {', '.join(ids)}: {advice}.")


class DatasetGoneError(StoreError):
    """The dataset was deleted while it was being read."""


class ModelGoneError(StoreError):
    """The model was deleted while it was being read or used."""


class CorruptBlockError(StoreError):
    """Stored bytes differ from their checksum."""


class LeaseLostError(StoreError):
    """The unit no longer belongs to this worker; nothing of the write was stored."""


class UnstorableTextError(StoreError):
    """A text has a NUL or half a surrogate pair, so that it can be neither stored nor found."""

    def __init__(self) -> None:
        super().__init__("Text must not contain a NUL or half a surrogate pair.")
