"""One embedded service shared by the client tests, which create their own objects in it."""

from collections.abc import Iterator

import pytest

from tests.support.processes.embedded_service import Up, running_up
from tests.support.waiting import eventually


@pytest.fixture(scope="session")
def service(tmp_path_factory) -> Iterator[Up]:
    """Start `bartserve up` and wait until it is ready."""
    folder = tmp_path_factory.mktemp("service")
    with running_up(folder / "data") as up:
        eventually(up.ready, 180, up.log.read_text())
        yield up
