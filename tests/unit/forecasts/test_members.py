"""Rows, subtracted values and scales by which members learn of gaps, of short series and of new ones."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.forecasts.fitting import members_of
from sampler.forecasts.members import FEW, OWN_STEPS, Member
from tests.support.forecasts import history_of


def test_a_gap_is_not_learnt_and_the_newest_of_its_season_is_subtracted():
    """Lags that need a gap are missing; what is subtracted after it is the newest value of that season."""
    y = np.arange(60.0) ** 1.5
    y[[20, 24, 40]] = np.nan
    history = history_of(y, season=(4,))
    member = Member("season", "identity", 4, 4)
    anchors = member.anchors(history.y)[0]
    assert anchors[19] == y[15]
    assert (anchors[24], anchors[28], anchors[44]) == (y[16], y[16], y[36])
    last = Member("last", "identity", 4, 4)
    columns, z, _, at = last.training_rows(history, np.ones(1))
    assert not {20, 24, 40} & {*at.tolist()}
    assert z[at == 21][0] == y[21] - y[19]
    assert np.isnan(columns["y lag 2"][at == 22][0])
    assert np.isfinite(columns["y lag 2"][at == 30][0])


POSITIVE, SIGNED = np.exp(np.sin(np.arange(60.0))), np.sin(np.arange(60.0))
COUNTS = np.arange(60.0) % 4
KINDS = {  # outcomes, settings, the members by name, and their lags
    "all six": (POSITIVE, {"season": (12,)}, 6, 4),
    "a season of days": (POSITIVE, {"season": (7,)}, 6, 7),
    "no season": (
        POSITIVE,
        {"season": (1,)},
        ["last, identity", "last, log", "none, identity", "none, log"],
        4,
    ),
    "below 0": (SIGNED, {"season": (4,)}, ["last, identity", "season, identity", "none, identity"], 4),
    "one difference": (POSITIVE, {"difference": "last"}, ["last, identity", "last, log"], 4),
    "few counts": (COUNTS, {"season": (4,)}, ["counts"], 4),
    "many zeros": (9 * (COUNTS == 3), {}, ["counts"], 4),
    "large counts": (COUNTS + 100, {"season": (1,)}, 4, 4),
    "counts by a difference": (COUNTS, {"difference": "last"}, ["last, identity"], 4),
}


@pytest.mark.parametrize("name", KINDS)
def test_members_follow_from_the_outcomes(name):
    """Differences and scales by season and sign, seven lags of days with a week, and counts by themselves."""
    y, settings, names, lags = KINDS[name]
    history = history_of(np.asarray(y, float))
    found = members_of(replace(history, asked=replace(history.asked, **settings)))
    assert (len(found) if isinstance(names, int) else [each.name for each in found]) == names
    assert {each.lags for each in found} == {lags}


def test_a_short_series_has_no_members_of_seasons():
    """A series of fewer than two seasons and eight values isn't learnt by differences of seasons."""
    rng = np.random.default_rng(1)
    long, short = rng.normal(size=(2, 40))
    short[: 40 - (2 * 12 + FEW) + 1] = np.nan
    history = history_of(long, short, season=(12,))
    by_season = next(each for each in members_of(history) if each.difference == "season")
    assert by_season.suits(history).tolist() == [True, False]
    assert {*by_season.training_rows(history, np.ones(2))[2].tolist()} == {0}
    assert all(each.suits(history).all() for each in members_of(history) if each.difference == "last")


def test_the_scale_of_few_values_is_drawn_to_the_typical_one():
    """The scale of a series of ten differences is its own by 10 parts of 24, on the scale of logarithms."""
    walk = np.cumsum(np.random.default_rng(2).normal(size=60))
    few = np.full(60, np.nan)
    few[-11:] = 4 * walk[-11:]
    scales = Member("last", "identity", 4, 1).scales(history_of(walk, walk, few))
    own, typical = np.abs(np.diff(few[-11:])).mean(), np.abs(np.diff(walk)).mean()
    part = 10 / OWN_STEPS
    assert np.isclose(scales[2], own**part * typical ** (1 - part))
    assert np.isclose(scales[0], typical)
