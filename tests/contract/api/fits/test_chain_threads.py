"""Chains of a worker that several threads share."""

import pyarrow as pa
import pytest

from sampler.bart.shared import threads
from tests.support.api_calls import table
from tests.support.models.fitted_models import fitted


@pytest.fixture
def dialect():
    """Use SQLite: no thread of a chain sees the database."""
    return "sqlite"


@pytest.mark.slow
def test_chains_on_several_threads_have_the_same_draws(client, settings, monkeypatch):
    """BARTSERVE_WORKER_CHAIN_THREADS=3 shares the passes of a worker's chains; each draw is as with one."""
    monkeypatch.setattr("sampler.chains.ROWS_OF_A_THREAD", 100)
    monkeypatch.setattr(threads, "MOST_LOSS", 10**18)  # ns: however busy the machine
    started = []
    start = threads.Threads.__init__
    monkeypatch.setattr(
        threads.Threads, "__init__", lambda self, *given: (started.append(given), start(self, *given))[0]
    )

    def draws(count):
        several = settings.model_copy(update={"worker_chain_threads": count})
        model = fitted(client, several, text=table(300), seed=3, noise="constant", num_draws=10)
        return pa.ipc.open_stream(client.get(f"/models/{model['id']}/draws").content).read_all()

    alone = draws(1)
    assert not started
    assert draws(3).equals(alone)
    assert {count for count, _rows in started} == {3}
