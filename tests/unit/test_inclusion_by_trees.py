"""Shares of the split rules by the number of trees (CGM10, section 3.2 and figure 5)."""

import numpy as np
import pytest

from sampler import SettingsError, fit, inclusion_by_trees, tune
from tests.support.friedman import friedman

SHORT = {
    "noise": "constant",
    "transform": "none",
    "num_chains": 2,
    "num_burnin": 30,
    "num_draws": 20,
    "thin": 1,
}


def test_shares_are_those_of_fits_by_hand():
    """Each number of trees has the shares of that fit, with intervals over draws and a spread over chains."""
    X, _, y = friedman(60, 4, 6)
    told = []
    found = inclusion_by_trees(
        X, y, num_trees=[8, 3], level=0.8, seed=2, progress=lambda *done: told.append(done), **SHORT
    )
    assert (found.num_trees, told, found.scores) == ([3, 8], [(1, 2), (2, 2)], None)
    for place, number in enumerate(found.num_trees):
        posterior = fit(X, y, num_trees=number, linear=False, seed=2, progress=False, **SHORT)
        own, rules = posterior.inclusion(0.8), posterior.law.rules("mean").reshape(2, 20, 6)
        for name in ("mean", "lower", "upper"):
            np.testing.assert_array_equal(getattr(found, name)[place], getattr(own, name))
        by_chain = (rules / rules.sum(axis=2, keepdims=True)).mean(axis=1)  # every draw has a rule
        np.testing.assert_allclose(found.between_chains[place], by_chain.std(axis=0, ddof=1), atol=1e-12)
    named = found.columns()
    assert [len(each) for each in named.values()] == [12] * 5
    assert (named["feature"][6], named["num_trees"][6], named["lower_80"][6]) == ("x1", 8, found.lower[1, 0])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"num_trees": []}, "num_trees must be from 1 to 20 numbers"),
        ({"num_trees": "10"}, "num_trees must be from 1 to 20 numbers"),
        ({"num_trees": 10}, "num_trees must be from 1 to 20 numbers"),
        ({"num_trees": [10, 0]}, "num_trees must be a whole number from 1"),
        ({"num_trees": range(1, 30)}, "num_trees must be from 1 to 20 numbers"),
        ({"level": 1.0}, "level"),
        ({"folds": 1}, "folds"),
        ({"method": "bcart"}, "fits one tree: fit by method bart"),
        ({"prior": {"num_trees": "poisson"}}, "leave prior.num_trees out"),
    ],
)
def test_refused_by_name(wrong, words):
    """Values out of range are refused before anything is fitted, and so is a method of one tree."""
    X, _, y = friedman(30, 4, 5)
    with pytest.raises(SettingsError, match=words):
        inclusion_by_trees(X, y, **SHORT | wrong)


@pytest.mark.slow
def test_irrelevant_columns_drop_out_with_few_trees():
    """Five columns beside Friedman's five have nearly half of the rules of 200 trees, not of ten."""
    X, _, y = friedman(300, 4, 10)
    longer = SHORT | {"num_chains": 4, "num_burnin": 300, "num_draws": 100, "thin": 2}
    found = inclusion_by_trees(X, y, folds=3, seed=1, **longer)
    irrelevant = found.mean[:, 5:].sum(axis=1)
    assert irrelevant[0] < 0.2
    assert irrelevant[-1] > 0.35
    assert np.all(np.diff(irrelevant) > -0.03), irrelevant
    assert found.mean[0, :5].min() > found.mean[0, 5:].max()
    assert "above an equal share, 10.0%, for x" in found.reading
    above, below = found.reading.split(", and below it for ")
    assert not {"x6", "x7", "x8", "x9", "x10"} & set(above.replace(",", "").split())
    assert not {"x1", "x2", "x3", "x4", "x5"} & set(below.split(".")[0].replace(",", "").split())
    assert "That is no test" in found.reading
    tried = [{"num_trees": number} for number in (10, 20, 50, 100, 200)]
    expected = tune(X, y, candidates=tried, folds=3, seed=1, **longer)
    assert [each.log_score for each in found.scores.trials] == [each.log_score for each in expected.trials]
    assert str(found).splitlines()[0].split() == ["trees", "10", "20", "50", "100", "200"]
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    lines = {line.get_label(): line for line in found.plot().get_lines()}
    np.testing.assert_array_equal(lines["x1"].get_ydata(), found.mean[:, 0])
    np.testing.assert_array_equal(lines["x1"].get_xdata(), found.num_trees)
    assert [label for label in lines if label.startswith("x")] == [found.names[j] for j in found.order[:8]]
    pyplot.close("all")


@pytest.mark.slow
def test_several_outcomes_have_shares_each():
    """Several outcomes have each the shares of its own trees, in a dict; a single chain has no spread."""
    X, f, y = friedman(60, 4, 5)
    both = {"a": y, "b": f - y}
    one = {"num_chains": 1, "num_burnin": 20, "num_draws": 10, "thin": 1}
    found = inclusion_by_trees(X, both, num_trees=[4], **one)
    own = fit(X, both, num_trees=4, linear=False, progress=False, **one)
    for name in both:
        np.testing.assert_array_equal(found[name].mean[0], own[name].inclusion().mean)
        assert found[name].between_chains is None
