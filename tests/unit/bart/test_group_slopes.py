"""Slopes by group: their exact law, resuming, files, what a prediction says, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from sampler import PackedError, fit, load
from sampler.preparation import prepare
from sampler.storage.model_header import Header
from sampler.training import GroupTraining
from tests.reference.enumerator import leaf_law, log_sum, membership
from tests.support.chain_driver import check_resuming, draws_of, of_toy
from tests.support.toy_problems import golden

FAST = {
    "linear": False,
    "transform": "none",
    "num_trees": 20,
    "num_chains": 2,
    "num_burnin": 60,
    "num_draws": 30,
    "thin": 1,
}
CUT = 10.0  # of the half-Cauchy prior of standard deviations, in its scales


def rows(number=120, seed=0, sd=0.3):
    """Two numbers and a category beside two columns of groups, the first with slopes of x that differ."""
    rng = np.random.default_rng(seed)
    x, t, e = rng.normal(size=(3, number))
    who, where = rng.integers(0, 8, number), rng.integers(0, 5, number)
    level, slope = np.random.default_rng(99).normal(size=(2, 8))
    y = np.sin(t) + 2 * level[who] + 1.5 * slope[who] * x + sd * e
    c = np.array(["low", "high"])[rng.integers(0, 2, number)]
    return {"x": x, "t": t, "c": c, "who": who, "where": [f"site {k}" for k in where]}, y


def covariance(log_sd, partial):
    """Covariances of an intercept and a slope, [.., 2, 2]."""
    one, other = np.exp(log_sd[0]), np.exp(log_sd[1])
    both = partial * one * other
    return np.moveaxis(np.array([[one**2, both], [both, other**2]]), (0, 1), (-2, -1))


def prior_on_grid(scale, places, partials):
    """Grid of log standard deviations [2, point] and correlations [point], with log prior masses."""
    low = np.log(scale * 1e-3)
    axis = np.linspace(low, np.log(scale * CUT), places)
    inner = np.linspace(-1, 1, 2 * partials + 1)[1::2]
    first, second, partial = (grid.ravel() for grid in np.meshgrid(axis, axis, inner, indexing="ij"))
    log_sd = np.stack([first, second])
    share = np.exp(log_sd) / scale
    return log_sd, partial, (np.log(share) - np.log1p(share**2)).sum(axis=0)


def test_trees_and_covariance_have_their_exact_law():
    """An enumerated problem: a chain's numbers of leaves, log standard deviations and correlation."""
    toy, group = golden(), np.array([0, 0, 1, 1, 1])
    z = np.array([[-1.0, 0.5, 1.2, -0.4, 0.3]])
    log_sd, partial, law = prior_on_grid(0.3, 12, 8)
    same = (group[:, None] == group).astype(float)
    terms = np.stack([np.ones(5), z[0]])
    of_groups = np.einsum("ai,gab,bj->gij", terms, covariance(log_sd, partial), terms) * same
    shared = np.array([membership(toy, tree) for tree in toy.trees])
    parts = []
    for places in np.array_split(np.arange(len(law)), 8):
        cov = toy.sigma2 * np.eye(5) + toy.leaf_variance * shared + of_groups[places, None]
        scaled = np.linalg.solve(cov, np.broadcast_to(toy.y[:, None], (*cov.shape[:3], 1)))[..., 0]
        parts.append(toy.log_prior - 0.5 * (np.linalg.slogdet(cov)[1] + scaled @ toy.y))
    law = law[:, None] + np.vstack(parts)
    law = np.exp(law - log_sum(law.ravel()))
    data = of_toy(toy, num_trees=1, num_draws=4_000, num_burnin=300, thin=4, seed=7)
    draws = draws_of(
        replace(data, parts={"groups": GroupTraining(np.array([group], np.int32), (2,), (0.3,), z)})
    )
    leaves = np.bincount(draws.leaf_counts[:, 0], minlength=6)[1:6] / draws.num_draws
    np.testing.assert_allclose(leaves, leaf_law(toy, law.sum(axis=0)), atol=0.025)
    of_grid = law.sum(axis=1)
    for name, truth in (("group_sd_0", log_sd[0]), ("group_sd_0_1", log_sd[1])):
        assert np.log(draws.scalars[name]).mean() == pytest.approx(of_grid @ truth, abs=0.12)
    assert draws.scalars["group_partial_0_1_0"].mean() == pytest.approx(of_grid @ partial, abs=0.05)


def test_effects_have_the_conjugate_law():
    """Without trees, with weights and known noise: the law of covariance and effects, by quadrature."""
    rng = np.random.default_rng(3)
    group, x = np.arange(60) % 6, rng.normal(size=60)
    weights = 1.0 + np.arange(60) % 3
    y = np.array([-1.0, 0.5, 2.0, 0.3, -0.6, 0.2])[group] + np.array([-1, 1, 0.5, -0.2, 0.6, 0.1])[group] * x
    y += rng.normal(size=60)
    prior = {"sigma": 0.8, "leaf_sd": 1e-6, "step": 2.0**-18, "offset": 0.0}
    settings = {"num_trees": 1, "num_chains": 1, "num_burnin": 200, "num_draws": 6_000, "thin": 2}
    X = {"x": x, "g": group}
    data = prepare(X, y, weights=weights, groups="g", slopes="x", prior=prior, **FAST | settings).training
    draws = draws_of(data)
    terms = np.concatenate([np.ones((1, 60)), data.part(GroupTraining).z])
    log_sd, partial, log_p = prior_on_grid(data.part(GroupTraining).scales[0], 30, 20)
    cov = covariance(log_sd, partial)
    mean, square = [], []
    for g in range(6):
        own = group == g
        gram = (terms[:, own] * weights[own]) @ terms[:, own].T / 0.8**2
        total = (terms[:, own] * weights[own]) @ y[own] / 0.8**2
        spread = np.linalg.inv(np.linalg.inv(cov) + gram)
        middle = spread @ total
        log_p = log_p + 0.5 * middle @ total - 0.5 * np.linalg.slogdet(np.eye(2) + cov @ gram)[1]
        mean.append(middle)
        square.append(np.einsum("gii->gi", spread) + middle**2)
    p = np.exp(log_p - log_sum(log_p))
    effects = data.constants.step * draws.forests["groups"].leaf.reshape(-1, 2, 6)
    np.testing.assert_allclose(effects.mean(axis=0).T, p @ np.array(mean), atol=0.025)
    np.testing.assert_allclose((effects**2).mean(axis=0).T, p @ np.array(square), rtol=0.06, atol=0.02)
    for name, truth in (("group_sd_0", log_sd[0]), ("group_sd_0_1", log_sd[1])):
        assert np.log(draws.scalars[name]).mean() == pytest.approx(p @ truth, abs=0.05)
    assert draws.scalars["group_partial_0_1_0"].mean() == pytest.approx(p @ partial, abs=0.04)


@pytest.mark.parametrize(
    "settings",
    [{}, {"noise": "forest", "linear": True}, {"family": "probit"}, {"event": True, "linear": False}],
)
def test_a_chain_resumes_bit_for_bit(settings):
    """From a checkpoint after any iteration, with crossed groups beside whatever else is drawn."""
    X, y = rows(80)
    short = {"num_trees": 7, "num_chains": 1, "num_burnin": 8, "num_draws": 6, "thin": 1} | settings
    weights = None if {"family", "event"} & settings.keys() else 1.0 + np.arange(80) % 2
    outcome = (y > 0).astype(float) if "family" in settings else np.exp(y)
    if "event" in settings:
        short["event"] = np.arange(80) % 3 > 0
    prepared = prepare(X, outcome, weights=weights, groups=["who", "where"], slopes=["x", "t"], **short)
    check_resuming(prepared.training)


@pytest.fixture(scope="module")
def fitted():
    """A model of slopes by two crossed columns of groups."""
    X, y = rows(300)
    return fit(X, y, groups=["who", "where"], slopes="x", progress=False, **FAST)


def test_known_groups_add_their_slopes(fitted, tmp_path):
    """Draws of f are trees, intercepts and slopes times features; the same from a file."""
    new, truth = rows(40, seed=9)
    prediction = fitted.predict(new)
    assert np.sqrt(np.mean((prediction.mean - truth) ** 2)) < 0.6  # of outcomes with sd 2.7
    coded, (draws, _) = fitted.encode(new), fitted.chains()
    step, terms = fitted.constants["step"], fitted.header.groupings.slopes
    f = fitted.constants["offset"] + step * fitted.law.ensemble.sums(coded.codes)[:30]
    effects = step * draws.forests["groups"].leaf.reshape(30, -1)
    z = (np.clip(new["x"], terms.low[0], terms.high[0]) - terms.mean[0]) / terms.scale[0]
    where = np.array([fitted.schema.groups[1].levels.index(name) for name in new["where"]])
    f += effects[:, new["who"]] + z * effects[:, 8 + new["who"]]
    f += effects[:, 16 + where] + z * effects[:, 21 + where]
    np.testing.assert_allclose(fitted.sample(new)[0], f, atol=4 * step)
    np.testing.assert_allclose(
        prediction.lower, fitted.law.outcome_law(coded).quantile(0.05), rtol=1e-6, atol=1e-9
    )
    fitted.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    np.testing.assert_array_equal(again.predict(new).lower, prediction.lower)
    assert again.slopes_of_groups == ("x",)


def test_new_groups_have_slopes_of_their_own(fitted):
    """The variance of a new group's outcomes grows with the distance from the feature's mean."""
    X, _ = rows(3, seed=5)
    new = X | {"x": [0.0, 2.0, None], "who": ["nobody"] * 3}
    prediction = fitted.predict(new)
    terms, law = fitted.header.groupings.slopes, fitted.law.intercepts
    z = np.array([(0 - terms.mean[0]) / terms.scale[0], (2 - terms.mean[0]) / terms.scale[0], 0.0])
    factor = law.factor[0]
    cov = factor @ factor.transpose(0, 2, 1)
    between = cov[:, 0, 0, None] + 2 * cov[:, 0, 1, None] * z + cov[:, 1, 1, None] * z**2
    variance = fitted.sample(new).reshape(60, 3).var(axis=0, ddof=1)
    variance += (between + fitted.sigma.reshape(-1, 1) ** 2).mean(axis=0)
    np.testing.assert_allclose(prediction.sd**2, variance, rtol=1e-9)
    assert prediction.sd[1] > 1.3 * prediction.sd[0]


def test_the_table_of_slopes(fitted):
    """Slopes near those that made the outcomes, in units of the feature; their spread and correlation."""
    who, where = fitted.groups()
    _, slope = np.random.default_rng(99).normal(size=(2, 8))
    (slopes,) = who.slopes
    assert slopes.feature == "x"
    own = slopes.mean - slopes.mean.mean()
    np.testing.assert_allclose(own, 1.5 * (slope - slope.mean()), atol=0.35)
    assert slopes.standard_deviation["mean"] > 5 * where.slopes[0].standard_deviation["mean"]
    assert -1 <= slopes.correlation["lower"] < slopes.correlation["upper"] <= 1
    assert who.slopes[0].groups[3] == "3"
    assert "x: mean" in who.to_pandas()
    assert "slope of x: standard deviation" in str(who)
    curve = fitted.partial_dependence("x", grid={"x": [-1.0, 1.0]})
    assert np.all(np.isfinite(curve.mean))
    assert (
        "intercepts of groups left out" in fitted.shap(rows(5)[0], background=rows(20)[0], max_draws=10).scale
    )


def test_a_header_of_odd_slopes_is_refused(fitted):
    """Slopes of columns that there are not don't reach a prediction."""
    header = fitted.header
    terms = replace(header.groupings.slopes, column=(99,))
    odd = {**header.parts, "groups": replace(header.groupings, slopes=terms)}
    with pytest.raises(PackedError, match="terms of columns that don't exist"):
        Header.from_bytes(replace(header, parts=odd).to_bytes())


def test_a_level_and_slopes_move_between_line_and_groups():
    """Thousands of rows in few groups: the mean of slopes, of which rows say nothing, still mixes."""
    rng = np.random.default_rng(1)
    group, x = np.arange(4000) % 10, rng.normal(size=4000)
    settings = FAST | {"linear": True, "num_chains": 1, "num_draws": 150}
    y = rng.normal(size=4000) + group + x * rng.normal(size=10)[group]
    draws = draws_of(prepare({"x": x, "g": group}, y, groups="g", slopes="x", **settings).training)
    effects = draws.forests["groups"].leaf.reshape(-1, 2, 10).mean(axis=2)
    for each in effects.T:
        path = each - each.mean()
        assert np.mean(path[1:] * path[:-1]) < 0.7 * np.mean(path**2)


def test_a_mixed_model_agrees():
    """Forty groups of 25 rows: statsmodels 0.15's MixedLM by REML, slopes of x standardised."""
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(40), 25)
    x = rng.uniform(-1, 1, 1000)
    level = rng.normal(0, 1.5, 40)
    slope = 0.5 * level + rng.normal(size=40)
    y = 2 * x + level[group] + slope[group] * x + rng.normal(size=1000)
    settings = FAST | {"linear": True, "num_draws": 150}
    posterior = fit({"x": x, "g": group}, y, groups="g", slopes="x", progress=False, **settings)
    (grouping,) = posterior.groups()
    (slopes,) = grouping.slopes
    assert grouping.standard_deviation["mean"] == pytest.approx(1.4220, rel=0.1)
    assert slopes.standard_deviation["mean"] * x.std() == pytest.approx(0.7227, rel=0.12)
    assert slopes.correlation["mean"] == pytest.approx(0.5280, abs=0.12)
    assert posterior.sigma.mean() == pytest.approx(0.9948, rel=0.03)
    place = [grouping.groups.index(str(g)) for g in (0, 7, 23, 39)]
    own = (grouping.mean - grouping.mean.mean())[place], x.std() * (slopes.mean - slopes.mean.mean())[place]
    np.testing.assert_allclose(own[0], [1.263, 2.822, -0.823, 1.448], atol=0.2)
    np.testing.assert_allclose(own[1], [0.284, 1.683, 0.383, 0.205], atol=0.2)


def test_left_out_groups_are_covered():
    """Intervals of 90% hold about 90% of left-out groups' outcomes far from the feature's mean."""
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(60), 20)
    x = rng.uniform(-1, 1, 1200)
    level, slope = rng.normal(size=60), rng.normal(0, 1.5, 60)
    y = 2 * x + level[group] + slope[group] * x + 0.5 * rng.normal(size=1200)
    kept = group < 40
    X = {"x": x, "g": group}
    of_kept = {name: values[kept] for name, values in X.items()}
    posterior = fit(of_kept, y[kept], groups="g", slopes="x", progress=False, **FAST)
    prediction = posterior.predict({name: v[~kept] for name, v in X.items()})
    inside = (prediction.lower <= y[~kept]) & (y[~kept] <= prediction.upper)
    assert 0.82 < inside.mean() < 0.96
    assert 0.8 < inside[abs(x[~kept]) > 0.7].mean() < 0.97
