"""Several outcomes at once: fits, answers, files and refusals."""

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sampler import Posterior, SeveralPosterior, fit, load, prepare, tune
from sampler.data.splits.split_plan import folds_of
from sampler.errors import DataError, PackedError, SettingsError
from sampler.posterior.several.joint_law import JointMixture, energy_scores, log_normal

SHORT = {"num_trees": 5, "num_chains": 2, "num_burnin": 20, "num_draws": 20, "thin": 1, "progress": False}
ROWS = 60


def made(missing=False):
    """Return columns and two outcomes whose errors have correlation .9, with holes or without."""
    rng = np.random.default_rng(4)
    X = {"u": rng.uniform(size=ROWS), "v": rng.uniform(size=ROWS)}
    errors = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], ROWS)
    Y = {"a": 3 * X["u"] + errors[:, 0], "b": 100 * errors[:, 1]}
    if missing:
        Y["a"][:10], Y["b"][10:25] = np.nan, np.nan
    return X, Y


@pytest.fixture(scope="module")
def posterior():
    """Return a short fit to two outcomes."""
    return fit(*made(), **SHORT)


def test_finds_the_correlation(posterior):
    """The errors' correlation is found, and each outcome has its own scale."""
    assert posterior.outcomes == ("a", "b")
    assert 0.75 < posterior.correlations[:, :, 0, 1].mean() < 0.97
    assert 50 < posterior["b"].sigma.mean() < 200
    covariances = posterior.covariances
    assert np.allclose(covariances[:, :, 1, 1], posterior["b"].sigma ** 2)


def test_what_one_outcome_answers_is_named(posterior):
    """An attribute of the posterior of one outcome is an error that says where it is."""
    with pytest.raises(AttributeError, match=re.escape("posterior['a'].plot")):
        _ = posterior.plot
    with pytest.raises(AttributeError, match=r"has no nothing$"):
        _ = posterior.nothing


def test_given_another_outcome(posterior):
    """An outcome is known better given the other: by the conditional law of the mixture over draws."""
    X, Y = made()
    alone, given = posterior.predict(X), posterior.predict(X, given={"b": Y["b"]})
    assert np.all(given.sd[:, 0] < 0.8 * alone.sd[:, 0])
    assert np.array_equal(given.mean[:, 1], Y["b"])
    assert np.all(given.known[:, 1])
    row, drawn = 3, posterior.covariances.reshape(-1, 2, 2)
    f = np.stack([posterior[name].sample(X)[:, :, row].reshape(-1) for name in "ab"], axis=1)
    share = stats.norm.pdf(Y["b"][row], f[:, 1], np.sqrt(drawn[:, 1, 1]))
    share /= share.sum()
    mean = f[:, 0] + drawn[:, 0, 1] / drawn[:, 1, 1] * (Y["b"][row] - f[:, 1])
    sd = np.sqrt(drawn[:, 0, 0] - drawn[:, 0, 1] ** 2 / drawn[:, 1, 1])
    assert np.isclose(given.mean[row, 0], share @ mean)
    assert np.isclose(share @ stats.norm.cdf(given.upper[row, 0], mean, sd), 0.95)
    assert np.isclose(given.effective_draws[row], 1 / np.sum(share**2))
    columns = posterior.predict(X | {"b": Y["b"]}, given=["b"])
    assert np.array_equal(columns.mean, given.mean)
    assert np.array_equal(columns.simultaneous_lower, given.lower)  # the one left


def test_unknown_in_some_rows(posterior):
    """Rows whose given outcome is missing are answered as without it."""
    X, Y = made()
    some = np.where(np.arange(ROWS) % 2, Y["b"], np.nan)
    mixed, alone = posterior.predict(X, given={"b": some}), posterior.predict(X)
    whole = posterior.predict(X, given={"b": Y["b"]})
    assert np.allclose(mixed.mean[::2], alone.mean[::2])
    assert np.allclose(mixed.upper[1::2], whole.upper[1::2])


def test_one_outcome_as_by_itself(posterior):
    """A joint prediction has the bits of each outcome's own mean, sd and interval, some draws or all."""
    X, _ = made()
    mixed = posterior.predict(X, 0.8, given={"b": [1.0, *[None] * (ROWS - 1)]})
    for draws, joint in ((None, posterior.predict(X, 0.8)), (7, posterior.predict(X, 0.8, num_draws=7))):
        for number, name in enumerate("ab"):
            own = posterior[name].predict(X, 0.8, num_draws=draws)
            ends = own.intervals[0]
            assert np.array_equal(joint.mean[:, number], own.mean)
            assert np.array_equal(joint.sd[:, number], own.sd)
            assert np.array_equal(joint.lower[:, number], ends.lower)
            assert np.array_equal(joint.upper[:, number], ends.upper)
            assert draws or np.array_equal(mixed.mean[1:, number], own.mean[1:])


def test_equal_weights_as_given_ones(posterior):
    """Compiled intervals and ranks of draws of equal weight are those of draws of given weights."""
    f = np.stack([posterior[name].sample(made()[0]).reshape(-1, ROWS) for name in "ab"], axis=2)
    law = JointMixture.of(f, posterior.covariances.reshape(-1, 2, 2))
    grids = [(posterior[name].law.offset, posterior[name].law.step) for name in "ab"]
    slow = replace(law, alike=False)
    assert np.allclose(law.bounds(0.8, grids), slow.bounds(0.8, grids), rtol=1e-6)
    assert np.allclose(law.radii(0.83), slow.radii(0.83))


def test_regions(posterior):
    """Regions hold as many joint draws as they say, and more than separate intervals hold at once."""
    X, _ = made()
    rows = {name: values[:2] for name, values in X.items()}
    y = np.concatenate([posterior.sample_predictive(rows, seed=k).reshape(-1, 2, 2) for k in range(25)])
    predicted = posterior.predict(rows, 0.9)
    inside = np.array([predicted.contains(each) for each in y]).mean(axis=0)
    assert np.all(np.abs(inside - 0.9) < 0.04)
    assert np.all(predicted.simultaneous_upper > predicted.upper)
    assert np.array_equal(posterior.predict(rows, 0.9).radius, predicted.radius)


def test_scores(posterior):
    """Correlation is worth what the scores say, and joint scores are by the outcomes' joint law."""
    X, Y = made()
    Y["b"] = np.where(np.arange(ROWS) < 5, np.nan, Y["b"])
    scores = posterior.score(X, Y)
    assert scores.gain > 3 * scores.gain_error > 0
    assert np.isclose(scores.log_score - scores.separate_log_score, scores.gain)
    assert scores.outcomes["b"]["rows"] == ROWS - 5
    assert [each["level"] for each in scores.coverage] == [0.5, 0.8, 0.9, 0.95]
    assert "energy_score" in scores.columns()["score"]


def test_joint_densities():
    """Densities, energy scores and conditional laws are those of multivariate normals."""
    covariance = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.5]])
    y = np.array([0.3, -0.2, 1.0])
    found = log_normal(y[None, None], covariance[None])[0, 0]
    assert np.isclose(found, stats.multivariate_normal(np.zeros(3), covariance).logpdf(y))
    known = np.array([[np.nan, 0.4, np.nan]])
    law = JointMixture.of(np.zeros((1, 1, 3)), covariance[None], known)
    mean, left = law.moments()
    assert np.allclose(mean[0], covariance[[0, 2], 1] * 0.4)
    assert np.allclose(left[0], covariance[np.ix_([0, 2], [0, 2])] - np.outer(*[covariance[[0, 2], 1]] * 2))
    assert np.allclose(law.quantile(0.9)[0], mean[0] + 1.2815515655 * np.sqrt(np.diag(left[0])))
    drawn = np.random.default_rng(0).standard_normal((20_000, 1, 1))
    crps = 2 * stats.norm.pdf(0.5) + 0.5 * (2 * stats.norm.cdf(0.5) - 1) - 1 / np.sqrt(np.pi)
    assert abs(energy_scores(np.array([[0.5]]), drawn)[0] - crps) < 0.02


def test_a_file_goes_on_with_its_outcomes_alone(posterior, tmp_path):
    """Others than those that the fit had are refused."""
    X, Y = made()
    posterior.save(tmp_path / "fit.model")
    loaded = load(tmp_path / "fit.model")
    assert np.array_equal(loaded.predict(X).mean, posterior.predict(X).mean)
    assert "a, b given u, v" in repr(loaded)
    with pytest.raises(DataError, match="fitted to this outcome"):
        loaded.extend(5, X, {"a": Y["a"], "c": Y["b"]}, progress=False)


def test_a_file_of_one_outcome_is_refused(posterior):
    """Each kind of posterior reads its own files; pickles are such files."""
    assert pickle.loads(pickle.dumps(posterior)).to_bytes() == posterior.to_bytes()
    with pytest.raises(PackedError, match="one outcome: read its file with load"):
        SeveralPosterior.from_bytes(posterior["a"].to_bytes())
    with pytest.raises(PackedError, match="several outcomes: read its file with load"):
        Posterior.from_bytes(posterior.to_bytes())


def test_chains_are_tasks_of_an_executor(posterior):
    """Chains of several outcomes may run where an executor runs them, with the same draws."""
    with ThreadPoolExecutor(2) as executor:
        elsewhere = fit(*made(), executor=executor, **SHORT)
    assert isinstance(elsewhere, SeveralPosterior)
    assert elsewhere.to_bytes() == posterior.to_bytes()


def test_arrays_and_tables_of_outcomes():
    """Outcomes may be columns of an array, and columns of the table that are outcomes are no features."""
    X, Y = made()
    lengths = SHORT | {"num_burnin": 1, "num_draws": 2}
    array = fit(X, np.column_stack(list(Y.values())), **lengths)
    assert array.outcomes == ("y1", "y2")
    both = fit(X | Y, Y, **lengths)
    assert [column.name for column in both["a"].schema.columns] == ["u", "v"]
    assert np.array_equal(both.predict(X | Y).mean, array.predict(X).mean)


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("exposure", {"exposure": np.ones(ROWS)}),
        ("family", {"family": "poisson"}),
        ("noise", {"noise": "t-forest"}),
        ("transform", {"transform": "log"}),
        ("calibrate", {"calibrate": "folds"}),
        ("start", {"start": "smc"}),
        ("prior.sigma", {"prior": {"sigma": 1.0}}),
        ("treatment", {"treatment": np.ones(ROWS)}),
        ("slopes", {"groups": "u", "slopes": "v"}),
        ("target_name", {"target_name": ["a", "a"]}),
    ],
)
def test_refused(field, settings):
    """Settings without a place for several outcomes are refused by name."""
    with pytest.raises(SettingsError) as raised:
        fit(*made(), **(SHORT | settings))
    assert raised.value.field == field


def test_outcomes_that_follow_from_others_are_told():
    """One that is another in other units, and a sum of two; others are not."""
    X, Y = made()
    Y["c"] = np.random.default_rng(1).normal(size=ROWS)
    assert not prepare(X, Y).warnings
    for more, text in (
        ({"d": 2 * Y["a"] + 1}, "d follows from a and b and c exactly"),
        ({"d": Y["a"] + Y["b"]}, "d follows from a and b and c exactly"),
    ):
        found = [each for each in prepare(X, Y | more).warnings if "follows" in each]
        assert len(found) == 1
        assert found[0].startswith(text)


def test_refused_outcomes(posterior):
    """Rows and outcomes that can't be used are named."""
    X, Y = made()
    Y["a"][4] = Y["b"][4] = np.nan
    with pytest.raises(DataError, match="no outcome"):
        fit(X, Y, **SHORT)
    left_out = fit(X, Y, missing_target="leave_out", **(SHORT | {"num_burnin": 1, "num_draws": 2}))
    assert left_out["a"].header.num_rows == ROWS - 1
    with pytest.raises(DataError, match="other values"):
        fit(X | {"a": X["u"]}, Y, **SHORT)
    with pytest.raises(SettingsError, match="no 'c'"):
        posterior.predict(X, given={"c": X["u"]})
    with pytest.raises(SettingsError, match="no 'c'"):
        posterior["c"]
    with pytest.raises(DataError, match="a number"):
        posterior.predict(X, given={"b": ["x"] * ROWS})


def test_settings_are_chosen_by_the_joint_score():
    """A fold's figures are those of a fit to the others: log score, squared errors in sds, joint regions."""
    X, Y = made(missing=True)
    short = {name: value for name, value in SHORT.items() if name != "progress"}
    tuning = tune(X, Y, candidates="model", folds=2, seed=3, **short)
    tried = [trial.settings for trial in tuning.trials]
    plain = {"noise": "constant", "transform": "none"}
    lines = [{"linear": False}, {"linear": True}]
    noises = [plain | {"noise": noise} | line for noise in ("constant", "forest") for line in lines]
    assert tried == [*noises, {"prior": {"sparse": True}}]
    logs, squares, inside = [], [], []
    for train, test in folds_of(ROWS, 2, 3):
        part, rest = ({name: each[rows] for name, each in [*X.items(), *Y.items()]} for rows in (train, test))
        fitted = fit(
            {name: part[name] for name in X}, {name: part[name] for name in Y}, seed=3, linear=False, **SHORT
        )
        new, y = {name: rest[name] for name in X}, np.stack([rest["a"], rest["b"]], axis=1)
        predicted = fitted.predict(new, 0.9)
        logs.append(len(y) * fitted.score(new, {"a": y[:, 0], "b": y[:, 1]}).log_score)
        apart = (predicted.mean - y) / [np.nanstd(Y["a"]), np.nanstd(Y["b"])]
        squares += np.nanmean(apart**2, axis=1).tolist()
        inside += predicted.contains(y)[1][~np.isnan(y).any(axis=1)].tolist()
    first = tuning.trials[0]
    assert np.isclose(first.log_score, np.sum(logs) / ROWS)
    assert np.isclose(first.rmse, np.sqrt(np.mean(squares)))
    assert first.coverage == np.mean(inside)
