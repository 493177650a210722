"""Several outcomes: whether a fit has them, how many it may have, and the names of their draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

MAX_OUTCOMES = 8
Features: TypeAlias = "Sequence[str] | Mapping[str, Sequence[str] | None] | None"  # of all, or by outcome


def forest_name(number: int) -> str:
    """Name the draws of an outcome, by its number from 0, among those of a model of several."""
    return f"outcome:{number + 1}"


def scalar_name(number: int, name: str) -> str:
    """Name a scalar of an outcome's own."""
    return name if number == 0 else f"{number + 1}:{name}"


def correlation_name(one: int, other: int) -> str:
    """Name the correlation of two outcomes' errors; the first comes before the other."""
    return f"correlation:{one + 1}:{other + 1}"


def are_several(y: Any) -> bool:
    """Tell whether outcomes are a table of two columns or more."""
    if isinstance(y, Mapping):
        return len(y) > 1
    names = getattr(y, "column_names", None)  # pyarrow's columns are not names
    names = getattr(y, "columns", None) if names is None else names
    if names is None:
        return bool(getattr(y, "ndim", 1) == 2 and y.shape[1] > 1)
    return len(names) > 1


def features_of(features: Features, outcome: str) -> Sequence[str] | None:
    """Return the features of an outcome; None for all usable columns."""
    return features.get(outcome) if isinstance(features, Mapping) else features


def every_feature(features: Features) -> list[str] | None:
    """List the features of all outcomes; None where one of them has all usable columns."""
    named = [*features.values()] if isinstance(features, Mapping) else [features]
    if any(each is None for each in named):
        return None
    return list(dict.fromkeys(name for each in named for name in each or ()))
