"""Panels: effects by lag, cohort and period, their exact law, placebos in time, and what is refused."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from sampler import DataError, DataWarning, Posterior, SettingsError, fit
from sampler.data.treatment.design import ROLE
from sampler.data.treatment.panel import PANEL
from sampler.posterior.parts.compared_treatments import Compared
from sampler.preparation import prepare
from sampler.running import run
from sampler.training import EffectPrior, GroupTraining, LinearTraining
from tests.support.panels import panel

SHORT = {"num_trees": 20, "num_chains": 2, "num_burnin": 60, "num_draws": 30, "thin": 2, "progress": False}
ROLES = {"adoption": "first", "period": "year", "groups": "unit"}


@cache
def fitted(seed=0, **more):
    """Return a short fit to a panel."""
    table, y, _ = panel(seed, **more)
    return fit(table, y, **ROLES, **SHORT)


def treated_of(table):
    """Return 1 for cells from the adoption on, else 0."""
    return (table["year"] >= table["first"]).astype(float)


def test_effects_by_lag_cohort_and_period():
    """Averages are of treated cells, near the truth at each lag, of each cohort and in each period."""
    posterior, (table, _, adds) = fitted(), panel(0)
    answer = posterior.effects(level=0.99)
    own = adds > 0
    lag, first, year = (
        values[own] for values in (table["year"] - table["first"], table["first"], table["year"])
    )
    assert answer.average.rows == answer.average.treated == own.sum()
    assert (answer.arm, answer.against, answer.of) == ("adopted", "none", "treated")
    assert [*answer.groups] == ["0", "1", "2", "3", "4"]
    assert "parallel trends" in answer.holds
    for by, of_rows in {"lag": lag, "cohort": first, "period": year}.items():
        groups = posterior.effects(by=by, level=0.99).groups
        assert [*groups] == [f"{value:g}" for value in np.unique(of_rows)]
        for name, each in groups.items():
            assert each.rows == np.sum(of_rows == float(name))
            assert abs(each.mean - adds[own][of_rows == float(name)].mean()) < 0.5
    assert posterior.effects(by="first").groups == posterior.effects(by="cohort").groups
    first = next(iter(posterior.effects(by=["x", "lag"]).groups))
    assert re.fullmatch(r"x lowest quarter \(up to -?[\d.]+\), lag 0", first)
    assert posterior.effects(arm="3", against="0").average.mean > 0.7


def test_effects_are_of_each_rows_lag():
    """A row's effect is the mean of its outcome at its lag less that without, in its own cohort."""
    posterior, (table, _, _) = fitted(), panel(0)
    some = {name: np.asarray(values)[:30] for name, values in table.items()}
    coded = posterior.encode(some)
    own = coded.by_role[ROLE] > 0
    law = posterior.law
    without = law.mean_of(coded.with_role(ROLE, 0.0), law.alike(None)).mean(axis=0)
    expected = posterior.predict(some).mean - without
    np.testing.assert_allclose(posterior.effects(some).mean, expected[own], atol=1e-9)
    np.testing.assert_allclose(expected[~own], 0.0, atol=1e-9)


def test_other_questions_know_lags():
    """Scores read adoptions, and the effect along a feature is of treated rows at their lags."""
    posterior, (table, y, _) = fitted(), panel(0)
    score = posterior.score(table, y)
    assert score["rmse"] < 0.6
    along = posterior.partial_dependence("x", of="effect")
    assert 1.3 < np.mean(along.mean) < 2.3
    assert "x times year" in [each.feature for each in posterior.linear_part()]


def test_an_event_study_is_drawn():
    """Leads are before the adoption, lags from 0 on; other answers have none."""
    posterior = fitted()
    ax = posterior.effects().plot_event_study(posterior.placebo())
    assert [each.get_text() for each in ax.get_xticklabels()] == ["-2", "-1", "0", "1", "2", "3", "4"]
    with pytest.raises(SettingsError, match="by lag in a panel"):
        posterior.effects(by="x").plot_event_study()


def test_a_loaded_model_reads_adoptions_in_any_form():
    """Numbers, text and missing values tell the same, of periods beyond those of the fit too."""
    posterior, (table, _, _) = fitted(), panel(0)
    loaded = Posterior.from_bytes(posterior.to_bytes())
    own = posterior.effects(table)
    text = [None if np.isnan(each) else f"{each:g}" for each in table["first"]]
    for first in (text, [each or "never" for each in text], pd.Series(table["first"])):
        np.testing.assert_array_equal(loaded.effects(table | {"first": first}).mean, own.mean)
    later = {"year": [9.0, 30.0], "x": [0.0, 0.0], "unit": ["u0", "u1"], "first": [8.0, 29.0]}
    assert posterior.encode(later).by_role[ROLE].tolist() == [2.0, 2.0]


def test_dates_are_periods_too():
    """Months count one by one, however many days they have."""
    table, y, _ = panel(0)
    months = np.array([f"2024-{month:02}-01" for month in range(1, 9)], "datetime64[D]")
    dates = {"year": months[table["year"].astype(int) - 1]}
    first = np.where(np.isnan(table["first"]), 1, table["first"]).astype(int) - 1
    dates["first"] = np.where(np.isnan(table["first"]), np.datetime64("NaT"), months[first])
    posterior = fit(table | dates, y, **ROLES, **SHORT)
    answer, own = posterior.effects(by="cohort"), fitted().effects()
    assert [*answer.groups] == ["2024-04-01", "2024-06-01"]
    assert posterior.header.panel.arms == fitted().header.panel.arms
    np.testing.assert_array_equal(answer.is_treated, own.is_treated)


def test_one_adoption_at_the_end_is_a_treatment():
    """A cohort with one treated period has the draws of a treatment beside groups of cohorts and units."""
    table, y, _ = panel(0, periods=6)
    table["first"] = np.where(table["first"] == 6, 6.0, np.nan)
    posterior = fit(table, y, **ROLES, **SHORT, linear=False)
    given = {name: table[name] for name in ("year", "x", "unit")}
    given |= {"first": ["never" if np.isnan(each) else "6" for each in table["first"]]}
    roles = {"treatment": treated_of(table), "groups": ["first", "unit"], "assignment": "random"}
    other = fit(given, y, **roles, **SHORT, linear=False)
    assert posterior.header.panel.arms == ("none", "0")
    np.testing.assert_array_equal(posterior.effects().mean, other.effects(of="treated").mean)


def without_splits(table, y, **more):
    """Prepare a fit whose trees have one leaf each, and neither lines of x nor splits matter."""
    problem = prepare(table, y, **ROLES, prior={"alpha": 1e-9}, **more)
    parts = dict(problem.training.parts)
    parts["treatment"] = replace(parts["treatment"], alpha=1e-9)
    return replace(problem, training=replace(problem.training, parts=parts))


def test_two_periods_and_cohorts_are_a_difference_of_differences():
    """Without features the effect is the difference between the cohorts' changes."""
    rng, units = np.random.default_rng(1), 100
    year, adopts = np.tile([0.0, 1.0], units), np.repeat(np.arange(units) % 2, 2)
    table = {"year": year, "first": np.where(adopts, 1.0, np.nan), "unit": np.repeat(np.arange(units), 2)}
    y = 3 * adopts + 2 * year + adopts * year + rng.normal(0, 0.1, 2 * units)
    problem = without_splits(table, y, num_trees=5, num_chains=2, num_burnin=200, num_draws=200, thin=2)
    means = [[y[(adopts == own) & (year == at)].mean() for at in (0, 1)] for own in (0, 1)]
    expected = means[1][1] - means[1][0] - means[0][1] + means[0][0]
    assert run(problem, progress=False).effects().average.mean == pytest.approx(expected, abs=0.02)


def test_lags_beside_a_mean_of_nothing_are_normal():
    """With m frozen at 0, flat cohorts and units, lags have the closed form of a normal mean and prior."""
    rng, units = np.random.default_rng(3), 60
    first = np.repeat([2.0, np.nan], units // 2)
    year = np.arange(4.0)
    lag = year - first[:, None]
    effect = np.where(lag >= 0, 1.0 + np.nan_to_num(lag), 0.0)
    y = (effect + 0.5 * rng.normal(size=effect.shape)).reshape(-1)
    table = {"year": np.tile(year, units), "first": np.repeat(first, 4), "unit": np.repeat(range(units), 4)}
    settings = {"num_trees": 1, "num_chains": 2, "num_burnin": 50, "num_draws": 300, "thin": 2}
    problem = without_splits(table, y, linear=False, transform="none", **settings)
    training, groups = problem.training, problem.training.part(GroupTraining)
    parts = {**training.parts, "groups": replace(groups, scales=(1e-9, 1e-9))}
    constants = replace(training.constants, leaf_sd=1e-9, offset=0.0)
    posterior = run(replace(problem, training=replace(training, parts=parts, constants=constants)))
    prior: EffectPrior = training.part(EffectPrior)
    draws = posterior.law.draws.chains()
    drawn = {name: np.concatenate([each.scalars[name] for each in draws]) for name in draws[0].scalars}
    sigma, own = np.concatenate([each.sigma for each in draws]), training.by_role[ROLE]
    law, coded = posterior.law, posterior.training_rows().part(np.array([0]))
    means = []
    for arm, _ in enumerate(posterior.header.arms):
        variance = prior.share**2 * (drawn[f"effect_sd {arm}"] ** 2 + prior.mean_sd**2)
        precision = np.sum(own == arm) / sigma**2 + 1 / variance
        means.append([np.sum(y[own == arm]) / sigma**2 / precision, 1 / precision])
    for arm, pair in enumerate(Compared.beside_first(posterior.header.effects), start=1):
        found = law.effect_of(coded, law.alike(None), pair)[:, 0]
        mean = np.mean(means[arm][0] - means[0][0])
        sd = np.sqrt(np.mean(means[arm][1] + means[0][1]))
        assert found.mean() == pytest.approx(mean, abs=0.15 * sd)
        assert found.std() == pytest.approx(sd, rel=0.1)


@pytest.mark.slow  # sampled: many draws
def test_lags_of_three_cohorts_have_their_exact_law():
    """Without splits the model is normal given its scales: lags have means and sds of linear algebra."""
    rng, units, periods = np.random.default_rng(2), 40, 5
    first = np.array([2.0, 3.0, 4.0, np.nan])[np.arange(units) % 4]
    year = np.arange(periods, dtype=float)
    lag = year - first[:, None]
    y = (
        np.nan_to_num(first)[:, None]
        + 0.5 * year
        + np.where(lag >= 0, 1 + lag, 0)
        + rng.normal(size=(units, 1))
    )
    y = (y + 0.7 * rng.normal(size=y.shape)).reshape(-1)
    table = {"year": np.tile(year, units), "first": np.repeat(first, periods)}
    table["unit"] = np.repeat(np.arange(units), periods)
    problem = without_splits(table, y, num_trees=5, num_chains=4, num_burnin=500, num_draws=1000, thin=4)
    training = problem.training
    posterior = run(problem, progress=False)
    arms, draws = posterior.header.arms, posterior.law.draws.chains()
    prior: EffectPrior = training.part(EffectPrior)
    groups, line = training.part(GroupTraining), training.part(LinearTraining)
    treated = training.by_role[ROLE]
    design = [np.ones((1, len(y))), line.z]
    design += [np.eye(size)[own].T for own, size in zip(groups.index, groups.sizes, strict=True)]
    design += [treated[None] == np.arange(len(arms))[:, None]]
    stacked = np.vstack(design).astype(float)
    of_lags = np.arange(len(stacked))[-len(arms) :]
    drawn = {name: np.concatenate([each.scalars[name] for each in draws]) for name in draws[0].scalars}
    drawn["sigma"] = np.concatenate([each.sigma for each in draws])
    means, variances = [], []
    for draw in range(0, len(drawn["sigma"]), 8):
        at = {name: values[draw] for name, values in drawn.items()}
        effects = [
            prior.share**2 * (at[f"effect_sd {arm}"] ** 2 + prior.mean_sd**2) for arm in range(len(arms))
        ]
        sds = [
            training.constants.leaf_sd**2 * training.settings.num_trees,
            *[at["slope_sd"] ** 2] * len(line.z),
        ]
        sds += [at[f"group_sd_{k}"] ** 2 for k, size in enumerate(groups.sizes) for _ in range(size)]
        precision = stacked @ stacked.T / at["sigma"] ** 2 + np.diag(1 / np.array(sds + effects))
        covariance = np.linalg.inv(precision)
        mean = covariance @ stacked @ (y - training.constants.offset) / at["sigma"] ** 2
        contrast = np.zeros((len(arms) - 1, len(stacked)))
        contrast[:, of_lags[1:]], contrast[:, of_lags[0]] = np.eye(len(arms) - 1), -1
        means.append(contrast @ mean)
        variances.append(np.diag(contrast @ covariance @ contrast.T))
    exact = np.mean(means, axis=0), np.sqrt(np.mean(variances, axis=0) + np.var(means, axis=0))
    law, coded = posterior.law, posterior.training_rows()
    pairs, one = Compared.beside_first(posterior.header.effects), coded.part(np.array([0]))
    own = [law.effect_of(one, law.alike(None), pair)[:, 0] for pair in pairs]
    for draws, mean, sd in zip(own, *exact, strict=True):
        assert draws.mean() == pytest.approx(mean, abs=0.12 * sd)
        assert draws.std() == pytest.approx(sd, rel=0.1)


def test_a_placebo_in_time():
    """Before the adoption nothing happened: leads have no effect, and are of the untreated rows alone."""
    posterior, (table, _, _) = fitted(), panel(0)
    leads = posterior.placebo(periods_earlier=2, level=0.99)
    lag = table["year"] - table["first"]
    assert [*leads.groups] == ["0", "1"]
    assert leads.average.rows == np.sum((lag >= -2) & (lag < 0))
    for each in leads.named_estimates().values():
        assert each.lower < 0 < each.upper
    assert posterior.placebo().average.rows == leads.average.rows
    assert posterior.placebo(periods_earlier=4).average.rows == np.sum(
        (lag >= -4) & (lag < 0) & (table["first"] > 5)
    )
    with pytest.raises(SettingsError, match="no cohort has more than 5 untreated periods"):
        posterior.placebo(periods_earlier=5)
    with pytest.raises(SettingsError, match="periods_earlier must be a number of periods from 1 up"):
        posterior.placebo(periods_earlier=0)
    with pytest.raises(SettingsError, match="no training rows"):
        Posterior.from_bytes(posterior.to_bytes()).placebo()


def test_errors_that_go_on_are_warned_of():
    """The rest of a unit's outcome is compared with the period before, and kept in the model."""
    alone, together = fitted(), fitted(kind="serial")
    assert abs(alone.header.panel.correlation) < 0.15
    assert together.header.panel.correlation > 0.3
    assert not [text for text in alone.effects().warnings if "goes on" in text]
    loaded = Posterior.from_bytes(together.to_bytes())
    assert [text for text in loaded.effects().warnings if "goes on in the next period" in text]


def test_errors_that_go_on_widen_averages():
    """Intervals are wider by the ratio of a regression's standard errors, rows' are as they were."""
    posterior, (table, _, _) = fitted(kind="serial"), panel(0, kind="serial")
    own = posterior.header.panel
    unit, period = np.unique(table["unit"], return_inverse=True)[1], table["year"].astype(int) - 1
    lag = np.nan_to_num(table["year"] - table["first"], nan=-1.0)
    apart = np.abs(period[:, None] - period)
    errors = np.where(unit[:, None] == unit, own.correlation**apart, 0.0)
    units, periods = np.eye(unit.max() + 1)[unit], np.eye(period.max() + 1)[period]
    of_units = np.eye(len(lag)) - units @ np.linalg.pinv(units)
    residual = np.trace(of_units @ errors) / np.trace(of_units)
    for place, treated in enumerate([lag >= 0, *(lag == k for k in range(5))]):
        others = [(lag == k) * 1.0 for k in range(5)] if place else []
        beside = np.column_stack([units, periods, *others[: place - 1], *others[place:]])
        left = treated - beside @ np.linalg.lstsq(beside, treated * 1.0)[0]
        expected = np.sqrt(left @ errors @ left / (left @ left) / residual)
        assert own.widening[place] == pytest.approx(max(expected, 1.0), rel=1e-4)
    assert own.widening[0] > 1.2
    header, answer = posterior.header, posterior.effects()
    posterior.law.draws.header = replace(header, parts={**header.parts, PANEL: replace(own, widening=())})
    narrow = posterior.effects()
    posterior.law.draws.header = header
    for place, name in enumerate(["average", *narrow.groups]):
        wide, before = answer.named_estimates()[name], narrow.named_estimates()[name]
        assert wide.mean == pytest.approx(before.mean)
        assert wide.upper - wide.mean == pytest.approx(own.widening[place] * (before.upper - before.mean))
        assert wide.population_lower <= before.population_lower
    np.testing.assert_array_equal(answer.lower, narrow.lower)
    assert "too narrow; fit the model again" in narrow.warnings[-1]
    assert f"are {own.widening[0]:.2f} times as wide" in answer.warnings[-1]


def test_few_units_that_adopt_are_warned_of():
    """One unit's own shocks can't be told from the effect."""
    table, y, _ = panel(0)
    table["first"] = np.where(np.array(table["unit"]) == "u0", 6.0, np.nan)
    with pytest.warns(DataWarning, match=r"few units adopt \(1\)"):
        posterior = fit(table, y, **ROLES, **SHORT)
    assert [*posterior.effects().groups] == ["0+"]


def changed(**columns):
    """Return the arguments of a fit to a panel with other columns."""
    table, y, _ = panel(0)
    return {"X": table | columns, "y": y, **ROLES, **SHORT}


FIRST, YEAR = panel(0)[0]["first"], panel(0)[0]["year"]
REFUSED = {
    "has two adoptions, 4 and never": {"first": np.where(YEAR < 3, np.nan, FIRST)},
    "cohorts without an untreated period: 0": {"first": np.nan_to_num(FIRST)},
    "periods in which every row is treated: 6, 7, 8": {"first": np.where(np.isnan(FIRST), 6, FIRST)},
    "no unit adopts up to the last period, 8": {"first": np.full(len(FIRST), np.nan)},
    "all rows are of one period": {"year": np.full(len(YEAR), 3.0)},
    "periods must be numbers or dates": {"year": [f"in {year}" for year in YEAR]},
    "the period is missing": {"year": np.where(YEAR == 3, np.nan, YEAR)},
    "it tells which rows have the treatment": {"post": (YEAR >= FIRST).astype(float)},
}


@pytest.mark.parametrize("message", REFUSED)
def test_panels_that_show_no_effect_are_refused(message):
    """Rows that can't tell an effect from what else happens are refused by name."""
    with pytest.raises(DataError, match=message):
        fit(**changed(**REFUSED[message]))


def test_settings_that_have_no_place_in_a_panel_are_refused():
    """Periods are a feature; lags are of rows that have adopted; other models take no periods earlier."""
    with pytest.raises(SettingsError, match="'year' must be a feature, a number"):
        fit(**changed(), features=["x"])
    with pytest.raises(SettingsError, match="groups"):
        fit(**changed() | {"groups": None})
    with pytest.raises(SettingsError, match="of untreated: a lag is of rows that have adopted"):
        fitted().effects(of="untreated")
    table, y, _ = panel(0)
    rows = {name: table[name] for name in ("year", "x", "unit")}
    with pytest.raises(SettingsError, match="periods_earlier must be a number of periods of a panel"):
        fit(rows, y, treatment=treated_of(table), groups="unit", **SHORT).placebo(periods_earlier=1)
