"""A linear part: its golden draw, resuming, files, what a prediction says, and what is refused."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from sampler import DataError, PackedError, SettingsError, fit, load
from sampler.bart.chain import Chain
from sampler.bart.families.likelihood import Likelihood
from sampler.bart.kernels.steps.linear_part import apply_slopes, find_rotation
from sampler.data.linear_terms import LinearTerms, ridge_fit
from sampler.data.transform import IDENTITY
from sampler.preparation import prepare
from sampler.preparation.quick_choice import choose_transform_and_line
from sampler.settings import Settings
from sampler.storage.model_header import Header
from sampler.training import LinearTraining
from tests.reference.enumerator import leaf_law, membership
from tests.support.chain_driver import check_resuming, draws_of, of_toy
from tests.support.open_kernels import linear_part
from tests.support.toy_problems import golden

FAST = {"num_trees": 20, "num_chains": 2, "num_burnin": 60, "num_draws": 30, "thin": 1, "progress": False}


def rows(number=80, seed=0):
    """A line with a step, in three columns: a number with missing values, a number, a category."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, number))
    c = np.array(["low", "mid", "high"])[rng.integers(0, 3, number)]
    y = 5 + 3 * a - 2 * b + (c == "high") + (b > 0) + 0.3 * rng.normal(size=number)
    return {"a": np.where(np.arange(number) % 9 == 4, np.nan, a), "b": b, "c": c}, y


def unscaled_terms(z, sd):
    """Training terms z [term, row] as they are, with that scale of the slopes' prior."""
    count = len(z)
    terms = LinearTerms(
        (*range(count),),
        (False,) * count,
        (0.0,) * count,
        (1.0,) * count,
        (-9.0,) * count,
        (9.0,) * count,
        sd,
    )
    return LinearTraining(terms, np.ascontiguousarray(z))


def slopes_without_trees(z, y, *, sigma, tau, count, weights=None):
    """Draw slopes given known noise and tau, without trees: float64 [draw, term]."""
    linear = unscaled_terms(z, 1.0)
    prior = {"sigma": sigma, "leaf_sd": 1e-6, "step": 2.0**-18, "offset": 0.0}
    data = prepare(
        {"x": [*range(len(y))]}, y, weights=weights, linear=True, prior=prior, num_chains=1
    ).training
    chain = Chain.start(replace(data, parts={"line": linear}), 0)
    part, step = chain._likelihood.parts["line"]._part, data.constants.step
    slopes = np.empty((count, len(z)))
    for draw in range(count):
        linear_part.draw_slopes(part, chain._models[0], tau / step, chain._work.random)
        slopes[draw] = part.rotation @ part.turned * step
        chain._likelihood.outcome.scalars[2:] = slopes[draw]
        apply_slopes(part, chain._models[0].residual)
    return slopes


def test_slopes_have_the_conjugate_law():
    """One column, four rows, known noise and tau: the golden mean and variance."""
    z, y = np.array([[-1.3416, -0.4472, 0.4472, 1.3416]]), np.array([-1, -0.2, 0.4, 0.8])
    draws = slopes_without_trees(z, y, sigma=0.5, tau=0.5, count=20_000)[:, 0]
    assert draws.mean() == pytest.approx(0.53666, abs=5 * (0.05 / 20_000) ** 0.5)
    assert draws.var() == pytest.approx(0.05, rel=0.05)


@pytest.mark.parametrize("moves", ["default", "pg"])
def test_trees_and_a_slope_have_their_exact_law(moves):
    """An enumerated problem with one term: the numbers of leaves, and the mean of log tau."""
    toy, z, scale = golden(), np.array([-1.0, 0.5, 1.2, -0.4, 0.3]), 0.3
    shared = np.array([membership(toy, tree) for tree in toy.trees])
    log_tau = np.linspace(np.log(scale) - 9, np.log(scale) + 9, 90)
    logs = np.empty((len(log_tau), len(toy.trees)))
    for at, tau in enumerate(np.exp(log_tau)):
        cov = toy.sigma2 * np.eye(5) + toy.leaf_variance * shared + tau**2 * np.outer(z, z)
        scaled = np.linalg.solve(cov, np.broadcast_to(toy.y[:, None], (len(cov), 5, 1)))[..., 0]
        logs[at] = -0.5 * (np.linalg.slogdet(cov)[1] + scaled @ toy.y)
    share = np.exp(log_tau) / scale
    logs += toy.log_prior + (np.log(share) - np.log1p(share**2))[:, None]
    law = np.exp(logs - logs.max())
    law /= law.sum()
    terms = LinearTerms((0,), (False,), (0.0,), (1.0,), (0.0,), (0.0,), scale)
    data = of_toy(toy, num_trees=1, num_draws=4_000, num_burnin=300, thin=4, seed=7, moves=moves, linear=True)
    draws = draws_of(replace(data, parts={"line": LinearTraining(terms, z[None])}))
    leaves = np.bincount(draws.leaf_counts[:, 0], minlength=6)[1:6] / draws.num_draws
    np.testing.assert_allclose(leaves, leaf_law(toy, law.sum(axis=0)), atol=0.025)
    assert np.log(draws.scalars["slope_sd"]).mean() == pytest.approx(law.sum(axis=1) @ log_tau, abs=0.1)


def test_slopes_of_like_columns_have_their_joint_law():
    """Two columns all but equal, and weights: mean and covariance of the normal posterior."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(2, 30))
    z[1] = z[0] + 0.05 * z[1]
    y, weights = z[0] + rng.normal(size=30), 1.0 + np.arange(30) % 3
    draws = slopes_without_trees(z, y, sigma=0.8, tau=1.5, count=20_000, weights=weights)
    covariance = np.linalg.inv((z * weights) @ z.T / 0.8**2 + np.eye(2) / 1.5**2)
    np.testing.assert_allclose(draws.mean(axis=0), covariance @ z @ (weights * y) / 0.8**2, atol=0.05)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.05 * covariance.max())


def test_tau_passes_from_one_mode_to_the_other():
    """Four slopes of 1 that outcomes tell, and eight of 88 that they hardly do: two modes, e^4 apart."""
    squares, slopes = np.repeat([100.0, 0.001], [4, 8]), np.repeat([1.0, 88.0], [4, 8])
    z = np.sqrt(squares)[:, None] * np.linalg.qr(np.random.default_rng(1).normal(size=(40, 12)))[0].T
    log_tau = np.linspace(-5, 9, 4000)
    tau2, pull = np.exp(2 * log_tau)[:, None], (squares * slopes) ** 2
    log_p = np.sum(tau2 * pull / (1 + tau2 * squares) - np.log1p(tau2 * squares), axis=1) / 2
    share = np.exp(log_p - log_p.max()) / np.cosh(log_tau)
    prior = {"sigma": 1.0, "leaf_sd": 1e-6, "step": 2.0**-18, "offset": 0.0}
    data = prepare({"x": [*range(40)]}, slopes @ z, linear=True, prior=prior, num_chains=1).training
    chain = Chain.start(replace(data, parts={"line": unscaled_terms(z, 1.0)}), 0)
    likelihood, draws = chain._likelihood, np.empty(4000)
    for draw in range(4000):
        linear_part.draw_linear_part(likelihood.parts["line"]._part, chain._models[0], chain._work)
        draws[draw] = np.log(likelihood.outcome.scalars[1])
    high = log_tau > 2.4
    assert np.mean(draws > 2.4) == pytest.approx(share[high].sum() / share.sum(), abs=0.06)
    for part, inside in ((high, draws[draws > 2.4]), (~high, draws[draws < 2.4])):
        mean = np.average(log_tau[part], weights=share[part])
        sd = np.sqrt(np.average((log_tau[part] - mean) ** 2, weights=share[part]))
        assert inside.mean() == pytest.approx(mean, abs=0.15 * sd)
        assert inside.std() == pytest.approx(sd, rel=0.15)


@pytest.mark.parametrize("censored", [False, True])
def test_iterations_in_one_call_equal_their_steps(censored):
    """The compiled sweep draws the line as the steps do that are called one by one."""
    X, y = rows()
    event = {"event": np.arange(80) % 5 > 0} if censored else {}
    training = prepare(X, 20 + y, linear=True, num_trees=20, seed=3, **event).training
    whole, steps = Chain.start(training, 0), Chain.start(training, 0)
    steps._likelihood.run = partial(Likelihood.run, steps._likelihood)
    first = whole._likelihood.outcome.scalars.copy()
    for chain in (whole, steps):
        chain.run(40)
    assert whole.checkpoint() == steps.checkpoint()
    assert np.all(whole._likelihood.outcome.scalars != first)


def test_the_rotation_makes_terms_orthogonal():
    """The rotation gives orthogonal vectors and a diagonal matrix, for dependent columns too."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(6, 40))
    z[5] = z[4]
    gram, rotation = z @ z.T, np.empty((6, 6))
    find_rotation(gram.copy(), rotation)
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(6), atol=1e-13)
    turned = rotation.T @ gram @ rotation
    np.testing.assert_allclose(turned, np.diag(np.diag(turned)), atol=1e-11)


def test_terms_are_standardised_by_the_training_rows():
    """Numbers: mean 0, sd 1, held inside their range; missing ones 0, with an indicator; levels but one."""
    X, y = rows()
    terms = prepare(X, y, linear=True).training.part(LinearTraining).terms
    assert len(terms.column) == 5  # a, a missing, b, and two levels of c
    new = prepare(X, y, linear=True)
    z = new.training.part(LinearTraining).z
    np.testing.assert_allclose(z.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(z[2].std(), 1)
    values = np.array([[np.nan, 99.0], [-99.0, 0.0], [0, 1], [1, 0], [0, 0]], float)
    z = terms.of(values)
    assert z[0, 0] == 0
    assert z[0, 1] == (terms.high[0] - terms.mean[0]) / terms.scale[0]
    assert z[1].tolist() == [1 - terms.mean[1], -terms.mean[1]]
    assert z[2, 0] == (terms.low[2] - terms.mean[2]) / terms.scale[2]
    assert LinearTerms.from_json(terms.to_json(), None, (5, 0)) == terms


def test_ridge_fits_the_line():
    """With little noise, all but exactly; of noise alone, nearly nothing."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=(3, 200))
    y = 7 + z.T @ np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(ridge_fit(z, y + 0.01 * rng.normal(size=200), None), y - 7, atol=0.02)
    assert np.std(ridge_fit(z, rng.normal(size=200), np.ones(200))) < 0.3


@pytest.mark.parametrize("settings", [{}, {"noise": "forest"}, {"prior": {"k_df": 3.0, "sparse": True}}])
def test_a_chain_resumes_bit_for_bit(settings):
    """From a checkpoint after any iteration, also beside noise by row and drawn hyperparameters."""
    X, y = rows()
    weights = 1.0 + np.arange(80) % 2
    short = {"num_trees": 7, "num_chains": 1, "num_burnin": 8, "num_draws": 6, "thin": 1}
    check_resuming(prepare(X, y, weights=weights, linear=True, **short | settings).training)


@pytest.mark.parametrize("noise", ["constant", "forest"])
def test_predictions_add_line_and_trees(tmp_path, noise):
    """Draws of f are trees plus slopes' z; the same from a file, for each row alone."""
    X, y = rows(200)
    posterior = fit(X, y, linear=True, noise=noise, **FAST)
    new, truth = rows(40, seed=9)
    prediction = posterior.predict(new)
    assert np.corrcoef(prediction.mean, truth)[0, 1] > 0.85
    np.testing.assert_allclose(posterior.sample(new).mean(axis=(0, 1)), prediction.mean, rtol=1e-12)
    coded = posterior.encode(new)
    (draws,) = posterior.chains()[:1]
    slopes = np.stack([draws.scalars[f"slope_{k}"] for k in range(5)], axis=1)
    trees = posterior.constants["offset"] + posterior.constants["step"] * posterior.law.ensemble.sums(
        coded.codes
    )
    line = slopes @ posterior.law.slopes.terms.of(coded.values)
    np.testing.assert_allclose(posterior.sample(new)[0], trees[:30] + line, rtol=1e-9)
    posterior.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    for k in range(3):
        row = {name: values[k : k + 1] for name, values in new.items()}
        np.testing.assert_array_equal(again.predict(row).lower, prediction.lower[[k]])
    credible = posterior.predict(new, interval="credible")
    np.testing.assert_allclose(credible.upper, np.quantile(posterior.sample(new), 0.95, axis=(0, 1)))


def test_slopes_are_told_on_the_columns_own_scale():
    """The line that made the outcomes, where trees can't take a share; effects follow it."""
    rng = np.random.default_rng(4)
    X = {"a": 100 * rng.uniform(size=300), "c": np.where(rng.uniform(size=300) < 0.3, "x", "y")}
    y = 0.5 * X["a"] + 4 * (X["c"] == "y") + rng.normal(size=300)
    posterior = fit(X, y, linear=True, prior={"leaf_sd": 1e-4}, **FAST)
    a, c = posterior.linear_part()
    assert (a["feature"], a["level"], c["feature"], c["level"]) == ("a", None, "c", "y")
    assert a["lower"] < 0.5 < a["upper"]
    assert c["mean"] == pytest.approx(4, abs=0.6)
    effect = posterior.partial_dependence(["a"], grid={"a": [10.0, 60.0]})
    assert effect.mean[1] - effect.mean[0] == pytest.approx(25, abs=1)
    contrast = posterior.contrast(None, {"a": 60.0}, {"a": 10.0})
    assert contrast.average.mean == pytest.approx(25, abs=1)
    assert fit(X, y, linear=False, **FAST).linear_part() is None
    assert posterior.diagnostics()["verdict"]


def uneven_rows(number=200, seed=1):
    """Steps in two columns, which no line follows."""
    X = np.random.default_rng(seed).uniform(-1, 1, size=(number, 4))
    noise = np.random.default_rng(seed + 1).normal(size=number)
    return X, 4.0 * (X[:, 0] * X[:, 1] > 0) + 0.5 * noise


def test_a_line_is_added_where_it_pays():
    """By default: for a line with small steps, not for interacting steps, noise alone, or too many cells."""
    assert prepare(*rows(200)).training.settings.linear is True
    assert prepare(*rows(200)).training.parts.get("line") is not None
    X, y = uneven_rows()
    assert prepare(X, y).training.settings.linear is False
    assert prepare(X, np.random.default_rng(3).normal(size=200)).training.settings.linear is False
    design, codes = X.T, np.zeros((4, 200), np.uint8)
    line = X @ [1.0, 2.0, 3.0, 4.0]
    assert choose_transform_and_line("none", "auto", line, design, None, codes) == (IDENTITY, True)
    for many, pays in ((125_000, True), (125_001, False)):  # four columns of so many are half a million cells
        again = np.resize(np.arange(200), many)
        large = line[again], design[:, again], None, codes[:, again]
        assert choose_transform_and_line("none", "auto", *large) == (IDENTITY, pays)


@pytest.mark.slow
def test_the_unit_of_weights_does_not_choose():
    """Weights times a power of two lead to the same choice, by the same scores."""
    X, y = rows(120)
    weights = 1.0 + np.arange(120) % 3
    design, codes = np.stack([X["b"]]), np.zeros((1, 120), np.uint8)
    for factor in (2.0**-30, 2.0**30):
        choices = [
            choose_transform_and_line("auto", "auto", y, design, w, codes)
            for w in (weights, weights * factor)
        ]
        assert choices[0] == choices[1]
        prepared = [prepare(X, y, weights=w).training.settings for w in (weights, weights * factor)]
        assert prepared[0] == prepared[1]


@pytest.mark.parametrize(
    "settings",
    [{"moves": "pg"}, {"start": "smc"}, {"noise": "t"}, {"prior_only": True}, {"prior": {"leaf_sd": 1.0}}],
)
def test_no_line_is_looked_for_where_there_is_no_place(settings):
    """`linear="auto"` adds no line beside particles, where quick scores fail or the prior has units."""
    assert prepare(*rows(200), **settings).training.settings.linear is False


def test_stored_settings_without_a_line_have_none():
    """A model of before keeps its trees alone; what is chosen later is stored by name."""
    assert Settings.from_json({"family": "gaussian"}).linear is False
    assert Settings.resolve().to_json()["linear"] == "auto"
    assert Settings.from_json(Settings.resolve().to_json()).linear == "auto"
    with pytest.raises(SettingsError, match="linear must be true, false or auto, not 'yes'"):
        Settings.resolve(linear="yes")


def test_what_a_checkpoint_and_a_file_hold_is_checked():
    """Rows of other values but the same codes don't continue a chain; a header of odd terms is refused."""
    X, y = rows()
    posterior = fit(X, y, linear=True, **FAST)
    other = X | {"b": X["b"] * (1 + 1e-9)}
    with pytest.raises(DataError):
        posterior.extend(5, other, y, progress=False)
    header = posterior.header
    odd = replace(header, parts={"line": replace(header.linear, column=(0, 1, 2, 3, 99))})
    with pytest.raises(PackedError, match="terms of columns"):
        Header.from_bytes(odd.to_bytes())


def test_scale_changes_units_alone():
    """Outcomes times 2^20: the same trees, and answers in the new unit."""
    X, y = rows(150)
    a, b = (fit(X, y * unit, linear=True, **FAST) for unit in (1.0, 2.0**20))
    np.testing.assert_array_equal(a.leaf_counts, b.leaf_counts)
    np.testing.assert_allclose(a.predict(X).upper * 2.0**20, b.predict(X).upper, rtol=1e-12)


def test_a_linear_part_needs_terms():
    """Columns that don't vary give none, and a category of hundreds of levels too many."""
    many = {"c": [f"level {k % 260}" for k in range(600)]}
    for X in (many, {"x": [1.0] * 600}):
        with pytest.raises(SettingsError, match="1 to 250 terms") as refused:
            prepare(X, np.arange(600.0), linear=True, columns={"c": "category"} if "c" in X else None)
        assert refused.value.field == "linear"
