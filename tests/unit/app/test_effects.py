"""Figures of effects are computed once for a page and its charts."""

from itertools import count

from app.dashboard.effects import Effects


def test_figures_of_a_version_are_computed_once():
    """New draws, other features and owners have figures of their own; without a version none is kept."""
    effects, numbers = Effects(), count()

    def figure(*key: str) -> int:
        return effects._once(key, lambda: next(numbers))

    key = ("dependence", "owner", "mdl", "100", "x")
    assert [figure(*key), figure(*key)] == [0, 0]
    others = [("owner", "mdl", "200", "x"), ("owner", "mdl", "100", "x", "z"), ("other", "mdl", "100", "x")]
    assert [figure("dependence", *other) for other in others] == [1, 2, 3]
    assert [figure("dependence", "owner", "mdl", "", "x") for _ in range(2)] == [4, 5]
    assert figure(*key) == 0
