"""The same service as the API's tests have it, asked as a browser asks."""

import httpx
import pytest

from tests.integration.api.conftest import client, settings, team  # noqa: F401  fixtures

ACCEPT = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
def browser(client):  # noqa: F811  the fixture of that name
    """A client that asks for pages and goes where forms send it."""
    with httpx.Client(base_url=client.base_url, headers=ACCEPT, follow_redirects=True, timeout=60) as made:
        yield made
