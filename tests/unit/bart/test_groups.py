"""Intercepts of groups: their exact law, resuming, files, what a prediction says, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sampler import DataError, PackedError, fit, load
from sampler.bart.chain import Chain
from sampler.data.rows import Rows
from sampler.preparation import prepare
from sampler.storage.model_header import Header
from sampler.studies.selection import NullFits
from sampler.training import GroupTraining
from tests.reference.enumerator import leaf_law, log_sum, membership
from tests.support.chain_driver import check_resuming, draws_of, of_toy
from tests.support.toy_problems import golden

FAST = {
    "linear": False,
    "num_trees": 20,
    "num_chains": 2,
    "num_burnin": 60,
    "num_draws": 30,
    "thin": 1,
    "progress": False,
}
CUT = 10.0  # of the half-Cauchy prior, in its scales


def rows(number=80, seed=0):
    """A number and a category beside two crossed columns of groups, one of integers."""
    rng = np.random.default_rng(seed)
    x, e = rng.normal(size=(2, number))
    who, where = rng.integers(0, 8, number), rng.integers(0, 5, number)
    of_who, of_where = np.random.default_rng(99).normal(size=(2, 8))
    y = np.sin(x) + 2 * of_who[who] + of_where[where] + 0.3 * e
    c = np.array(["low", "high"])[rng.integers(0, 2, number)]
    return {"x": x, "c": c, "who": who, "where": [f"site {k}" for k in where]}, y


def log_evidences(toy, group, tau):
    """Log p(y | tree, tau), in the order of the toy's trees."""
    same = (group[:, None] == group).astype(float)
    shared = np.array([membership(toy, tree) for tree in toy.trees])
    cov = toy.sigma2 * np.eye(len(group)) + toy.leaf_variance * shared + tau**2 * same
    scaled = np.linalg.solve(cov, np.broadcast_to(toy.y[:, None], (len(cov), len(group), 1)))[..., 0]
    return -0.5 * (len(group) * np.log(2 * np.pi) + np.linalg.slogdet(cov)[1] + scaled @ toy.y)


@pytest.mark.parametrize("moves", ["default", "pg"])
def test_trees_and_standard_deviation_have_their_exact_law(moves):
    """An enumerated problem: the golden evidence, and a chain's numbers of leaves and log tau."""
    toy, group = golden(), np.array([0, 0, 1, 1, 1])
    known = log_sum(toy.log_prior + log_evidences(toy, group, 0.3))
    assert known == pytest.approx(-2.8545045996, abs=1e-9)
    log_tau = np.linspace(np.log(0.3 * 1e-4), np.log(0.3 * CUT), 60)
    share = np.exp(log_tau) / 0.3
    law = toy.log_prior + np.array([log_evidences(toy, group, tau) for tau in np.exp(log_tau)])
    law += (np.log(share) - np.log1p(share**2))[:, None]
    law = np.exp(law - log_sum(law.ravel()))
    data = of_toy(toy, num_trees=1, num_draws=4_000, num_burnin=300, thin=4, seed=7, moves=moves)
    groups = GroupTraining(np.array([group], np.int32), (2,), (0.3,))
    draws = draws_of(replace(data, parts={"groups": groups}))
    leaves = np.bincount(draws.leaf_counts[:, 0], minlength=6)[1:6] / draws.num_draws
    np.testing.assert_allclose(leaves, leaf_law(toy, law.sum(axis=0)), atol=0.025)
    drawn = np.log(draws.scalars["group_sd_0"])
    assert drawn.mean() == pytest.approx(law.sum(axis=1) @ log_tau, abs=0.1)


def test_intercepts_have_the_conjugate_law():
    """Without trees, with weights and known noise: the law of tau, and of intercepts, by quadrature."""
    rng = np.random.default_rng(3)
    group = np.arange(30) % 4
    weights = 1.0 + np.arange(30) % 3
    y = np.array([-1.0, 0.5, 2.0, 0.3])[group] + rng.normal(size=30)
    prior = {"sigma": 0.8, "leaf_sd": 1e-6, "step": 2.0**-18, "offset": 0.0}
    settings = {"num_trees": 1, "num_chains": 1, "num_burnin": 100, "num_draws": 10_000, "thin": 1}
    X = {"x": np.arange(30.0), "g": group}
    data = prepare(X, y, weights=weights, groups="g", prior=prior, **settings).training
    draws = draws_of(data)
    log_tau = np.linspace(-7, np.log(CUT), 4000) + np.log(scale := data.part(GroupTraining).scales[0])
    tau2 = np.exp(2 * log_tau)
    size = np.bincount(group, weights)[:, None] / 0.8**2
    total = np.bincount(group, weights * y)[:, None] / 0.8**2
    log_p = (0.5 * (tau2 * total**2 / (1 + size * tau2) - np.log1p(size * tau2))).sum(axis=0)
    log_p += log_tau - np.log1p(tau2 / scale**2)
    p = np.exp(log_p - log_sum(log_p))
    assert np.log(draws.scalars["group_sd_0"]).mean() == pytest.approx(p @ log_tau, abs=0.03)
    effects = data.constants.step * draws.forests["groups"].leaf.reshape(-1, 4)
    mean = tau2 * total / (1 + size * tau2)
    np.testing.assert_allclose(effects.mean(axis=0), mean @ p, atol=0.02)
    square = (mean**2 + tau2 / (1 + size * tau2)) @ p
    np.testing.assert_allclose((effects**2).mean(axis=0), square, rtol=0.04)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"noise": "forest", "linear": True},
        {"family": "probit"},
        {"prior": {"sparse": True}},
        {"event": True},
    ],
)
def test_a_chain_resumes_bit_for_bit(settings):
    """From a checkpoint after any iteration, with crossed groups beside whatever else is drawn."""
    X, y = rows()
    short = {"num_trees": 7, "num_chains": 1, "num_burnin": 8, "num_draws": 6, "thin": 1} | settings
    weights = None if {"family", "event"} & settings.keys() else 1.0 + np.arange(80) % 2
    outcome = (y > 0).astype(float) if "family" in settings else np.exp(y)
    if "event" in settings:
        short["event"] = np.arange(80) % 3 > 0
    check_resuming(prepare(X, outcome, weights=weights, groups=["who", "where"], **short).training)


@pytest.fixture(scope="module")
def fitted():
    """A model of crossed groups."""
    X, y = rows(300)
    return fit(X, y, groups=["who", "where"], **FAST)


def test_known_groups_add_their_intercepts(fitted, tmp_path):
    """Draws of f are trees plus intercepts; the same from a file, for each row alone."""
    new, truth = rows(40, seed=9)
    prediction = fitted.predict(new)
    assert np.corrcoef(prediction.mean, truth)[0, 1] > 0.95
    assert prediction.flags == [[]] * 40
    coded, (draws, _) = fitted.encode(new), fitted.chains()
    step = fitted.constants["step"]
    trees = fitted.constants["offset"] + step * fitted.law.ensemble.sums(coded.codes)[:30]
    effects = step * draws.forests["groups"].leaf.reshape(30, -1)
    levels = [column.levels for column in fitted.schema.groups]
    assert levels == [tuple("01234567"), tuple(f"site {k}" for k in range(5))]
    where = [levels[1].index(name) for name in new["where"]]
    f = trees + effects[:, new["who"]] + effects[:, 8 + np.array(where)]
    np.testing.assert_allclose(fitted.sample(new)[0], f, rtol=1e-9)
    fitted.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    mixed = {name: [*values[2:3], *values[2:3]] for name, values in new.items()} | {
        "who": ["?", new["who"][2]]
    }
    np.testing.assert_array_equal(again.predict(mixed).lower[1], prediction.lower[2])
    np.testing.assert_allclose(prediction.lower, fitted.law.outcome_law(coded).quantile(0.05), rtol=1e-6)
    assert fitted.law.bound_work(coded) < fitted.law.bound_work(fitted.encode(mixed))


def test_new_groups_are_flagged_and_widen_outcomes(fitted):
    """New and missing groups: the mean is f alone; a new outcome varies by the groups' variance too."""
    X, _ = rows(4, seed=5)
    new = X | {"who": ["3", "nobody", None, "3"], "where": [*X["where"][:3], "elsewhere"]}
    prediction = fitted.predict(new)
    assert [[tuple(flag) for flag in flags] for flags in prediction.flags] == [
        [],
        [("who", "unseen_level")],
        [("who", "missing")],
        [("where", "unseen_level")],
    ]
    assert any(
        "who: groups never seen in training: 'nobody' (1 row); missing in 1 row" in w
        for w in prediction.warnings
    )
    who, where = (draws.reshape(-1) for draws in fitted.law.intercepts.sds)
    f = fitted.sample(new).reshape(60, 4)
    variance = f.var(axis=0, ddof=1) + np.mean(fitted.sigma**2)
    variance += np.array([0, np.mean(who**2), np.mean(who**2), np.mean(where**2)])
    np.testing.assert_allclose(prediction.sd**2, variance, rtol=1e-9)
    credible = fitted.predict(new, interval="credible")
    np.testing.assert_allclose(credible.sd, f.std(axis=0, ddof=1), rtol=1e-9)
    density = fitted.law.outcome_law(fitted.encode(new)).log_density(prediction.mean)
    assert density[0] > density[1] + 0.5


def test_probabilities_of_new_groups_are_means_over_groups():
    """With two classes, a new group's probability is the mean of those of groups."""
    X, y = rows(300)
    posterior = fit(X, np.where(y > 0, "yes", "no"), groups="who", family="probit", **FAST)
    new = {name: [*values[:1], *values[:1]] for name, values in X.items()} | {"who": [X["who"][0], 77]}
    f = posterior.sample(new)
    sums = posterior.law.ensemble.sums(posterior.encode(new).codes).reshape(2, 30, 2)
    z = posterior.constants["offset"] + posterior.constants["step"] * sums[:, :, 1]
    sd = posterior.law.intercepts.sds.reshape(2, 30)
    np.testing.assert_allclose(f[:, :, 1], stats.norm.cdf(z / np.sqrt(1 + sd**2)))


def fit_three_groups(transform, seed):
    """Few draws of a fit to three groups far apart, of positive outcomes."""
    rng = np.random.default_rng(5)
    x, group = rng.random(60), np.arange(60) % 3
    y = np.exp(1 + x + np.array([-1.0, 0.2, 1.3])[group] + 0.2 * rng.normal(size=60))
    settings = FAST | {"num_draws": 200, "num_burnin": 100}
    return fit({"x": x, "g": group}, y, groups="g", transform=transform, seed=seed, **settings)


@pytest.mark.parametrize("transform", ["log", "yeo-johnson"])
def test_means_of_new_groups_do_not_depend_on_rare_draws(transform):
    """With a transform they and their sds hold the groups' sd at its median, and say so; quantiles don't."""
    first, second = (fit_three_groups(transform, seed) for seed in (1, 2))
    new = {"x": [0.2, 0.2, 0.8], "g": [1, 7, None]}
    answer, other = first.predict(new, quantiles=0.5), second.predict(new)
    assert other.mean == pytest.approx(answer.mean, rel=0.25)
    assert other.sd == pytest.approx(answer.sd, rel=0.4)
    assert [text for text in answer.warnings if "mean and sd of 2 rows of new groups" in text]
    assert not [text for text in first.predict({"x": [0.2], "g": [1]}).warnings if "mean and sd" in text]

    f, noise = first.sample_learnt(new)
    tau = first.law.group_sds()[0]
    held = noise.copy()
    held[:, :, 1:] = np.sqrt(noise[:, :, 1:] ** 2 - (tau**2)[:, :, None] + np.median(tau) ** 2)
    mean, sd = first.transform.moments(f, held)
    assert answer.mean == pytest.approx(mean.mean(axis=(0, 1)))
    total = mean.reshape(-1, 3).var(axis=0, ddof=1) + (sd**2).mean(axis=(0, 1))
    assert answer.sd == pytest.approx(np.sqrt(total))
    # Draws themselves, quantiles and credible intervals have all values of the groups' sd.
    draws = first.sample(new).reshape(-1, 3)
    credible = first.predict(new, level=0.9, interval="credible")
    assert credible.upper == pytest.approx(np.quantile(draws, 0.95, axis=0))
    assert draws == pytest.approx(first.transform.moments(f, noise)[0].reshape(-1, 3))
    assert np.all(draws.max(axis=0)[1:] > mean.max(axis=(0, 1))[1:])
    free = replace(first.transform, low=None, high=None)  # that hold outcomes where the rarest draws go
    assert np.all(free.moments(f, noise)[0].max(axis=(0, 1))[1:] > 5 * mean.max(axis=(0, 1))[1:])
    # So do explanations average as `mean` does.
    contrast = first.contrast({"x": [0.2], "g": [7]}, {"x": 0.8}, {"x": 0.2})
    assert contrast.mean == pytest.approx(np.diff(first.predict({"x": [0.2, 0.8], "g": [7, 7]}).mean)[0])


def test_the_table_of_groups(fitted):
    """Intercepts near those that made the outcomes, rows of each group, the standard deviation, its share."""
    X, _ = rows(300)
    who, where = fitted.groups()
    truth = 2 * np.random.default_rng(99).normal(size=(2, 8))[0]
    assert np.corrcoef(who.mean, truth)[0, 1] > 0.98
    assert who.rows.tolist() == np.bincount(X["who"], minlength=8).tolist()
    assert who.standard_deviation["mean"] > where.standard_deviation["mean"] > 0
    assert who.share + where.share < 1
    assert who.groups[3] == "3"
    assert len(where.to_pandas()) == 5
    assert "standard deviation" in str(who)
    assert fitted.groups(0.5)[0].lower[0] > who.lower[0]


def test_effects_leave_rows_in_their_groups(fitted):
    """Contrasts and dependence change features alone; SHAP values are of the trees' f."""
    effect = fitted.contrast(None, {"x": 1.0}, {"x": -1.0}).average.mean
    assert effect == pytest.approx(2 * np.sin(1), abs=0.5)
    curve = fitted.partial_dependence("x", grid={"x": [-1.0, 1.0]})
    assert curve.mean[1] - curve.mean[0] == pytest.approx(effect, abs=1e-9)
    X, y = rows(60, seed=4)
    assert fitted.importance(X, y).names == ["x", "c"]
    assert "intercepts of groups left out" in fitted.shap(X).scale


def test_rows_without_a_group_or_without_the_column(fitted):
    """Training rows need a group; new rows need the column, and a group of it only if they have one."""
    X, y = rows()
    holes = X | {"who": [None, *X["who"][1:]]}
    with pytest.raises(DataError, match="row 1: the group is missing: give such rows a group"):
        prepare(holes, y, groups="who")
    with pytest.raises(DataError, match="an intercept for each of its groups; send the column"):
        fitted.predict({name: values for name, values in X.items() if name != "who"})


def test_what_a_checkpoint_and_a_file_hold_is_checked(fitted):
    """Other groups of the same rows don't continue a chain; a header of odd groups is refused."""
    X, y = rows(300)
    with pytest.raises(DataError):
        fitted.extend(5, X | {"who": X["who"][::-1]}, y, progress=False)
    header = fitted.header
    odd = replace(header.groupings, reference=((99,) * 200, (0,) * 200))
    with pytest.raises(PackedError, match="groups that don't exist"):
        Header.from_bytes(replace(header, parts={**header.parts, "groups": odd}).to_bytes())


def test_a_level_moves_between_trees_and_intercepts():
    """Thousands of rows in few groups: the intercepts' mean, of which rows say nothing, still mixes."""
    rng = np.random.default_rng(1)
    group = np.arange(4000) % 10
    X = {"x": rng.normal(size=4000), "g": group}
    data = prepare(
        X,
        rng.normal(size=4000) + group,
        groups="g",
        num_trees=20,
        num_chains=1,
        num_burnin=50,
        num_draws=150,
        thin=1,
    ).training
    chain = Chain.start(data, 0)
    chain.run(chain.iterations)
    level = chain.take().forests["groups"].leaf.reshape(-1, 10).mean(axis=1)
    level = level - level.mean()
    assert np.mean(level[1:] * level[:-1]) < 0.7 * np.mean(level**2)


def balanced(groups, each, seed):
    """Outcomes of as many rows in each group: a line, intercepts with sd 1.5, noise with sd 1."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), each)
    x = rng.uniform(-1, 1, groups * each)
    y = 2 * x + rng.normal(0, 1.5, groups)[group] + rng.normal(size=len(x))
    return {"x": x, "g": group}, y


def test_a_line_stands_beside_groups():
    """By default, as in a linear mixed model, but for two classes, little data, and a prior in units of y."""
    X, y = rows()
    few = {name: values[:20] for name, values in X.items()}

    def lined(X, y, **settings):
        return prepare(X, y, groups="who", **settings).training.parts.get("line") is not None

    assert lined(X, y)
    assert lined(X, y, slopes="x")
    assert not lined(X, y, linear=False)
    assert not lined(X, y > 0, family="probit")
    assert not lined(few, y[:20])
    assert not lined(X, y, prior={"leaf_sd": 1.0})


def test_a_mixed_model_agrees():
    """Balanced groups, f all but known: the moment estimates of a mixed linear model, and its predictors."""
    X, y = balanced(40, 25, seed=2)
    posterior = fit(X, y, groups="g", transform="none", **FAST | {"linear": True, "num_draws": 100})
    within = (X["x"].reshape(40, 25) - X["x"].reshape(40, 25).mean(axis=1, keepdims=True)).ravel()
    slope = within @ y / (within @ within)
    rest = (y - slope * X["x"]).reshape(40, 25)
    sigma2 = rest.var(axis=1, ddof=1).mean()
    tau2 = rest.mean(axis=1).var(ddof=1) - sigma2 / 25
    shrunk = tau2 / (tau2 + sigma2 / 25) * (rest.mean(axis=1) - rest.mean())
    (grouping,) = posterior.groups()
    assert grouping.standard_deviation["mean"] == pytest.approx(np.sqrt(tau2), rel=0.1)
    assert posterior.sigma.mean() == pytest.approx(np.sqrt(sigma2), rel=0.05)
    effect = grouping.mean - grouping.mean.mean()
    np.testing.assert_allclose(effect, shrunk[[int(name) for name in grouping.groups]], atol=0.12)
    assert grouping.share == pytest.approx(tau2 / (tau2 + sigma2), abs=0.05)


def test_left_out_groups_are_covered():
    """Intervals of 90% hold about 90% of left-out groups' outcomes; without groups' spread fewer."""
    X, y = balanced(60, 20, seed=3)
    kept = X["g"] < 40
    posterior = fit({name: values[kept] for name, values in X.items()}, y[kept], groups="g", **FAST)
    new = {name: values[~kept] for name, values in X.items()}
    prediction, credible = posterior.predict(new), posterior.predict(new, interval="credible")
    coverage = np.mean((prediction.lower <= y[~kept]) & (y[~kept] <= prediction.upper))
    assert 0.82 < coverage < 0.96
    sigma = posterior.sigma.mean()
    narrow = np.mean(np.abs(y[~kept] - credible.mean) < 1.645 * np.hypot(credible.sd, sigma))
    assert narrow < 0.75


def test_a_permutation_of_outcomes_takes_their_groups_along():
    """In the null of a selection of features outcomes stay in their groups; features are mixed."""
    X, y = rows()
    fits = NullFits(Rows.read(X, y), 1, 5, {"groups": ["who"], "num_trees": 5, "transform": "none"})
    plain, mixed = (fits._prepare(number, fits.settings, 1, 5).training for number in (None, 0))
    order = np.random.default_rng([5, 0]).permutation(80)
    np.testing.assert_array_equal(mixed.y, plain.y[order])
    np.testing.assert_array_equal(mixed.part(GroupTraining).index, plain.part(GroupTraining).index[:, order])
    np.testing.assert_array_equal(mixed.codes, plain.codes)
