"""Linear parts of classes: their exact law, resuming, files, explanations, and what has none."""

import numpy as np
import pytest

from sampler import PackedError, SettingsError, fit, load
from sampler.data.linear_terms import CLASS_FOREST
from sampler.families import CLASS_SLOPE_SD, LONGEST_PERIOD, class_line_period
from sampler.preparation import prepare
from sampler.training import LinearTraining
from tests.reference.enumerator import log_sum
from tests.support.chain_driver import check_resuming, draws_of

FAST = {"num_trees": 10, "num_chains": 2, "num_burnin": 60, "num_draws": 40, "thin": 1}
FAR = 6.0  # log of the spread's range on the grid, each way


def three(rows=150, seed=0):
    """Three classes that follow two numbers, one of them with holes, and a category."""
    rng = np.random.default_rng(seed)
    x, t = rng.normal(size=(2, rows))
    c = np.array(["low", "high"])[rng.integers(0, 2, rows)]
    score = np.column_stack([np.zeros(rows), 2.5 * x - 1, 2 * t + x])
    y = np.argmax(score + rng.gumbel(size=score.shape), axis=1)
    return {"x": x, "t": np.where(rng.uniform(size=rows) < 0.1, np.nan, t), "c": c}, np.array(list("abc"))[y]


def test_slopes_have_their_exact_law():
    """Without trees, two classes and one column: the law of slopes and their spread by quadrature."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=24)
    y = (x + rng.logistic(size=24) > 0).astype(float)
    prior = {"leaf_sd": 1e-5, "k": 2.0}
    settings = {"num_trees": 1, "num_chains": 1, "num_burnin": 200, "num_draws": 12_000, "thin": 2}
    data = prepare({"x": x}, y, family="categorical", linear=True, prior=prior, **settings).training
    assert data.part(LinearTraining).terms.slope_scale == CLASS_SLOPE_SD
    draws = draws_of(data)
    z, shares = data.part(LinearTraining).z[0], np.array(data.constants.shares)
    log_tau = np.linspace(-FAR, FAR, 200) + np.log(CLASS_SLOPE_SD)
    apart = np.linspace(-12, 40, 1500)[:, None]  # second slope less the first
    odds = np.log(shares[1] / shares[0]) + apart * z
    log_likelihood = np.where(y > 0, odds, 0.0).sum(axis=1) - np.logaddexp(0, odds).sum(axis=1)
    variance = 2 * np.exp(2 * log_tau)
    law = log_likelihood[:, None] - 0.5 * apart**2 / variance - 0.5 * np.log(variance)
    law += log_tau - np.log1p(np.exp(2 * log_tau) / CLASS_SLOPE_SD**2)
    law = np.exp(law - log_sum(law.ravel()))
    slopes = data.constants.step * draws.forests[CLASS_FOREST].leaf.reshape(-1, 2)
    drawn, of_grid = slopes[:, 1] - slopes[:, 0], law.sum(axis=1)
    assert drawn.mean() == pytest.approx(of_grid @ apart[:, 0], abs=0.06)
    assert drawn.std() == pytest.approx(
        np.sqrt(of_grid @ apart[:, 0] ** 2 - (of_grid @ apart[:, 0]) ** 2), rel=0.06
    )
    # the mean of both slopes, which rows say nothing of, has the prior's variance: tau^2 / 2
    assert np.mean(np.arcsinh(slopes.sum(axis=1))) == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize("prior", [{}, {"k": 2.0}])
def test_a_chain_resumes_bit_for_bit(prior):
    """From a checkpoint after any iteration, with the scale of leaves drawn and known."""
    X, y = three(80)
    settings = {"num_trees": 4, "num_chains": 1, "num_burnin": 12, "num_draws": 8, "thin": 1}
    data = prepare(X, y, family="categorical", prior=prior, **settings).training
    assert data.settings.linear is True
    assert data.part(LinearTraining).z.shape == (4, 80)  # two numbers, holes, one of two levels
    check_resuming(data)


def test_slopes_are_drawn_as_often_as_their_time_allows():
    """In all iterations of small tables, else in every second to eighth: the others keep them."""
    periods = [class_line_period(rows, 10, 50) for rows in (100, 300, 1000, 10**5)]
    assert periods == [1, 2, 3, 8]
    assert class_line_period(1000, 100, 50) == LONGEST_PERIOD
    X, y = three(80)
    settings = {"num_trees": 4, "num_chains": 1, "num_burnin": 10, "num_draws": 20, "thin": 1}
    data = prepare(X, y, family="categorical", **settings).training
    assert class_line_period(*reversed(data.part(LinearTraining).z.shape), 4) == 2
    slopes = draws_of(data).forests[CLASS_FOREST].leaf.reshape(20, 12)
    changes = np.any(np.diff(slopes, axis=0) != 0, axis=1)
    assert changes[::2].sum() == 0
    assert changes[1::2].sum() > 4


@pytest.fixture(scope="module")
def fitted():
    """A model of three classes with lines."""
    X, y = three()
    return fit(X, y, family="categorical", progress=False, **FAST)


def test_probabilities_have_lines_in_them(fitted, tmp_path):
    """Softmax of log shares, forests and lines; the same from a file, for each row alone."""
    new, _ = three(30, seed=3)
    prediction, coded = fitted.predict(new), fitted.encode(new)
    first = fitted.chains()[0]
    step, terms = fitted.constants["step"], fitted.header.linear
    slopes = step * first.forests[CLASS_FOREST].leaf.reshape(40, 3, -1)
    sums = np.stack([ensemble.sums(coded.codes)[:40] for ensemble in fitted.law._of_classes], axis=2)
    logs = np.log(fitted.constants["shares"]) + step * sums
    logs += np.einsum("dkt,tr->drk", slopes, terms.of(coded.values))
    p = np.exp(logs - np.logaddexp.reduce(logs, axis=2)[:, :, None])
    np.testing.assert_allclose(fitted.sample(new)[0], p, rtol=1e-9)
    fitted.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    row = {name: values[4:5] for name, values in new.items()}
    np.testing.assert_array_equal(again.predict(row).lower, prediction.lower[4:5])


def test_explanations_have_lines_in_them(fitted):
    """SHAP values add up to log odds with the lines; effects, importance and slopes by class."""
    X, y = three()
    new, _ = three(5, seed=3)
    shap = fitted.shap(new, background=three(30)[0], max_draws=80)
    total = shap.base_values + shap.values.sum(axis=1)
    logs = np.log(fitted.sample(new).reshape(80, 5, 3)).mean(axis=0)
    np.testing.assert_allclose(total[:, 1] - total[:, 0], logs[:, 1] - logs[:, 0], atol=1e-6)
    line = fitted.linear_part()
    (own,) = (each for each in line if each["of_class"] == "b" and each["feature"] == "x")
    assert own["lower"] < own["mean"] < own["upper"]
    assert len(line) == 3 * 4
    assert fitted.importance(X, y).names == ["x", "t", "c"]
    curve = fitted.partial_dependence(["x"], X)
    assert curve.mean[-1, 1] > curve.mean[0, 1] + 0.3


def test_lines_pay_where_classes_are_separated_by_them():
    """A much lower log loss on new rows than trees alone, of few rows that oblique lines separate."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(460, 3))
    score = np.column_stack([np.zeros(460), 6 * X[:, 0] + 6 * X[:, 1], 6 * X[:, 0] - 6 * X[:, 2]])
    y = np.argmax(score + rng.gumbel(size=score.shape), axis=1)
    few, others = slice(60), slice(60, None)
    log_loss = {}
    for linear in (True, False):
        settings = FAST | {"linear": linear, "progress": False}
        posterior = fit(X[few], y[few], family="categorical", **settings)
        assert (posterior.header.linear is not None) == linear
        log_loss[linear] = posterior.score(X[others], y[others])["log_loss"]
    assert log_loss[True] < 0.75 * log_loss[False]


def test_what_has_no_lines():
    """Other families refuse them by name; by default there are none for few rows, nor without data."""
    X, y = three()
    for family, outcome in (("probit", y == "a"), ("poisson", np.arange(150) % 4)):
        with pytest.raises(SettingsError, match="have a linear part") as refused:
            fit(X, outcome, family=family, linear=True, **FAST)
        assert refused.value.field == "linear"
    few = {name: values[:20] for name, values in X.items()}
    assert prepare(few, y[:20], family="categorical", **FAST).training.parts.get("line") is None
    assert prepare(X, y, family="categorical", prior_only=True, **FAST).training.parts.get("line") is None
    one = {"x": np.ones(150)}
    assert prepare(one, y, family="categorical", **FAST).training.parts.get("line") is None


def test_a_file_without_its_slopes_is_refused(fitted):
    """A header that says lines needs draws that have them."""
    bare = [draws.__class__(**{**vars(draws), "forests": {}}) for draws in fitted.chains()]
    with pytest.raises(PackedError):
        fitted.law._read_lines(fitted.header.linear, bare)
