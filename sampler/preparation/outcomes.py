"""Outcomes of a fit: as read, and as the trees learn them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.censoring.outcomes import (
    CensoredOutcomes,
    choose_censored_transform,
    read_censored_target,
)
from sampler.data.schema import Column
from sampler.data.table import RawColumn
from sampler.data.target import read_target
from sampler.data.transform import Transform
from sampler.definitions.design import Design
from sampler.noise import NOISES
from sampler.preparation.quick_choice import choose_transform_and_line, may_have_line
from sampler.settings import NO_TRANSFORM, Settings


def read_outcomes(
    y: Any, name: str, num_rows: int, family: str, roles: Mapping[str, RawColumn]
) -> tuple[Column, NDArray[np.float64], CensoredOutcomes | None]:
    """Read the outcomes of a fit, float64 [n]; those of censored rows too, where columns tell of any."""
    if not roles:
        return *read_target(y, name, num_rows, family), None
    target, outcomes = read_censored_target(y, name, roles, num_rows)
    return target, outcomes.y, outcomes


def transformed(
    transform: Transform, outcome: NDArray[np.float64], censored: CensoredOutcomes | None
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return what is learnt, float64 [n], and its limits, float64 [2, n]; None where no row is censored."""
    limits = censored.limits if censored and censored.censored.any() else None
    return transform.forward(outcome), None if limits is None else transform.forward(limits)


def choose_by_outcomes(
    settings: Settings,
    rows: tuple[NDArray[np.float64], Design, NDArray[np.float64] | None, NDArray[np.uint8]],
    censored: tuple[str, NDArray[np.float64], Mapping[str, RawColumn]] | None,
    *,
    has_units: bool,
    grouped: bool,
) -> tuple[Settings, Transform]:
    """Choose the transform and the linear part where their settings are "auto".

    `rows` are the outcomes, the columns, the weights (or None) and the codes; `censored` what
    `choose_censored_transform` takes of censored outcomes, for which no linear part is looked for;
    `has_units`: the prior has constants in units of the outcome, which then stays as it is. `grouped`: groups
    stand beside the trees, and then a linear part does too, as in a linear mixed model.
    """
    named, linear = settings.transform, settings.linear
    if has_units and named == "auto":
        named = NO_TRANSFORM
    if linear == "auto" and settings.family == "categorical":
        linear = may_have_line(rows[1], int(rows[0].max()) + 1)
    elif linear == "auto" and (has_units or censored is not None):
        linear = False
    elif linear == "auto" and grouped:
        linear = may_have_line(rows[1], 1)
    if censored:
        transform = choose_censored_transform(named, *censored)
    else:
        transform, linear = choose_transform_and_line(
            named, linear, *rows, uneven=NOISES[settings.noise].forest
        )
    return replace(settings, transform=transform.kind, linear=linear), transform
