"""Kernels as in the service: each compiled for a single signature and refusing any other."""

import pytest

from sampler.kernels.jit import load_inner_kernels, warm

COMPILED = {"bart", "cart", "kernels", "posterior", "soft", "storage"}  # folders that need every kernel


@pytest.fixture(scope="session")
def all_kernels():
    """Compile or load every kernel, once per test process."""
    warm()
    load_inner_kernels()


@pytest.fixture(autouse=True)
def _kernels(request):
    if request.path.parent.name in COMPILED:
        request.getfixturevalue("all_kernels")
