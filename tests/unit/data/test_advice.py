"""Refusals of roles and treatments: what one advises is accepted, by the call that it advises."""

import numpy as np
import pandas as pd
import pytest

from sampler import DataError, SettingsError, fit, prepare

N = 120
RNG = np.random.default_rng(8)
TABLE = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "b": RNG.normal(size=N),
        "z": RNG.integers(0, 2, N),
        "died": RNG.integers(0, 2, N),
    }
)
X = TABLE[["a", "b"]]
TIMES = pd.Series(np.exp(TABLE["a"] + TABLE["z"] + 0.3 * RNG.normal(size=N)), name="time")
Y = pd.Series(TABLE["a"] + TABLE["z"] + 0.3 * RNG.normal(size=N), name="y")
KNOWN = pd.Series(RNG.uniform(0.2, 0.8, N).round(2), name="known")
COUNTS = pd.Series(RNG.poisson(3.0, N), name="visits")
NUMBERS = [number % 20 for number in range(N)]
SITES = [f"site {number}" for number in NUMBERS]
BY_SITE = pd.Series([number % 20 < 10 for number in range(N)], name="t")
DIED = TABLE["died"]
SHORT = {"num_trees": 5, "num_chains": 1, "num_burnin": 5, "num_draws": 5, "thin": 1, "progress": False}


def of_times(**more):
    """Fit times with events and a treatment."""
    return fit(X, TIMES, event=DIED, treatment=TABLE["z"], **SHORT, **more)


def of_propensity(known, **more):
    """Prepare a fit with a propensity."""
    return prepare(X.assign(known=known), Y, treatment=TABLE["z"], propensity="known", **more)


def fitted_propensity(known, **more):
    """Prepare such a fit without it."""
    return prepare(X.assign(known=known), Y, treatment=TABLE["z"], **more)


# The refused call, what it says, and the calls that this advises.
ADVICE = {
    "a ratio of times that are modelled as they are": (
        lambda: of_times(transform="none").effects(measure="ratio"),
        "transform none: ask for restricted_mean or survival",
        [
            lambda: of_times(transform="none").effects(measure="restricted_mean"),
            lambda: of_times(transform="none").effects(measure="survival"),
        ],
    ),
    "an effect on times beyond the last one": (
        lambda: of_times().effects(until=1e6),
        "until must be a time above 0 and at most [0-9.]+, until which rows of each arm",
        [lambda: of_times().effects(until=1.5), lambda: of_times().effects(measure="ratio")],
    ),
    "an effect on times of numbers": (
        lambda: fit(X, TIMES, treatment=TABLE["z"], **SHORT).effects(measure="survival"),
        "measure is for times with events, .*: leave it out",
        [lambda: fit(X, TIMES, treatment=TABLE["z"], **SHORT).effects()],
    ),
    "a propensity in percent": (
        lambda: of_propensity(100 * KNOWN),
        "column 'known', row 1: .*from 0 to 1, not percent: divide it by 100, or leave propensity out",
        [lambda: of_propensity(100 * KNOWN / 100), lambda: fitted_propensity(100 * KNOWN)],
    ),
    "a propensity that is missing": (
        lambda: of_propensity(KNOWN.where(KNOWN.index != 4)),
        "column 'known', row 5: the propensity is missing: fill it in, or leave propensity out",
        [lambda: of_propensity(KNOWN), lambda: fitted_propensity(KNOWN.where(KNOWN.index != 4))],
    ),
    "a propensity of one value": (
        lambda: of_propensity(0.5),
        "column 'known': every row has the propensity 0.5.*assignment=.random. in its place",
        [lambda: fitted_propensity(0.5, assignment="random"), lambda: fitted_propensity(0.5)],
    ),
    "a propensity in words": (
        lambda: of_propensity(np.where(KNOWN > 0.5, "high", "low")),
        "'known' must be one of several features, and have numbers.*row 1 holds '(high|low)'",
        [lambda: of_propensity(KNOWN)],
    ),
    "a treatment by site": (
        lambda: prepare(X.assign(site=SITES), Y, treatment=BY_SITE),
        "column 'site'.*where whole levels of it were treated.*groups='site'.*leave the column out",
        [
            lambda: prepare(X.assign(site=SITES), Y, treatment=BY_SITE, groups="site"),
            lambda: prepare(X, Y, treatment=BY_SITE),
        ],
    ),
    "a treatment by the numbers of sites": (
        lambda: prepare(X.assign(site=NUMBERS), Y, treatment=BY_SITE),
        "column 'site'.*where whole levels of it were treated.*groups='site'.*leave the column out",
        [lambda: prepare(X.assign(site=NUMBERS), Y, treatment=BY_SITE, groups="site")],
    ),
    "a treatment of counts by site": (  # which have no groups
        lambda: prepare(X.assign(site=SITES), COUNTS, treatment=BY_SITE, family="poisson"),
        "column 'site'.*this column; leave the column out",
        [lambda: prepare(X, COUNTS, treatment=BY_SITE, family="poisson")],
    ),
    "a dose of counts with zeros": (
        lambda: prepare(X, COUNTS, treatment=KNOWN, family="zero-inflated-poisson"),
        "set family=gaussian, or leave out treatment",
        [lambda: prepare(X, COUNTS, treatment=KNOWN, family="gaussian")],
    ),
    "a dose of counts": (
        lambda: prepare(X, COUNTS, treatment=KNOWN, family="poisson"),
        "arms are 0 and 1, or names.: set family=gaussian",
        [
            lambda: prepare(X, COUNTS, treatment=KNOWN, family="gaussian"),
            lambda: prepare(X, COUNTS, treatment=(KNOWN > 0.5).rename("z"), family="poisson"),
        ],
    ),
    "limits called as the target": (
        lambda: prepare(X, Y.where(DIED == 1), lower=Y.where(DIED == 0)),
        "have other values than the column with another role.*: rename one of the two$",
        [lambda: prepare(X, Y.where(DIED == 1), lower=Y.where(DIED == 0).rename("above"))],
    ),
}


@pytest.mark.parametrize("name", ADVICE)
def test_the_advised_call_is_accepted(name):
    """A refusal names a way that works."""
    refused, words, advised = ADVICE[name]
    with pytest.raises((SettingsError, DataError), match=words):
        refused()
    for call in advised:
        assert call() is not None


def test_sites_by_number_are_led_to_groups():
    """Numbers each of which was treated whole, in no order, are told to be groups if they are sites."""
    table, odd = X.assign(site=NUMBERS), pd.Series(NUMBERS, name="t") % 2
    asked = {"treatment": odd, "assignment": "random"}
    told = [each for each in prepare(table, Y, **asked).warnings if "set groups='site'" in each]
    assert len(told) == 1
    assert "each of its 20 values have the same t" in told[0]
    for other in (table.assign(site=np.array(NUMBERS) + 0.5), table.assign(site=range(N)), X):
        assert "groups=" not in " ".join(prepare(other, Y, **asked).warnings)
    assert "groups='site'" not in " ".join(prepare(table, Y, **asked, groups="site").warnings)
