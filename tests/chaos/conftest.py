"""The long form stays out unless asked for, as the statistical suites have it."""

from tests.statistical.conftest import pytest_collection_modifyitems  # noqa: F401
