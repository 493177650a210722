"""Permutation importance: it ranks features as their held-out loss does, for every kind of outcome."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sampler import DataError, DataWarning, SettingsError, fit, holdout_rows
from sampler.data.rows import Rows
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.explanations.permutation import permutation_importance
from tests.support.models.random_posteriors import make_posterior

FAST = {"num_trees": 30, "num_chains": 2, "num_burnin": 200, "num_draws": 50, "thin": 1, "progress": False}
CARS = Path(__file__).parents[3] / "examples" / "auto_mpg.csv"


def test_weight_and_year_matter_most_for_cars():
    """On auto_mpg, where shares of split rules don't rank; features that matter less are far below."""
    with CARS.open() as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name not in {"mpg", "name"}]
    X = {name: np.array([float(row[name].replace("?", "nan")) for row in rows]) for name in names}
    y = np.array([float(row["mpg"]) for row in rows])
    held_out = np.zeros(len(y), dtype=bool)
    held_out[holdout_rows(len(y), 0.25, 0)] = True
    settings = FAST | {"num_burnin": 400, "noise": "constant", "transform": "none"}
    posterior = fit({name: x[~held_out] for name, x in X.items()}, y[~held_out], **settings)

    ranked = posterior.importance({name: x[held_out] for name, x in X.items()}, y[held_out])

    assert {ranked.names[j] for j in ranked.order[:2]} == {"weight", "year"}
    assert min(ranked.lower[j] for j in ranked.order[:2]) > max(ranked.mean[j] for j in ranked.order[2:])
    assert (ranked.loss, ranked.rows, ranked.permutations) == ("rmse", 99, 10)
    assert str(ranked).splitlines()[2].split()[0] == ranked.names[ranked.order[0]]


def test_importance_is_the_growth_of_each_draws_loss():
    """Its mean equals the loss of shuffled tables, indicators of a category together; weights count."""
    posterior, X, _ = make_posterior(num_draws=(12, 12))
    rng = np.random.default_rng(1)
    y, w = rng.normal(10, 1, 80), rng.choice([0.5, 2.0], 80)
    importance = posterior.importance(X, y, w, loss="log_loss", permutations=2, seed=3)

    def loss(table):
        f, sigma = posterior.sample(table), posterior.sigma[:, :, None] / np.sqrt(w)
        density = -0.5 * ((y - f) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
        return -density.mean(axis=2).ravel()

    orders = [np.random.default_rng([3, k]).permutation(80) for k in range(2)]
    for j, name in enumerate(importance.names):
        grown = [loss(X | {name: np.array(X[name])[order]}) - loss(X) for order in orders]
        assert importance.mean[j] == pytest.approx(np.mean(grown), abs=1e-12)
        assert importance.lower[j] == pytest.approx(np.quantile(grown, 0.05), abs=1e-12)
    assert importance.baseline == pytest.approx(loss(X).mean())


def test_a_feature_that_matters_to_the_noise_alone_is_seen():
    """The log loss sees what matters to the noise alone, of which the error of the mean knows nothing."""
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(800, 3))
    y = np.exp(3 * X[:, 1] - 2) * rng.normal(size=800)
    posterior = fit(X[:500], y[:500], noise="forest", **FAST)
    ranked = posterior.importance(X[500:], y[500:], loss="log_loss")
    assert posterior.importance(X[500:], y[500:]).loss == "rmse"
    assert ranked.names[ranked.order[0]] == "x2"
    assert ranked.lower[1] > max(ranked.upper[0], ranked.upper[2])


def test_classes_are_ranked_by_log_loss():
    """For two and for three classes; one that only rows of the fit's own data have doesn't disturb."""
    rng = np.random.default_rng(4)
    X = rng.uniform(size=(400, 2))
    for cuts, settings in (
        ([0.5], {"family": "probit"}),
        ([0.3, 0.6], {"family": "categorical", "num_trees": 10}),
        ([0.3, 0.6], {"method": "bcart", "family": "categorical", "num_trees": 1}),
    ):
        y = np.array(["a", "b", "c"])[np.digitize(X[:, 1], cuts)]
        posterior = fit(X[:300], y[:300], **FAST | settings)
        held = LabelledRows.of(posterior.law, Rows.read(X[300:], [*y[300:-1], "z"]))
        (ranked,) = permutation_importance(posterior.law, held)
        assert (ranked.loss, ranked.names[ranked.order[0]]) == ("log_loss", "x2")
        assert ranked.lower[1] > 0.5
        with pytest.raises(SettingsError, match="loss must be 'log_loss' here, not 'rmse'"):
            posterior.importance(X[300:], y[300:], loss="rmse")


def _counts(posterior, table, y):
    chosen = posterior.law.spaced(100)
    law = posterior.law._law_of(posterior.encode(table), chosen)
    return stats.nbinom(law.dispersion, law.dispersion / (law.dispersion + law.mean)).logpmf(y[:, None])


def _heavy(posterior, table, y):
    f, sd = (draws.reshape(100, -1).T for draws in posterior.sample_learnt(table))
    degrees = posterior.degrees().reshape(-1)
    return stats.t(degrees, f, sd / np.sqrt(degrees / (degrees - 2))).logpdf(y[:, None])


def _log_normal(posterior, table, y):
    f, sd = (draws.reshape(100, -1).T for draws in posterior.sample_learnt(table))
    return stats.lognorm(sd, scale=np.exp(f)).logpdf(y[:, None])


def _normal(posterior, table, y):
    f, sd = (draws.reshape(100, -1).T for draws in posterior.sample_learnt(table))
    return stats.norm(f, sd).logpdf(y[:, None])


@pytest.mark.parametrize(
    ("settings", "log_density"),
    [
        ({"family": "negative-binomial"}, _counts),
        ({"noise": "t"}, _heavy),
        ({"transform": "log"}, _log_normal),
        ({"linear": True}, _normal),
        ({"method": "bcart-mean-variance", "num_trees": 1}, _normal),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_every_kind_of_outcome_is_ranked_by_its_own_density(settings, log_density):
    """Losses are those of the model's own law, on shuffled rows as on these; exposures stay in place."""
    rng = np.random.default_rng(5)
    X = {"x1": rng.uniform(size=200), "x2": rng.uniform(size=200), "exposure": rng.uniform(1, 5, 200)}
    y = rng.poisson(np.exp(2 * X["x2"]) * X["exposure"]) + 1.0
    train, held_out = ({name: x[part] for name, x in X.items()} for part in (slice(150), slice(150, None)))
    if "family" in settings:
        settings = settings | {"exposure": train["exposure"]}
    posterior = fit(train, y[:150], **FAST | settings)

    ranked = posterior.importance(held_out, y[150:], permutations=1, seed=1)
    by_density = posterior.importance(held_out, y[150:], loss="log_loss", permutations=1, seed=1)

    assert ranked.loss == "rmse"
    assert ranked.names[ranked.order[-1]] == "x1"
    order = np.random.default_rng([1, 0]).permutation(50)
    base = -log_density(posterior, held_out, y[150:]).mean()
    after = -log_density(posterior, held_out | {"x2": held_out["x2"][order]}, y[150:]).mean()
    assert by_density.baseline == pytest.approx(base, rel=1e-9)
    assert by_density.mean[ranked.names.index("x2")] == pytest.approx(after - base, rel=1e-9)


def test_outcomes_that_the_transform_does_not_take_are_left_out():
    """The logarithm has none of zero; the other rows rank."""
    rng = np.random.default_rng(6)
    X = rng.uniform(size=(80, 2))
    posterior = fit(X, np.exp(X[:, 0]), transform="log", **FAST | {"num_burnin": 20})
    ranked = posterior.importance(X[:10], np.maximum(X[:10, 0] - X[0, 0], 0.0), permutations=1)
    assert ranked.rows == np.count_nonzero(X[:10, 0] > X[0, 0])
    assert np.isfinite([*ranked.mean, ranked.baseline]).all()


def test_what_cannot_be_ranked_is_refused_by_name():
    """One row, unknown losses, no permutations."""
    posterior, X, _ = make_posterior()
    y = np.zeros(80)
    with pytest.raises(DataError, match="at least two rows"):
        posterior.importance({name: values[:1] for name, values in X.items()}, y[:1])
    with pytest.raises(SettingsError, match="'rmse' or 'log_loss'"):
        posterior.importance(X, y, loss="mse")
    with pytest.raises(SettingsError, match="permutations must be"):
        posterior.importance(X, y, permutations=0)


def test_many_features_are_bounded_by_work(monkeypatch):
    """Fewer rows and draws are used; each evaluation is announced."""
    monkeypatch.setattr("sampler.posterior.explanations.permutation.MAX_WORK", 1.0)
    monkeypatch.setattr("sampler.posterior.explanations.permutation.FEWEST_ROWS", 30)
    posterior, X, _ = make_posterior(num_draws=(12, 12))
    rows = posterior_rows(posterior, X)
    seen = []
    (importance,) = permutation_importance(posterior.law, rows, ["rmse"], before=lambda: seen.append(1))
    assert (importance.rows, importance.draws) == (30, 20)
    assert len(seen) == 5


def posterior_rows(posterior, X):
    return LabelledRows.read(posterior.law, X, np.zeros(80))


def test_what_is_constant_within_groups_is_shuffled_between_them():
    """A subject's age takes another subject's value; the dose, which differs within, goes by rows."""
    rng = np.random.default_rng(5)
    subject = np.repeat(np.arange(40), 5)
    age, dose = rng.normal(size=40)[subject], rng.uniform(size=200)
    X = {"age": age, "dose": dose, "subject": subject}
    y = 3 * age + dose + rng.normal(0, 0.1, 200)
    fitted = {name: X[name][:100] for name in ("age", "dose")}
    with pytest.warns(DataWarning, match="resemble each other"):  # which is what the test is about
        posterior = fit(fitted, y[:100], **FAST, transform="none")
    held = {name: values[100:] for name, values in X.items()}
    ranked = posterior.importance(held, y[100:], permutations=3, seed=2, groups="subject")
    assert (ranked.units, ranked.to_json()["units"]) == (20, 20)
    by_row = posterior.importance({name: held[name] for name in fitted}, y[100:], permutations=3, seed=2)
    assert by_row.units is None
    assert ranked.mean[1] == by_row.mean[1]

    f = posterior.sample({name: held[name] for name in fitted})
    base = np.sqrt(np.mean((f - y[100:]) ** 2, axis=-1)).mean()
    grown = []
    for k in range(3):
        order = np.random.default_rng([2, k]).permutation(20)
        other = {"age": held["age"].reshape(20, 5)[order, 0].repeat(5), "dose": held["dose"]}
        errors = np.sqrt(np.mean((posterior.sample(other) - y[100:]) ** 2, axis=-1))
        grown.append(errors.mean() - base)
    np.testing.assert_allclose(ranked.mean[0], np.mean(grown), rtol=1e-6)
