"""A fitted model that tests of predictions and explanations share."""

import pytest

from tests.support.models.fitted_models import fitted


@pytest.fixture
def model(client, settings) -> dict:
    """Fit a small model named "mine"."""
    return fitted(client, settings, name="mine", seed=3)
