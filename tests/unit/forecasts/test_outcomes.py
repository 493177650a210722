"""Outcomes that come are scored by what was forecast of them, however many steps are reported at a time."""

from dataclasses import replace

import numpy as np
import pytest

from sampler import Forecaster, SettingsError
from sampler.forecasts.adapted import distance_of, place_of, table_of_rehearsals
from sampler.forecasts.outcomes import score_newer
from tests.support.forecasts import rows_of


@pytest.fixture(scope="module")
def newer(forecaster, plan):
    """Rows of the first three of the planned months, of which one is far out."""
    rows = plan | {"region": ["north" if name != "s2" else "south" for name in plan["shop"]]}
    middle = forecaster.forecast(plan).median.reshape(-1)
    sales = np.where(np.arange(12) == 4, 3 * middle, 1.02 * middle)
    return rows_of(rows | {"sales": sales.tolist()}, np.arange(12) % 4 < 3)


def score(forecaster, *parts):
    """Score rows part by part: what is said of each series and step."""
    own, said = Forecaster.from_bytes(forecaster.to_bytes()), {}
    for rows in parts:
        before = own.history
        own.observe(rows)
        found = score_newer(own, before, np.random.default_rng(0), num_threads=1)
        for n, at in enumerate(zip(found.series.tolist(), found.index.tolist(), strict=True)):
            scores = found.scores
            figures = scores.score, scores.log_score, scores.inside_50, scores.inside_90
            said[at] = (int(found.step[n]), scores.steps[n].tolist(), *(each[n] for each in figures))
    return said, own


def test_scores_are_those_of_the_forecasts(forecaster, plan, newer):
    """At once or month by month: inside is what the forecast before had inside, at each step ahead."""
    months = [rows_of(newer, [name == month for name in newer["month"]]) for month in newer["month"][:3]]
    said, _ = score(forecaster, newer)
    in_parts, own = score(forecaster, *months)
    assert said == in_parts
    assert len(said) == 9
    forecast = forecaster.forecast(plan)
    first = min(index for _, index in said)
    for (series, index), (step, by_step, *_, inside) in said.items():
        ahead = index - first
        y = own.history.y[series, ahead - 3]
        assert step == ahead + 1
        assert inside == (forecast.lower[series, ahead] <= y <= forecast.upper[series, ahead])
        assert [each[0] for each in by_step] == [int(n <= ahead) for n in range(4)]
        assert bool(by_step[ahead][2]) == inside
    assert not said[1, first][-1]
    assert score(own, newer)[0] == {}


def test_places_are_in_the_order_of_distances():
    """Also of those without an end; and back."""
    distances = np.array([-np.inf, -3, -1, 0, 1, 3, np.inf])
    places = place_of(distances)
    assert places.tolist() == [0, 0.125, 0.25, 0.5, 0.75, 0.875, 1]
    assert [distance_of(each) for each in places.tolist()] == distances.tolist()


def test_adapted_intervals_are_those_that_judge(forecaster, plan, newer):
    """Ends of an adapted forecast contain an outcome if its place is between those of the table."""
    table = table_of_rehearsals(forecaster.calibration, 25)
    moved = replace(table, tails=dict(table.tails) | {0.5: (0.3, -0.01), 0.9: (0.05, 0.01)})
    own = Forecaster(
        forecaster.history, forecaster.fitted, forecaster.calibration, forecaster.settings, moved
    )
    again = Forecaster.from_bytes(own.to_bytes())
    assert again.to_bytes() == own.to_bytes()
    said, after = score(own, newer)
    first = min(index for _, index in said)
    for level, place in ((0.5, 4), (0.9, 5)):
        forecast = again.forecast(plan, level=level)
        assert "whatever the data" in forecast.claim
        for (series, index), each in said.items():
            y = after.history.y[series, index - first - 3]
            low, high = forecast.lower[series, index - first], forecast.upper[series, index - first]
            assert each[place] == (low <= y <= high)
    assert np.isinf(again.forecast(plan, level=0.5).upper).all()
    assert np.isfinite(again.forecast(plan, level=0.5, interval="predictive").upper).all()
    with pytest.raises(SettingsError, match="not among those adapted"):
        again.forecast(plan, level=0.7)
