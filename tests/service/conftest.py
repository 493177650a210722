"""Fixtures for both forms of the service: embedded on SQLite, and Postgres with Valkey."""

import pytest

from sampler import warm
from tests.support.processes.service_fixtures import dialect, service  # noqa: F401  fixtures


@pytest.fixture(scope="session", autouse=True)
def _kernels():
    """Compile the kernels once, before any test measures time."""
    warm()
