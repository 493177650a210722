"""The same service as the API's tests have it, asked as a browser asks."""

import httpx
import pytest

from tests.support.html_page import ACCEPT


@pytest.fixture
def browser(client):
    """A client that asks for pages and goes where forms send it."""
    with httpx.Client(base_url=client.base_url, headers=ACCEPT, follow_redirects=True, timeout=60) as made:
        yield made
