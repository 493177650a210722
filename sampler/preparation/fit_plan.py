"""A fit whose settings, columns and outcomes are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.censoring.outcomes import CensoredOutcomes
from sampler.data.schema import Choice, Column
from sampler.data.treatment.panel import Panel
from sampler.settings import Settings


@dataclass(frozen=True)
class FitPlan:
    """A fit whose settings, columns and outcomes are checked.

    Attributes
    ----------
    settings
        All settings; "auto" still stands for a transform or a linear part that the features decide.
    prior, cuts, resolved_prior
        Entries of the prior as they were given, but for the cut points; these; all entries with defaults.
    choice
        The features and their kinds.
    target, outcome, censored
        The target's column; the outcomes, float64 [n]; limits of these, where columns tell of any.
    roles, by_role
        Names of the other columns with a role, by role; what they say of the rows, float64 [n], by role.
    groups, group_index
        Columns of groups with their levels, and the level of each row, int32 [column, n].
    slopes
        Features whose slope differs by group too.
    propensity
        Feature that is the probability of being treated; None where it is fitted, or not needed.
    arms
        Names of the arms of a treatment; none of a dose, and without one.
    panel
        How rows of a panel make the treatment; None of others.
    point
        The value that many outcomes of a hurdle have exactly; None of other families.
    warnings
        Warnings given so far.

    """

    settings: Settings
    prior: dict[str, Any]
    cuts: Any
    resolved_prior: dict[str, Any]
    choice: Choice
    target: Column
    outcome: Floats
    censored: CensoredOutcomes | None
    roles: dict[str, str]
    by_role: dict[str, Floats]
    groups: tuple[Column, ...]
    group_index: NDArray[np.int32]
    slopes: tuple[str, ...]
    propensity: str | None
    arms: tuple[str, ...]
    panel: Panel | None
    point: float | None
    warnings: list[str]
