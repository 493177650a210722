"""Fits with a dose: effects by unit and between two doses, model files, more draws, and refusals by name."""

import re
from functools import cache

import numpy as np
import pytest

from sampler import DataError, Posterior, SettingsError, fit, prepare
from sampler.data.treatment.dose import Dose

SHORT = {"num_trees": 20, "num_chains": 2, "num_burnin": 60, "num_draws": 20, "thin": 2, "progress": False}
NUM_ROWS = 240


def rows():
    """Return a table with years, which follow its first column, and outcomes they raise by .5 or 1 each."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, NUM_ROWS))
    years = np.round(12 + 2 * a + 1.5 * rng.normal(size=NUM_ROWS))
    site = np.where(rng.uniform(size=NUM_ROWS) < 0.5, "north", "south")
    y = 2 * a + 0.3 * rng.normal(size=NUM_ROWS) + years * np.where(site == "north", 1.0, 0.5)
    return {"a": a, "b": b, "site": list(site), "treatment": years}, y


def features(table):
    """Return the columns besides the dose."""
    return {name: values for name, values in table.items() if name != "treatment"}


@cache
def fitted(effects="bcf", **more):
    """Return a short fit."""
    table, y = rows()
    if more.get("family") == "probit":
        y = (y > np.median(y)).astype(int)
    return fit(features(table), y, treatment=table["treatment"], effects=effects, **SHORT, **more)


@pytest.mark.parametrize("effects", ["bcf", "ps-bart", "plain"])
def test_effects_by_unit(effects):
    """Averages are near the truth, by unit and by standard deviation, and groups differ as they do."""
    answer = fitted(effects).effects(by="site")
    assert answer.average.rows == NUM_ROWS == len(answer.mean)
    assert abs(answer.average.mean - 0.75) < 0.3
    assert answer.groups["north"].mean > answer.groups["south"].mean + 0.2
    assert "y per unit of treatment" in answer.difference
    sd = rows()[0]["treatment"].std()
    assert answer.dose.sd == pytest.approx(sd)
    assert answer.dose.by_sd.mean == pytest.approx(answer.average.mean * sd)
    assert answer.dose.linear == (effects == "bcf") == ("whatever the dose" in str(answer))
    assert answer.treated is None is answer.untreated
    assert "treated" not in answer.to_pandas()
    assert "had different doses" in answer.holds
    assert "dose higher by one" in answer.hidden


@pytest.mark.parametrize("effects", ["bcf", "ps-bart", "plain"])
def test_between_two_doses(effects):
    """The effect of a dose beside another is a difference of predictions; a straight line has no other."""
    posterior = fitted(effects)
    some = {name: values[:9] for name, values in rows()[0].items()}
    both = [posterior.predict(some | {"treatment": np.full(9, each)}).mean for each in (15.0, 11.0)]
    answer = posterior.effects(some, arm=15, against=11)
    np.testing.assert_allclose(answer.mean, both[0] - both[1], atol=1e-4)
    assert "where treatment = 15, minus y where treatment = 11" in answer.difference
    if effects == "bcf":
        np.testing.assert_allclose(answer.mean, 4 * posterior.effects(some).mean)
        np.testing.assert_allclose(answer.mean, posterior.effects(some, arm="16", against="12").mean)
    without = posterior.effects(features(some), arm=15, against=11)
    np.testing.assert_array_equal(without.mean, answer.mean)
    assert without.overlap is None
    for arms in (
        {"arm": 15},
        {"arm": 15, "against": 15},
        {"arm": 99, "against": 11},
        {"arm": "many", "against": 11},
    ):
        with pytest.raises(SettingsError):
            posterior.effects(some, **arms)


def test_trust():
    """The expected dose is fitted, and what is left of the dose goes with no feature."""
    answer = fitted().effects()
    assert answer.balance[0].feature == "a"
    assert abs(answer.balance[0].after) < 0.2 < 0.6 < abs(answer.balance[0].before)
    assert 0.3 < answer.overlap.explained_other_half < answer.overlap.explained < 1
    assert np.corrcoef(answer.propensity, rows()[0]["treatment"])[0, 1] > 0.6
    assert answer.overlap.auc is None is answer.overlap.treated
    assert 0 <= answer.overlap.unsupported == answer.unsupported.mean() < 0.2
    placebo = fitted().placebo()
    assert abs(placebo.average.mean) < 0.3 < answer.average.mean


def test_along_a_feature():
    """The effect along a feature is by unit, or between two doses."""
    by_unit, between = (
        fitted().partial_dependence("site", of="effect", **arms).mean
        for arms in ({}, {"arm": 14, "against": 10})
    )
    np.testing.assert_allclose(between, 4 * by_unit)


def test_a_file_has_the_dose():
    """It has the same effects and predictions."""
    posterior = fitted()
    loaded = Posterior.from_bytes(posterior.to_bytes())
    assert loaded.to_bytes() == posterior.to_bytes()
    some = {name: values[:9] for name, values in rows()[0].items()}
    np.testing.assert_array_equal(loaded.effects(some).mean, posterior.effects(some).mean)
    far = loaded.predict(some | {"treatment": np.full(9, 99.0)})
    assert "9 rows have a dose outside of" in " ".join(far.warnings)
    assert "mean dose" in " ".join(loaded.predict(features(some)).warnings)


def warned(doses, **more):
    """Return what a fit warns of, with 300 such doses and further features."""
    X = {"a": np.random.default_rng(2).normal(size=300)} | more
    return [text for text in prepare(X, X["a"] + doses, treatment=doses).warnings if "treatment" in text]


def test_doses_that_may_be_something_else_are_told():
    """A few whole doses, one that is far off, and a feature that nearly is the dose."""
    doses = np.random.default_rng(1).lognormal(size=300)
    assert warned(doses) == warned(np.arange(300) % 9) == []
    (text,) = warned(np.arange(300) % 3)
    assert "0, 1, 2 are read as doses" in text
    assert "if they are codes of arms, give these names" in text
    doses[7] = 99999.0
    (text,) = warned(doses)
    assert "the dose 99999 in row 8 has 100% of the variance" in text
    doses[7] = 1.0
    (text,) = warned(doses, nearly=np.round(doses))
    assert re.search("nearly explains 9.* of treatment: leave it out", text)


@pytest.mark.parametrize(
    "more",
    [
        {"family": "probit"},
        {"noise": "forest", "groups": "site"},
        {"noise": "t"},
        {"transform": "yeo-johnson"},
        {"propensity": "b"},
        {"assignment": "random", "linear": True},
    ],
)
@pytest.mark.sampled(quick=3)
def test_beside_others(more):
    """A dose stands beside two classes, noise by row, groups, transforms and a known propensity."""
    answer = fitted(**more).effects()
    assert answer.average.lower > 0
    assert (answer.propensity is None) == ("assignment" in more)
    assert (answer.ratio is not None) == ("family" in more)
    if "family" in more:
        assert not answer.dose.linear


def test_weights():
    """Rows with twice the weight have more to say; a row of none has nothing."""
    table, y = rows()
    weights = np.where(np.array(table["site"]) == "north", 1.0, 0.01)
    posterior = fit(features(table), y, treatment=table["treatment"], weights=weights, **SHORT)
    assert abs(posterior.effects(by="site").groups["north"].mean - 1) < 0.3


def test_units():
    """Doses on a lattice are whole units from the centre, others nearly so, and no unit is too coarse."""
    years = np.array([8.0, 10, 12, 12, 12, 14, 16, 20])
    dose = Dose.of(years)
    assert dose.units(years) == pytest.approx(np.rint(dose.units(years)))
    assert dose.unit <= dose.sd / 16
    tenths = Dose.of(years / 10)
    assert tenths.units(years / 10) == pytest.approx(np.rint(tenths.units(years / 10)))
    skewed = np.random.default_rng(1).lognormal(0, 2, 1000)
    dose = Dose.of(skewed)
    low, high = np.quantile(skewed, [0.25, 0.75])
    assert dose.unit < dose.sd / 32
    assert dose.unit < (high - low) / 5
    assert Dose.from_json(dose.to_json()).to_json() == dose.to_json()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"treatment": np.full(NUM_ROWS, 7.0)}, "all but 0 rows have the dose 7"),
        ({"treatment": np.clip(np.arange(NUM_ROWS), 0, 9) + 0.0}, "all but 9 rows"),
        ({"treatment": np.where(np.arange(NUM_ROWS) < 1, np.nan, 7.0)}, "missing"),
        ({"again": rows()[0]["treatment"] ** 3}, "it tells which dose of"),
        ({"family": "poisson"}, "a dose is for numbers and two classes"),
        ({"y": rows()[0]["treatment"]}, "one value at each dose"),
    ],
)
def test_what_is_refused(change, message):
    """Doses that tell nothing, and what they can't stand beside, are refused by name."""
    table, y = rows()
    y = change.pop("y", np.round(np.abs(y)) if "family" in change else y)
    family = {name: change.pop(name) for name in ("family",) if name in change}
    table = table | change
    with pytest.raises((DataError, SettingsError), match=message):
        fit(features(table), y, treatment=table["treatment"], **SHORT, **family)
