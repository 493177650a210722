"""Pages while others of the same person are computed: none is refused, and those that were left yield."""

import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from app.web.middleware.concurrency import Gate
from tests.support.databases import only
from tests.support.models.fitted_models import fitted
from tests.support.processes.api_server import serving
from tests.support.processes.plain_http import Client

pytestmark = only("sqlite")
PAGES = (
    "features?pairs=true",
    "effects?part=all",
    "what-if",
    "chains",
    "reasons.svg",
    "dependence.svg?feature=size",
)


@pytest.mark.slow
def test_one_person_is_never_refused_a_page(client, settings, monkeypatch):
    """All pages of a model at once, on one core, come in turn, after pages that were left as well."""
    at = f"/ui/models/{fitted(client, settings)['id']}"
    monkeypatch.setattr("app.application.Gate", lambda cores=1, wait_seconds=0.0: Gate(cores, wait_seconds))
    with serving(settings) as address:
        where = urlsplit(address)
        left = [socket.create_connection((where.hostname, where.port)) for _ in PAGES]
        for connection, page in zip(left, PAGES, strict=True):
            connection.sendall(f"GET {at}/{page} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
        for connection in left[1:]:
            connection.close()
        with Client(base_url=address, timeout=120) as browser, ThreadPoolExecutor(len(PAGES)) as tabs:
            answers = list(tabs.map(lambda page: browser.get(f"{at}/{page}"), PAGES))
        assert [answer.status_code for answer in answers] == [200] * len(PAGES), [a.text for a in answers]
        left[0].close()
