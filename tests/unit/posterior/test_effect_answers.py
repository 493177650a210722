"""Answers about effects: groups, tables and charts, for whom they are larger, how far to trust them."""

import numpy as np
import pytest

from sampler import SettingsError, fit
from sampler.data.scalars import number_to_text
from sampler.studies.placebo import placebo_fit
from tests.support.models.treated import NUM_ROWS, SHORT, features, fitted, load_of, rows


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
    ends = [number_to_text(each) for each in np.quantile(table["b"], [0.25, 0.75], method="inverted_cdf")]
    assert [*posterior.effects(income, by="income", of="treated").groups][::3] == [
        f"lowest quarter (up to {ends[0]})",
        f"highest quarter (above {ends[1]})",
    ]
    assert len(posterior.effects(region, by=["site", "region"]).groups) == 5
    with pytest.raises(SettingsError, match="to average by another column give rows with it"):
        posterior.effects(by="region")
    for by in ({"a": [1, 0]}, {"a": []}, {"site": [1]}, {"c": [1]}, ["a", "b", "site"], [], 7, {"a": ["x"]}):
        with pytest.raises(SettingsError, match=r"by:|no feature"):
            posterior.effects(by=by)


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


@pytest.mark.parametrize("more", [{"propensity": "known"}, {"effects": "plain"}, {}])
def test_placebos_are_as_probable_as_the_treatment(more):
    """Whichever way the propensity is known, drawn treatments follow what the treatment followed."""
    table, y = rows()
    known = {"known": 1 / (1 + np.exp(-table["a"]))} if "propensity" in more else {}
    posterior = fit(
        features(table) | known, y, treatment=table["treatment"], **SHORT | {"num_draws": 2}, **more
    )
    drawn = placebo_fit(posterior.origin.problem, 1).origin.problem.training.by_role["treatment"]
    assert np.corrcoef(drawn, table["a"])[0, 1] > 0.2
