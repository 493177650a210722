"""Kernels as in the service: each compiled for a single signature and refusing any other."""

import numpy as np
import pytest

from sampler.kernels.jit import load_inner_kernels, warm

COMPILED = {"bart", "cart", "kernels", "posterior", "soft", "storage"}  # folders that need every kernel


@pytest.fixture(scope="session")
def all_kernels():
    """Compile or load every kernel, once per test process."""
    warm()
    load_inner_kernels()


@pytest.fixture
def rng(request):
    """Return a generator seeded by the test's name."""
    return np.random.default_rng(list(request.node.name.encode()))


@pytest.fixture(autouse=True)
def _kernels(request):
    if request.path.parent.name in COMPILED:
        request.getfixturevalue("all_kernels")
