"""Selection of features by a permutation null."""

import numpy as np
import pytest

from sampler import DataError, SettingsError
from sampler.studies.selection import Selection, permutations, select_features
from tests.support.friedman import friedman

SHORT = {"num_permutations": 20, "num_chains": 2, "num_burnin": 50, "num_draws": 50}
LONGER = SHORT | {"num_chains": 4, "num_burnin": 150, "num_draws": 150}


def of(share, null, level=0.05) -> Selection:
    null = np.array(null, float)
    return Selection([f"x{j}" for j in range(null.shape[1])], np.array(share, float), null, level)


def test_thresholds_by_definition():
    """Each rule's threshold is the smallest value that few enough permutations exceed."""
    rng = np.random.default_rng(3)
    null = rng.uniform(size=(40, 3)) * [1, 2, 0.5]
    found = of([1.9, 1.9, 0.1], null)
    assert np.all(np.mean(null > found.threshold("local"), axis=0) <= 0.05)
    assert np.all(np.mean(null > found.threshold("local") - 1e-9, axis=0) > 0.05)
    largest = null.max(axis=1)
    assert (
        np.mean(largest > found.threshold("max")[0]) <= 0.05 < np.mean(largest >= found.threshold("max")[0])
    )
    above = np.any(null > found.threshold("se") + 1e-12, axis=1)
    assert above.mean() == pytest.approx(0.05)
    spread = (found.threshold("se") - null.mean(axis=0)) / null.std(axis=0, ddof=1)
    np.testing.assert_allclose(spread, spread[0])


def test_a_feature_that_is_never_used_is_never_selected():
    """Without any spread in the null a share must still exceed the mean."""
    found = of([0.5, 0.0, 0.5], [[0.4, 0.0, 0.6], [0.6, 0.0, 0.4]] * 10)
    assert "x1" not in {name for rule in ("local", "max", "se") for name in found.selected(rule)}


def test_the_five_of_friedman_and_none_of_the_noise():
    """Of Friedman's five columns and 35 of noise, the five are selected; progress counts every fit."""
    X, _, y = friedman(400, 4, 40)
    told = []
    found = select_features(
        X, y, seed=1, **LONGER, progress=lambda done, total: told.append((done, total)), num_threads=2
    )
    assert sorted(found.selected()) == ["x1", "x2", "x3", "x4", "x5"]
    assert told == [(count, 21) for count in range(1, 22)]
    assert found.null.shape == (20, 40)
    np.testing.assert_allclose(found.null.sum(axis=1), 1)
    again = select_features(X, y, seed=1, **LONGER, num_threads=1)
    np.testing.assert_array_equal(again.null, found.null)
    assert "selected by" in str(found)


def test_classes_and_tables():
    """A data frame with a category and two classes by name work; the category's indicators are added up."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    x, kind = rng.uniform(size=150), rng.choice(["a", "b", "c"], 150)
    y = pandas.Series(np.where(x + (kind == "b") > 0.8, "yes", "no"), name="outcome")
    X = pandas.DataFrame({"x": x, "kind": kind, "z": rng.uniform(size=150)})
    found = select_features(X, y, family="probit", seed=1, **SHORT)
    assert found.names == ["x", "kind", "z"]
    assert "z" not in found.selected("local")


def test_weights_travel_with_outcomes():
    """Permutations keep a row's weight with its outcome, and don't depend on their number."""
    orders = permutations(9, 3, 5)
    assert all(sorted(order) == list(range(9)) for order in orders)
    np.testing.assert_array_equal(orders, permutations(9, 20, 5)[:3])


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"num_permutations": 19}, SettingsError),
        ({"level": 0.0}, SettingsError),
        ({"num_chains": 0}, SettingsError),
        ({"weights": [1.0]}, DataError),
    ],
)
def test_refused_by_name(wrong, error):
    """Settings out of range and weights of another length are refused, with their name."""
    X, _, y = friedman(30, 4, 5)
    with pytest.raises(error, match=next(iter(wrong))):
        select_features(X, y, **SHORT | wrong)


def test_unknown_rule():
    """A rule that does not exist is refused with those that do."""
    with pytest.raises(SettingsError, match="max, se, local"):
        of([1.0], [[0.5]]).threshold("most")
