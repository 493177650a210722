"""Settings, roles and columns that don't go together are refused by the field, before anything is fitted."""

import re

import numpy as np
import pytest

from sampler import SettingsError, prepare

ROWS = 40
RNG = np.random.default_rng(0)
X = {
    "x": RNG.normal(size=ROWS),
    "t": RNG.normal(size=ROWS),
    "c": np.array(["low", "high"])[np.arange(ROWS) % 2],
    "who": np.arange(ROWS) % 8,
    "flat": np.ones(ROWS),
}
Y = 1 + np.floor(4 * RNG.uniform(size=ROWS))
ONES = np.ones(ROWS)

TREATED = {"treatment": np.arange(ROWS) % 2.0}
GROUPED, SLOPED = {"groups": "who"}, {"groups": "who", "slopes": "x"}
SETS = {"categories": "sets"}
RISING = {"monotone": {"x": "increasing"}}
SURFACE = {"parts": {"spatial": ["x", "t"]}}
MIXED = {"noise": "mixture"}
CENSORED = {"event": np.arange(ROWS) % 3 > 0}
HURDLE, TWO, CLASSES = {"family": "hurdle"}, {"family": "probit"}, {"family": "categorical"}
COUNTS = {"family": "poisson"}
ONE_TREE = {"method": "bcart"}

REFUSED = [
    (GROUPED | ONE_TREE, "groups", "set method=bart"),
    (GROUPED | COUNTS, "groups", "set family=gaussian or ordinal"),
    (GROUPED | {"noise": "t"}, "groups", "not normal"),
    ({"groups": "whom"}, "groups", "did you mean who?"),
    ({"groups": ["who", "who"]}, "groups", "twice"),
    (GROUPED | {"features": ["x", "who"]}, "groups", "among the features too"),
    ({"groups": list("abcde")}, "groups", "at most 4"),
    ({"slopes": "x"}, "slopes", "name the columns of groups too"),
    (SLOPED | {"slopes": "z"}, "slopes", "is not among the features"),
    (SLOPED | {"slopes": "c"}, "slopes", "is a category, of which there is no slope"),
    (SLOPED | {"slopes": "who"}, "slopes", "is not among the features"),
    (SLOPED | {"slopes": ["x", "x"]}, "slopes", "twice"),
    (SLOPED | {"slopes": list("abcde")}, "slopes", "at most 4"),
    (SLOPED | {"slopes": "flat"}, "slopes", "no two values in the training rows"),
    (SETS | ONE_TREE, "categories", "method=bart"),
    (SETS | RISING, "categories", "leave out categories"),
    (SETS | {"prior": {"sparse": True}}, "categories", "leave out prior.sparse"),
    (SETS | TREATED, "categories", "leave out categories"),
    ({"monotone": {"d": "increasing"}}, "monotone", "no feature"),
    ({"monotone": {"x": "up"}}, "monotone", "increasing"),
    (RISING | {"moves": "cgm"}, "moves", "moves with change"),
    (RISING | {"start": "smc"}, "start", "start with smc"),
    (RISING | {"linear": True}, "linear", "linear with true"),
    (RISING | COUNTS, "monotone", "family=gaussian"),
    (RISING | ONE_TREE, "monotone", "method=bart"),
    ({"parts": {"spatial": ["x"]}}, "parts.spatial", "two features"),
    ({"parts": {"spatial": "x"}}, "parts.spatial", "two features"),
    ({"parts": {"spatial": ["x", "x"]}}, "parts.spatial", "two features"),
    ({"parts": {"spatial": 3}}, "parts.spatial", "two"),
    ({"parts": {"spatial": ["x", "tt"]}}, "parts.spatial", "did you mean"),
    ({"parts": {"spatial": ["x", "c"]}}, "parts.spatial", "coordinates are numbers"),
    ({"parts": {"spatial": ["x", "flat"]}}, "parts.spatial", "no two values"),
    (SURFACE | RISING, "monotone", "leave out monotone, or leave out parts"),
    (MIXED | {"weights": ONES}, "weights", "leave out weights"),
    (MIXED | {"prior": {"sigma": 1.0}}, "prior.sigma", "leave out prior.sigma"),
    (MIXED | CENSORED, "noise", "set noise=constant or forest"),
    (CENSORED | COUNTS, "family", "set family=gaussian, or leave out event"),
    (CENSORED | ONE_TREE, "method", "set method=bart"),
    (CENSORED | {"noise": "t"}, "noise", "set noise=constant or forest"),
    (CENSORED | {"transform": "yeo-johnson"}, "transform", "set transform=none or log"),
    (CENSORED | {"weights": ONES}, "weights", "leave out weights"),
    (CENSORED | {"upper": Y + 1}, "event", "leave out event, or leave out upper"),
    (HURDLE | {"weights": ONES}, "weights", "hurdle takes no weights"),
    (HURDLE | {"upper": Y + 1}, "family", "gaussian"),
    (HURDLE | TREATED, "treatment", "gaussian"),
    (HURDLE | GROUPED, "groups", "family hurdle has none"),
    (HURDLE | RISING, "monotone", "family=gaussian"),
    (HURDLE | {"prior": {"sparse": True}}, "prior.sparse", "no meaning for hurdle"),
    (HURDLE | ONE_TREE, "family", "family hurdle goes with method bart"),
    ({"prior": {"point": 0.0}}, "prior.point", "unknown prior entry 'point'"),
    (TWO | {"weights": ONES}, "weights", "no weights"),
    (TWO | {"prior": {"nu": 4.0}}, "prior.nu", "no meaning for probit"),
    (CLASSES | {"prior": {"sparse": True}}, "prior.sparse", "no meaning for categorical"),
    (CLASSES | {"prior": {"nu": 1.0}}, "prior.nu", "no meaning for categorical"),
    (CLASSES | {"prior": {"offset": 1.0}}, "prior.offset", "no meaning for categorical"),
    (COUNTS | {"weights": ONES}, "weights", "takes no weights"),
    ({"exposure": ONES}, "exposure", "exposure is for counts"),
    (COUNTS | {"offset": ONES}, "offset", "two classes"),
    (TREATED | CLASSES, "treatment", "for numbers, two classes and counts"),
    (TREATED | {"family": "zero-inflated-poisson"}, "family", "zeros that a treatment might change"),
    (TREATED | ONE_TREE, "method", "set method=bart"),
    (TREATED | {"propensity": "c"}, "propensity", "propensity names 'c'"),
    (TREATED | {"propensity": "x", "assignment": "random"}, "propensity", "leave out propensity"),
    (TREATED | {"effects": "twice"}, "effects", "one of bcf, ps-bart, plain"),
]


@pytest.mark.parametrize(("settings", "field", "words"), REFUSED, ids=lambda each: str(each)[:60])
def test_what_does_not_go_together_is_refused(settings, field, words):
    """The error names the setting at fault, and says what to do."""
    outcome = Y > 2 if settings.get("family") == "probit" else Y
    with pytest.raises(SettingsError, match=re.escape(words)) as refused:
        prepare(X, outcome, **settings)
    assert refused.value.field == field
