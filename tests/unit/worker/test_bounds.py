"""Bounds from the settings: delay until lost work continues, and the amount lost."""

from types import SimpleNamespace

import numpy as np
import pytest

from app.settings import Settings
from worker.fits import chain


@pytest.mark.parametrize(("redis_url", "bound"), [(None, 15.0), ("redis://localhost", 75.0)])
def test_a_lost_worker_is_replaced_in_time(redis_url, bound, tmp_path):
    """Lease, dispatcher's interval and broker's answer together leave seconds to spare."""
    settings = Settings(data_dir=tmp_path, redis_url=redis_url)

    assert settings.lease_seconds + settings.dispatch_seconds + 2.0 < bound
    assert settings.slice_seconds <= 1.0


class SlowingChain:
    """A chain whose iterations take 1 ms of a fake clock, and 50 ms from the second slice on."""

    done = False

    def __init__(self):
        self.now, self.each, self.iteration = 0.0, 0.001, 0

    def run(self, iterations):
        self.now += iterations * self.each
        self.iteration += iterations
        return iterations


def test_a_slice_ends_in_time_on_a_machine_that_slows_down(monkeypatch):
    """On a machine that becomes fifty times slower during a fit, a slice still ends within 10 s."""
    sampled = SlowingChain()
    monkeypatch.setattr(chain, "time", SimpleNamespace(monotonic=lambda: sampled.now))
    training = SimpleNamespace(
        codes=np.zeros((1, 1000), np.uint8), settings=SimpleNamespace(num_trees=200, method="bart")
    )
    pace = chain._Pace(1.0, SimpleNamespace(training=training))
    for _ in range(5):
        before = sampled.now
        pace.run(sampled)
        assert sampled.now - before < 2.0
    sampled.each *= 50
    before = sampled.now
    pace.run(sampled)

    assert sampled.now - before < 10.0
