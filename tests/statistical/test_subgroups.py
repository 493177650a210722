"""Coverage in named subgroups, under changed mixes, without values and for new subjects."""

import pytest

from benchmarks import validity


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:subject")
@pytest.mark.parametrize("name", validity.GATES)
def test_calibrated_intervals_hold_where_they_say(name):
    """The figures of docs/validity.md; plain calibration fails on the same tables."""
    assert validity.measured(name, runs=14)
