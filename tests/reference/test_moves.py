"""Every move set leaves the exact posterior invariant, and published mistakes are detected."""

from functools import cache

import numpy as np
import pytest

from tests.reference import moves
from tests.support import toy_problems as toys

MIXES = {
    "growprune": moves.GROWPRUNE,
    "growprunechange": moves.GROWPRUNECHANGE,
    "cgm": moves.CGM,
    "rule": moves.RULE_DRAW,
    "restructure": {"grow": 0.4, "prune": 0.3, "restructure": 0.3},
    "uneven": {"grow": 0.35, "prune": 0.15, "rule": 0.2, "change": 0.2, "swap": 0.1},
}
PROBLEMS = {
    "golden": toys.golden,
    "scheme A": lambda: toys.golden("A"),
    "gapped": toys.gapped,
    "weighted": toys.weighted,
    "missing": lambda: toys.missing(sides="stored"),
}


@cache
def problem(name):
    return PROBLEMS[name]()


# Half a minute for restructure, a second for the others, whose moves the uneven mix has as well.
DEAR = {("gapped", name) for name in ("restructure", "change", "cgm", "rule", "growprune", "growprunechange")}
CASES = [
    pytest.param(name, mix, marks=[pytest.mark.slow] if (name, mix) in DEAR else [])
    for mix in MIXES
    for name in PROBLEMS
]


@pytest.mark.parametrize(("name", "mix"), CASES)
@pytest.mark.sampled(quick=8, slow=10)
def test_invariant(name, mix):
    """pi P = pi to 1e-12, and P reaches every tree."""
    toy = problem(name)
    matrix = moves.transition(toy, MIXES[mix])
    assert matrix.min() >= 0
    np.testing.assert_allclose(matrix.sum(1), 1.0, atol=1e-12)
    np.testing.assert_allclose(toy.posterior @ matrix, toy.posterior, atol=1e-12)
    np.testing.assert_allclose(moves.stationary(matrix), toy.posterior, atol=1e-8)


@pytest.mark.parametrize("name", ["golden", "missing"])
@pytest.mark.parametrize("partner", ["any", "valid"])
def test_rule_draw_alone(name, partner):
    """The exact rule draw is invariant by itself, with its partner among all or the valid columns."""
    toy = problem(name)
    matrix = moves.transition(toy, {"rule": 1.0}, {"rule": {"partner": partner}})
    np.testing.assert_allclose(toy.posterior @ matrix, toy.posterior, atol=1e-14)


def marks_of_ratios(name, move):
    """Mark the dear cases; brute force takes two minutes for restructure."""
    if (name, move) == ("gapped", "restructure"):
        return [pytest.mark.long]
    return [pytest.mark.slow] if (name, move) in DEAR else []


RATIOS = [
    pytest.param(name, move, reverse, marks=marks_of_ratios(name, move))
    for move, reverse in [
        ("grow", "prune"),
        ("prune", "grow"),
        ("change", "change"),
        ("change_nog", "change_nog"),
        ("swap", "swap"),
        ("restructure", "restructure"),
    ]
    for name in PROBLEMS
]


@pytest.mark.parametrize(("name", "move", "reverse"), RATIOS)
def test_ratios(name, move, reverse):
    """Each closed-form ratio equals the posterior ratio times the ratio of proposal probabilities."""
    probs = {"grow": 0.3, "prune": 0.2, "change": 0.3, "change_nog": 0.1, "swap": 0.05, "restructure": 0.05}
    closed, brute = moves.brute_ratios(problem(name), probs, move, reverse).T
    np.testing.assert_allclose(closed, brute, atol=1e-11)


def wrong(mix, options=None, force_grow=False, name="golden", sides=None):
    """Return the total variation between the posterior and the stationary law of a mistaken mix."""
    toy = problem(name)
    matrix = moves.transition(toy, mix, options, force_grow)
    return moves.distance(moves.stationary(matrix), toy.posterior)


DEAR_TRAPS = {
    "rule draw over occupied codes",
    "rule draw without 1/n_adj",
    "restructure without the numbers of ways",
}


@pytest.mark.parametrize(
    "trap",
    [pytest.param(trap, marks=[pytest.mark.slow] if trap in DEAR_TRAPS else []) for trap in moves.TRAPS],
)
@pytest.mark.sampled(quick=3)
def test_trap_is_seen(trap):
    """A published mistake has another stationary law, by far more than the tolerance of `test_invariant`."""
    gap = wrong(*moves.TRAPS[trap])
    print(f"{trap}: total variation {gap:.4f}")
    assert gap > 1e-3


def test_good_rules_with_their_counts():
    """BayesTree's restricted change is exact once log g_new - log g_old is added."""
    assert wrong({"grow": 0.25, "prune": 0.25, "change_good": 0.5}, name="scheme A") < 1e-9
