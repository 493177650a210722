"""Compiled kernels for every statistical test; the long form stays out unless asked for."""

import pytest

from sampler.compile import warm


@pytest.fixture(scope="session", autouse=True)
def compiled():
    """All kernels, once, so that no test pays for compiling."""
    warm()


def pytest_collection_modifyitems(config, items):
    """Without an expression in `-m`, leave the `long` tests to `make statistical`."""
    if config.option.markexpr:
        return
    kept = [item for item in items if "long" not in item.keywords]
    config.hook.pytest_deselected(items=[item for item in items if "long" in item.keywords])
    items[:] = kept
