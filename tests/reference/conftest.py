"""Compiled kernels for the tests that put questions to the engine."""

import pytest

from sampler.kernels.jit import warm


@pytest.fixture(scope="session", autouse=True)
def compiled():
    """All kernels, once, so that no test pays for compiling."""
    warm()
