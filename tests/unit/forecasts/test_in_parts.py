"""Totals of series whose paths are sampled in parts have the bits of one answer."""

import numpy as np
import pytest

from sampler import SettingsError
from sampler.forecasts import in_parts
from sampler.forecasts.in_parts import totals_in_parts


@pytest.mark.parametrize("part", [1, 8])
def test_totals_in_parts_are_those_of_one_answer(forecaster, plan, monkeypatch, part):
    """Sets, ends, claims and counts are equal, whichever series are sampled together."""
    monkeypatch.setattr(in_parts, "PART", part)
    whole, read = forecaster.forecast(plan), forecaster.read_plan(plan)
    asked = [(None, []), ((2, 3), ["region"]), (4, ["shop"])]
    looked = []
    found = totals_in_parts(forecaster, asked, read, report=lambda: looked.append(1))
    for (steps, by), total in zip(asked, found, strict=True):
        expected = whole.total(steps, by)
        assert total.sets == expected.sets
        assert np.array_equal(
            [total.median, total.lower, total.upper], [expected.median, expected.lower, expected.upper]
        )
        assert (total.claim, total.count, total.steps) == (expected.claim, expected.count, expected.steps)
    assert len(looked) == 3 * (3 if part == 1 else 2)


def test_what_is_refused_is_known_without_paths(forecaster):
    """A check names unknown columns and steps, and the sets that there are, and samples nothing."""
    (total,) = totals_in_parts(forecaster, [((1, 2), ["region"])], is_check=True)
    assert total.sets == {"region": ["north", "south"]}
    for asked, words in (((None, ["city"]), "by names"), ((9, []), "steps must be")):
        with pytest.raises(SettingsError, match=words):
            [*totals_in_parts(forecaster, [asked], is_check=True)]
