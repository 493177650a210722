"""Parts beside the mean's trees as the rows of a fit make them: their header and training data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Codes, Floats
from sampler.data.schema import Schema
from sampler.data.table import Table
from sampler.definitions.design import Design
from sampler.definitions.parts import PARTS, code_of_parts
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
        What is learnt of the outcomes, or expected of those that are censored, float64 [n], and weights; None
        without weights.
    by_role
        What further columns with a role say, float64 [n], by role.
    groups
        Group of each row, int32 [column of groups, n]; None without any.
    facts
        What the header keeps of the parts, by name; of none until it is known.

    """

    settings: Settings
    schema: Schema
    codes: Codes
    values: Design | None
    y: Floats
    weights: Floats | None
    by_role: Mapping[str, Floats]
    groups: NDArray[np.int32] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def design(self) -> Design:
        """Columns before binning, which a new fit has, and one whose header needs values."""
        assert self.values is not None, "there are values"
        return self.values


class PartDesign:
    """Preparation of a part from the rows of a fit; nothing but what a subclass says.

    Where the part has a `header` all but `check` and `facts` are asked only of a fit that has facts.
    """

    @classmethod
    def check(cls, planned: FitPlan, table: Table) -> None:
        """Check the part of a plan before features are read; raise SettingsError or DataError."""

    @classmethod
    def facts(cls, rows: PartRows, planned: FitPlan) -> Any:  # noqa: ARG003
        """Return what the header keeps of the part, which its `header` encodes; None for nothing."""
        return None

    @classmethod
    def codes(cls, facts: Any, rows: PartRows, codes: Codes) -> Codes:  # noqa: ARG003
        """Return the codes of the mean's trees with columns of the part, which come last."""
        return codes

    @classmethod
    def training(cls, facts: Any, rows: PartRows) -> PartTraining | None:  # noqa: ARG003
        """Return what chains have of the part, from what the header keeps of it; None without it."""
        return None

    @classmethod
    def estimates(cls, facts: Any, training: PartTraining | None, rows: PartRows) -> dict[str, Any]:  # noqa: ARG003
        """Return what the engine's `calibrate` is told of the part, as its arguments."""
        return {}

    @classmethod
    def warnings(cls, facts: Any, rows: PartRows, planned: FitPlan) -> list[str]:  # noqa: ARG003
        """Warn of what the rows are to the part."""
        return []


def designs() -> dict[str, type[PartDesign]]:
    """Return how rows make each part, by name."""
    return {name: resolve_name(place) for name, place in code_of_parts("design").items()}


@dataclass(frozen=True)
class MadeParts:
    """The parts of a fit: rows with what the header keeps of them, and what chains have, by name."""

    rows: PartRows
    codes: Codes
    training: Mapping[str, PartTraining]

    @property
    def facts(self) -> Mapping[str, Any]:
        """Contents of the header about them, by name."""
        return self.rows.facts

    def estimates(self) -> dict[str, Any]:
        """Return what `calibrate` is told of them."""
        every = _present(self.facts).items()
        told = (
            each.estimates(self.facts.get(name), self.training.get(name), self.rows) for name, each in every
        )
        return {name: value for each in told for name, value in each.items()}

    def warnings(self, planned: FitPlan) -> list[str]:
        """Return the warnings of the parts."""
        every = _present(self.facts).items()
        return [
            text for name, each in every for text in each.warnings(self.facts.get(name), self.rows, planned)
        ]


def facts_of(rows: PartRows, planned: FitPlan) -> dict[str, Any]:
    """Find what the header of a fit to such rows keeps of its parts, by name."""
    found = {name: each.facts(rows, planned) for name, each in designs().items()}
    return {name: each for name, each in found.items() if each is not None}


def parts_of(rows: PartRows) -> MadeParts:
    """Make the parts of a fit to such rows."""
    facts, codes, made = rows.facts, rows.codes, {}
    for name, each in _present(facts).items():
        codes = each.codes(facts.get(name), rows, codes)
        made[name] = each.training(facts.get(name), rows)
    return MadeParts(rows, codes, {name: part for name, part in made.items() if part is not None})


def _present(facts: Mapping[str, Any]) -> dict[str, type[PartDesign]]:
    """Return how rows make those parts that a fit may have, by what its header keeps."""
    return {name: each for name, each in designs().items() if name in facts or not PARTS[name].header}
