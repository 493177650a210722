"""Two arms, or two doses, whose outcomes are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sampler.array_types import Bools, Floats
from sampler.data.scalars import as_text, number_to_text
from sampler.data.treatment.design import TWO, EffectDesign
from sampler.data.treatment.dose import Dose
from sampler.data.treatment.panel import ADOPTED, NONE, Panel
from sampler.errors import SettingsError


@dataclass(frozen=True)
class Compared:
    """Two arms by their places, or two doses, of which the first is compared with the second.

    Attributes
    ----------
    pair
        The arms or doses.
    names
        Their names.
    dose
        Scale of a dose; None of arms.
    by_unit
        Whether the difference between two doses is divided by their distance.
    lags
        Whether each row's own arm, a lag in a panel, is compared with the second one.

    """

    pair: tuple[float, float] = (1, 0)
    names: tuple[str, str] = (TWO[1], TWO[0])
    dose: Dose | None = None
    by_unit: bool = False
    lags: bool = False

    @classmethod
    def of(cls, design: EffectDesign | None, arm: Any, against: Any, panel: Panel | None = None) -> Compared:
        """Choose what is compared: by default the second arm beside the first, or a unit of a dose.

        In a panel it is each row's lag beside none.

        The effect of a unit is that between the quartiles of the doses, divided by their distance.

        Raises
        ------
        SettingsError
            For what is no arm of the model, for two alike, and for doses beyond those of the fit.

        """
        if design is not None and design.dose is not None:
            return cls._of_doses(design.dose, arm, against)
        names = () if design is None else design.arms
        if panel is not None and arm is None and against is None:
            return cls((1, 0), (ADOPTED, NONE), lags=True)
        arm, against = (
            as_text(float(each)) if isinstance(each, int | float) else each for each in (arm, against)
        )
        for field, name in (("arm", arm), ("against", against)):
            if name is not None and name not in names:
                known = f"one of {', '.join(names)}" if names else "of a model with a treatment"
                detail = f"{field} must be {known}, not {name!r}"
                raise SettingsError(detail, field=field, code="not_accepted")
        other = 0 if against is None else names.index(against)
        own = int(other == 0) if arm is None else names.index(arm)
        if own == other:
            raise SettingsError("arm and against must be two arms", field="arm", code="contradiction")
        return cls((own, other), (names[own], names[other]) if names else (TWO[own], TWO[other]))

    @classmethod
    def beside_first(cls, design: EffectDesign) -> list[Compared]:
        """Compare each arm with the first, or take a unit of a dose."""
        if design.dose is not None or len(design.arms) <= len(TWO):
            return [cls.of(design, None, None)]
        return [cls((arm, 0)) for arm in range(1, len(design.arms))]

    @classmethod
    def _of_doses(cls, dose: Dose, arm: Any, against: Any) -> Compared:
        lowest, low, high, highest = dose.points
        by_unit = arm is None and against is None
        given = {"arm": high, "against": low} if by_unit else {"arm": arm, "against": against}
        for field, value in given.items():
            try:
                given[field] = number = float(value)
            except (TypeError, ValueError):
                number = math.nan
            if not lowest <= number <= highest:
                ends = f"{number_to_text(lowest, 6)} to {number_to_text(highest, 6)}"
                detail = f"{field} must be a dose from {ends}, as the rows of the fit had, not {value!r}"
                raise SettingsError(detail, field=field, code="out_of_range")
        pair = given["arm"], given["against"]
        if pair[0] == pair[1]:
            raise SettingsError("arm and against must be two doses", field="arm", code="contradiction")
        return cls(pair, (number_to_text(pair[0], 6), number_to_text(pair[1], 6)), dose, by_unit)

    def are_first(self, treated: Floats) -> Bools:
        """Mark rows [n] in the first arm, or at any lag; none of a dose."""
        if self.dose is not None:
            return np.zeros(len(treated), bool)
        return np.asarray(treated > 0 if self.lags else treated == self.pair[0])

    @property
    def scale(self) -> float:
        """Factor of the difference between the two: 1, or for the effect of a unit that of their distance."""
        return 1.0 / (self.pair[0] - self.pair[1]) if self.by_unit else 1.0

    @property
    def length(self) -> float:
        """Units of the dose whose effect it is."""
        return (self.pair[0] - self.pair[1]) * self.scale

    def in_words(self, figure: str, treatment: str) -> str:
        """Say what is subtracted from what, where the outcome's figure is of that name."""
        first, second = self.names
        if self.lags:
            return f"{figure} at the {treatment}, minus {figure} without"
        if self.by_unit:
            return f"{figure} per unit of {treatment} (as it differs from {second} to {first})"
        return f"{figure} where {treatment} = {first}, minus {figure} where {treatment} = {second}"


TREATED = Compared()  # rows that were treated, beside the others
