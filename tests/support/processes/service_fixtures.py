"""Fixtures for the two forms of the service: embedded on SQLite, and on Postgres with Valkey."""

import pytest

from tests.support.processes.worker_service import make_service


@pytest.fixture(params=["embedded", "team"])
def service(request, tmp_path, warm_parent):
    """Create a service without workers, which tests start."""
    broker = request.getfixturevalue("valkey_url") if request.param == "team" else None
    with make_service(request.getfixturevalue("database"), broker, tmp_path, warm_parent) as started:
        yield started


@pytest.fixture
def dialect(request):
    """Return the database of the form: SQLite if embedded, else Postgres."""
    kind = request.node.callspec.params["service"]
    return {"embedded": "sqlite", "team": "postgres"}[kind]
