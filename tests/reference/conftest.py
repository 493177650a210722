"""Compiled kernels for tests that compare the engine with its plain twins."""

import pytest

from sampler.kernels.jit import load_inner_kernels, warm


@pytest.fixture(scope="session", autouse=True)
def compiled():
    """Compile all kernels once, so that no test pays for it."""
    warm()
    load_inner_kernels()
