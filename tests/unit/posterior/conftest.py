"""Kernels run as they do in the service: compiled for their one signature, refusing any other."""

import pytest

from sampler.kernels.jit import warm


@pytest.fixture(scope="session", autouse=True)
def _warm():
    warm()
