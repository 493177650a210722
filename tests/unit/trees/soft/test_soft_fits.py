"""Soft trees in a notebook: storage, prediction, resuming, refusals."""

import numpy as np
import pytest

from sampler import DataWarning, Settings, SettingsError, fit, load
from sampler.posterior.core.topology import shape_of
from sampler.preparation import prepare
from sampler.trees.soft.tree import depths_of, grow_at, log_topology, make_soft_rows, prunable_of, prune_at
from tests.reference.soft_trees import make_shape, memberships
from tests.support.chain_driver import check_resuming

SHORT = {"num_chains": 2, "num_burnin": 40, "num_draws": 20, "thin": 2, "progress": False}
METHODS = ["rjhmc-df", "rjhmc-dfi"]


def steps(rows=120, seed=0):
    """Return a step in the first column and an irrelevant category."""
    rng = np.random.default_rng(seed)
    X = {"x": rng.uniform(size=rows), "z": rng.normal(size=rows), "kind": rng.choice(["a", "b", "c"], rows)}
    return X, np.where(X["x"] < 0.5, 1.0, 4.0) + 0.2 * rng.normal(size=rows)


@pytest.mark.parametrize("method", METHODS)
def test_numbers(method, tmp_path):
    """A step is found; predictions equal the model's formula for the stored trees, also from a file."""
    X, y = steps()
    posterior = fit(X, y, method=method, **SHORT)
    prediction = posterior.predict({"x": [0.1, 0.9], "z": [0, 0], "kind": ["a", "c"]}, interval="predictive")
    assert prediction.mean == pytest.approx([1, 4], abs=0.3)
    assert np.all((prediction.upper - prediction.lower > 0.4) & (prediction.upper - prediction.lower < 2))
    assert posterior.sample(X).shape == (2, 20, 120)
    assert posterior.sigma.shape == (2, 20)
    assert posterior.inclusion().mean[0] > 0.4
    assert posterior.partial_dependence(["x"]).mean[-1] > 3
    assert posterior.diagnostics()["moves"][0]["moves"]["grow"]["proposed"] > 0
    assert str(posterior.summary())

    draws = posterior.chains()[1]
    start, end = draws.tree_start[4:6]
    shape = make_shape(draws.is_split[start:end].tolist())
    first = int(draws.is_split[:start].sum())
    splits = slice(first, first + len(shape.axis))
    coded = posterior.encode(X)
    values = [np.array(column) for column in posterior.header.constants["values"]]
    x = np.stack([table[codes] for table, codes in zip(values, coded.codes, strict=True)], axis=1)
    share = memberships(x, shape, draws.threshold[splits], draws.direction[splits], 0.01)
    leaves = draws.value[start - first : end - splits.stop, 0]
    np.testing.assert_allclose(posterior.sample(X)[1, 4], share @ leaves, atol=1e-9)
    np.testing.assert_allclose(draws.direction.sum(axis=1), 1)

    posterior.save(tmp_path / "soft.bart")
    again = load(tmp_path / "soft.bart")
    np.testing.assert_array_equal(again.predict(X).upper, posterior.predict(X).upper)
    assert again.topologies() == posterior.topologies()
    assert sum(entry["probability"] for entry in again.topologies()) == pytest.approx(1)


SEARCH = {"iterations": 4, "first": 20, "chains": 2, "draws": 40, "samples": 4}


@pytest.mark.parametrize("method", ["rjhmc-dfi", "dcc-tree"])
def test_a_prior_far_from_the_outcomes(method):
    """Chains find outcomes many prior sds away, since starts and jumps allow for them."""
    X, y = steps()
    prior = {"mean": 0.0, "leaf_sd": 1.0, "sigma_scale": 1.5, "sharpness": 0.001}
    more = {"num_burnin": 40, "num_draws": 100, "thin": 1, "search": SEARCH} if method == "dcc-tree" else {}
    posterior = fit(X, y + 9, method=method, prior=prior, **SHORT | {"num_burnin": 300} | more)
    prediction = posterior.predict({"x": [0.1, 0.9], "z": [0, 0], "kind": ["a", "c"]})
    assert prediction.mean == pytest.approx([10, 13], abs=0.3)


@pytest.mark.parametrize("method", METHODS)
def test_classes(method):
    """Probabilities of all classes sum to one per row; with two classes the second's is reported."""
    X, y = steps()
    label = np.where(y > 2.5, "high", np.where(X["z"] > 0, "up", "down"))
    posterior = fit(X, label, method=method, family="auto", **SHORT)
    prediction = posterior.predict(X)
    assert prediction.mean.shape == prediction.upper.shape == (120, 3)
    np.testing.assert_allclose(prediction.mean.sum(axis=1), 1)
    assert np.mean(np.array(posterior.classes)[prediction.mean.argmax(axis=1)] == label) > 0.8
    two = fit(X, label == "high", method=method, family="auto", **SHORT).predict(X)
    assert np.corrcoef(two.mean, y > 2.5)[0, 1] > 0.9


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_a_chain_resumes_bit_for_bit(method, classes):
    """Slices and checkpoints change nothing, and a longer chain begins with the shorter one's draws."""
    X, y = steps(60)
    knobs = {name: SHORT[name] for name in ("num_burnin", "num_draws", "thin")}
    family = "categorical" if classes else "gaussian"
    training = prepare(X, y > 2 if classes else y, method=method, family=family, **knobs).training
    draws = check_resuming(training, chain=1, run=lambda chain: chain.run(7), burnin=SHORT["num_burnin"])
    assert draws.num_draws == 20


def test_a_weight_of_two_is_a_row_twice():
    """A weight of two equals a repeated row, apart from the row count in sigma's estimate."""
    rng = np.random.default_rng(4)
    x, y = rng.uniform(size=(20, 1)), rng.normal(size=20)
    settings = {"method": "rjhmc-dfi", "prior": {"sigma_scale": 1.0, "leaf_sd": 1.0, "mean": 0.0}}
    weighted = make_soft_rows(prepare(x, y, weights=np.full(20, 2.0), **settings).training)
    twice = make_soft_rows(prepare(np.tile(x, (2, 1)), np.tile(y, 2), **settings).training)
    for one, other in zip(weighted[:3], twice[:3], strict=True):
        np.testing.assert_allclose(one, other)
    assert (weighted.constants[7], twice.constants[7]) == (20, 40)
    np.testing.assert_allclose(weighted.constants[:7], twice.constants[:7])


def test_missing_values_count_as_the_mean():
    """A missing cell counts as its column's mean, with a warning."""
    X, y = steps(60)
    X["x"][3] = np.nan
    with pytest.warns(DataWarning, match="x: 1 missing values count as the column's mean"):
        posterior = fit(X, y, method="rjhmc-df", **SHORT)
    low, high = np.nanmin(X["x"]), np.nanmax(X["x"])
    where = posterior.constants["values"][0][-1]
    assert where == pytest.approx((np.nanmean(X["x"]) - low) / (high - low))
    assert np.isfinite(posterior.predict({"x": [np.nan], "z": [0], "kind": ["a"]}).mean[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": {"k": 2}}, "unknown prior entry 'k' of a tree of soft splits"),
        ({"prior": {"sharpness": 0.1, "sharpness_start": 0.01}}, "splits sharpen"),
        ({"prior": {"sharpness": -1}}, "prior sharpness must be a number"),
        ({"moves": {"grow": 1.0}}, "both grow and prune"),
        ({"moves": {"grow": 0.5, "prune": 0.2, "stay": 0.2}}, "must sum to 1"),
        ({"family": "probit"}, "takes family gaussian or categorical"),
    ],
)
def test_settings_that_a_soft_tree_cannot_use_are_refused(settings, message):
    """A refusal names the alternatives."""
    X, y = steps(40)
    with pytest.raises(SettingsError, match=message):
        fit(X, y, method="rjhmc-dfi", **SHORT | settings)


@pytest.mark.parametrize("method", METHODS)
def test_settings_are_restored_from_json(method):
    """Resolved settings are restored from JSON unchanged."""
    settings = Settings.resolve(method=method)
    assert Settings.from_json(settings.to_json()) == settings


def test_topologies():
    """A topology has the right depths, prior, possible grows and prunes, and text."""
    tree = (True, True, False, True, False, False, False)
    assert depths_of(tree) == [0, 1, 2, 2, 3, 3, 1]
    assert shape_of(np.array(tree)) == "((.(..)).)"
    assert prunable_of(tree) == [3]
    assert prune_at(tree, 3) == (True, True, False, False, False)
    assert grow_at(prune_at(tree, 3), 3) == tree
    split = [0.9 / (1 + depth) for depth in range(4)]
    expected = np.log([split[0], split[1], 1 - split[2], split[2], 1 - split[3], 1 - split[3], 1 - split[1]])
    assert log_topology(tree, 0.9, 1.0) == pytest.approx(expected.sum())
