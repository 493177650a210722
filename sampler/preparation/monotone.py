"""Monotone features: the coded columns that they are, and which features may be."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from sampler.data.schema import Schema
from sampler.errors import SettingsError, suggestion
from sampler.setting_checks import DIRECTIONS
from sampler.settings import Settings


def check_monotone(
    settings: Settings, kinds: Mapping[str, str], slopes: Collection[str], *, treated: bool
) -> None:
    """Raise SettingsError for monotone features that are none, or have no order, or slopes by group."""
    for name in settings.monotone:
        reason = ""
        if name not in kinds:
            reason = f"it is no feature{suggestion(name, kinds)}"
        elif kinds[name] == "category":
            reason = "its levels have no order: make it a number, or leave it out"
        elif name in slopes:
            reason = "its slope differs by group: leave it out of slopes"
        elif treated:
            reason = "a treatment's effect has trees of its own: leave out monotone"
        if reason:
            raise SettingsError(
                f"monotone names {name!r}, but {reason}", field="monotone", code="not_applicable"
            )


def directions_of(settings: Settings, schema: Schema) -> NDArray[np.int64] | None:
    """Return 1 for coded columns with which the mean rises, -1 where it falls, else 0, int64 [p]; or None."""
    if not settings.monotone:
        return None
    names = [schema.columns[column].name for column, _ in schema.coded]
    return np.array([DIRECTIONS.get(settings.monotone.get(name, ""), 0) for name in names], np.int64)
