"""Particle Gibbs leaves the enumerated posterior invariant with only two particles."""

import numpy as np
import pytest

from tests.reference import moves, particles
from tests.reference.enumerator import Toy
from tests.reference.tree_laws import under
from tests.support.toy_problems import equal_rows
from tests.support.tree_laws import LAWS

PROBLEMS = {
    "three rows": lambda: Toy([[0, 1, 3], [1, 0, 1]], [0.4, -0.3, 0.2]),
    "four rows": lambda: Toy([[0, 1, 2, 2], [1, 0, 1, 0]], [0.4, -0.3, 0.2, -0.1]),
    "missing": lambda: Toy([[0, 255, 2], [1, 0, 255]], [0.4, -0.3, 0.25]),
    "scheme A": lambda: Toy([[0, 1, 4, 7]], [0.5, -0.3, 0.2, -0.4], scheme="A"),
    "equal rows": equal_rows,
    "weighted": lambda: Toy(
        [[0, 1, 2, 2], [1, 0, 1, 0]], [0.4, -0.3, 0.2, -0.1], weights=np.array([0.5, 2, 1, 3])
    ),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_invariant(name, law):
    """pi P = pi to 1e-12, P is a transition matrix, and every tree can be left, under every prior."""
    toy = under(PROBLEMS[name](), LAWS[law])
    matrix = particles.transition(toy)
    print(f"{name}, {law}: {len(toy.trees)} trees")
    np.testing.assert_allclose(matrix.sum(1), 1.0, atol=1e-12)
    np.testing.assert_allclose(toy.posterior @ matrix, toy.posterior, atol=1e-12)
    np.testing.assert_allclose(moves.stationary(matrix), toy.posterior, atol=1e-9)


def test_without_the_retained_tree():
    """Never descending from the retained particle gives another stationary law, which the test detects."""
    toy = PROBLEMS["four rows"]()
    matrix = particles.transition(toy, keep_retained=False)
    assert np.abs(toy.posterior @ matrix - toy.posterior).max() > 1e-4
