"""Intervals and sets that hold in named subgroups: what is served, stored, claimed and refused."""

import html

import numpy as np
import pandas as pd
import pytest

from sampler import Posterior, fit
from sampler.errors import DataError, PackedError, SettingsError
from sampler.posterior.assessment.conformal import predict_calibrated
from sampler.storage.conformal_table import CalibratedLevel
from sampler.storage.model_header import Header

QUICK = {"num_trees": 10, "num_chains": 1, "num_burnin": 50, "num_draws": 30, "thin": 1, "progress": False}
OLD = {"name": "old", "where": [{"column": "age", "at_least": 65}]}
NAMED = ["region", OLD, {"name": "late", "where": [{"column": "hour", "at_least": 12}]}]


def people(rows, seed):
    """Noise that is three times as large for the old, twice in region d; the hour says nothing."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.uniform(18, 90, rows),
            "region": rng.choice(list("abcd"), rows, p=[0.4, 0.3, 0.2, 0.1]),
            "hour": rng.integers(0, 24, rows).astype(float),
        }
    )
    sd = np.where(X["age"] >= 65, 3, 1) * np.where(X["region"] == "d", 2, 1)
    return X, pd.Series(X["age"] / 20 + sd * rng.normal(size=rows), name="y")


@pytest.fixture(scope="module")
def posterior():
    X, y = people(300, seed=1)
    return fit(X[["age", "region"]], y, seed=1, **QUICK)


@pytest.fixture(scope="module")
def calibrated(posterior):
    return posterior.calibrate(*people(300, seed=2), subgroups=NAMED)


def test_each_row_has_the_ends_of_its_subgroups(posterior, calibrated):
    new, _ = people(60, seed=3)
    answer = calibrated.predict(new, level=[0.5, 0.9], interval="calibrated")
    plain = posterior.predict(new[["age", "region"]], level=None)
    np.testing.assert_array_equal(answer.mean, plain.mean)
    np.testing.assert_array_equal(answer.sd, plain.sd)
    cells = answer.claims[1].cells
    ends = cells.of_rows(calibrated.encode(new).subgroups)
    assert len(np.unique(ends, axis=0)) > 4
    for row in range(0, 60, 7):
        quantiles = [end for end in ends[row].tolist() if 1e-12 < end < 1 - 1e-12]
        expected = posterior.predict(new[["age", "region"]][row : row + 1], level=None, quantiles=quantiles)
        found = [answer.intervals[1].lower[row], answer.intervals[1].upper[row]]
        assert [each for each in found if np.isfinite(each)] == [
            values[0] for _, values in expected.quantiles
        ]
    alone = calibrated.predict(new[5:6], interval="calibrated")
    assert (alone.lower[0], alone.upper[0]) == (answer.intervals[1].lower[5], answer.intervals[1].upper[5])


def test_claims_name_each_subgroup(calibrated):
    claim = calibrated.calibrated_levels(0.9)[0]
    named = {each.name: each for each in claim.subgroups}
    assert list(named) == ["region = a", "region = b", "region = c", "region = d", "old", "late"]
    X, _ = people(300, seed=2)
    rows = int((X["age"] >= 65).sum())
    assert named["old"].rows == rows
    assert named["old"].at_least == claim.at_least == 0.9
    assert named["old"].at_most == pytest.approx(0.9 + 6 * 300 / (301 * rows))
    assert "at least 0.9 inside on average" in named["old"].text
    assert "each named subgroup" in claim.text
    card = calibrated.model_card().to_html()
    assert "Calibrated intervals of 90%" in card
    assert html.escape(named["old"].text) in card
    again = CalibratedLevel.from_json(claim.to_json())
    assert (again, again.subgroups) == (claim, claim.subgroups)


def test_a_plan_of_a_prediction_answers_without_the_table(posterior, calibrated):
    """Background predictions have the ends with them, whatever the model's calibration is by then."""
    new, _ = people(40, seed=4)
    levels = [CalibratedLevel.from_json(calibrated.calibrated_levels(0.8)[0].to_json())]
    planned = predict_calibrated(posterior.law, new, levels)
    expected = calibrated.predict(new, level=0.8, interval="calibrated")
    np.testing.assert_array_equal(planned.lower, expected.lower)


def test_a_model_file_keeps_subgroups(calibrated):
    again = Posterior.from_bytes(calibrated.to_bytes())
    assert again.to_bytes() == calibrated.to_bytes()
    new, _ = people(30, seed=5)
    for level in (0.9, 0.77):  # stored, and found again
        expected = calibrated.predict(new, level=level, interval="calibrated")
        np.testing.assert_array_equal(
            again.predict(new, level=level, interval="calibrated").lower, expected.lower
        )
    assert again.conformal_table.checksum == calibrated.conformal_table.checksum
    damaged = calibrated.header.to_bytes().replace(b'"two_sided"', b'"two_sided_"')
    with pytest.raises(PackedError):
        Header.from_bytes(damaged)


def test_an_unseen_kind_of_row_gets_infinite_ends(calibrated):
    """Region e is in none of the regions: no calibration row tells of it."""
    strange = pd.DataFrame({"age": [70.0], "region": ["e"], "hour": [3.0]})
    answer = calibrated.predict(strange, interval="calibrated")
    assert (answer.lower[0], answer.upper[0]) == (-np.inf, np.inf)
    assert "1 row: too few calibration rows tell of their subgroups" in answer.warnings[-1]


def test_columns_of_subgroups_are_needed_for_calibrated_intervals_alone(calibrated):
    new, _ = people(3, seed=6)
    assert len(calibrated.predict(new[["age", "region"]])) == 3
    with pytest.raises(DataError, match="column 'hour': calibrated intervals hold in subgroups"):
        calibrated.predict(new[["age", "region"]], interval="calibrated")


def test_missing_patterns_and_quarters(posterior):
    X, y = people(300, seed=7)
    X.loc[X.index % 5 == 0, "age"] = np.nan
    calibrated = posterior.calibrate(X[["age", "region"]], y, subgroups=["missing", "age"])
    names = [each.name for each in calibrated.calibrated_levels(0.9)[0].subgroups]
    assert names[4:] == ["age missing", "complete"]
    answer = calibrated.predict(X[["age", "region"]], interval="calibrated")
    widths = answer.upper - answer.lower
    assert np.isfinite(widths).all()


def test_each_class_counts_by_itself():
    rng = np.random.default_rng(8)
    X = rng.uniform(size=(900, 1))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=900) > 0.8, "rare", "usual")
    model = fit(X[:300], y[:300], seed=1, family="probit", **QUICK)
    half = {"name": "low", "where": [{"column": "x1", "below": 0.5}]}
    calibrated = model.calibrate(X[300:600], y[300:600], subgroups=["by_class", half])
    answer = calibrated.predict(X[600:], level=0.9, interval="calibrated")
    members = answer.sets[0].members
    inside = members[np.arange(300), (y[600:] == "usual").astype(int)]
    marginal = model.calibrate(X[300:600], y[300:600]).predict(X[600:], level=0.9, interval="calibrated")
    before = marginal.sets[0].members[np.arange(300), (y[600:] == "usual").astype(int)]
    rare = y[600:] == "rare"
    assert inside[rare].mean() > max(before[rare].mean(), 0.85)
    again = Posterior.from_bytes(calibrated.to_bytes())
    again = again.predict(X[600:], level=0.9, interval="calibrated")
    np.testing.assert_array_equal(again.sets[0].members, members)
    alone = model.calibrate(X[300:600], y[300:600], subgroups=["by_class"])
    inside = alone.predict(X[600:], level=0.9, interval="calibrated").sets[0].members[:, 0]
    assert inside[rare].mean() > max(before[rare].mean(), 0.85)


def test_new_groups(posterior):
    X, y = people(300, seed=9)
    X["subject"] = np.arange(300) // 10
    calibrated = posterior.calibrate(X.drop(columns="hour"), y, groups="subject")
    claim = calibrated.predict(X[["age", "region"]][:2], interval="calibrated").claims[0]
    assert "Of the rows of a new value of subject, at least 0.9" in claim.text
    assert len(calibrated.predict(X[["age", "region", "subject"]][:2], interval="calibrated")) == 2
    both = posterior.calibrate(X.drop(columns="hour"), y, groups="subject", subgroups=["region"])
    claim = both.calibrated_levels(0.9)[0]
    assert claim.at_least == 0.9
    assert {each.at_least for each in claim.subgroups} == {None}  # subjects are in several regions
    with pytest.raises(SettingsError, match="at least 9 values of subject"):
        posterior.calibrate(X[:50].drop(columns="hour"), y[:50], groups="subject")


def test_what_is_refused(posterior):
    X, y = people(100, seed=10)
    few = {"name": "very old", "where": [{"column": "age", "at_least": 89}]}
    for subgroups, message in (
        ([few], "very old has 1 calibration rows, and intervals of 90% take 9"),
        (["hour"], "'hour' is no feature, whose quarters are known"),
        (["missing"], "no feature is missing in 10"),
        (["height"], "'height' is no column"),
        (
            [{"name": f"h{k}", "where": [{"column": "hour", "at_least": k}]} for k in range(1, 19)],
            "independent of each other, and 16 are the most",
        ),
    ):
        used = list(X) if "hour" in str(subgroups) else ["age", "region"]
        with pytest.raises(SettingsError, match=message) as refused:
            posterior.calibrate(X[used], y, subgroups=subgroups)
        assert refused.value.field == "subgroups"


def test_programmes_that_are_still_to_be_solved_are_counted(posterior):
    """Those of levels that are not stored, for each kind of row, and of new kinds of rows."""
    table = posterior.calibrate(*people(200, seed=11), subgroups=NAMED).conformal_table
    cells = len(table.subgroups.cells)
    assert table.num_programmes([0.8, 0.9]) == 0
    assert table.num_programmes([0.9, 0.77]) == cells
    assert table.num_programmes([0.9, 0.77], np.array([*table.subgroups.cells, 63], np.uint64)) == cells + 2
    table.at(0.77)
    assert table.num_programmes([0.9, 0.77]) == 0
