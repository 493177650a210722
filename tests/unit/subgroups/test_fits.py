"""Fits whose intervals hold in named subgroups: the rows that calibrate them, and what is refused before."""

import numpy as np
import pandas as pd
import pytest

from sampler import Posterior, fit, holdout_rows
from sampler.errors import DataError, SettingsError
from sampler.studies import calibrated_fit
from tests.unit.subgroups.test_intervals import NAMED, OLD, QUICK, people

FEATURES = ["age", "region"]


def test_held_out_rows_calibrate_in_subgroups_as_afterwards():
    """The table is that of a fit to the other rows, calibrated by these; the hour is no feature."""
    X, y = people(300, seed=1)
    subgroups, more = [*NAMED, "missing"], {"features": FEATURES, "seed": 1, "recalibrate": "off", **QUICK}
    X.loc[X.index % 5 == 0, "age"] = np.nan
    held = holdout_rows(300, 0.4, seed=1)
    apart = fit(X.drop(index=held), y.drop(index=held), **more)
    expected = apart.calibrate(X.loc[held], y.loc[held], subgroups=subgroups)
    found = fit(X, y, calibrate="holdout", holdout=0.4, subgroups=subgroups, **more)
    assert found.conformal_table.checksum == expected.conformal_table.checksum
    assert found.to_bytes() == expected.to_bytes()
    names = [each.name for each in found.calibrated_levels(0.9)[0].subgroups]
    assert names == [*(f"region = {r}" for r in "abcd"), "old", "late", "age missing", "complete"]


@pytest.mark.slow
def test_folds_calibrate_in_subgroups_by_all_rows():
    X, y = people(150, seed=2)
    more = {"calibrate": "folds", "features": FEATURES, "seed": 1, **QUICK}
    plain, named = fit(X, y, **more), fit(X, y, subgroups=["hour", OLD], **more)
    np.testing.assert_array_equal(named.conformal_table.scores, plain.conformal_table.scores)
    claim = Posterior.from_bytes(named.to_bytes()).predict(X[:5], interval="calibrated").claims[0]
    assert "estimated of each named subgroup" in claim.text
    assert claim.subgroups[-1].rows == (X["age"] >= 65).sum()
    quarters = np.quantile(X["hour"], [0.25, 0.5, 0.75], method="nearest")
    assert claim.subgroups[0].name == f"hour below {quarters[0]:g}"
    assert sum(each.rows for each in claim.subgroups[:4]) == 150
    cells = claim.cells.of_rows(named.encode(X).subgroups)
    assert len(np.unique(cells, axis=0)) > 2


def test_subgroups_of_whole_groups_are_promised_for_new_groups():
    X, y = people(300, seed=3)
    X["subject"] = np.arange(300) // 5
    X["sex"] = np.where(X["subject"] % 3 == 0, "F", "M")
    asked = {"new_rows": {"groups": "subject"}, "subgroups": ["sex"], "calibrate": "holdout", "holdout": 0.5}
    posterior = fit(X, y, features=FEATURES, seed=1, **asked, **QUICK)
    claim = posterior.calibrated_levels(0.8)[0]
    assert [each.at_least for each in claim.subgroups] == [0.8, 0.8]
    assert "values of subject" in claim.subgroups[0].text


@pytest.mark.parametrize(("family", "words"), [("poisson", ["region"]), ("categorical", ["by_class", OLD])])
def test_counts_and_classes_have_subgroups(family, words):
    X, y = people(300, seed=4)
    if family == "poisson":
        outcome = np.random.default_rng(1).poisson(np.exp(X["age"] / 40))
    else:
        outcome = np.array(["low", "middle", "high"])[np.digitize(y, [2, 3.5])]
    asked = {"calibrate": "holdout", "holdout": 0.5, "subgroups": words, "family": family}
    posterior = fit(X[FEATURES], outcome, seed=1, **asked, **QUICK)
    answer = posterior.predict(X[FEATURES], level=0.8, interval="calibrated")
    if family == "poisson":
        assert np.mean((outcome >= answer.lower) & (outcome <= answer.upper)) > 0.75
        return
    own = answer.sets[0].members[np.arange(300), pd.Index(posterior.classes).get_indexer(outcome)]
    for name in posterior.classes:
        assert own[outcome == name].mean() > 0.7
    claims = Posterior.from_bytes(posterior.to_bytes()).calibrated_levels(0.8)[0].subgroups
    assert [each.name for each in claims] == ["old", *(f"class {name}" for name in posterior.classes)]
    assert sum(each.rows for each in claims[1:]) == 150
    assert "class high: at least 0.8 inside" in claims[1].text


def test_declarations_are_refused_before_the_fit(monkeypatch):
    X, y = people(100, seed=5)
    X["y"] = y
    monkeypatch.setattr(calibrated_fit, "run", None)
    few = {"name": "very old", "where": [{"column": "age", "at_least": 88}]}
    for subgroups, message in (
        (["aeg"], "'aeg' is no column of the table; did you mean age"),
        ([few], "very old has . calibration rows, and intervals of 90% take 9"),
        (["missing"], "no feature is missing in 10"),
        (["by_class"], "by_class is for outcomes that are classes"),
        (["y"], "'y' is the outcome"),
    ):
        for calibrate in ("holdout", "folds"):
            with pytest.raises(SettingsError, match=message) as refused:
                fit(X, y, calibrate=calibrate, subgroups=subgroups, **QUICK)
            assert refused.value.field == "subgroups"
    classes = np.where(np.arange(100) < 95, "usual", "rare")
    with pytest.raises(SettingsError, match="class rare has 5 calibration rows"):
        fit(X[FEATURES], classes, family="probit", calibrate="folds", subgroups=["by_class"], **QUICK)
    with pytest.raises(DataError, match="row 1"):
        fit(X, y, calibrate="folds", subgroups=[{"name": "a", "where": [{"column": "region", "below": 3}]}])
    with pytest.raises(SettingsError, match="set calibrate") as refused:
        fit(X, y, subgroups=["region"], **QUICK)
    assert refused.value.field == "subgroups"
