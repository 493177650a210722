"""Doses: treatments that are numbers, in which an effect is measured by unit (docs/maths.md#treatments)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.binning import Grid, cut_points
from sampler.data.scalars import number_to_text

UNITS, MOST_UNITS = 32, 256  # units in a standard deviation: that of most rows, and of all of them
DECIMALS = 3  # with which doses may be given and still be known to lie on a lattice
QUARTERS_PER_SD = 1.349  # distance of the quartiles of normal numbers, in standard deviations


@dataclass(frozen=True)
class Dose:
    """Scale of a dose, by the rows of a fit.

    Attributes
    ----------
    centre
        The dose at which the outcome is the mean's trees alone.
    unit
        The step by which the effect's trees count doses; those of the rows are rounded to it, in multiples
        of it from the centre. Where doses are multiples of something it divides that, and rounds nothing.
    sd
        Standard deviation of the doses.
    points
        The lowest dose, the quartiles (or these again, where the quartiles are equal), and the highest.
    cuts
        Cut points of the dose as a column.

    """

    centre: float
    unit: float
    sd: float
    points: tuple[float, float, float, float]
    cuts: Floats = field(repr=False)

    @classmethod
    def of(cls, doses: Floats) -> Dose:
        """Measure the doses of the rows of a fit, float64 [n], which are not all the same."""
        lowest, low, high, highest = np.quantile(doses, [0.0, 0.25, 0.75, 1.0]).tolist()
        sd, mean = float(doses.std()), float(doses.mean())
        unit = max(min(sd, (high - low) / QUARTERS_PER_SD or sd) / UNITS, sd / MOST_UNITS)
        spacing = _spacing(doses)
        if spacing >= 0.5 * unit:
            unit = spacing / math.ceil(spacing / unit)
        centre = lowest + unit * round((mean - lowest) / unit)
        between = (low, high) if low < high else (lowest, highest)
        return cls(centre, unit, sd, (lowest, *between, highest), cut_points(doses))

    @property
    def share(self) -> float:
        """The unit in standard deviations of the dose."""
        return self.unit / self.sd

    def units(self, doses: Floats) -> Floats:
        """Return the distance of doses from the centre, in units."""
        return (doses - self.centre) / self.unit

    def warnings(self, name: str, doses: Floats) -> list[str]:
        """Warn of rows whose dose, in the column of that name, is beyond those of the fit."""
        lowest, *_, highest = self.points
        beyond = int(np.sum((doses < lowest) | (doses > highest)))
        if not beyond:
            return []
        ends = f"{number_to_text(lowest, 6)} to {number_to_text(highest, 6)}"
        return [f"{name}: {beyond} rows have a dose outside of {ends}, those of the fit"]

    def codes(self, doses: Floats) -> NDArray[np.uint8]:
        """Return doses as codes of a column, uint8 [n]."""
        return Grid((self.cuts,)).encode(0, doses)

    def to_json(self) -> dict[str, Any]:
        """Return a dict that `from_json` reads."""
        own = {"centre": self.centre, "unit": self.unit, "sd": self.sd, "points": list(self.points)}
        return own | {"cuts": self.cuts.tolist()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Dose:
        """Read and check what `to_json` returned; raise ValueError for what no model has."""
        centre, unit, sd = (float(values[name]) for name in ("centre", "unit", "sd"))
        lowest, low, high, highest = map(float, values["points"])
        if not (math.isfinite(centre) and 0 < unit < math.inf and 0 < sd < math.inf):
            raise ValueError("its dose has no scale")
        if not -math.inf < lowest <= low < high <= highest < math.inf:
            raise ValueError("its doses are not in order")
        return cls(centre, unit, sd, (lowest, low, high, highest), checked_cuts(values["cuts"]))


def checked_cuts(values: Any) -> Floats:
    """Read the cut points of a column that a treatment has; raise ValueError for what no model has."""
    cuts = np.array(values, np.float64)
    whole = cuts.ndim == 1 and len(cuts) < 255 and bool(np.all(np.isfinite(cuts)))
    if not whole or np.any(np.diff(cuts) <= 0):
        raise ValueError("the cut points of its treatment are not increasing numbers")
    return cuts


def _spacing(doses: Floats) -> float:
    """Find the largest number of which all doses are multiples, but for one; 0 for none."""
    steps = np.unique(doses) - doses.min()
    for decimals in range(DECIMALS + 1):
        scaled = steps * 10.0**decimals
        whole = np.rint(scaled)
        if whole[-1] < 2**53 and np.allclose(scaled, whole, rtol=0, atol=1e-6):
            return float(np.gcd.reduce(whole.astype(np.int64))) / 10.0**decimals
    return 0.0
