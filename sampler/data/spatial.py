"""A smooth surface over two coordinates, as a sum of waves (docs/maths.md#a-surface-over-places).

Its prior is a Gaussian process with a Matérn covariance (smoothness 5/2) in the reduced rank of Solin and
Särkkä (2020, Hilbert space methods for reduced-rank Gaussian process regression, section 3): waves that are 0
at the ends of a box around the training rows, whose amplitudes are independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.schema import Schema
from sampler.definitions.design import Design
from sampler.definitions.parts import PartFacts

NAME = "spatial"  # of the part
WAVES = 100  # whose frequencies are the smallest
MARGIN = 2.0  # half a side of the box, in half ranges of the training rows
NARROWEST = 0.05  # half the range of one coordinate, in that of the other
SCALARS = ("spatial_sd", "spatial_range")
SERIES = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(12))


class PlacedRows(NamedTuple):
    """Rows in the box around the training rows.

    `angle` is from 0 to pi along each side, float64 [2, row]; `missing` and `beyond` tell which rows lack a
    coordinate, or lie outside of the training rows' range.
    """

    angle: Floats
    missing: NDArray[np.bool_]
    beyond: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64]) -> PlacedRows:
        """Return some of the rows."""
        return PlacedRows(self.angle[:, rows], self.missing[rows], self.beyond[rows])


@dataclass(frozen=True)
class Surface(PartFacts):
    """Facts of a surface that the header of a model keeps.

    Attributes
    ----------
    columns
        Names of the two coordinates.
    places
        Their coded columns.
    centre, half
        Middle of the training rows along each, and half their range.
    sd
        Scale of the half-Cauchy prior of the surface's standard deviation, in units of what is learnt.

    """

    columns: tuple[str, str]
    places: tuple[int, int]
    centre: tuple[float, float]
    half: tuple[float, float]
    sd: float
    needs_values: ClassVar[bool] = True  # of rows, before binning

    @classmethod
    def over(cls, columns: tuple[str, str], places: tuple[int, int], design: Design, sd: float) -> Surface:
        """Lay it over training rows [coded column, row], of which each coordinate has two values at least."""
        ends = [(float(np.nanmin(design[place])), float(np.nanmax(design[place]))) for place in places]
        (low, high), (lower, upper) = ends
        centre = (0.5 * low + 0.5 * high, 0.5 * lower + 0.5 * upper)
        return cls(columns, places, centre, (0.5 * high - 0.5 * low, 0.5 * upper - 0.5 * lower), sd)

    @property
    def unit(self) -> float:
        """Half the larger range, in which distances are measured."""
        return max(self.half)

    @cached_property
    def box(self) -> Floats:
        """Half the sides of the box, in `unit`, float64 [2]."""
        return MARGIN * np.maximum(np.array(self.half) / self.unit, NARROWEST)

    @cached_property
    def numbers(self) -> NDArray[np.int32]:
        """Half waves of each wave along both coordinates, int32 [2, wave], from 1; the longest come first."""
        counts = np.arange(1, WAVES + 1)
        squares = sum(
            (counts.reshape(shape) / side) ** 2
            for shape, side in zip(((-1, 1), (1, -1)), self.box.tolist(), strict=True)
        )
        order = np.argsort(np.asarray(squares), axis=None, kind="stable")[:WAVES]
        return np.ascontiguousarray(np.stack(np.unravel_index(order, (WAVES, WAVES))) + 1, np.int32)

    @cached_property
    def squares(self) -> Floats:
        """Squares of the waves' angular frequencies, float64 [wave]."""
        return np.asarray(((math.pi / 2 * self.numbers / self.box[:, None]) ** 2).sum(axis=0))

    @property
    def height(self) -> float:
        """Height of a wave of amplitude 1."""
        return float(1 / np.sqrt(self.box.prod()))

    def of(self, values: Design) -> PlacedRows:
        """Place rows before binning [coded column, row]."""
        x = (np.asarray(values[[*self.places]], np.float64) - np.array(self.centre)[:, None]) / self.unit
        missing = np.isnan(x).any(axis=0)
        reach = np.array(self.half)[:, None] / self.unit
        beyond = (np.abs(np.where(missing, 0.0, x)) > reach * (1 + 1e-12)).any(axis=0)
        side = self.box[:, None]
        angle = math.pi / 2 * (np.clip(np.where(missing, 0.0, x), -side, side) / side + 1)
        return PlacedRows(angle, np.asarray(missing), np.asarray(beyond))

    def sines(self, placed: PlacedRows) -> tuple[Floats, Floats]:
        """Return the sines of the half waves along each coordinate at rows, float64 [row, from 1]."""
        first, second = (
            sines(own, int(most)) for own, most in zip(placed.angle, self.numbers.max(axis=1), strict=True)
        )
        return first, second

    def waves(self, placed: PlacedRows) -> Floats:
        """Return the height of each wave of amplitude 1 at rows, float64 [wave, row]; 0 where unknown."""
        (first, second), (one, other) = self.sines(placed), self.numbers - 1
        return np.where(placed.missing, 0.0, self.height * first.T[one] * second.T[other])

    def to_json(self) -> dict[str, Any]:
        """Return a dict that `from_json` reads exactly."""
        return {name: [*each] if isinstance(each, tuple) else each for name, each in asdict(self).items()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], schema: Schema, shape: tuple[int, ...]) -> Surface:
        """Read it, of a model of such columns; raise ValueError, KeyError or TypeError."""
        columns, places, centre, half = (
            tuple(stored[name]) for name in ("columns", "places", "centre", "half")
        )
        surface = cls(columns, places, centre, half, float(stored["sd"]))
        names = [schema.columns[column].name for column, _ in schema.coded]
        inside = all(type(place) is int and 0 <= place < shape[0] for place in places)
        if len(places) != 2 or not inside or [names[place] for place in places] != [*columns]:
            raise ValueError("its surface is over columns that don't exist")
        figures = np.array([centre, half], np.float64)
        if figures.shape != (2, 2) or not np.all(np.isfinite(figures)) or not 0 < surface.sd < 1e150:
            raise ValueError("its surface has figures out of range")
        if not np.all((figures[1] > 0) & (figures[1] < 1e150)):
            raise ValueError("its surface has no extent")
        return surface


def sines(angle: Floats, count: int) -> Floats:
    """Return sin(k angle) for k = 1 .. `count`, float64 [row, k], of angles from 0 to pi.

    By sums and products alone, so that they are the same on every kind of processor.
    """
    one = _sine(np.minimum(angle, math.pi - angle))
    twice = 2 * _sine(math.pi / 2 - angle)
    found = np.empty((len(angle), count))
    before, now = np.zeros(len(angle)), one
    for k in range(count):
        found[:, k] = now
        before, now = now, twice * now - before
    return found


def cosines(angle: Floats, count: int) -> Floats:
    """Return cos(k angle) for k = 0 .. `count`, float64 [row, k]; see `sines`."""
    one = _sine(math.pi / 2 - angle)
    found = np.empty((len(angle), count + 1))
    before, now = one, np.ones(len(angle))
    for k in range(count + 1):
        found[:, k] = now
        before, now = now, 2 * one * now - before
    return found


def _sine(angle: Floats) -> Floats:
    """Return the sine of angles from -pi / 2 to pi / 2, by its series."""
    square = angle * angle
    total = np.full(len(angle), SERIES[-1])
    for term in SERIES[-2::-1]:
        total = total * square + term
    return total * angle


def shares(squares: Floats, reach: Floats) -> Floats:
    """Return variances of amplitudes where the surface's is 1, float64 [draw, wave].

    They are the spectral density of Matérn's covariance of smoothness 5/2 in the plane, at squared
    frequencies, of that correlation range [draw], in `Surface.unit`.
    """
    ends = 5 / np.asarray(reach)[:, None] ** 2
    power = ends + squares
    return np.asarray(10 * math.pi * ends**2 * np.sqrt(ends) / (power**3 * np.sqrt(power)))


def wave_names(count: int = WAVES) -> tuple[str, ...]:
    """Name the scalars of a draw that are amplitudes, and the constants of rows elsewhere."""
    return (*(f"spatial_{k}" for k in range(count)), "spatial_missing", "spatial_beyond")
