"""Interactions: pairs of neighbouring splits as counted by hand, and H by its definition."""

from itertools import pairwise

import numpy as np
import pytest

from sampler import SettingsError, fit
from sampler.posterior.explanations.interactions import _parents
from tests.support.friedman import friedman
from tests.support.models.random_posteriors import fit_with_line, make_posterior


def test_parents_by_walking_down():
    """Each node's parent is the split above it, for every tree of random draws."""
    _, _, (draws, *_) = make_posterior(4)
    parent = _parents(draws)

    def walk(node, above):
        assert parent[node] == above
        if draws.feature[node] < 0:
            return node + 1
        return walk(walk(node + 1, node), node)

    for first, last in zip(draws.tree_start[:-1], draws.tree_start[1:], strict=True):
        assert walk(first, -1) == last


@pytest.mark.parametrize("make", [make_posterior, fit_with_line])
def test_h_by_its_definition(make):
    """The strength is the sd of the joint effect less the separate ones, on every draw; H its share."""
    posterior, X, *_ = make(3)
    rows = {name: np.asarray(values, dtype=object)[:9] for name, values in X.items()}
    interactions = posterior.interactions(["x1", "x3"], rows, level=0.8, max_draws=1000)

    def effect(names):
        means = []
        for i in range(9):
            fixed = {name: np.repeat(rows[name][i : i + 1], 9) for name in names}
            means.append(posterior.sample(rows | fixed).mean(axis=2).reshape(-1))
        return np.array(means) - np.mean(means, axis=0)

    joint = effect(["x1", "x3"])
    strength = (joint - effect(["x1"]) - effect(["x3"])).std(axis=0)
    h = strength / np.where(joint.std(axis=0) > 0, joint.std(axis=0), 1)
    for figure, draws in ((interactions.strength, strength), (interactions.h, h)):
        np.testing.assert_allclose(figure, [draws.mean()], atol=1e-9)
    ends = [interactions.strength_lower, interactions.strength_upper]
    np.testing.assert_allclose(ends, np.quantile(strength, [0.1, 0.9])[:, None], atol=1e-9)


def test_shares_of_neighbouring_splits():
    """Shares are counted draw by draw, a category's indicators as one column, and sum to one."""
    posterior, _, chains = make_posterior(3)
    interactions = posterior.interactions()
    assert len(interactions.pairs) == 6
    np.testing.assert_allclose(interactions.inclusion.sum(), 1)
    np.testing.assert_allclose(interactions.expected.sum(), 1)
    names = [column.name for column in posterior.schema.columns]
    column_of = [names[j] for j, _ in posterior.schema.coded]
    joined, every = 0.0, 0
    for draws in chains:
        parent = _parents(draws)
        size = np.cumsum([0, *np.diff(draws.tree_start[:: draws.num_trees])])
        for first, last in pairwise(size):
            pairs = [
                {column_of[draws.feature[node]], column_of[draws.feature[parent[node]]]}
                for node in range(first, last)
                if draws.feature[node] >= 0 <= parent[node]
            ]
            pairs = [pair for pair in pairs if len(pair) == 2]
            if not pairs:
                continue
            joined += sum(pair == set(interactions.pairs[0]) for pair in pairs) / len(pairs)
            every += 1
    np.testing.assert_allclose(interactions.inclusion[0], joined / every)
    assert interactions.draws_without_pairs == 24 - every


def test_the_product_in_friedmans_function_comes_first():
    """Friedman's x1 and x2 interact, far above all other pairs, by both measures."""
    X, _, y = friedman(500, seed=2)
    posterior = fit(X, y, num_chains=2, num_burnin=300, num_draws=200, num_trees=100, progress=False)
    interactions = posterior.interactions()
    assert set(interactions.pairs[0]) == {"x1", "x2"}
    assert interactions.strength_lower[0] > 2 * interactions.strength_upper[1:].max()
    excess = interactions.inclusion / interactions.expected
    assert excess.argmax() == 0


def test_refusals():
    """One column, and an unknown one, are refused by name."""
    posterior, _, _ = make_posterior()
    for features in (["x1"], "x1", ["x1", "x9"]):
        with pytest.raises(SettingsError) as error:
            posterior.interactions(features)
        assert error.value.field == "features"
