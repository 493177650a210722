"""Columns with a role, by name and by values: every entry point reads both, with the same bits."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from sampler import SettingsError, fit, fit_many, load, select_features, tune
from sampler.definitions.data import COLUMN_ROLES, NAMED
from sampler.sklearn import BARTClassifier, BARTRegressor

N = 80
RNG = np.random.default_rng(3)
A = RNG.normal(size=N)
BELOW = RNG.uniform(size=N) < 0.3
TABLE = pd.DataFrame(
    {
        "a": A,
        "b": RNG.normal(size=N),
        "size": RNG.uniform(1, 3, N),
        "given": RNG.integers(0, 2, N),
        "seen": RNG.integers(0, 2, N),
        "low": np.where(BELOW, 3.0, np.nan),
        "high": np.where(BELOW, 5.0, np.nan),
        "shift": RNG.normal(size=N),
        "known": RNG.uniform(0.3, 0.7, N),
        "school": RNG.choice(list("uvwx"), N),
        "plant": [f"p{row // 8}" for row in range(N)],
        "year": np.arange(N) % 8,
        "began": np.array([3.0, 3.0, 4.0, 4.0, *[np.nan] * 6])[np.arange(N) // 8],
    }
)
Y = pd.Series(np.round(np.exp(1.5 + 0.3 * A)) + 1, name="y")
SHORT = {"num_trees": 4, "num_chains": 1, "num_burnin": 4, "num_draws": 4, "thin": 1}
QUIET = {"progress": False}
CENSORED = {"target": Y.where(~BELOW)}
# The column of each role, and what beside it makes a fit: further settings, and outcomes.
ROLES = {
    "weights": ("size", {}),
    "exposure": ("size", {"family": "poisson"}),
    "offset": ("shift", {"family": "probit", "target": (Y > 5).rename("y")}),
    "treatment": ("given", {}),
    "propensity": ("known", {"treatment": "given"}),
    "groups": ("school", {}),
    "adoption": ("began", {"period": "year", "groups": "plant"}),
    "period": ("year", {"adoption": "began", "groups": "plant"}),
    "slopes": ("b", {"groups": "school"}),
    "event": ("seen", {}),
    "lower": ("low", CENSORED),
    "upper": ("high", CENSORED),
}
FORMS = {
    "a list of it": lambda name: [name],
    "an array": lambda name: TABLE[name].to_numpy(),
    "a series": lambda name: TABLE[name],
    "a list of values": lambda name: [None if value != value else value for value in TABLE[name]],
}


def bits(posterior):
    """Return what predictions, draws and the schema of a model are."""
    features = [column.name for column in posterior.schema.columns]
    return features, posterior.beside, posterior.header.weighted, posterior.predict(TABLE).mean.tolist()


def by_fit(role, column, **more):
    target = more.pop("target", Y)
    return bits(fit(TABLE, target, **{role: column}, **more, **SHORT, **QUIET))


def by_calibrated_fit(role, column, **more):
    return by_fit(role, column, **more, calibrate="holdout", holdout=0.4)


def by_tune(role, column, **more):
    found = tune(
        TABLE,
        more.pop("target", Y),
        **{role: column},
        **more,
        **SHORT,
        folds=2,
        candidates=[{"linear": False}],
    )
    return found.trials[0].log_score


def by_selection(role, column, **more):
    lengths = {name: SHORT[name] for name in ("num_trees", "num_chains", "num_burnin", "num_draws")}
    found = select_features(
        TABLE, more.pop("target", Y), **{role: column}, **more, **lengths, num_permutations=20, num_threads=1
    )
    return found.names, found.share.tolist()


def by_fit_many(role, column, **more):
    table = TABLE.assign(y=more.pop("target", Y), half=np.arange(N) % 2)
    with ThreadPoolExecutor(1) as threads:
        found = fit_many(
            table, by="half", target="y", executor=threads, **{role: column}, **more, **SHORT, **QUIET
        )
    assert not found.failures
    return [bits(found[key]) for key in found]


def by_estimator(role, column, **more):
    target = more.pop("target", Y)
    kind = BARTClassifier if more.get("family") == "probit" else BARTRegressor
    weights = {"sample_weight": column} if role == "weights" else {}
    given = {} if weights else {role: column}
    return bits(kind(**given, **more, **SHORT, random_state=1).fit(TABLE, target, **weights).posterior_)


ENTRIES = {
    by_fit: {*ROLES},
    by_calibrated_fit: {*ROLES} - {"event", "lower", "upper"},  # refused with censored outcomes
    by_tune: {*ROLES} - {"event", "lower", "upper"},
    by_selection: {"weights", "exposure", "groups", "slopes"},
    by_fit_many: {*ROLES},
    by_estimator: {*ROLES} - {"event"},  # of BARTSurvival, whose outcomes have it
}


def test_all_roles_are_here():
    """A new role comes into this test."""
    assert {*ROLES} == {*COLUMN_ROLES, *NAMED}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "entry",
    [pytest.param(each, marks=pytest.mark.slow if each is by_selection else ()) for each in ENTRIES],
    ids=lambda entry: entry.__name__,
)
@pytest.mark.sampled(quick=15, slow=15)
def test_a_name_and_values_are_the_same(entry, role):
    """A column by name, in a list where there may be several, by an array, a series and a list."""
    if role not in ENTRIES[entry]:
        pytest.skip("refused, as other tests show")
    column, more = ROLES[role]
    expected = entry(role, column, **more)
    for form, make in FORMS.items():
        if form != "a list of it" or role in ("groups", "slopes"):
            assert entry(role, make(column), **more) == expected, form
    with pytest.raises(SettingsError, match=f"'{column}x'.*did you mean {column}"):
        entry(role, f"{column}x", **more)


@pytest.mark.filterwarnings("ignore")
def test_questions_take_names_and_values():
    """Weights and groups of rows that a posterior is asked about are read in the same way."""
    bare = TABLE.drop(columns=["size", "school"])
    posterior = fit(bare, Y, weights=TABLE["size"], **SHORT, **QUIET)
    rows, beside = TABLE.drop(columns="school"), TABLE.drop(columns="size")
    for size in (TABLE["size"], TABLE["size"].to_numpy()):
        for named, valued in (
            (posterior.log_likelihood(rows, Y, "size"), posterior.log_likelihood(bare, Y, size)),
            (posterior.aggregate(rows, weights="size").mean, posterior.aggregate(bare, weights=size).mean),
            (posterior.sample_predictive(rows, "size"), posterior.sample_predictive(bare, size)),
        ):
            np.testing.assert_array_equal(named, valued)
    expected = posterior.score(beside, Y, TABLE["size"], groups="school")
    for groups in ("school", ["school"], TABLE["school"], TABLE["school"].to_numpy()):
        asked = TABLE if isinstance(groups, str | list) else rows
        assert posterior.score(asked, Y, "size", groups=groups) == expected
        assert posterior.importance(asked, Y, "size", groups=groups) is not None
    with pytest.raises(SettingsError, match=r"groups names 'scool'.*did you mean school"):
        posterior.score(TABLE, Y, "size", groups="scool")


@pytest.mark.filterwarnings("ignore")
def test_chains_continue_with_weights_by_name(tmp_path):
    """A loaded model takes the rows of its fit again, weights by their column's name."""
    posterior = fit(TABLE, Y, "size", treatment="given", **SHORT, **QUIET)
    posterior.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart").extend(2, TABLE, Y, "size", progress=False)
    assert bits(again) == bits(posterior.extend(2, progress=False))
