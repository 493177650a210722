"""The enumerator reproduces the published values of the toy problem."""

import numpy as np
import pytest

from tests.reference.enumerator import Forest, count_leaves, leaf_law
from tests.support.toy_problems import gapped, golden, missing, weighted

A_LAW = [0.01710613, 0.29191188, 0.33950848, 0.26021400, 0.09125951]
B_LAW = [0.01733822, 0.29587248, 0.33670714, 0.25758446, 0.09249770]
FOREST_LAW = [0.00076930, 0.02134371, 0.14483299, 0.25121786, 0.26934708, 0.19094162, 0.08942782, 0.02790233]


@pytest.mark.parametrize(
    ("scheme", "count", "evidence", "law"),
    [("A", 131, -1.9405179789, A_LAW), ("B", 131, -1.9539945474, B_LAW), ("C", 162, -1.9539945474, B_LAW)],
)
def test_golden_posterior(scheme, count, evidence, law):
    """Each cut scheme has its tree count, evidence and leaf-count law; the engine's C has the law of B."""
    toy = golden(scheme)
    assert len(toy.trees) == len(set(toy.trees)) == count
    assert toy.log_evidence == pytest.approx(evidence, abs=5e-11)
    np.testing.assert_allclose(leaf_law(toy, toy.posterior), law, atol=5e-9)


def test_golden_prior():
    """The prior has the published leaf-count law on the toy."""
    law = leaf_law(golden("A"), np.exp(golden("A").log_prior))
    np.testing.assert_allclose(law, [0.05, 0.40003906, 0.31755674, 0.1810262, 0.051378], atol=5e-9)


def test_golden_mean_and_root():
    """E[f | y] at the rows and the root's share of the first column are the published ones."""
    toy = golden("A")
    mean = Forest(toy, 1).mean()
    np.testing.assert_allclose(
        mean, [0.11470906, -0.16499813, 0.11785778, 0.18265209, -0.04268316], atol=5e-9
    )
    first = sum(p for tree, p in zip(toy.trees, toy.posterior, strict=True) if tree and tree[0][0] == 0)
    assert first == pytest.approx(0.37778281, abs=5e-9)


def test_golden_forest_of_two():
    """Two trees have the published evidence, total leaves and E[f | y]."""
    forest = Forest(golden("A", leaf_variance=0.03125), 2)
    assert forest.log_evidence() == pytest.approx(-1.8345437719, abs=5e-11)
    np.testing.assert_allclose(forest.total_leaves(), [*FOREST_LAW, 0.00421727], atol=5e-9)
    expected = [0.11757975, -0.16717974, 0.11366299, 0.19641431, -0.05008039]
    np.testing.assert_allclose(forest.mean(), expected, atol=5e-9)


@pytest.mark.parametrize("make", [golden, gapped, missing, weighted])
@pytest.mark.parametrize("sides", ["collapsed", "stored"])
def test_prior_sums_to_one(make, sides):
    """The generative prior sums to one, with gaps and missing values."""
    toy = make(sides=sides)
    assert np.exp(toy.log_prior).sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(toy.log_prior, [toy.scope(tree) for tree in toy.trees], atol=1e-12)


@pytest.mark.parametrize("make", [golden, missing])
def test_sides_collapse(make):
    """Collapsing the side of rules without missing rows, a fair coin, changes no probability."""
    stored, collapsed = make(sides="stored"), make()
    law = np.zeros(len(collapsed.trees))
    for tree, p in zip(stored.trees, stored.posterior, strict=True):
        law[collapsed.index[collapsed.canonical(tree)]] += p
    np.testing.assert_allclose(law, collapsed.posterior, atol=1e-13)


@pytest.mark.parametrize("make", [golden, weighted, missing])
def test_forest_of_one_is_the_tree_posterior(make):
    """Sums over leaves and the normal density of y give equal evidences."""
    toy = make()
    forest = Forest(toy, 1)
    assert forest.log_evidence() == pytest.approx(toy.log_evidence, abs=1e-10)
    by_partition = np.bincount(forest.partition, toy.posterior)
    np.testing.assert_allclose(forest.posterior(), by_partition, atol=1e-12)
    assert max(count_leaves(tree) for tree in toy.trees) == toy.num_rows
