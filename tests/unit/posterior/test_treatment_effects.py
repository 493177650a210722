"""Fits with a treatment: effects by row and on average, arms, model files, and refusals by name."""

from functools import cache

import numpy as np
import pytest

from sampler import DataError, SettingsError, fit, load
from sampler.sklearn import BARTRegressor
from tests.support.models.treated import NUM_ROWS, SHORT, features, fitted, load_of, rows


@pytest.mark.parametrize("effects", ["bcf", "ps-bart", "plain"])
def test_effects(effects):
    """Averages are near the truth, groups differ as they do, and rows are those of the fit."""
    answer = fitted(effects).effects(by="site")
    assert answer.average.rows == NUM_ROWS == len(answer.mean)
    assert answer.average.mean == pytest.approx(answer.mean.mean())
    assert abs(answer.average.mean - 3.0) < 0.6
    assert answer.groups["north"].mean > answer.groups["south"].mean + 0.8
    assert answer.treated.rows + answer.untreated.rows == NUM_ROWS
    for each in answer.named_estimates().values():
        assert each.lower < each.mean < each.upper
        assert each.population_upper - each.population_lower > 0
    assert answer.spread.mean > 0.3
    assert answer.ratio is None
    assert (answer.propensity is None) == (effects == "plain")
    assert list(answer.to_pandas())[:3] == ["effect", "lower_90", "upper_90"]
    assert "no data can show that" in str(answer)


@pytest.mark.parametrize("effects", ["bcf", "ps-bart", "plain"])
def test_effects_are_differences_of_predictions(effects):
    """A row's effect is its prediction if treated less that if not, at any rows."""
    posterior = fitted(effects)
    some = {name: values[:9] for name, values in rows()[0].items()}
    arms = [posterior.predict(some | {"treatment": np.full(9, arm)}).mean for arm in (1.0, 0.0)]
    np.testing.assert_allclose(posterior.effects(some).mean, arms[0] - arms[1], atol=1e-9)
    without = posterior.predict(features(some))
    np.testing.assert_array_equal(without.mean, arms[1])
    assert "not treated" in without.warnings[0]


def test_some_rows_count():
    """Rows of one arm count alone, with the propensity of these."""
    posterior, (table, _) = fitted(), rows()
    every, treated = posterior.effects(), posterior.effects(of="treated")
    own = table["treatment"] == 1
    np.testing.assert_array_equal(treated.mean, every.mean[own])
    np.testing.assert_array_equal(treated.propensity, every.propensity[own])
    assert treated.average.mean == pytest.approx(every.treated.mean)
    assert np.mean(every.propensity[own]) > np.mean(every.propensity[~own])


@cache
def of_doses(effects="bcf", **more):
    """Return a short fit of three doses by name, whose effects beside "none" are 1 and 3."""
    table, y = rows()
    rng = np.random.default_rng(4)
    dose = rng.choice(["high", "low", "none"], NUM_ROWS)
    y = y - table["treatment"] * np.where(np.array(table["site"]) == "north", 4.0, 2.0)
    y = y + np.select([dose == "low", dose == "high"], [1.0, 3.0])
    table = features(table) | {"dose": list(dose)}
    given = {name: each for name, each in table.items() if name != "dose"}
    return fit(given, y, treatment=dose.tolist(), effects=effects, **SHORT, **more), table


@pytest.mark.parametrize("effects", ["bcf", "ps-bart", "plain"])
def test_several_arms(effects):
    """Arms are compared by name, two by two; each is a difference of predictions, in a loaded model too."""
    posterior, table = of_doses(effects)
    answer = posterior.effects(arm="high", against="none")
    assert (answer.arm, answer.against) == ("high", "none")
    assert "where treatment = high, minus y where treatment = none" in answer.difference
    assert abs(answer.average.mean - 3) < 0.5
    assert abs(answer.arms["low"].mean - 1) < 0.5
    assert answer.arms["high"] == answer.average
    assert "low against none" in answer.named_estimates()
    dose = np.array(table["dose"])
    assert answer.treated.rows == np.sum(dose == "high") == answer.is_treated.sum()
    assert answer.untreated.rows == np.sum(dose == "none")
    assert (answer.propensity is None) == (effects == "plain")
    back = posterior.effects(arm="none", against="high")
    np.testing.assert_allclose(back.mean, -answer.mean, atol=1e-9)
    some = {name: values[:9] for name, values in table.items() if name != "dose"}
    sent = some | {"treatment": list(dose[:9])}
    arms = [posterior.predict(some | {"treatment": [arm] * 9}).mean for arm in ("high", "none")]
    np.testing.assert_allclose(posterior.effects(sent, arm="high", against="none").mean, arms[0] - arms[1])
    again, own = load_of(posterior).effects(sent, of="untreated"), posterior.effects(sent, of="untreated")
    np.testing.assert_array_equal(again.mean, own.mean)
    assert posterior.effects().against == "high"  # the first by name
    along = posterior.partial_dependence("site", of="effect", arm="high", against="none")
    assert abs(np.mean(along.mean) - 3) < 0.6


def test_several_arms_go_on():
    """A model of several arms has more draws, a placebo without effect, and groups and noise beside it."""
    posterior, _ = of_doses()
    assert posterior.extend(5, progress=False).num_draws == 25
    assert abs(posterior.placebo().average.mean) < 0.7
    beside, _ = of_doses(noise="forest", groups="site")
    assert abs(beside.effects(arm="high", against="none").average.mean - 3) < 0.6


def test_refused_arms():
    """Arms that are not there or have too few rows, too many of them, and others in new rows are refused."""
    posterior, table = of_doses()
    for asked in ({"arm": "huge"}, {"against": "huge"}, {"arm": "low", "against": "low"}):
        with pytest.raises(SettingsError):
            posterior.effects(**asked)
    some = {name: values[:3] for name, values in table.items() if name != "dose"}
    with pytest.raises(DataError, match=r"row 2.*must be one of high, low, none"):
        posterior.effects(some | {"treatment": ["high", "huge", "low"]})
    own, y = {name: each for name, each in table.items() if name != "dose"}, rows()[1]
    few = ["rare", *table["dose"][1:]]
    with pytest.raises(DataError, match="only 1 rows are in the arm rare"):
        fit(own, y, treatment=few, **SHORT)
    with pytest.raises(DataError, match="has 44 names; at most 8"):
        fit(own, y, treatment=[f"arm {k % 44}" for k in range(NUM_ROWS)], **SHORT)


def test_a_feature_without_a_name_may_modify_the_effect():
    """A feature called "" is one as any other: draws are those of another name."""
    table, y = rows()
    named, unnamed = (
        fit({"a": table["a"], name: table["b"]}, y, treatment=table["treatment"], **SHORT)
        for name in ("b", "")
    )
    np.testing.assert_array_equal(named.effects().mean, unnamed.effects().mean)
    assert named.constants == unnamed.constants


def of_categories(values, categories):
    """Return the values as a pandas categorical of these categories."""
    pd = pytest.importorskip("pandas")
    return pd.Series(pd.Categorical(values, categories=categories))


TWO_ARMS = {  # what makes values of 0 and 1, and the arms
    "names": (lambda z: np.where(z == 1, "drug", "placebo").tolist(), ("placebo", "drug")),
    "case": (lambda z: np.where(z == 1, "Active", "Control").tolist(), ("Control", "Active")),
    "categories": (lambda z: of_categories(np.where(z == 1, "a", "b"), ["b", "a"]), ("b", "a")),
    "signs": (lambda z: 2 * z - 1, ("-1", "1")),
    "codes": (lambda z: z + 1, ("1", "2")),
    "milligrams": (lambda z: 100 * z, ("0", "100")),
}


@pytest.mark.parametrize("spelling", TWO_ARMS)
def test_two_arms_by_any_name(spelling):
    """Two names, or two numbers, are two arms: the fit to 0 and 1, which goes by the names everywhere."""
    make, arms = TWO_ARMS[spelling]
    table, y = rows()
    posterior = fit(features(table), y, treatment=make(table["treatment"]), **SHORT)
    expected, answer = fitted().effects(), posterior.effects()
    np.testing.assert_array_equal(answer.mean, expected.mean)
    assert (answer.against, answer.arm, answer.arms) == (*arms, {})
    assert answer.difference == f"y where treatment = {arms[1]}, minus y where treatment = {arms[0]}"
    assert answer.treated == expected.treated
    sent = features(table) | {"treatment": make(table["treatment"])}
    loaded = load_of(posterior).effects(sent, of="treated", arm=arms[1], against=arms[0])
    np.testing.assert_array_equal(loaded.mean, expected.mean[table["treatment"] == 1])
    np.testing.assert_array_equal(loaded.propensity, expected.propensity[table["treatment"] == 1])
    with pytest.raises(DataError, match=f"must be one of {arms[0]}, {arms[1]}"):
        loaded = posterior.predict(
            {name: values[:1] for name, values in table.items()} | {"treatment": ["7"]}
        )


def test_the_first_category_is_what_others_are_compared_with():
    """Several arms of a categorical are in the order of its categories, marked as ordered or not."""
    table, y = rows()
    drawn = np.random.default_rng(4).choice(["none", "low", "high"], NUM_ROWS)
    given = of_categories(drawn, ["none", "low", "high"])
    answer = fit(features(table), y, treatment=given, **SHORT).effects()
    assert (answer.arm, answer.against) == ("low", "none")


def test_arms_by_number():
    """Arms of 0 and 1 are asked for by numbers, as JSON has them, or by text."""
    expected = fitted().effects(arm="0", against="1").mean
    for arm, against in ((0, 1), (0.0, 1.0), (False, True)):
        np.testing.assert_array_equal(fitted().effects(arm=arm, against=against).mean, expected)


@pytest.mark.parametrize("effects", ["bcf", "plain"])
def test_two_classes(effects):
    """Effects on two classes are differences of the probability of the second, averaged over rows."""
    table, y = rows()
    labels = ["high" if each > np.median(y) else "a low one" for each in y]
    posterior = fit(
        features(table), labels, treatment=table["treatment"], effects=effects, family="probit", **SHORT
    )
    answer = posterior.effects(table)
    arms = [posterior.predict(table | {"treatment": np.full(NUM_ROWS, arm)}).mean for arm in (1.0, 0.0)]
    np.testing.assert_allclose(answer.mean, arms[0] - arms[1], atol=1e-9)
    assert 0.2 < answer.average.mean < 1
    assert "probability of high where treatment = 1" in answer.difference
    assert answer.sensitivity.in_sds is None
    assert answer.ratio.lower > 1


@pytest.mark.parametrize("effects", ["bcf", "plain"])
@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
@pytest.mark.sampled(quick=2)
def test_counts(effects, family):
    """Effects on counts are differences of expected counts at rows' exposures, and a ratio of averages."""
    table, _ = rows()
    rng = np.random.default_rng(1)
    exposure, treated = rng.uniform(1, 3, NUM_ROWS), table["treatment"]
    y = rng.poisson(exposure * np.exp(0.5 * table["a"] + 0.7 * treated))
    given = table | {"exposure": exposure}
    more = {"exposure": exposure, "family": family, "effects": effects}
    posterior = fit(features(given), y, treatment=treated, **SHORT | more)
    answer = posterior.effects(given)
    arms = [posterior.predict(given | {"treatment": np.full(NUM_ROWS, arm)}).mean for arm in (1.0, 0.0)]
    np.testing.assert_allclose(answer.mean, arms[0] - arms[1], rtol=1e-6)
    assert answer.ratio.lower < np.exp(0.7) < answer.ratio.upper
    assert answer.ratio.mean == pytest.approx(arms[0].sum() / arms[1].sum(), rel=0.05)
    assert answer.average.lower > 0
    assert answer.sensitivity.in_sds is None
    assert "ratio" in str(answer)
    assert abs(posterior.placebo().ratio.mean - 1) < 0.4
    again = load_of(posterior)
    np.testing.assert_array_equal(again.effects(given).mean, answer.mean)
    more, whole = again.extend(5, given, y, progress=False), posterior.extend(5, progress=False)
    np.testing.assert_array_equal(more.effects(given).mean, whole.effects(given).mean)


def test_a_file_answers_the_same(tmp_path):
    """A saved model answers the same of sent rows."""
    posterior, (table, _) = fitted(), rows()
    posterior.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    np.testing.assert_array_equal(again.effects(table).mean, posterior.effects().mean)
    assert again.effects().average.rows == 200
    assert "200 of the 220 rows" in again.effects().warnings[0]


def test_beside_groups_weights_noise_and_transform():
    """Groups, weights, noise by row and a transform stand beside a treatment."""
    table, y = rows()
    posterior = fit(
        features(table), np.exp(0.2 * y), np.linspace(1, 2, NUM_ROWS), treatment=table["treatment"],
        groups="site", noise="forest", transform="log", linear=True, **SHORT,
    )  # fmt: skip
    answer = posterior.effects(table)
    assert 0 < answer.average.lower < answer.average.upper
    arms = [posterior.predict(table | {"treatment": np.full(NUM_ROWS, arm)}).mean for arm in (1.0, 0.0)]
    np.testing.assert_allclose(answer.mean, arms[0] - arms[1], rtol=1e-6)


@pytest.mark.parametrize("effects", ["bcf", "plain"])
@pytest.mark.parametrize("line", [{"linear": True}, {"slopes": "a"}])
def test_the_rows_of_the_fit_have_their_values(effects, line):
    """Without rows, models with lines answer as for the same rows sent, missing values too."""
    table, y = rows()
    table["a"][::7] = np.nan
    site = {"groups": "site"} if "slopes" in line else {}
    posterior = fit(
        features(table), y, treatment=table["treatment"], effects=effects, seed=1, **SHORT, **line, **site
    )
    own, sent = posterior.effects(), posterior.effects(table)
    np.testing.assert_allclose(own.mean, sent.mean, rtol=1e-6)
    np.testing.assert_array_equal(own.unsupported, sent.unsupported)


def test_known_propensity():
    """A feature may be the propensity: the mean's trees alone split on it."""
    table, y = rows()
    known = 1 / (1 + np.exp(-table["a"]))
    own = features(table) | {"known": known}
    posterior = fit(own, y, treatment=table["treatment"], propensity="known", **SHORT)
    assert posterior.header.effects.propensities == ()
    of_effect = np.concatenate([draws.forests["effect"].feature for draws in posterior.chains()])
    given = fit(features(table), y, treatment=table["treatment"], propensity=known, **SHORT)
    assert given.schema.columns[-1].name == "propensity"
    np.testing.assert_array_equal(given.effects().mean, posterior.effects().mean)
    last = len(posterior.header.schema.coded) - 1
    assert not np.any(of_effect == last)
    assert any(np.any(draws.feature == last) for draws in posterior.chains())


def test_a_known_propensity_is_used():
    """It is told with the effects, and balance and overlap use it, in a file too."""
    table, y = rows()
    known = np.round(1 / (1 + np.exp(-table["a"])), 1).clip(0.1, 0.9)
    posterior = fit(
        features(table) | {"known": known}, y, treatment=table["treatment"], propensity="known", **SHORT
    )
    answer = posterior.effects()
    np.testing.assert_allclose(answer.propensity, known)
    assert answer.overlap.outside == 0.0
    assert abs(answer.balance[0].after) < 0.5 * abs(answer.balance[0].before)
    sent = load_of(posterior).effects(table | {"known": known})
    assert (sent.balance, sent.overlap.outside) == (answer.balance, 0.0)


def test_random_assignment():
    """Without reasons to be treated no propensity is fitted, and the sentence says less."""
    answer = fitted(assignment="random").effects()
    assert answer.propensity is None
    assert "left to chance" in answer.holds


def test_estimator():
    """The estimator takes the treatment's name, and predicts by the treatments of new rows."""
    pd = pytest.importorskip("pandas")
    table, y = rows()
    short = {name: value for name, value in SHORT.items() if name != "progress"}
    model = BARTRegressor(treatment="treatment", random_state=0, **short).fit(pd.DataFrame(table), y)
    assert model.posterior_.effects().average.mean > 2


REFUSED = {
    "missing": (lambda z, _: np.where(np.arange(NUM_ROWS) == 4, np.nan, z), "row 5.*treatment is missing"),
    "none": (
        lambda z, _: [None if number % 3 == 0 else f"{z[number]:g}mg" for number in range(NUM_ROWS)],
        "row 1.*treatment is missing.*such as none.*another name",
    ),
    "one value": (lambda z, _: np.ones_like(z), "every row has the treatment 1"),
    "three values": (lambda z, _: np.where(np.arange(NUM_ROWS) == 4, 2.0, z), "1 .treated. or 0"),
    "few": (lambda z, _: np.where(np.arange(NUM_ROWS) < 4, 1.0, 0.0), "only 4 rows are treated"),
    "text": (lambda z, _: ["b" if each else "a" for each in z], "which of 'a' and 'b' is.*make it 0"),
    "told by a number": (lambda _, table: (table["b"] > 0.1).astype(float), "column 'b'.*tells which rows"),
    "told by a category": (
        lambda z, table: (
            table.update(site=[f"{z:g}{b > 0}" for z, b in zip(z, table["b"], strict=True)]) or z
        ),
        "column 'site'.*tells which rows",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_treatments(name):
    """Treatments whose effect no rows can show are refused with the column that says so."""
    table, y = rows()
    make, message = REFUSED[name]
    treatment = make(table["treatment"], table)
    with pytest.raises(DataError, match=message):
        fit(features(table), y, treatment=treatment, **SHORT)


def test_refused_outcome():
    """A target that is a function of the treatment is refused."""
    table, _ = rows()
    with pytest.raises(DataError, match="function of the treatment"):
        fit(features(table), 1 + table["treatment"], treatment=table["treatment"], **SHORT)


def test_without_treatment():
    """Settings of a treatment, and questions about its effect, need one."""
    table, y = rows()
    for settings in ({"effects": "plain"}, {"assignment": "random"}, {"propensity": "a"}):
        with pytest.raises(SettingsError, match="about a treatment"):
            fit(features(table), y, **SHORT, **settings)
    posterior = fit(features(table), y, **SHORT)
    with pytest.raises(SettingsError, match="no treatment"):
        posterior.effects()
    with pytest.raises(SettingsError, match="ask for its effects"):
        fitted().shap()
    with pytest.raises(SettingsError, match="of must be"):
        fitted().effects(of="some")
