"""Random numbers of unit tests."""

import numpy as np
import pytest


@pytest.fixture
def rng(request):
    """Return a generator seeded by the test's name."""
    return np.random.default_rng(list(request.node.name.encode()))
