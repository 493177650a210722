"""Figures as people read them."""

import pytest

from app.dashboard.words import duration


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.4, "under a second"),
        (59.7, "1 min 0 s"),
        (119.7, "2 min 0 s"),
        (3599.6, "1 h 0 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_lengths_of_time_are_rounded_before_they_are_divided(seconds, told):
    """No minute of sixty seconds, and no hour of sixty minutes."""
    assert duration(seconds) == told
