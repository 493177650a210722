"""Parts beside the mean's trees as the rows of a fit make them: their header and training data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from sampler.array_types import Codes, Floats
from sampler.data.schema import Schema
from sampler.definitions.design import Design
from sampler.definitions.parts import code_of_parts
from sampler.preparation.fit_plan import FitPlan
from sampler.settings import Settings
from sampler.training import PartTraining


@dataclass(frozen=True)
class PartRows:
    """Rows of a fit as its parts see them.

    Attributes
    ----------
    settings, schema
        All settings, with what the data chose, and the columns.
    codes, values
        Coded columns after and before binning, [column, n]; values None where the model needs none again.
    y, weights
        What is learnt of the outcomes, float64 [n], and weights; None without weights.
    by_role
        What further columns with a role say, float64 [n], by role.

    """

    settings: Settings
    schema: Schema
    codes: Codes
    values: Design | None
    y: Floats
    weights: Floats | None
    by_role: Mapping[str, Floats]


class PartDesign:
    """Preparation of a part from the rows of a fit; nothing but what a subclass says."""

    @classmethod
    def check(cls, planned: FitPlan) -> None:
        """Check the part of a plan, before features are read; raise SettingsError or DataError."""

    @classmethod
    def facts(cls, rows: PartRows) -> Any:  # noqa: ARG003
        """Return what the header keeps of the part, which its `header` encodes; None for nothing."""
        return None

    @classmethod
    def training(cls, facts: Any, rows: PartRows) -> PartTraining | None:  # noqa: ARG003
        """Return what chains have of the part, from what the header keeps of it; None without it."""
        return None


def designs() -> dict[str, type[PartDesign]]:
    """Return how rows make each part, by name."""
    return {name: resolve_name(place) for name, place in code_of_parts("design").items()}


@dataclass(frozen=True)
class MadeParts:
    """The parts of a fit by name: what the header keeps of them, and what chains have of the rows."""

    facts: Mapping[str, Any]
    training: Mapping[str, PartTraining]


def parts_of(rows: PartRows, facts: Mapping[str, Any] | None = None) -> MadeParts:
    """Make the parts of a fit to such rows; `facts` are what the header of a fitted model keeps of them."""
    every = designs()
    if facts is None:
        found = {name: each.facts(rows) for name, each in every.items()}
        facts = {name: each for name, each in found.items() if each is not None}
    made = {name: each.training(facts.get(name), rows) for name, each in every.items()}
    return MadeParts(facts, {name: part for name, part in made.items() if part is not None})
