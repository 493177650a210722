"""Columns by which the trees of a model see a treatment, kept in its header (docs/maths.md#treatments)."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.binning import Grid
from sampler.data.schema import Schema
from sampler.data.treatment.dose import Dose, checked_cuts
from sampler.definitions.parts import PartFacts

KINDS = ("bcf", "ps-bart", "plain")
TWO = ("0", "1")  # arms of rows that were not treated, and of those that were
DOSE: tuple[str, ...] = ()  # a treatment that is a number has no arms
TREATMENT = Grid((np.array([0.5]),))  # codes of 0 and 1
MOST_ARMS = 8
ROLE = "treatment"
HALF_MEAN = "half_mean_effect"  # scalar of a draw: the constant part of such a forest, in units of y


def of_parts(name: str, parts: int) -> tuple[str, ...]:
    """Name what the forests of an effect have: that of half the effect or of a dose, or those of arms."""
    return (name,) if parts == 1 else tuple(f"{name} {arm}" for arm in range(parts))


@dataclass(frozen=True)
class FittedPropensity:
    """Probability of an arm, fitted to the rows, or the expected dose.

    Attributes
    ----------
    cuts
        Cut points of it, float64.
    trees
        Packed draws of the probit fit of the arm, or of the fit of the dose, of which it is the mean.
    offset, step
        Of these draws: a row's is the mean of Phi(offset + step * sum of its leaves), or without Phi.
    auc
        Area under its ROC curve (of a dose its squared correlation) at the rows of the fit, and of fits to
        one half of them at the other; None in models made before it was kept.

    """

    cuts: Floats
    trees: bytes = field(repr=False)
    offset: float
    step: float
    auc: tuple[float, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a dict that `from_json` reads."""
        own: dict[str, Any] = {"cuts": self.cuts.tolist(), "offset": self.offset, "step": self.step}
        own["trees"] = base64.b64encode(self.trees).decode()
        return own | ({} if self.auc is None else {"auc": list(self.auc)})

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> FittedPropensity:
        """Read and check what `to_json` returned; raise ValueError for what no model has."""
        cuts = checked_cuts(values["cuts"])
        offset, step = float(values["offset"]), float(values["step"])
        if not (math.isfinite(offset) and math.isfinite(step)):
            raise ValueError("its propensity has no offset or step")
        auc = None
        if "auc" in values:
            auc = float(values["auc"][0]), float(values["auc"][1])
            if not all(0 <= each <= 1 for each in auc):
                raise ValueError("the areas of its propensity are not shares")
        return cls(cuts, base64.b64decode(values["trees"], validate=True), offset, step, auc)


@dataclass(frozen=True)
class EffectDesign(PartFacts):
    """Columns that the trees have beside the features of rows with a treatment.

    The mean's trees have the treatment as a column, unless a forest of its own has the effect ("bcf"); then
    the rows' propensity, the probability of being treated, unless it is a feature or not needed.

    Attributes
    ----------
    kind
        "bcf": the effect has a forest of its own; "ps-bart": one forest, with the propensity; "plain": one
        forest without it.
    treated
        Arms of the reference rows by their places, or their doses, float64 [row].
    propensities
        The fitted probability of being treated, of several arms that of each, or the expected dose; none
        where none is needed.
    given
        Name of the feature that is the propensity, known from elsewhere; None without one.
    known
        The place of its coded column, and its mean in the fit at each code; None without one, of several
        arms, and in models made before it was kept.
    sd
        Standard deviation of what is learnt, the prior median of that of the effect of a row.
    arms
        Names of the arms; none of a dose.
    dose
        Scale of a dose; None where there are arms.

    """

    kind: str
    treated: Floats
    propensities: tuple[FittedPropensity, ...] = ()
    given: str | None = None
    sd: float = 1.0
    arms: tuple[str, ...] = TWO
    dose: Dose | None = None
    known: tuple[int, Floats] | None = None

    def num_parts(self, *, counts: bool) -> int:
        """Return the number of forests that its effect has: one of half of it or of a dose, or by arm."""
        return len(self.arms) if counts or len(self.arms) > len(TWO) else 1

    @property
    def fitted_arms(self) -> range:
        """Arms that have a column or a fitted probability of their own: being treated, or all of several."""
        return range(1 if len(self.arms) == len(TWO) else 0, len(self.arms))

    def codes_of(self, treated: Floats) -> list[NDArray[np.uint8]]:
        """Return the columns of the treatment itself that the mean's trees have, uint8 [n] each."""
        if self.kind == "bcf":
            return []
        if self.dose is not None:
            return [self.dose.codes(treated)]
        return [TREATMENT.encode(0, (treated == arm).astype(np.float64)) for arm in self.fitted_arms]

    def known_of(self, codes: NDArray[np.uint8]) -> Floats | None:
        """Return the propensity of rows [feature, row] where it is a feature; a missing one is the mean."""
        if self.known is None:
            return None
        place, means = self.known
        of_codes = np.append(means, np.full(256 - len(means), means.mean()))
        return np.asarray(of_codes[codes[place]])

    def coded_columns(self, num_features: int) -> list[int]:
        """Return `num_features` for each column that the mean's trees have: of no feature."""
        return [num_features] * (len(self.codes_of(np.zeros(0))) + len(self.propensities))

    def at_reference(self) -> dict[str, Any]:
        """Return the treatments of the reference rows."""
        return {"by_role": {ROLE: self.treated}}

    def area_of(self, arms: tuple[float, float]) -> tuple[float, float] | None:
        """Return `FittedPropensity.auc` of the first of two arms that has a fit; None without one."""
        if self.dose is not None:
            return self.propensities[0].auc if self.propensities else None
        first = int(arms[0] if arms[0] in self.fitted_arms else arms[1])
        return self.propensities[first - self.fitted_arms[0]].auc if self.propensities else None

    def to_json(self) -> dict[str, Any]:
        """Return a dict that `from_json` reads."""
        own: dict[str, Any] = {"kind": self.kind, "sd": self.sd}
        own |= {"given": self.given} if self.given is not None else {}
        own |= {"known": [self.known[0], *self.known[1].tolist()]} if self.known is not None else {}
        if self.dose is not None:
            own |= {"doses": self.treated.tolist(), "dose": self.dose.to_json()}
            return own | {"propensities": [each.to_json() for each in self.propensities]}
        own["treated"] = "".join(map(str, self.treated.astype(int).tolist()))
        if self.arms != TWO:
            own |= {"arms": list(self.arms), "propensities": [each.to_json() for each in self.propensities]}
        elif self.propensities:
            own |= self.propensities[0].to_json()
        return own

    @classmethod
    def from_json(cls, values: dict[str, Any], schema: Schema, shape: tuple[int, ...]) -> EffectDesign:  # noqa: ARG003
        """Read and check what `to_json` returned, of a model whose reference rows [column, row] have a shape.

        Raises ValueError for what no model has.
        """
        num_coded, num_reference = shape
        kind, sd, given = values["kind"], float(values["sd"]), values.get("given")
        known = _checked_known(values["known"], num_coded) if "known" in values else None
        if kind not in KINDS or not 0 < sd < math.inf:
            raise ValueError("its treatment is of no known kind, or has no scale")
        if "dose" in values:
            doses = np.array(values["doses"], np.float64)
            if doses.shape != (num_reference,) or not np.all(np.isfinite(doses)):
                raise ValueError("its doses don't fit its reference rows")
            fits = tuple(map(FittedPropensity.from_json, values["propensities"]))
            if len(fits) > 1:
                raise ValueError("its dose has several propensities")
            return cls(kind, doses, fits, given, sd, DOSE, Dose.from_json(values["dose"]), known)
        treated = values["treated"]
        arms = tuple(map(str, values.get("arms", TWO)))
        digits = "".join(map(str, range(len(arms))))
        if not isinstance(treated, str) or {*treated} - {*digits}:
            raise ValueError("its treatment is of no known kind")
        if arms != TWO and not (len(TWO) <= len({*arms}) == len(arms) <= MOST_ARMS):
            raise ValueError("the arms of its treatment are not a few names")
        if len(treated) != num_reference:
            raise ValueError("its treatments don't fit its reference rows")
        fitted = values.get("propensities", []) if arms != TWO else [values] if "cuts" in values else []
        propensities = tuple(map(FittedPropensity.from_json, fitted))
        if len(propensities) not in {0, 1 if len(arms) == len(TWO) else len(arms)}:
            raise ValueError("its arms have not a propensity each")
        places = np.frombuffer(treated.encode(), np.uint8) - np.float64(ord("0"))
        return cls(kind, places, propensities, given, sd, arms, known=known)


def _checked_known(values: list[Any], num_coded: int) -> tuple[int, Floats]:
    """Read `EffectDesign.known`; raise ValueError for what no model has."""
    place, means = int(values[0]), np.array(values[1:], np.float64)
    if not (0 <= place < num_coded and means.ndim == 1 and 0 < len(means) < 256 and np.isfinite(means).all()):
        raise ValueError("its known propensity is that of no column")
    return place, means
