"""Classes by log-linear forests: golden values, the law of trees, resuming, rare classes, and refusals."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

from sampler import fit, load
from sampler.bart import log_linear
from sampler.bart.chain import Chain
from sampler.bart.families import categorical
from sampler.bart.kernels.steps import leaf_scale
from sampler.preparation import prepare
from tests.reference.log_linear import ClassTrees
from tests.support.chain_driver import check_resuming, training

FAST = {"num_trees": 10, "num_chains": 2, "num_burnin": 60, "num_draws": 40, "thin": 1, "progress": False}
LAW = [0.04405589, 0.49643285, 0.45951126]


@pytest.mark.parametrize(("y", "evidence"), [((0, 1, 2), -3.38633745), ((0, 0, 1), -3.26334098)])
def test_the_evidence_is_the_golden_one(y, evidence):
    """Three classes, three rows, one tree for each class: the evidence by quadrature over latent rates."""
    toy = ClassTrees(y, 3)
    assert toy.log_evidence == pytest.approx(evidence, abs=2e-6)
    if y == (0, 1, 2):
        np.testing.assert_allclose(toy.leaves_of_first, LAW, atol=2e-6)


@pytest.mark.parametrize(
    ("y", "moves"), [((0, 1, 2), "default"), ((0, 0, 1), "growprune"), ((0, 1, 2), "pg")]
)
def test_trees_of_a_class_have_their_posterior_law(monkeypatch, y, moves):
    """The engine's first tree has 1, 2 and 3 leaves as often as enumerated, also beside an empty class."""
    monkeypatch.setattr(categorical, "gamma_prior", lambda _log_sd, _trees: (2.0, 1.5))
    settings = {"num_trees": 1, "num_burnin": 100, "num_draws": 1500, "thin": 6}
    prior = {"alpha": 0.95, "beta": 1.0, "k": 2.0}
    data = training([[0, 1, 2]], y, prior=prior, family="categorical", moves=moves, **settings)
    data = replace(data, constants=replace(data.constants, shares=(1 / 3,) * 3))
    chain = Chain.start(data, 0)
    chain.run(10**6)
    counts = np.bincount(chain.take().leaf_counts[:, 0], minlength=4)[1:4]
    expected = np.array(ClassTrees(y, 3).leaves_of_first)
    assert stats.chisquare(counts, expected * counts.sum()).pvalue > 1e-4


def three(rows, seed=0):
    """Three classes that follow x, one of them rare."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 3))
    logits = np.column_stack([np.zeros(rows), 4 * X[:, 0] - 2, 2 * X[:, 1] - 3.5])
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (rng.uniform(size=rows)[:, None] > np.cumsum(p, axis=1)).sum(axis=1)
    return X, np.array(["a", "b", "c"])[y], p


def test_a_chain_resumes_bit_for_bit():
    """From a checkpoint after any iteration, with room for trees and draws made on the way."""
    X, y, _ = three(80)
    settings = {"num_trees": 7, "num_chains": 1, "num_burnin": 12, "num_draws": 8, "thin": 1}
    check_resuming(prepare(X, y, family="categorical", **settings).training)


def test_the_scale_is_drawn_by_its_weights():
    """The compiled draw has the probabilities of Bayes' rule on the grid."""
    random = np.array([3, 5, 7, 11], np.uint64)
    shape, rate = np.array([0.7, 2.0, 5.0]), np.array([0.4, 1.6, 4.4])
    grid = np.stack([shape, rate, shape * np.log(rate) - special.gammaln(shape), np.log([0.2, 0.5, 0.3])])
    leaves = np.array([0.3, 1.4, 0.8])
    sums = np.array([3.0, np.log(leaves).sum(), leaves.sum()])
    density = np.prod(stats.gamma.pdf(leaves[:, None], shape, scale=1 / rate), axis=0) * [0.2, 0.5, 0.3]
    counts = np.bincount([leaf_scale.draw_place(grid, sums, np.zeros(3), random) for _ in range(4000)])
    assert stats.chisquare(counts, 4000 * density / density.sum()).pvalue > 1e-4


def test_without_data_k_has_its_prior():
    """Drawn with the trees of three classes, k' keeps its law, 2 chi(3)."""
    entries = {"leaf_sd": 0.5, "k": 2.0, "k_df": 3.0, "k_scale": 2.0, "beta": 2.0}
    settings = {"num_trees": 2, "num_burnin": 0, "num_draws": 1, "thin": 10**5, "prior_only": True}
    data = training([[0, 1, 2]], (0, 1, 2), prior=entries, family="categorical", **settings)
    chain, places = Chain.start(data, 0), []
    for _ in range(700):
        chain.run(12)
        places.append(chain._likelihood.state()[0][0])
    k = 2.0 * 0.5 * np.sqrt(2) / np.geomspace(*log_linear.SPAN, log_linear.GRID)[places]
    assert stats.kstest(k[60:] / 2.0, stats.chi(3).cdf).pvalue > 1e-4


def test_probabilities_of_three_classes(tmp_path):
    """Close to the truth, summing to one, in intervals, the same from a file."""
    X, y, p = three(800)
    posterior = fit(X, y, family="auto", **FAST | {"num_burnin": 150})
    assert posterior.settings["family"] == "categorical"
    assert posterior.classes == ("a", "b", "c")
    assert posterior.sigma is None
    prediction = posterior.predict(X[:200])
    assert prediction.mean.shape == prediction.lower.shape == (200, 3)
    np.testing.assert_allclose(prediction.mean.sum(axis=1), 1)
    assert np.all((prediction.lower <= prediction.mean) & (prediction.mean <= prediction.upper))
    assert np.abs(prediction.mean - p[:200]).mean() < 0.07
    assert posterior.sample(X[:4]).shape == (2, 40, 4, 3)
    posterior.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    np.testing.assert_array_equal(again.predict(X[[5]]).lower, prediction.lower[[5]])
    scores = posterior.score(X[:200], y[:200])
    assert scores["log_loss"] < 0.9
    assert posterior.calibration(X, y)
    assert posterior.inclusion().mean.shape == (3,)
    effect = posterior.partial_dependence(["x1"], X[:20])
    assert effect.mean.shape == (19, 3)
    assert effect.mean[-1, 1] > effect.mean[0, 1] + 0.2


def test_two_classes_agree_with_probit():
    """The links differ little: so do the probabilities."""
    X, y, _ = three(600, seed=2)
    y = y == "b"
    settings = FAST | {"num_trees": 30, "num_burnin": 200, "num_draws": 100, "linear": False}
    logit, probit = (
        fit(X, y, family=family, prior={"k": k}, **settings).predict(X).mean
        for family, k in (("categorical", 4.0), ("probit", 2.0))  # priors of the same spread
    )
    assert logit.shape == (600,)
    assert np.abs(logit - probit).mean() < 0.03


def test_many_classes_and_classes_of_one_row():
    """Thirty classes, the last of a single row: probabilities that sum to one."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(291, 2))
    y = np.append(np.arange(290) % 29, 29)
    posterior = fit(X, y, family="categorical", **FAST | {"num_burnin": 30, "num_draws": 10})
    mean = posterior.predict(X).mean
    assert mean.shape == (291, 30)
    np.testing.assert_allclose(mean.sum(axis=1), 1)
    assert mean[-1, -1] > 1.5 * mean[:-1, -1].mean()


def test_without_data_every_class_is_as_likely_as_its_share():
    """Draws of the prior: log odds have the standard deviation that k says."""
    X, y, _ = three(100)
    posterior = fit(
        X, y, family="categorical", prior_only=True, prior={"k": 2.0}, **FAST | {"num_draws": 1500}
    )
    p = posterior.sample(X[:1]).reshape(-1, 3)
    log_odds = np.log(p[:, 1] / p[:, 0])
    shares = posterior.constants["shares"]
    assert log_odds.mean() == pytest.approx(np.log(shares[1] / shares[0]), abs=0.25)
    assert log_odds.std() == pytest.approx(2**0.5 * 7.22 / 2, rel=0.12)
