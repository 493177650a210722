"""Coverage for new groups and later rows, in named subgroups, under changed mixes, and without values."""

import pytest

from lab import validity, watched

DEAR = {"Chicago", "electricity", "14b"}
BRIEF = {"4", "9", "11", "11b", "12", "13"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sampler.errors.DataWarning")
@pytest.mark.parametrize(
    "name",
    [name if name in BRIEF else pytest.param(name, marks=pytest.mark.long) for name in validity.GATES],
)
@pytest.mark.sampled(quick=1, slow=3)
def test_calibrated_intervals_hold_where_they_say(name):
    """Coverage is within the gate, and that of plain calibration is not: figures of docs/validity.md."""
    assert validity.measured(name, runs=14)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sampler.errors.DataWarning")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long) if name in DEAR else name for name in watched.GATES],
)
def test_outcomes_are_judged_and_intervals_move_as_promised(name):
    """False alarms and coverage are within the gate, those by rows are not: docs/outcomes.md."""
    assert watched.measured(name, runs=60)
