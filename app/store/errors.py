"""What the store refuses or finds broken."""

from sqlalchemy.exc import DBAPIError

# As SQLite and Postgres call a disk without room.
SQLITE_FULL = frozenset({"SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"})
POSTGRES_FULL = "53100"


def is_disk_full(error: BaseException) -> bool:
    """Whether the database failed for want of room on its disk."""
    reason = error.orig if isinstance(error, DBAPIError) else error
    name, state = getattr(reason, "sqlite_errorname", None), getattr(reason, "sqlstate", None)
    return name in SQLITE_FULL or state == POSTGRES_FULL


class StoreError(Exception):
    """Base of the store's errors; the text is one sentence."""


class StillNeededError(StoreError):
    """A dataset can't be deleted while models or predictions need it; `ids` names up to ten of them."""

    def __init__(self, dataset_id: str, ids: list[str], advice: str = "delete those models first") -> None:
        self.ids = ids
        super().__init__(f"Dataset {dataset_id} is needed by {', '.join(ids)}: {advice}.")


class DatasetGoneError(StoreError):
    """A dataset was deleted while it was being read."""


class ModelGoneError(StoreError):
    """A model was deleted while it was being read, or while something was being made of it."""


class CorruptBlockError(StoreError):
    """Stored bytes differ from their checksum."""


class LeaseLostError(StoreError):
    """The unit is no longer this worker's: whatever it still wanted to write is void."""
