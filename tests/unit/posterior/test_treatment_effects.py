"""Fits with a treatment: effects by row, on average and in groups, model files, and refusals by name."""

from functools import cache

import numpy as np
import pytest

from sampler import DataError, Posterior, SettingsError, fit, load
from sampler.sklearn import BARTRegressor
from sampler.studies.placebo import placebo_fit

SHORT = {"num_trees": 20, "num_chains": 2, "num_burnin": 60, "num_draws": 20, "thin": 2, "progress": False}
NUM_ROWS = 220


def rows():
    """Return a table, treatments that follow its first column, and outcomes with effects of 2 and 4."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, NUM_ROWS))
    treated = (rng.uniform(size=NUM_ROWS) < 1 / (1 + np.exp(-a))).astype(float)
    site = np.where(rng.uniform(size=NUM_ROWS) < 0.5, "north", "south")
    y = a + 0.3 * rng.normal(size=NUM_ROWS) + treated * np.where(site == "north", 4.0, 2.0)
    return {"a": a, "b": b, "site": list(site), "treatment": treated}, y


def features(table):
    """Return the columns besides the treatment."""
    return {name: values for name, values in table.items() if name != "treatment"}


def load_of(posterior):
    """Return the posterior as its file has it."""
    return Posterior.from_bytes(posterior.to_bytes())


@cache
def fitted(effects="bcf", **more):
    """Return a short fit."""
    table, y = rows()
    return fit(features(table), y, treatment=table["treatment"], effects=effects, **SHORT, **more)


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


def test_for_whom():
    """The tree divides rows by the site, whose effects differ; probabilities of larger effects agree."""
    answer = fitted().effects(by="site")
    assert [leaf.where for leaf in (answer.tree.leaves[0], answer.tree.leaves[-1])] != ["all rows"] * 2
    assert "site is" in answer.tree.leaves[-1].where
    assert answer.tree.larger > 0.95
    assert answer.tree.explained.mean > 0.4
    assert answer.larger["north"]["south"] == pytest.approx(1 - answer.larger["south"]["north"])
    assert answer.larger["north"]["south"] > 0.95
    assert sum(leaf.average.rows for leaf in answer.tree.leaves) == NUM_ROWS


def test_groups_beside_the_trees_and_missing_values():
    """Effects are averaged by a column of groups too, and rows without a value are a group."""
    table, y = rows()
    table["b"][:40] = np.nan
    posterior = fit(features(table), y, treatment=table["treatment"], groups="site", **SHORT)
    by_site, by_number = posterior.effects(by="site").groups, posterior.effects(by="b").groups
    assert {name: each.rows for name, each in by_site.items()} == {
        name: table["site"].count(name) for name in ("north", "south")
    }
    assert by_number["missing"].rows == 40
    assert sum(each.rows for each in by_number.values()) == NUM_ROWS
    new = table | {"site": ["east", None, *table["site"][2:]]}
    assert posterior.effects(new, by="site").groups["missing or new"].rows == 2
    with pytest.raises(SettingsError, match=r"no feature 'sites'.*did you mean site"):
        posterior.effects(by="sites")


def test_a_feature_without_a_name_may_modify_the_effect():
    """A feature called "" is one as any other: draws are those of another name."""
    table, y = rows()
    named, unnamed = (
        fit({"a": table["a"], name: table["b"]}, y, treatment=table["treatment"], **SHORT)
        for name in ("b", "")
    )
    np.testing.assert_array_equal(named.effects().mean, unnamed.effects().mean)
    assert named.constants == unnamed.constants


@pytest.mark.parametrize("part", ["averages", "balance", "overlap", "sensitivity"])
def test_a_table_for_a_paper(part):
    """Each part is a frame, and the same figures in Markdown and LaTeX."""
    answer = fitted().effects(by="site")
    table = answer.table(part)
    frame = table.to_pandas()
    first, *_ = frame.itertuples(index=False)
    known = {
        "averages": (["group", "rows", "treated", "estimate", "lower", "upper", "population_lower",
                      "population_upper", "probability", "usable"],
                     ("average", NUM_ROWS, answer.treated.rows, answer.average.mean)),
        "balance": (["feature", "before", "after"], tuple(vars(answer.balance[0]).values())),
        "overlap": (["figure", "value"], ("treated", answer.overlap.treated)),
        "sensitivity": (["shift", "estimate", "lower", "upper"], answer.sensitivity.curve[0]),
    }  # fmt: skip
    names, values = known[part]
    assert ([*frame], tuple(first)[: len(values)]) == (names, values)
    heads, rule, *lines = table.to_markdown().splitlines()
    assert {line.count("|") for line in (heads, rule, *lines)} == {len(names) + 1}
    latex = table.to_latex()
    assert latex.count(r" \\") == len(frame) + 1
    if part == "averages":
        assert latex.startswith("\\begin{tabular}{lrrrrrrrrl}\n\\toprule\ngroup & rows & treated")
        assert [*frame["group"]] == [*answer.named_estimates()]
        assert frame["treated"].sum() == 2 * frame["treated"][0] + answer.treated.treated
    with pytest.raises(SettingsError, match="averages, balance, overlap or sensitivity"):
        answer.table("placebo")


def test_charts_of_trust():
    """Charts show the figures of the answer: features by name, rows of each arm, where the interval is 0."""
    answer = fitted().effects()
    balance = answer.plot_balance()
    assert [text.get_text() for text in balance.get_yticklabels()][-1] == answer.balance[0].feature == "a"
    weighted = next(line for line in balance.get_lines() if line.get_label() == "weighted")
    assert weighted.get_xdata()[-1] == abs(answer.balance[0].after)
    above, below = (sum(bar.get_height() for bar in bars) for bars in answer.plot_propensity().containers)
    assert (above, below) == (answer.treated.rows, -answer.untreated.rows)
    assert answer.plot_sensitivity().get_lines()[-1].get_xdata()[0] == answer.sensitivity.shift
    along = fitted().plot.effects("a", of="effect")
    assert along.get_ylabel() == "effect"
    curve = fitted().partial_dependence("a", of="effect")
    np.testing.assert_array_equal(along.get_lines()[0].get_ydata(), curve.mean)
    with pytest.raises(SettingsError, match="plot_balance"):
        fitted("plain").effects().plot_propensity()


def test_groups_by_cut_points_and_by_two_columns():
    """Rows are divided at points of a number, by two columns, and by both; wrong ones are refused by name."""
    table, _ = rows()
    a, north = table["a"].round(1), np.array(table["site"]) == "north"
    posterior = fit(features(table) | {"a": a}, rows()[1], treatment=table["treatment"], **SHORT)
    whole = posterior.effects()
    parts = {"up to 0": a <= 0, "above 0, up to 1": (a > 0) & (a <= 1), "above 1": a > 1}
    cut = posterior.effects(by={"a": [0, 1]}).groups
    assert {name: each.rows for name, each in cut.items()} == {k: own.sum() for k, own in parts.items()}
    for name, own in parts.items():
        assert cut[name].mean == pytest.approx(whole.mean[own].mean())
    crossed = posterior.effects(by={"a": [0, 1], "site": None})
    assert crossed.groups["a up to 0, site north"].mean == pytest.approx(whole.mean[(a <= 0) & north].mean())
    assert sum(each.rows for each in crossed.groups.values()) == NUM_ROWS
    assert len(posterior.effects(by=["site", "a"]).groups) == 8
    assert posterior.effects(by=["site"]).groups == posterior.effects(by="site").groups
    beside = {"region": np.where(table["b"] > 0, "east", "west").tolist(), "income": table["b"]}
    beside["region"][0] = None
    region, income = (table | {"a": a, name: beside[name]} for name in beside)
    by_region = posterior.effects(region, by="region").groups
    assert {name: each.rows for name, each in by_region.items()} == {
        name: beside["region"].count(key)
        for name, key in (("east", "east"), ("west", "west"), ("missing", None))
    }
    east = np.array([each == "east" for each in beside["region"]])
    assert by_region["east"].mean == pytest.approx(whole.mean[east].mean())
    assert posterior.effects(income, by={"income": [0]}).groups["above 0"].rows == np.sum(table["b"] > 0)
    assert [*posterior.effects(income, by="income", of="treated").groups][::3] == [
        "lowest quarter",
        "highest quarter",
    ]
    assert len(posterior.effects(region, by=["site", "region"]).groups) == 5
    with pytest.raises(SettingsError, match="to average by another column give rows with it"):
        posterior.effects(by="region")
    for by in ({"a": [1, 0]}, {"a": []}, {"site": [1]}, {"c": [1]}, ["a", "b", "site"], [], 7, {"a": ["x"]}):
        with pytest.raises(SettingsError, match=r"by:|no feature"):
            posterior.effects(by=by)


def of_categories(values, categories):
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


def test_how_far_to_trust():
    """Weighting balances what treatment followed; a shift by the nearer end brings the interval to 0."""
    answer = fitted().effects()
    first = answer.balance[0]
    assert first.feature == "a"
    assert abs(first.after) < 0.5 * abs(first.before)
    assert answer.sensitivity.shift == answer.average.lower
    assert answer.sensitivity.in_sds == pytest.approx(answer.average.lower / rows()[1].std(ddof=1))
    shifts, means, lower, _ = np.array(answer.sensitivity.curve).T
    np.testing.assert_allclose(means + shifts, answer.average.mean)
    assert np.interp(answer.sensitivity.shift, shifts, lower) == pytest.approx(0, abs=1e-9)
    assert answer.overlap.supported.rows == NUM_ROWS - answer.unsupported.sum()


def test_balance_of_what_counts():
    """The others are weighted by their odds to be like treated rows, where only these count."""
    posterior, (table, _) = fitted(), rows()
    own = posterior.effects(of="treated")
    (first,) = [each for each in own.balance if each.feature == "a"]
    treated, p = table["treatment"] == 1, posterior.effects().propensity
    ranks = posterior.training_rows().codes[0].astype(float)
    others = np.average(ranks[~treated], weights=(p / (1 - p))[~treated])
    sd = np.sqrt(0.5 * (ranks[treated].var() + ranks[~treated].var()))
    assert first.after == pytest.approx((ranks[treated].mean() - others) / sd)
    assert abs(first.after) < 0.5 * abs(first.before)


def test_extreme_propensities_are_warned_of():
    """Extreme propensities of more than a tenth, and arms that features tell apart, are warned of."""
    rng = np.random.default_rng(1)
    x, told = rng.normal(size=300), " ".join(fitted().effects().warnings)
    treated = (rng.uniform(size=300) < 1 / (1 + np.exp(-8 * x))).astype(float)
    posterior = fit({"x": x}, x + treated + rng.normal(size=300), treatment=treated, **SHORT)
    answer = posterior.effects()
    warned = " ".join(answer.warnings)
    assert answer.overlap.outside > 0.1
    assert answer.overlap.auc_other_half > 0.95
    for sentence in ("below 5% or above 95%", "tell the arms apart"):
        assert sentence in warned
        assert sentence not in told


def test_rows_without_comparable_ones():
    """Rows all treated where others are not seen at all are unsupported more often than the others."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 300)
    treated = np.where(x > 0.6, rng.uniform(size=300) < 0.97, rng.uniform(size=300) < 0.5).astype(float)
    y = np.where(x > 0.6, 6 * x, x) + treated + 0.1 * rng.normal(size=300)
    posterior = fit({"x": x}, y, treatment=treated, effects="plain", **SHORT | {"num_draws": 100})
    answer = posterior.effects()
    far = answer.unsupported[x > 0.6].mean()
    assert far >= answer.unsupported[x <= 0.6].mean()


def test_effect_along_a_feature():
    """Partial dependence of the effect has a point for each level, larger where effects are."""
    curve = fitted().partial_dependence("site", of="effect")
    by_level = dict(zip(curve.grid[0], curve.mean, strict=True))
    assert by_level["north"] > by_level["south"] + 0.8


def test_placebo():
    """Treatments drawn by chance have an average effect around 0; a loaded model has no rows for it."""
    posterior = fitted()
    answer = posterior.placebo()
    assert abs(answer.average.mean) < 0.7
    assert answer.average.mean < posterior.effects().average.lower
    np.testing.assert_array_equal(posterior.placebo().mean, answer.mean)
    with pytest.raises(SettingsError, match="no training rows"):
        load_of(posterior).placebo()


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


def test_file_and_more_draws(tmp_path):
    """A saved model answers the same of sent rows, and continues to the same draws."""
    posterior, (table, y) = fitted(), rows()
    posterior.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    np.testing.assert_array_equal(again.effects(table).mean, posterior.effects().mean)
    assert again.effects().average.rows == 200
    assert "200 of the 220 rows" in again.effects().warnings[0]
    more, whole = again.extend(5, table, y, progress=False), posterior.extend(5, progress=False)
    np.testing.assert_array_equal(more.effects(table).mean, whole.effects().mean)


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


def test_a_propensity_that_follows_chance():
    """Its area under the ROC curve is told at the rows of the fit and at others, and a gap is warned of."""
    overlap = fitted().effects().overlap
    assert 0.65 < overlap.auc_other_half < overlap.auc < overlap.auc_other_half + 0.15
    assert load_of(fitted()).effects(rows()[0]).overlap.auc == overlap.auc
    table, y = rows()
    drawn = (np.random.default_rng(5).uniform(size=NUM_ROWS) < 0.5).astype(float)
    answer = fit(features(table), y, treatment=drawn, **SHORT).effects()
    assert answer.overlap.auc > 0.65 > answer.overlap.auc_other_half
    assert "propensity_overfits" in answer.warnings[-1]
    assert fitted("plain").effects().overlap.auc is None


def test_halves_have_rows_of_both_arms():
    """Few treated rows are parted between the halves, though a plain parting has them all in one."""
    seed, rng = 7, np.random.default_rng(0)
    treated = np.zeros(60)
    treated[np.flatnonzero(np.random.default_rng(seed).permutation(60) % 2 == 0)[:12]] = 1
    X = rng.normal(size=(60, 2)) + 2 * treated[:, None]
    y = X[:, 0] + treated + rng.normal(size=60)
    overlap = fit(X, y, treatment=treated, seed=seed, **SHORT).effects().overlap
    assert overlap.auc_other_half > 0.8


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


@pytest.mark.parametrize("more", [{"propensity": "known"}, {"effects": "plain"}, {}])
def test_placebos_are_as_probable_as_the_treatment(more):
    """Whichever way the propensity is known, drawn treatments follow what the treatment followed."""
    table, y = rows()
    known = {"known": 1 / (1 + np.exp(-table["a"]))} if "propensity" in more else {}
    posterior = fit(
        features(table) | known, y, treatment=table["treatment"], **SHORT | {"num_draws": 2}, **more
    )
    drawn = placebo_fit(posterior, 1).origin.problem.training.by_role["treatment"]
    assert np.corrcoef(drawn, table["a"])[0, 1] > 0.2


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


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"family": "categorical"}, "treatment"),
        ({"family": "zero-inflated-poisson"}, "family"),
        ({"method": "bcart"}, "method"),
        ({"propensity": "site"}, "propensity"),
        ({"propensity": "a", "assignment": "random"}, "propensity"),
        ({"effects": "twice"}, "effects"),
    ],
)
def test_refused_settings(settings, field):
    """Settings that have no place beside a treatment are refused by name."""
    table, y = rows()
    short = {name: value for name, value in SHORT.items() if name in ("progress", "num_draws")}
    with pytest.raises(SettingsError) as error:
        fit(features(table), y, treatment=table["treatment"], **short | settings)
    assert error.value.field == field


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
