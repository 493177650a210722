"""SHAP values equal their definition by coalitions on every draw, and add up to f less its average."""

from dataclasses import replace
from itertools import combinations
from math import factorial

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from sampler import SettingsError, fit
from sampler.kernels.jit import warm
from sampler.posterior.kernels.shapley import FEW_PLAYERS, Trees, shapley_values
from tests.support.models.kinds import Kind, fitted
from tests.support.models.random_posteriors import fit_with_line, make_posterior

X = np.array([[1, 3, 2, 0], [4, 0, 5, 0], [3, 1, 1, 2]], np.uint8).T
BACKGROUND = np.array([[0, 0, 0, 0], [1, 2, 4, 0], [3, 1, 2, 0], [5, 3, 3, 0], [2, 2, 5, 1]], np.uint8).T
TREE = Trees(  # (0, 2, (1, 1, 1, -2), (2, 3, (0, 4, .5, 3), -1))
    1,
    np.array([0, 9]),
    np.array([0, 1, -1, -1, 2, 0, -1, -1, -1], np.int32),
    np.array([2, 1, 0, 0, 3, 4, 0, 0, 0], np.uint8),
    np.zeros(9, np.uint8),
    np.array([0, 0, 1, -2, 0, 0, 0.5, 3, -1.0]),
    np.arange(4),
)


def values_of(trees, draws, codes, background, *, by_path=False):
    """Return phi [draw, row, player] and the base by draw."""
    warm("shapley")
    codes, background = np.ascontiguousarray(codes), np.ascontiguousarray(background)
    phi = np.zeros((len(draws), int(trees.player.max()) + 1, codes.shape[1]))
    base = np.zeros(len(draws))
    assert shapley_values(trees, np.asarray(draws), codes, background, by_path, phi, base)
    return phi.transpose(0, 2, 1), base


@pytest.mark.parametrize(
    ("by_path", "expected"),
    [
        (False, [[-1.2, -0.9, 0, 0], [-0.7, 0.6, -1, 0], [-0.5, 0.6, 0.3, 0]]),
        (True, [[-1.3, -0.8, 0, 0], [-0.4, 0.6, -1.3, 0], [-0.2, 0.6, 0, 0]]),
    ],
)
def test_golden_values(by_path, expected):
    """A tree that tests one column twice, by hand."""
    phi, base = values_of(TREE, [0], X, BACKGROUND, by_path=by_path)
    np.testing.assert_allclose(phi[0], expected, atol=1e-14)
    np.testing.assert_allclose(base, 0.1)


def by_definition(worth, num_players):
    """Average a player's marginal worth over all orders; `worth` takes the coalition as a set."""
    phi = []
    for j in range(num_players):
        total = 0.0
        others = [k for k in range(num_players) if k != j]
        for size in range(num_players):
            weight = factorial(size) * factorial(num_players - size - 1) / factorial(num_players)
            for members in combinations(others, size):
                total = total + weight * (worth({*members, j}) - worth({*members}))
        phi.append(total)
    return np.array(phi)


def table_of(X, rows):
    return {name: np.asarray(values, dtype=object)[rows] for name, values in X.items()}


@pytest.mark.parametrize("make", [make_posterior, fit_with_line])
def test_equals_the_definition_on_every_draw(make):
    """Columns outside a coalition take the background's values; a category is one player."""
    posterior, X, *_ = make(3)
    names = [column.name for column in posterior.schema.columns]
    explained, background = table_of(X, slice(0, 3)), table_of(X, slice(40, 47))
    count = posterior.num_chains * posterior.num_draws
    shap = posterior.shap(explained, background, level=0.8, max_draws=count)
    for i in range(3):

        def worth(members, i=i):
            mixed = {
                name: (np.repeat(explained[name][i : i + 1], 7) if j in members else background[name])
                for j, name in enumerate(names)
            }
            return posterior.sample(mixed).mean(axis=2).reshape(-1)

        phi = by_definition(worth, len(names))  # [column, draw]
        np.testing.assert_allclose(shap.values[i], phi.mean(axis=1), atol=1e-11)
        lower, upper = np.quantile(phi, [0.1, 0.9], axis=1)
        np.testing.assert_allclose(shap.lower[i], lower, atol=1e-11)
        np.testing.assert_allclose(shap.upper[i], upper, atol=1e-11)
    np.testing.assert_allclose(shap.base_values, posterior.sample(background).mean(), atol=1e-11)


@pytest.mark.parametrize("by_path", [False, True])
def test_additive_on_every_draw(by_path):
    """Base and values of each draw add up to f, also where leaves have more players than are tabulated."""
    deep = deep_trees()
    phi, base = values_of(deep, [0, 1, 2], CODES[:, :40], CODES[:, 40:], by_path=by_path)
    f = np.array([[walk(deep, draw, CODES[:, i]) for i in range(40)] for draw in range(3)])
    np.testing.assert_allclose(base[:, None] + phi.sum(axis=2), f, atol=1e-10)
    assert np.count_nonzero(phi[0].any(axis=0)) > FEW_PLAYERS


CODES = np.random.default_rng(4).integers(0, 4, (9, 120)).astype(np.uint8)


def deep_trees():
    """Three draws of a tree that splits on nine columns down one side, with missing codes to the left."""
    depth, width = 8, 17
    feature, cut, leaf = [], [], []
    rng = np.random.default_rng(2)
    for _ in range(3):
        for column in rng.permutation(9)[:depth]:
            feature += [column, -1]
            cut += [rng.integers(0, 2), 0]
            leaf += [0.0, rng.normal()]
        feature += [-1]
        cut += [0]
        leaf += [rng.normal()]
    starts = np.arange(4) * width
    missing_left = np.where(np.array(feature) >= 0, 1, 0).astype(np.uint8)
    return Trees(
        1,
        starts,
        np.array(feature, np.int32),
        np.array(cut, np.uint8),
        missing_left,
        np.array(leaf),
        np.arange(9),
    )


def walk(trees, draw, code):
    node = trees.tree_start[draw]
    while trees.feature[node] >= 0:
        goes_left = code[trees.feature[node]] <= trees.cut[node]
        node = node + 1 if goes_left else node + 2  # the left child is a leaf
    return trees.leaf[node]


def test_unused_columns_get_nothing():
    """A column that no tree uses has the value 0, exactly."""
    phi, _ = values_of(TREE, [0], X, BACKGROUND)
    assert not phi[..., 3].any()


def test_classes_on_the_probit_scale():
    """For two classes the values add up to f, whose normal distribution function is the probability."""
    rng = np.random.default_rng(1)
    X = rng.random((60, 2))
    y = np.where(X[:, 0] + 0.2 * rng.normal(size=60) > 0.5, "yes", "no")
    posterior = fit(
        X, y, family="probit", num_trees=5, num_chains=1, num_burnin=20, num_draws=30, thin=1, progress=False
    )
    shap = posterior.shap(X[:4], max_draws=1000)
    assert "probit" in shap.scale
    np.testing.assert_allclose(shap.f, ndtri(posterior.sample(X[:4])).mean(axis=(0, 1)), atol=1e-6)


def test_single_tree_of_classes():
    """A single tree of three classes has values for the probability of each."""
    rng = np.random.default_rng(1)
    X = rng.random((60, 2))
    y = np.array(["a", "b", "c"])[(3 * X[:, 0]).astype(int)]
    short = {"num_chains": 1, "num_burnin": 20, "num_draws": 30, "thin": 1, "progress": False}
    posterior = fit(X, y, method="bcart", family="categorical", **short)
    shap = posterior.shap(X[:4], max_draws=1000)
    np.testing.assert_allclose(shap.f, posterior.sample(X[:4]).mean(axis=(0, 1)), atol=1e-12)


def test_soft_trees_are_refused():
    """A soft split depends on several columns at once: the refusal says so."""
    X = np.random.default_rng(1).random((40, 2))
    soft = {"method": "rjhmc-df", "num_chains": 1, "num_draws": 4, "num_burnin": 8, "thin": 1}
    posterior = fit(X, X.sum(axis=1), progress=False, **soft)
    with pytest.raises(SettingsError, match="soft trees"):
        posterior.shap(X)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"game": "tree"}, "game"), ({"max_draws": 0}, "max_draws"), ({"level": 2}, "level")],
)
def test_refusals(wrong, field):
    """A wrong option is refused by its name."""
    posterior, X, _ = make_posterior()
    with pytest.raises(SettingsError) as error:
        posterior.shap(X, **wrong)
    assert error.value.field == field


@pytest.mark.slow
def test_agrees_with_the_package_shap():
    """The values of one draw of a real fit are those of shap's TreeExplainer; its plots take the answer."""
    shap = pytest.importorskip("shap")
    rng = np.random.default_rng(3)
    X = rng.random((150, 5))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 5 * X[:, 3] + rng.normal(size=150)
    posterior = fit(X, y, num_trees=20, num_chains=1, num_burnin=100, num_draws=1, thin=1, progress=False)
    _, (forest,) = posterior.law.forests_to_explain()
    reference = posterior.reference.codes.T.astype(float)
    model = {"trees": [_as_dict(forest, tree, reference) for tree in range(20)]}
    shapley = posterior.shap(X[:30], X[50:150])
    background = posterior.encode(X[50:150]).codes.T.astype(float)
    explainer = shap.TreeExplainer(model, background, feature_perturbation="interventional")
    codes = posterior.encode(X[:30]).codes.T.astype(float)
    np.testing.assert_allclose(shapley.values, explainer.shap_values(codes), atol=1e-6)
    by_path = posterior.shap(X[:30], X[50:150], game="path-dependent")
    model = {"trees": [_as_dict(forest, tree, background) for tree in range(20)]}
    explainer = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent")
    np.testing.assert_allclose(by_path.values, explainer.shap_values(codes), atol=1e-6)
    explanation = shapley.explanation()
    assert isinstance(explanation, shap.Explanation)
    np.testing.assert_array_equal(explanation.values, shapley.values)


def _as_dict(forest, tree, rows):
    """Write a tree the way that shap reads trees of unknown packages."""
    first, last = forest.draws.tree_start[tree : tree + 2]
    feature = forest.draws.feature[first:last]
    size = last - first
    left, right = np.full(size, -1), np.full(size, -1)
    open_splits = []
    for node in range(size):
        if feature[node] >= 0:
            left[node] = node + 1
            open_splits.append(node)
        elif open_splits:
            right[open_splits.pop()] = node + 1
    reach = np.zeros(size)
    for row in rows:
        node = 0
        reach[0] += 1
        while feature[node] >= 0:
            goes_left = row[feature[node]] <= forest.draws.cut[first + node]
            node = left[node] if goes_left else right[node]
            reach[node] += 1
    return {
        "children_left": left,
        "children_right": right,
        "children_default": left,
        "features": np.where(feature >= 0, feature, -2),
        "thresholds": forest.draws.cut[first:last].astype(float),
        "values": (forest.leaf[first:last]).reshape(-1, 1),
        "node_sample_weight": reach,
    }


def test_training_rows_by_default():
    """The reference rows are explained; their cells are coded as these rows are."""
    posterior, _, _ = make_posterior()
    shap = posterior.shap()
    reference = posterior.reference
    assert shap.f.shape == (reference.num_rows,)
    again = posterior.encode(dict(zip(shap.names, shap.data, strict=True)))
    np.testing.assert_array_equal(again.codes, reference.codes)
    np.testing.assert_array_equal(posterior.shap(again).values, shap.values)


def test_values_add_up_to_the_prediction_by_default():
    """All draws are used, also more than 200; of fewer the mean of those is named."""
    posterior, X, _ = make_posterior(7, (150, 150))
    rows = table_of(X, slice(0, 9))
    shap, mean = posterior.shap(rows), posterior.predict(rows).mean
    assert shap.draws == 300
    assert not any("draws" in warning for warning in shap.warnings)
    np.testing.assert_allclose(shap.base_values + shap.values.sum(axis=1), mean)
    fewer = posterior.shap(rows, max_draws=40)
    assert "of 40 of 300 draws" in fewer.warnings[-1]
    chosen = np.linspace(0, 299, 40).astype(int)
    of_chosen = posterior.sample(rows).reshape(300, 9)[chosen].mean(axis=0)
    np.testing.assert_allclose(fewer.f, of_chosen)
    assert np.abs(of_chosen - mean).max() > 1e-3
    assert posterior.interactions(["x1", "x3"]).draws == 300


OF_OUTCOME = {  # of kinds of models, what values are of the outcome, and the function from f to it
    "gaussian": None,
    "ordinal": None,
    "categorical": None,
    "probit+offset": None,
    "gaussian+log": np.exp,
    "hurdle+log": np.exp,
    "poisson": np.exp,
    "gaussian+yeo-johnson": "transform",
    "probit": ndtr,
}


@pytest.mark.parametrize(("name", "link"), OF_OUTCOME.items())
def test_values_are_about_the_outcome_too(name, link):
    """Factors multiply, and differences add up, from the outcome of the base to that of each row."""
    posterior = fitted(name)
    shap = posterior.shap(Kind(name).new)
    found = shap.of_outcome
    if link is None:
        assert found is None
        return
    link = posterior.law.transform.outcome if link == "transform" else link
    base, outcome = float(link(np.array(shap.base_values))), link(shap.f)

    assert found is not None
    assert found.kind == ("factors" if link is np.exp else "differences")
    np.testing.assert_allclose([found.base, *found.outcome], [base, *outcome])
    if link is np.exp:
        np.testing.assert_allclose(base * found.values.prod(axis=1), outcome)
        np.testing.assert_allclose(np.log(found.lower), shap.lower)
        np.testing.assert_array_equal(found.values > 1, shap.values > 0)
        return
    np.testing.assert_allclose(base + found.values.sum(axis=1), outcome)
    np.testing.assert_array_equal(np.sign(found.values), np.sign(shap.values))
    inside = (found.lower <= found.values) == (shap.lower <= shap.values)
    assert inside.all()


def test_values_of_a_row_at_the_base_have_the_slope_there():
    """Differences at f equal to the base are by the slope of the transform there, not 0 by 0."""
    shap = fitted("gaussian+yeo-johnson").shap(Kind("gaussian+yeo-johnson").new)
    moved = np.zeros_like(shap.values)
    moved[:, :2] = [0.5, -0.5]
    at_base = replace(shap, values=moved, lower=moved, upper=moved).of_outcome
    link, base = shap.inverse_link, float(shap.base_values)
    slope = (link(np.array(base + 1e-4)) - link(np.array(base - 1e-4))) / 2e-4

    np.testing.assert_allclose(at_base.values[:, 0], 0.5 * slope, rtol=1e-4)
    np.testing.assert_allclose(at_base.values.sum(axis=1), 0.0, atol=1e-9)
