"""One outcome of two classes beside numbers: fits, joint answers, scores, files and refusals."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from sampler import fit
from sampler.errors import DataError, SettingsError
from sampler.posterior.several.class_law import GivenClass, OfClass, laws_given
from sampler.posterior.several.joint_law import JointMixture

SHORT = {"num_trees": 5, "num_chains": 2, "num_burnin": 20, "num_draws": 20, "thin": 1, "progress": False}
ROWS = 80


def made(missing=False):
    """Return columns, a number and classes whose errors have correlation .9, with holes or without."""
    rng = np.random.default_rng(4)
    X = {"u": rng.uniform(size=ROWS), "v": rng.uniform(size=ROWS)}
    errors = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], ROWS)
    bought = np.where(errors[:, 1] > 0, "yes", "no").astype(object)
    spent = 3 * X["u"] + errors[:, 0]
    if missing:
        spent[:10], bought[10:25] = np.nan, None
    return X, {"spent": spent, "bought": bought}


@pytest.fixture(scope="module")
def posterior():
    """Return a short fit to a number and two classes."""
    return fit(*made(), family="auto", **SHORT)


def test_learns_both(posterior):
    """Errors go together, those of the class have sd 1, and it is a posterior of two classes by itself."""
    assert posterior.correlations[:, :, 0, 1].mean() > 0.5
    assert np.all(posterior.covariances[:, :, 1, 1] == 1.0)
    assert (posterior["spent"].family, posterior["bought"].family) == ("gaussian", "probit")
    joint, own = posterior.predict(made()[0], 0.8), posterior["bought"].predict(made()[0], 0.8)
    assert own.classes == ("no", "yes")
    assert joint.classes == ((), ("no", "yes"))
    assert np.array_equal(joint.mean[:, 1], own.mean)
    assert np.array_equal(joint.sd[:, 1], own.sd)
    assert np.array_equal(joint.lower[:, 1], own.intervals[0].lower)
    assert np.array_equal(joint.upper[:, 0], posterior["spent"].predict(made()[0], 0.8).intervals[0].upper)


def test_one_given_the_other(posterior):
    """Each outcome is predicted given the other, by class name or index of columns."""
    X, Y = made()
    alone, number = posterior.predict(X), posterior.predict(X, given={"spent": Y["spent"]})
    yes = Y["bought"] == "yes"
    assert np.corrcoef(number.mean[:, 1], yes)[0, 1] > np.corrcoef(alone.mean[:, 1], yes)[0, 1] + 0.1
    known = posterior.predict(X | {"bought": Y["bought"]}, given=["bought"])
    assert np.all((known.mean[:, 0] > alone.mean[:, 0]) == yes)
    assert np.all(known.sd[:, 0] < alone.sd[:, 0])
    assert np.array_equal(known.mean[:, 1], yes.astype(float))
    some = [name if row % 2 else None for row, name in enumerate(Y["bought"])]
    mixed = posterior.predict(X, given={"bought": some})
    assert np.allclose(mixed.mean[::2, 0], alone.mean[::2, 0])
    assert np.allclose(mixed.upper[1::2], known.upper[1::2])


def test_answers_are_those_of_joint_draws(posterior):
    """Means, probabilities and intervals are those of simulated joint outcomes."""
    X, _ = made()
    row = {name: values[:1] for name, values in X.items()}
    drawn = np.concatenate([posterior.sample_predictive(row, seed=k).reshape(-1, 2) for k in range(400)])
    yes = drawn[:, 1] == 1
    assert set(np.unique(drawn[:, 1])) == {0.0, 1.0}
    assert abs(posterior.predict(row).mean[0, 1] - yes.mean()) < 0.02
    for name, own in (("yes", drawn[yes, 0]), ("no", drawn[~yes, 0])):
        given = posterior.predict(row, 0.8, given={"bought": [name]})
        assert abs(given.mean[0, 0] - own.mean()) < 0.05
        assert abs(given.sd[0, 0] / own.std() - 1) < 0.05
        assert abs(((own >= given.lower[0, 0]) & (own <= given.upper[0, 0])).mean() - 0.8) < 0.02


def test_law_given_a_class():
    """Moments and quantiles of numbers given a class are those of many simulated outcomes."""
    rng = np.random.default_rng(2)
    covariance = np.array([[2.0, 0.5, 1.1], [0.5, 1.0, -0.3], [1.1, -0.3, 1.0]])
    f = np.array([[[0.3, -0.2, -1.5]], [[0.1, 0.4, 0.4]]])
    drawn = np.concatenate([rng.multivariate_normal(each[0], covariance, 400_000) for each in f])
    covariances = np.stack([covariance] * 2)
    for label in (0.0, 1.0):
        own = drawn[(drawn[:, 2] > 0) == label][:, :2]
        known = np.array([[np.nan, np.nan, label]])
        law, chance = laws_given(f, covariances, known, 2)
        assert isinstance(law, GivenClass)
        assert chance is None
        mean, left = law.moments()
        assert np.allclose(mean[0], own.mean(axis=0), atol=0.01)
        assert np.allclose(left[0], np.cov(own.T), atol=0.02)
        for q in (0.05, 0.5, 0.9):
            assert np.allclose(law.quantile(q)[0], np.quantile(own, q, axis=0), atol=0.02)
        many, _ = laws_given(np.repeat(f, 400, axis=0), np.repeat(covariances, 400, axis=0), known, 2)
        reach, radius = many.radii(0.9)
        rest = own - mean[0]
        assert abs((np.abs(rest) / np.sqrt(np.diag(left[0])) < reach[0]).all(axis=1).mean() - 0.9) < 0.01
        apart = np.einsum("na,ab,nb->n", rest, np.linalg.inv(left[0]), rest)
        assert abs((apart < radius[0] ** 2).mean() - 0.9) < 0.01
    law, chance = laws_given(f, covariances, np.array([[np.nan, 0.7, np.nan]]), 2)
    assert isinstance(chance, OfClass)
    near = np.abs(drawn[:, 1] - 0.7) < 0.05
    assert abs(chance.moments()[0][0] - (drawn[near, 2] > 0).mean()) < 0.01
    assert np.allclose(law.moments()[0][0, 0], drawn[near, 0].mean(), atol=0.03)


def test_rare_classes_are_near_their_limit():
    """The law given a class far in the tail is continuous in its probability, and finite."""
    covariances = np.array([[[1.0, 0.8], [0.8, 1.0]]])
    found = []
    for level in (-5.99, -6.01, -30.0):
        law = GivenClass.given(JointMixture.of(np.array([[[0.0, level]]]), covariances), 1, np.array([1.0]))
        assert np.isclose(law.moments()[0][0, 0], 0.8 * (stats.norm.pdf(level) / ndtr(level)), rtol=1e-6)
        found.append([law.quantile(q)[0, 0] for q in (0.05, 0.5, 0.95)])
    assert np.allclose(found[0], found[1], atol=0.03)
    assert np.all(np.isfinite(found))


def test_scores(posterior):
    """Joint scores have the class's probability, and each outcome has its own scores."""
    X, Y = made()
    scores = posterior.score(X, Y)
    assert scores.gain > 2 * scores.gain_error > 0
    assert scores.outcomes["bought"]["log_loss"] > 0
    assert "rmse" in scores.outcomes["spent"]
    separate = posterior["bought"].score(X, Y["bought"])["log_loss"]
    numbers = posterior.score(X, {"spent": Y["spent"], "bought": np.full(ROWS, None)})
    assert np.isclose(scores.separate_log_score, numbers.log_score - separate)
    assert scores.coverage[0]["separate"] > 0.2
    text = posterior.model_card(X, Y).to_markdown()
    assert "bought: " in text


def test_a_class_may_come_first():
    """The order of outcomes is free, and settings of the noise are those of the numbers."""
    X, Y = made()
    lengths = SHORT | {"num_burnin": 1, "num_draws": 2}
    turned = fit(X, dict(reversed(Y.items())), family="auto", prior={"k": 3.0, "nu": 4.0}, **lengths)
    assert turned.outcomes == ("bought", "spent")
    assert turned["spent"].sigma.shape == (2, 2)
    assert turned.predict(X).classes == (("no", "yes"), ())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"other": np.tile(["x", "y"], ROWS // 2)}, "'other': one of several"),
        ({"other": np.resize(["x", "y", "z"], ROWS)}, "not more: fit it by itself"),
    ],
)
def test_refused_outcomes(more, words):
    """Further classes are refused by name."""
    X, Y = made()
    with pytest.raises(DataError, match=words):
        fit(X, Y | more, family="auto", **SHORT)


def test_refused_questions(posterior):
    """Classes that the model doesn't have are refused with their row."""
    X, Y = made()
    with pytest.raises(DataError, match=r"row 3.*maybe"):
        posterior.predict(X, given={"bought": [None, "no", "maybe", *Y["bought"][3:]]})
    with pytest.raises(DataError, match="a class, or none"):
        posterior.predict(X, given={"bought": ["no"]})
    with pytest.raises(DataError, match="numeric"):
        fit(X, Y, **SHORT)
    with pytest.raises(SettingsError, match="family"):
        fit(X, Y, family="probit", **SHORT)
