"""Coded columns that models of several outcomes have alike, by which their trees of one noise split."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.level_sets import NAME as SETS


def shared_columns(models: Sequence[Any]) -> NDArray[np.int64]:
    """Find where each model has the coded columns that all have alike, int64 [model, column].

    Models are headers or fits to be, with a schema, a grid and parts.
    """
    places = [_places(model) for model in models]
    shared = [key for key in places[0] if all(key in own for own in places)]
    return np.array([[own[key] for key in shared] for own in places], np.int64).reshape(len(models), -1)


def _places(model: Any) -> dict[Hashable, int]:
    """Return the place of each coded column by all that its codes depend on."""
    coded, places = model.schema.coded, dict[Hashable, int]()
    for place, ((j, level), cuts) in enumerate(zip(coded, model.grid.cuts, strict=True)):
        column = model.schema.columns[j]
        places[column.name, column.kind, level, column.means, cuts.tobytes()] = place
    of_features, sets = hash(tuple(places)), model.parts.get(SETS)
    for number in range(sum(sets.counts) if sets else 0):
        places[of_features, number] = len(coded) + number
    return places
