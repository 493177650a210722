"""The service of the API tests, used as by a browser."""

import pytest

from tests.support.html_page import browsing
from tests.support.shared_database import _shared_postgres, _shared_sqlite, database  # noqa: F401  fixtures


@pytest.fixture
def browser(client):
    """Return a client that requests pages and follows the redirects of forms."""
    with browsing(client) as session:
        yield session
