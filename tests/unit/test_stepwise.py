"""A chain that people step themselves."""

import hashlib

import numpy as np
import pytest

from sampler import DataError, PackedError, Sampler, SettingsError, fit, pack

pytestmark = pytest.mark.usefixtures("all_kernels")

ROWS = 80
FEW = {"num_trees": 6, "seed": 3, "prior": {"k": 2.0}}


def rows(seed=0):
    """Return columns with a category and missing values, and outcomes."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=ROWS)
    kind = rng.choice(["a", "b"], ROWS)
    y = np.sin(6 * x) + (kind == "a") + rng.normal(0, 0.1, ROWS)
    x[:3] = np.nan
    return {"x": x, "kind": kind}, y


OPTIONS = [
    {},
    {"noise": "t-forest"},
    {"noise": "mixture"},
    {"linear": True},
    {"groups": "kind"},
    {"moves": "pg"},
    {"prior": {"sparse": True}},
    {"weights": np.linspace(0.5, 2, ROWS)},
]


def digest(posterior, X):
    """Hash the packed draws (noise, trees, and the parts beside them) and the values of f that they give."""
    packed = b"".join(pack(draws) for draws in posterior.chains())
    return hashlib.sha256(packed + posterior.sample(X).tobytes()).hexdigest()


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(options) or "plain")
def test_draws_are_those_of_a_fit_bit_for_bit(options):
    """States are the draws of a fit with the same seed: same digest of noise, trees and sums."""
    X, y = rows()
    burn_in = 400 if "noise" in options else 0  # a shorter one begins the forest of noise earlier
    settings = {"linear": False, "transform": "none", "num_burnin": burn_in} | FEW | options
    posterior = fit(X, y, **settings, num_chains=1, num_draws=9, thin=1, progress=False)
    sampler, draws = Sampler(X, y, **FEW | options), []
    sampler.step(burn_in)
    for _ in range(9):
        sampler.step()
        draws.append(sampler.draw())
    assert digest(sampler.posterior(draws), X) == digest(posterior, X)
    assert sampler.iteration == burn_in + 9
    assert sampler.sigma == posterior.sigma[0, -1]
    np.testing.assert_array_equal(sampler.leaf_counts, posterior.leaf_counts[0, -1][:6])
    np.testing.assert_array_equal(sampler.predict(X), posterior.sample(X)[0, -1])
    grid = 1e-6 if "linear" in options else 1e-9  # a linear part is rounded to the grid of the residuals
    np.testing.assert_allclose(sampler.sums, sampler.predict(X), atol=grid)


def test_a_changed_outcome_is_that_of_a_chain_that_always_had_it():
    """With the prior's constants given, an outcome set before the first step is as good as the first one."""
    X, y = rows()
    fixed = {"offset": 0.2, "leaf_sd": 0.3, "lambda": 0.01, "sigma_start": 0.2, "step": 2.0**-20}
    settings = FEW | {"prior": fixed}
    always, changed = Sampler(X, y, **settings), Sampler(X, y[::-1].copy(), **settings)
    changed.set_outcome(y)
    for sampler in (always, changed):
        sampler.step(20)
    np.testing.assert_array_equal(always.sums, changed.sums)
    assert always.sigma == changed.sigma


def test_outcomes_follow_what_else_is_drawn():
    """Stepped in turns with a coefficient, the trees leave it its own column's effect."""
    rng = np.random.default_rng(1)
    X, y = rows()
    z = rng.normal(size=ROWS)
    y = y + 3 * z
    sampler, drawn = Sampler(X, y, **FEW | {"num_trees": 20}), []
    for _ in range(400):
        rest = y - sampler.sums
        scale = 1 / np.sqrt(z @ z)
        slope = rng.normal(scale**2 * (z @ rest), scale * sampler.sigma)
        sampler.set_outcome(y - slope * z)
        sampler.step()
        drawn.append(slope)
    assert np.mean(drawn[100:]) == pytest.approx(3, abs=4 * np.std(drawn[100:]))
    assert np.std(drawn[100:]) < 0.1


def test_changed_weights_are_those_of_a_chain_that_always_had_them():
    """With the prior's constants given, weights set before the first step are as good as the first ones."""
    X, y = rows()
    fixed = {"offset": 0.2, "leaf_sd": 0.3, "lambda": 0.01, "sigma_start": 0.2, "step": 2.0**-20}
    settings, weights = FEW | {"prior": fixed}, np.linspace(1e-12, 4, ROWS)  # the first counts as 0
    always, changed = Sampler(X, y, weights, **settings), Sampler(X, y, np.ones(ROWS), **settings)
    changed.set_weights(weights)
    for sampler in (always, changed, Sampler.resume(changed.state(), X)):
        sampler.step(20)
        np.testing.assert_array_equal(sampler.sums, always.sums)
        assert sampler.sigma == always.sigma
    for wrong, words in ((weights[1:], "80"), (-weights, "positive"), (np.full(ROWS, np.nan), "missing")):
        with pytest.raises(DataError, match=words):
            changed.set_weights(wrong)
    for other in (Sampler(X, y, **settings), Sampler(X, y, weights, noise="t", **FEW)):
        with pytest.raises(SettingsError, match="made with weights"):
            other.set_weights(weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_state_goes_on_bit_for_bit(weighted):
    """A sampler restored from its state steps as the first one does, with the outcome it had then."""
    X, y = rows()
    weights = np.linspace(0.5, 2, ROWS) if weighted else None
    sampler = Sampler(X, y, weights, **FEW)
    sampler.step(5)
    sampler.set_outcome(y + 0.3)
    sampler.step(2)
    again = Sampler.resume(sampler.state(), X)
    for each in (sampler, again):
        each.step(6)
    np.testing.assert_array_equal(sampler.sums, again.sums)
    assert (sampler.sigma, sampler.iteration) == (again.sigma, again.iteration)
    with pytest.raises(PackedError, match="damaged"):
        Sampler.resume(sampler.state()[:-1], X)
    with pytest.raises(PackedError, match="not the state"):
        Sampler.resume(b"other", X)
    with pytest.raises(DataError, match="same order"):
        Sampler.resume(sampler.state(), {name: values[::-1] for name, values in X.items()})


def test_trees_say_where_rows_go():
    """Rows sent down the listed trees by hand reach values that add up to f."""
    X, y = rows()
    sampler = Sampler(X, y, **FEW)
    sampler.step(30)
    trees = sampler.trees()
    assert trees.tree.max() == 5
    assert set(trees.feature) == {None, "x", "kind"}

    def value(number, row):
        nodes = np.flatnonzero(trees.tree == number).tolist()

        def descend(place):
            """Return the value that the row reaches below a node (None: not its way), and the next node."""
            node = nodes[place]
            if trees.feature[node] is None:
                return trees.value[node], place + 1
            cell = X[trees.feature[node]][row]
            if trees.feature[node] == "kind":
                left = cell != trees.at[node]
            else:
                left = bool(trees.missing_left[node]) if np.isnan(cell) else cell <= trees.at[node]
            first, after = descend(place + 1)
            second, end = descend(after)
            return (first if left else second), end

        return descend(0)[0]

    offset = float(sampler.posterior().constants["offset"])
    by_hand = [offset + sum(value(number, row) for number in range(6)) for row in range(ROWS)]
    np.testing.assert_allclose(by_hand, sampler.sums, atol=1e-9)


def test_copied_states_are_a_posterior():
    """Draws that were copied between steps predict with intervals."""
    X, y = rows()
    sampler, draws = Sampler(X, y, **FEW), []
    for _ in range(10):
        sampler.step(3)
        draws.append(sampler.draw())
    posterior = sampler.posterior(draws)
    assert (posterior.num_chains, posterior.num_draws) == (1, 10)
    np.testing.assert_allclose(posterior.sample(X)[0, -1], sampler.sums, atol=1e-9)
    assert np.all(posterior.predict(X).lower < posterior.predict(X).upper)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_draws": 10}, "num_draws has no meaning"),
        ({"method": "bcart", "num_trees": 1, "prior": None}, "no method 'bcart'"),
        ({"family": "poisson", "y": np.arange(ROWS), "prior": None}, "no family 'poisson'"),
        ({"transform": "log"}, "no transform 'log'"),
        ({"start": "annealed"}, "no start 'annealed'"),
        ({"event": np.arange(ROWS) % 2}, "no censored"),
    ],
)
def test_other_models_are_refused(settings, words):
    """Models that can't be stepped are refused by name."""
    X, y = rows()
    with pytest.raises(SettingsError, match=words):
        Sampler(X, **{"y": y - y.min() + 1} | FEW | settings)


def test_bad_outcomes_are_refused_and_lose_nothing():
    """A wrong outcome is refused, and the sampler goes on as before."""
    X, y = rows()
    sampler, other = Sampler(X, y, **FEW), Sampler(X, y, **FEW)
    for wrong, words in ((y[:-1], "80 rows"), (np.where(np.arange(ROWS) == 4, np.nan, y), "row 5")):
        with pytest.raises(DataError, match=words):
            sampler.set_outcome(wrong)
    with pytest.raises(DataError, match="must be numbers"):
        sampler.set_outcome(["high"] * ROWS)
    with pytest.raises(SettingsError, match="grid"):
        sampler.set_outcome(y * 1e6)
    with pytest.raises(SettingsError, match="iterations"):
        sampler.step(-1)
    for each in (sampler, other):
        each.step(5)
    np.testing.assert_array_equal(sampler.sums, other.sums)
