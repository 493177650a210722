"""Noise by row beside several outcomes: exact laws on tiny problems, answers, files and refusals."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from sampler import fit, load, tune
from sampler.bart import log_linear, noise_forest, row_noise
from sampler.bart.several.chain import SeveralChain
from sampler.errors import PackedError, SettingsError
from sampler.training import SeveralTraining
from tests.reference.enumerator import leaf_law
from tests.reference.log_linear import Precisions, log_evidence
from tests.support.chain_driver import check_resuming, training
from tests.support.toy_problems import GOLDEN_X, GOLDEN_Y

SHORT = {"num_trees": 5, "num_chains": 2, "num_burnin": 20, "num_draws": 20, "thin": 1, "progress": False}
ROWS = 80
COVARIANCE = np.array([[1.0, 0.6], [0.6, 0.5]])


@dataclass(eq=False)
class Shared(Precisions):
    """One tree of precisions of errors of several outcomes, whose sizes and numbers by row are known."""

    squares: np.ndarray = None
    counts: np.ndarray = None

    def ell(self, rows):
        """Return the log evidence of a leaf, without factors 2 pi."""
        own = self.members(rows)
        return float(
            log_evidence(0.5 * self.counts[own].sum(), 0.5 * self.squares[own].sum(), self.shape, self.rate)
        )


def problem(codes, outcomes, known, leaf_sd, **settings):
    """Return the training of outcomes, NaN where missing, with one tree each, and noise by row."""
    prior = {"leaf_sd": leaf_sd, "sigma": 1.0, "alpha": 0.95, "beta": 1.0, "step": 2.0**-20}
    settings |= {"num_trees": 1, "prior": prior}
    rows = [np.flatnonzero(~np.isnan(column)) for column in outcomes.T]
    parts = [
        training(codes[:, mine], column[mine], weights=np.ones(len(mine)), **settings)
        for column, mine in zip(outcomes.T, rows, strict=True)
    ]
    counts = np.sum(~np.isnan(outcomes), axis=1)
    noise = training(codes, counts, noise="forest", **settings)
    several = SeveralTraining(tuple(parts), tuple(rows), len(outcomes), known, noise=noise)
    return replace(parts[0], several=several)


def one_tree(monkeypatch, shape, rate):
    """Let noise have one tree with such leaves."""
    for module in (noise_forest, row_noise):
        monkeypatch.setattr(module, "NOISE_TREES", 1)
    monkeypatch.setattr(log_linear, "gamma_prior", lambda _log_sd, _trees: (shape, rate))


def counts_of(data, trees):
    """Count the draws whose tree of precisions has 1, 2, .. leaves."""
    chain = SeveralChain.start(data, 0)
    chain.run(chain.iterations)
    leaves = chain.take().forests["precision"].leaf_counts[:, 0]
    return np.bincount(leaves, minlength=trees + 1)[1:]


@pytest.mark.parametrize("missing", [pytest.param(False, marks=pytest.mark.slow), True])
def test_trees_see_the_errors_of_all_outcomes(monkeypatch, missing):
    """With means fixed at 0, trees have the law of errors' sizes, each row with as many as it has."""
    one_tree(monkeypatch, 3.0, 0.6)
    sizes = np.array([1.0, 4.0, 4.0, 1.0, 1.0])
    outcomes = np.stack([GOLDEN_Y, 0.7 * GOLDEN_Y[::-1] - 0.2], axis=1) * sizes[:, None]
    squares = np.einsum("ra,ab,rb->r", outcomes, np.linalg.inv(COVARIANCE), outcomes)
    counts = np.full(len(GOLDEN_Y), 2)
    if missing:
        outcomes[[0, 2], [1, 0]] = np.nan
        squares[[0, 2]] = outcomes[0, 0] ** 2, outcomes[2, 1] ** 2 / 0.5
        counts[[0, 2]] = 1
    toy = Shared(GOLDEN_X.T, GOLDEN_Y, rate=0.6, squares=squares, counts=counts)
    other = Shared(GOLDEN_X.T, GOLDEN_Y, rate=0.6, squares=outcomes[:, 0] ** 2, counts=0 * counts + 1)
    law = leaf_law(toy, toy.posterior)
    assert missing or abs(law - leaf_law(other, other.posterior)).max() > 0.1
    data = problem(toy.codes, outcomes, COVARIANCE, 1e-6, num_burnin=100, num_draws=1000, thin=6)
    found = counts_of(data, len(law))
    assert stats.chisquare(found, law * found.sum()).pvalue > 1e-4


@pytest.mark.slow
def test_one_outcome_has_the_law_of_a_fit_by_itself(monkeypatch):
    """A single one of several outcomes has the joint law of mean and precisions found by quadrature."""
    one_tree(monkeypatch, 3.0, 0.6)
    y = np.array([[0.3], [-0.4], [1.1]])
    data = problem(np.array([[0, 1, 2]]), y, np.eye(1), 0.5, num_burnin=100, num_draws=3000, thin=5)
    found = counts_of(data, 3)
    assert stats.chisquare(found, np.array([0.0480018, 0.4968196, 0.4551786]) * found.sum()).pvalue > 1e-4


@pytest.mark.parametrize("missing", [False, True])
def test_resumes(missing):
    """A chain resumed from any checkpoint is the whole one, bit for bit; a checkpoint without noise isn't."""
    rng = np.random.default_rng(1)
    codes, outcomes = rng.integers(0, 4, (2, 30)).astype(np.uint8), rng.normal(size=(30, 2))
    if missing:
        outcomes[:4, 1] = outcomes[4:6, 0] = np.nan
    data = problem(codes, outcomes, None, 0.5, num_burnin=6, num_draws=4)
    check_resuming(data)
    state = SeveralChain.start(data, 0).checkpoint()
    with pytest.raises(PackedError):
        SeveralChain.resume(replace(data, several=replace(data.several, noise=None)), state[:-8])


def made(missing=False):
    """Return columns and two outcomes whose errors, of correlation .8, grow tenfold with u."""
    rng = np.random.default_rng(4)
    X = {"u": rng.uniform(size=ROWS), "v": rng.uniform(size=ROWS), "w": rng.choice([*"pqr"], ROWS)}
    errors = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], ROWS) * (10 ** X["u"])[:, None]
    Y = {"a": 3 * X["u"] + errors[:, 0], "b": 50 + 100 * errors[:, 1]}
    if missing:
        Y["a"][:10], Y["b"][10:25] = np.nan, np.nan
    return X, Y


def joint_logs(posterior, X, y):
    """Return the log densities of rows [row, 2] by the draws' normal laws, from each outcome's own draws."""
    f = np.stack([posterior[name].sample(X).reshape(-1, len(y)) for name in "ab"], axis=2)
    sd = np.stack([posterior[name].sample_sigma(X).reshape(-1, len(y)) for name in "ab"], axis=2)
    rho = posterior.correlations[:, :, 0, 1].reshape(-1, 1)
    one, other = np.moveaxis((y - f) / sd, 2, 0)
    logs = -0.5 * (one**2 - 2 * rho * one * other + other**2) / (1 - rho**2)
    logs -= np.log(2 * np.pi * sd.prod(axis=2)) + 0.5 * np.log(1 - rho**2)
    return np.log(np.mean(np.exp(logs), axis=0))


@pytest.mark.parametrize("missing", [pytest.param(False, marks=pytest.mark.slow), True])
def test_all_the_way(tmp_path, missing):
    """Every answer is of noise by row, alike from a file, and an extension is a longer fit."""
    X, Y = made(missing)
    posterior = fit(X, Y, noise="forest", **SHORT | {"num_burnin": 100})
    assert all(posterior[name].noise_differs for name in "ab")
    predicted = posterior.predict(X)
    for number, name in enumerate("ab"):
        alone = posterior[name].predict(X)
        assert np.array_equal(predicted.lower[:, number], alone.lower)
        assert np.corrcoef(np.log(predicted.sd[:, number]), X["u"])[0, 1] > 0.8
    ratio = posterior["b"].sample_sigma(X) / posterior["a"].sample_sigma(X)
    assert np.allclose(ratio, ratio[:, :, :1])  # one factor of a row for both
    figures = posterior.covariances[:, :, 0, 0]
    assert np.allclose(figures, posterior["a"].sigma ** 2)
    new = {name: values[:3] for name, values in X.items()}
    few = posterior.predict(new)
    assert np.allclose(few.covariance, predicted.covariance[:3])
    drawn = np.concatenate([posterior.sample_predictive(new, seed=k).reshape(-1, 3, 2) for k in range(60)])
    for row in range(3):
        assert np.allclose(np.cov(drawn[:, row].T), few.covariance[row], rtol=0.25)
    inside = np.array([few.contains(each) for each in drawn]).mean(axis=0)
    assert np.all(abs(inside - 0.9) < 0.04)
    y = np.stack([*Y.values()], axis=1)
    whole = np.flatnonzero(~np.isnan(y).any(axis=1))
    _, logs = posterior.log_scores(X, Y)
    rows = {name: values[whole] for name, values in X.items()}
    assert np.allclose(logs[whole], joint_logs(posterior, rows, y[whole]))
    given = posterior.predict(rows, given={"b": y[whole, 1]})
    assert np.all(given.sd[:, 0] < predicted.sd[whole, 0])
    scores = posterior.score(X, Y)
    assert np.isclose(scores.log_score, logs.mean())
    assert [each["level"] for each in scores.coverage] == [0.5, 0.8, 0.9, 0.95]
    longer = fit(X, Y, noise="forest", **SHORT | {"num_burnin": 100, "num_draws": 25}).to_bytes()
    assert posterior.extend(5, progress=False).to_bytes() == longer
    posterior.save(tmp_path / "fit.model")
    loaded = load(tmp_path / "fit.model")
    assert np.array_equal(loaded.predict(new).upper, few.upper)
    assert loaded.extend(5, X, Y, progress=False).to_bytes() == longer
    assert "Noise | standard deviation" in posterior.model_card().to_markdown()


def test_weights_groups_and_own_columns():
    """Weights, groups, sets of levels and columns by outcome go with it; it splits on common columns."""
    X, Y = made()
    X["site"] = [f"s{row % 5}" for row in range(ROWS)]
    own = {"a": ["v", "u"], "b": ["w", "u"]}
    weights = np.where(np.arange(ROWS) % 2, 4.0, 0.5)
    settings = SHORT | {
        "groups": "site",
        "features": own,
        "categories": "sets",
    }
    posterior = fit(X, Y, weights, noise="forest", **settings)
    noise = posterior._draws[0].forests["precision"].feature
    assert set(noise[noise >= 0]) == {1}  # u, by its place among those of a
    other = posterior._part(posterior._draws[0], 1).forests["precision"].feature
    assert set(other[other >= 0]) == {3}  # after the three levels of w
    rows = {name: list(values[:4]) for name, values in X.items()} | {"site": ["s1", "s1", "new", "new"]}
    factor = posterior["a"].sample_sigma({**rows, "site": ["s1"] * 4})
    beside = posterior["b"].sample_sigma({**rows, "site": ["s1"] * 4})
    assert np.allclose(beside / factor, (beside / factor)[:, :, :1])
    predicted = posterior.predict(rows)
    alone = posterior["b"].predict(rows)
    assert np.allclose(predicted.covariance[:, 1, 1], alone.sd**2, rtol=0.02)
    as_known = posterior.predict(rows | {"site": ["s1"] * 4}).covariance
    assert np.all(predicted.covariance[2:, [0, 1], [0, 1]] > as_known[2:, [0, 1], [0, 1]])
    assert posterior.score(X, Y, weights).coverage == []
    alike = fit(X, Y, noise="forest", **SHORT | {"categories": "sets"})
    split = alike._draws[0].forests["precision"].feature
    assert split.max() > 4  # on a set of levels, after three columns of these
    assert np.array_equal(alike._part(alike._draws[0], 1).forests["precision"].feature, split)
    ordered = fit(X, Y, noise="forest", **SHORT | {"monotone": {"u": "increasing"}})
    split = ordered._draws[0].forests["precision"].feature
    assert 0 not in split
    assert split.max() > 0


def test_what_is_refused():
    """Other noise, classes, and outcomes without a feature in common are refused with ways that work."""
    X, Y = made()
    for noise in ("t", "t-forest", "mixture", "auto"):
        with pytest.raises(SettingsError, match="set noise=constant or forest") as raised:
            fit(X, Y, noise=noise, **SHORT)
        assert raised.value.field == "noise"
    with pytest.raises(SettingsError, match="leave out noise"):
        fit(X, {"a": Y["a"], "b": Y["b"] > 50}, noise="forest", family="auto", **SHORT)
    with pytest.raises(SettingsError, match="name a feature for all outcomes") as raised:
        fit(X, Y, noise="forest", features={"a": ["u"], "b": ["v"]}, **SHORT)
    assert raised.value.field == "noise"
    X["u"][3] = np.nan
    posterior = fit(X, Y, noise="forest", **SHORT)
    draws = posterior._draws[0]
    draws.forests["precision"].feature[draws.forests["precision"].feature >= 0] = 99
    with pytest.raises(PackedError, match="don't have in common"):
        posterior._part(draws, 1)


@pytest.mark.slow
def test_settings_are_compared():
    """A study finds that noise differs by row."""
    X, Y = made()
    short = {name: value for name, value in SHORT.items() if name != "progress"} | {"num_burnin": 100}
    told = {"candidates": [{}, {"noise": "forest"}], "folds": 2, **short}
    plain, uneven = sorted(tune(X, Y, **told).trials, key=lambda trial: "noise" in trial.settings)
    assert uneven.log_score > plain.log_score + 0.1
