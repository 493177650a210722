"""Charts, cards and tables of a notebook show the posterior's own figures."""

import re
import sys
from dataclasses import replace
from html import escape

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.patches import StepPatch

from sampler import SettingsError, fit
from sampler.data.scalars import counted, number_to_text, numbers_to_text
from sampler.posterior.assessment.diagnostics import evenly_spaced
from sampler.posterior.charts.style import COLOURS
from sampler.studies.selection import Selection
from tests.support.models.random_posteriors import make_posterior

POSTERIOR, X, _ = make_posterior(num_draws=(40, 50))
Y = np.random.default_rng(0).normal(10, 1, 80)
ACCENT, FAIR = COLOURS["light"].accent, COLOURS["light"].fair
HOSTILE = "$x_{<script>alert(1)</script>"
FAST = {"num_trees": 5, "num_chains": 2, "num_burnin": 20, "num_draws": 20, "thin": 1, "progress": False}


@pytest.fixture(autouse=True)
def pyplot():
    mpl.use("agg")
    from matplotlib import pyplot as plt

    yield plt
    plt.close("all")


def from_top(axes):
    """Names of the lines of a chart, from top to bottom."""
    return [label.get_text() for label in axes.get_yticklabels()][::-1]


def test_traces_and_ranks_have_a_line_for_each_chain():
    """The lines are sigma's draws; ranks end at zero; charts go onto given axes."""
    axes = POSTERIOR.plot.traces()
    for chain, line in enumerate(axes.lines):
        np.testing.assert_array_equal(line.get_ydata(), POSTERIOR.sigma[chain][evenly_spaced(40, 500)])
    assert (axes.get_ylabel(), len(axes.lines)) == ("sigma", 2)
    assert POSTERIOR.plot.ranks(axes) is axes
    assert axes.lines[-1].get_ydata()[-1] == pytest.approx(0)


def test_convergence_is_drawn_by_number_of_draws():
    """R-hat on the left, effective draws on the right."""
    convergence = POSTERIOR.convergence()
    left, right = POSTERIOR.plot.convergence()
    np.testing.assert_array_equal(left.lines[0].get_ydata(), convergence["f"]["rhat"])
    for line, whose in zip(right.lines[-2:], ("sigma", "log_likelihood"), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), convergence[whose]["ess_bulk"])
    table = convergence.to_pandas()
    assert list(table["draws"]) == convergence["draws"]
    assert list(table["sigma_ess_tail"]) == convergence["sigma"]["ess_tail"]
    assert list(table["log_likelihood_rhat"]) == convergence["log_likelihood"]["rhat"]


def test_calibration_and_predictions_are_drawn_against_outcomes():
    """Observed shares by level; rows whose interval misses are set apart; without outcomes by rank."""
    entries = POSTERIOR.calibration(X, Y)
    axes = POSTERIOR.plot.calibration(X, Y)
    np.testing.assert_array_equal(axes.lines[-1].get_ydata(), [entry["observed"] for entry in entries])
    prediction = POSTERIOR.predict(X)
    inside = (prediction.lower <= Y) & (prediction.upper >= Y)
    axes = POSTERIOR.plot.predictions(X, Y)
    by_colour = {line.get_color(): len(line.get_xdata()) for line in axes.lines}
    assert (by_colour[ACCENT], by_colour[FAIR]) == (inside.sum(), (~inside).sum())
    assert axes.get_xlabel() == "actual y"
    for axes in (POSTERIOR.plot.predictions(X), prediction.plot()):
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), np.sort(prediction.mean))


def test_effects_are_drawn_for_numbers_levels_and_pairs():
    """A curve with its points; levels from the least to the greatest; two surfaces for a pair."""
    effect = POSTERIOR.partial_dependence(["x1"])
    np.testing.assert_array_equal(POSTERIOR.plot.effects("x1", ice=3).lines[-1].get_ydata(), effect.mean)
    effect = POSTERIOR.partial_dependence(["c"])
    axes = POSTERIOR.plot.effects("c")
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), np.sort(effect.mean))
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [effect.grid[0][k] for k in np.argsort(effect.mean, kind="stable")]
    left, right = POSTERIOR.plot.effects(["x1", "c"])
    pair = POSTERIOR.partial_dependence(["x1", "c"])
    np.testing.assert_array_equal(left.collections[0].get_array().data, pair.mean.T)
    assert right.get_title(loc="left") == "its standard deviation"
    low, *_, high = POSTERIOR.plot.effects(["x1", "c", "x2"])
    three = POSTERIOR.partial_dependence(["x1", "c", "x2"])
    for ax, k in ((low, 0), (high, -1)):
        np.testing.assert_array_equal(ax.collections[0].get_array().data, three.mean[:, :, k].T)
        assert ax.get_title(loc="left") == f"x2 {number_to_text(three.grid[2][k])}"
        assert ax.collections[0].get_clim() == low.collections[0].get_clim()
    table = pair.to_pandas()
    assert len(table) == pair.mean.size
    assert table.loc[table["c"] == "b", "mean"].tolist() == pair.mean[:, pair.grid[1].index("b")].tolist()


def test_importance_and_inclusion_are_drawn_and_tabled_largest_first():
    """The chart, the table and the card have the same order."""
    ranked = POSTERIOR.importance(X, Y, permutations=2)
    for result, axes in (
        (ranked, POSTERIOR.plot.importance(X, Y, permutations=2)),
        (ranked, ranked.plot()),
        (POSTERIOR.inclusion(), POSTERIOR.plot.inclusion()),
    ):
        names = [result.names[j] for j in result.order]
        assert from_top(axes) == names
        np.testing.assert_array_equal(axes.lines[0].get_xdata()[::-1], result.mean[result.order])
        table = result.to_pandas()
        assert list(table["feature"]) == names
        assert list(table["mean"]) == sorted(table["mean"], reverse=True)
        assert [name for name in names if name in result._repr_html_()] == names


def test_predictions_and_scores_are_tables():
    """Columns are those of CSV answers; of several classes one for each; scores one to a row."""
    prediction = POSTERIOR.predict(X, [0.5, 0.9], quantiles=0.25)
    table = prediction.to_pandas()
    figures = ["mean", "sd", "lower_50", "upper_50", "lower_90", "upper_90", "quantile_25", "interval"]
    assert list(table) == figures
    assert set(table["interval"]) == {"predictive"}
    assert table["upper_90"].tolist() == prediction.upper[1].tolist()
    scores = POSTERIOR.score(X, Y)
    table = scores.to_pandas().set_index("score")
    assert table["value"]["rmse"] == scores["rmse"]
    assert table["lower"]["coverage_90"] == scores["coverage"][2]["lower"]
    assert {"crps", "pinball_5", "log_score"} <= set(table.index)


def test_explanations_are_tables():
    """Effects, contrasts, interactions and SHAP values, with the levels of their intervals."""
    effects = POSTERIOR.accumulated_effects("x1").to_pandas()
    assert list(effects) == ["x1", "mean", "lower_90", "upper_90"]
    contrast = POSTERIOR.contrast(X, {"x1": 1}, {"x1": 0}, level=0.5)
    table = contrast.to_pandas()
    assert list(table) == ["mean", "lower_50", "upper_50", "unlike_first", "unlike_second"]
    assert table["upper_50"].tolist() == contrast.upper.tolist()
    pairs = POSTERIOR.interactions(["x1", "x2", "c"])
    table = pairs.to_pandas()
    assert list(zip(table["first"], table["second"], strict=True)) == pairs.pairs
    assert table["h_lower_90"].tolist() == pairs.h_lower.tolist()
    shap = POSTERIOR.shap(X)
    assert shap.to_pandas()["c"].tolist() == shap.values[:, shap.names.index("c")].tolist()
    assert POSTERIOR.partial_dependence("x1").to_pandas()["lower_90"].notna().all()


def test_figures_side_by_side():
    """Pairs, averages with groups, and selected features have a line each, the largest on top."""
    pairs = POSTERIOR.interactions(["x1", "x2", "c"])
    axes = pairs.plot()
    assert from_top(axes) == [f"{a} : {b}" for a, b in pairs.pairs]
    contrast = POSTERIOR.contrast(X, {"x1": 1}, {"x1": 0}, by="c")
    (dots,) = (line for line in contrast.plot().get_lines() if line.get_marker() == "o")
    means = [contrast.average, contrast.population, contrast.treated, *contrast.groups.values()]
    assert dots.get_xdata().tolist()[::-1] == [each.mean for each in means]
    rng = np.random.default_rng(0)
    null = rng.dirichlet(np.ones(3), 20)
    selection = Selection(["a", "b", "c"], np.array([0.9, 0.04, 0.06]), null, 0.05)
    axes = selection.plot("local")
    lines = {line.get_label(): line.get_xdata().tolist() for line in axes.get_lines()}
    assert (lines["selected"], lines["not selected"]) == ([0.9], [0.04, 0.06])
    assert from_top(axes) == ["a", "c", "b"]


def test_classes_are_drawn_and_tabled():
    """Traces are of a probability; of three classes there are columns and curves for each."""
    rng = np.random.default_rng(1)
    x = rng.uniform(size=120)
    for cuts, settings in (([0.5], {}), ([0.3, 0.6], {"method": "bcart", "num_trees": 1})):
        y = np.array(["a", "b", HOSTILE])[np.digitize(x, cuts)]
        family = "categorical" if settings else "probit"
        posterior = fit({"x": x}, y, family=family, **FAST | settings)
        prediction = posterior.predict({"x": x})
        assert posterior.plot.traces().get_ylabel().startswith("mean probability of")
        for axes in (posterior.plot.effects("x"), posterior.plot.calibration({"x": x}, y)):
            axes.figure.canvas.draw()
        posterior.plot.predictions({"x": x}, y)
        columns = list(prediction.to_pandas())
        assert ("mean_a" if len(cuts) == 2 else "mean") in columns
        assert "<script>" not in prediction._repr_html_()


def test_names_are_text_and_nothing_else():
    """Dollars are no formulas in charts, and angle brackets no tags in cards."""
    rng = np.random.default_rng(2)
    table = {HOSTILE: rng.uniform(size=60), "when": np.arange("2020-01-01", "2020-03-01", dtype="M8[D]")}
    posterior = fit(table, rng.normal(size=60), target_name=f"y{HOSTILE}", **FAST)
    cards = [posterior._repr_html_(), posterior.predict(table)._repr_html_()]
    cards += [posterior.importance(table, np.zeros(60))._repr_html_(), posterior.inclusion()._repr_html_()]
    assert [card for card in cards if "<script>" in card] == []
    assert "&lt;script&gt;" in cards[0]
    for axes in (posterior.plot.effects(HOSTILE), posterior.plot.effects("when"), posterior.plot.inclusion()):
        axes.figure.canvas.draw()


def test_cards_of_contrasts_and_scores():
    """The card of a contrast says what is subtracted from what; scores are in words, with their coverage."""
    contrast = POSTERIOR.contrast(X, {"x1": 0.75, "c": None}, {"x1": 0.25, "c": "a"}, by="x2")
    said = "y where x1 = 0.75 and c is missing, minus y where x1 = 0.25 and c = a"
    assert contrast.difference == said
    assert str(contrast).startswith(said)
    card = contrast._repr_html_()
    for words in (said, "population", "highest quarter", number_to_text(contrast.average.rows)):
        assert words in card
    assert contrast.warnings
    assert all(escape(warning) in card for warning in contrast.warnings)
    scores = POSTERIOR.score(X, Y)
    card = scores._repr_html_()
    assert f'<td style="text-align:right">{number_to_text(scores["rmse"])}</td>' in card
    assert f"{scores['coverage'][2]['coverage']:.1%}" in card
    assert scores["intervals_verdict"]["text"] in card


@pytest.mark.parametrize("rows", [1, 80])
def test_a_prediction_prints_its_first_rows(rows):
    """Its repr has at most ten lines, whose figures are those of the first rows."""
    part = {name: values[:rows] for name, values in X.items()}
    prediction = replace(POSTERIOR.predict(part, [0.5, 0.8, 0.9]), warnings=[])
    head, names, first, *rest = repr(prediction).splitlines()
    more = "predictive intervals, 2 more columns in to_pandas()"
    assert head == f"<Prediction of {counted(rows, 'row')}, {more}>"
    assert names.split() == ["mean", "sd", "lower_50", "upper_50", "lower_80", "upper_80"]
    assert first.split()[1] == numbers_to_text(prediction.mean[:5], 5)[0]
    assert len(rest) == (0 if rows == 1 else 5)
    assert len(repr(replace(prediction, warnings=["beyond"])).splitlines()) <= 10


@pytest.mark.parametrize(
    "ask",
    [
        lambda: POSTERIOR.contrast(X, {"x1": 0.75}, {"x1": 0.25}, by="c"),
        POSTERIOR.interactions,
        POSTERIOR.inclusion,
        lambda: POSTERIOR.importance(X, Y),
        lambda: POSTERIOR.shap(X),
        lambda: POSTERIOR.partial_dependence(["x1", "c"]),
        lambda: POSTERIOR.accumulated_effects("x2"),
        lambda: POSTERIOR.score(X, Y),
        POSTERIOR.convergence,
    ],
)
def test_every_answer_prints_in_about_ten_lines(ask):
    """No answer floods a session: its repr is short and has no exponents, and a notebook shows a table."""
    answer = ask()
    text = repr(answer)
    assert 2 < len(text.splitlines()) <= 12
    assert not re.search(r"\d[eE][-+]\d|array\(", text), text
    if not isinstance(answer, dict):
        assert "<table>" in answer._repr_html_()
    answer.to_pandas()


def test_a_prediction_card_shows_flags_and_warnings():
    """Rows beyond training are named, and the kind of interval."""
    card = POSTERIOR.predict({name: [values[0]] for name, values in X.items()} | {"x1": [1e6]})._repr_html_()
    assert "x1: outside range" in card
    assert "predictive intervals" in card
    assert "trees predict there as at the edge" in card


@pytest.mark.parametrize(("package", "use"), [
    ("matplotlib", POSTERIOR.plot.traces),
    ("pandas", lambda: POSTERIOR.predict(X).to_pandas()),
])  # fmt: skip
def test_an_absent_package_is_named_in_one_sentence(monkeypatch, package, use):
    """It says how to install it."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"need.? {package}, which is not installed: pip install"):
        use()


def test_shap_values_are_drawn_as_waterfall_and_beeswarm():
    """Bars lead from the base to f of the row, each with its interval; a swarm has a point for every row."""
    shap = POSTERIOR.shap(X)
    axes = shap.waterfall(3)
    bars = [patch for patch in axes.patches if patch.get_width()]
    assert sum(bar.get_width() for bar in bars) == pytest.approx(shap.f[3] - shap.base_values)
    assert bars[-1].get_x() + bars[-1].get_width() == pytest.approx(shap.f[3])
    assert len(axes.get_yticklabels()) == 4
    axes = shap.beeswarm()
    points = [each for each in axes.collections if len(each.get_offsets()) == 80]
    drawn = np.sort(np.concatenate([each.get_offsets()[:, 0] for each in points]))
    np.testing.assert_allclose(drawn, np.sort(shap.values.ravel()))


def test_accumulated_effects_are_drawn():
    """The line is the mean, and the band between the ends."""
    effects = POSTERIOR.accumulated_effects("x1", X)
    axes = POSTERIOR.plot.accumulated_effects("x1", X)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), effects.mean)


def test_counts_are_drawn_by_their_mean():
    """Counts have no sigma: traces and ranks are of the mean count over the reference rows."""
    rng = np.random.default_rng(1)
    x = rng.uniform(size=60)
    posterior = fit({"x": x}, rng.poisson(np.exp(2 * x)), family="poisson", **FAST)
    axes = posterior.plot.traces()
    draws = posterior.law.draws_by_figure(posterior.reference).mean(axis=0)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), draws[0])
    assert axes.get_ylabel() == "mean of y"
    assert posterior.model_card().to_html().count("<svg") >= 1


def test_checks_of_predictive_distributions_are_drawn():
    """PIT bars and residuals are those of the outcomes; a wrong model leaves the band."""
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(600, 2))
    y = 3 * X[:, 0] + rng.standard_normal(600)
    short = {
        "num_trees": 20,
        "num_chains": 2,
        "num_burnin": 100,
        "num_draws": 50,
        "thin": 1,
        "progress": False,
    }
    posterior = fit(X[:300], y[:300], seed=1, **short)
    new, seen = X[300:], y[300:]
    axes = posterior.plot.pit(new, seen)
    (bars,) = (each for each in axes.patches if isinstance(each, StepPatch))
    low, high = axes.patches[0].get_y(), axes.patches[0].get_y() + axes.patches[0].get_height()
    heights = bars.get_data().values
    assert heights.mean() == pytest.approx(1)
    assert np.mean((low <= heights) & (heights <= high)) > 0.7
    worse = posterior.plot.pit(new, mean_apart(posterior, new, seen, 3.0))
    (bars,) = (each for each in worse.patches if isinstance(each, StepPatch))
    assert bars.get_data().values[0] > high  # outcomes far out: intervals too narrow
    points = posterior.plot.residuals(new, seen).lines[0]
    assert len(points.get_xdata()) == 300
    assert abs(np.std(points.get_ydata()) - 1) < 0.2
    check = posterior.plot.predictive_check(new, seen, draws=10)
    assert len([each for each in check.patches if isinstance(each, StepPatch)]) == 11
    classes = fit(X[:300], np.where(y[:300] > 1.5, "b", "a"), family="probit", seed=1, **short)
    ticks = classes.plot.predictive_check(new, np.where(seen > 1.5, "b", "a")).get_xticklabels()
    assert [each.get_text() for each in ticks] == ["a", "b"]
    with pytest.raises(SettingsError, match="classes have"):
        classes.plot.pit(new, np.where(seen > 1.5, "b", "a"))


def mean_apart(posterior, X, y, times):
    mean = posterior.predict(X, level=None).mean
    return mean + times * (y - mean)
