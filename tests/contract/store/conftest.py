"""One database for all tests of the store, emptied before each."""

from tests.support.shared_database import _shared_postgres, _shared_sqlite, database  # noqa: F401  fixtures
