"""Training data of a fit as chains use them: codes, outcomes, weights, prior constants, settings."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sampler.data.linear_terms import LinearTerms
from sampler.data.spatial import PlacedRows, Surface
from sampler.data.treatment.dose import Dose
from sampler.errors import DataError, SettingsError
from sampler.families import FAMILIES
from sampler.noise import NOISES
from sampler.prior import Constants
from sampler.settings import Settings

WEIGHT_BITS = 36  # for a weight times the number of rows; a residual takes up to 26 of 62
LEAST_UNITS = 4  # smallest weight in units; rounding changes it by at most an eighth
EXAMPLES = 8
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, of bits without a pattern (Knuth's golden ratio)
HALF_NORMAL_MEDIAN = 0.6744897501960817  # of scale 1
LANES = 64  # rows are padded to whole vector registers


def room_for_codes(columns: int, rows: int) -> NDArray[np.uint8]:
    """Make codes, uint8 [column, row], all 0, that chains need no padded copy of."""
    return np.zeros((columns, -(-rows // LANES) * LANES), np.uint8)[:, :rows]


def _begins(room: NDArray[np.uint8], codes: NDArray[np.uint8]) -> bool:
    """Tell whether codes are the first rows of `room`, whose others are 0."""
    same = room.ctypes.data == codes.ctypes.data and room.strides == codes.strides
    return same and not room[:, codes.shape[1] :].any()


def _bytes_of(*numbers: NDArray[Any] | None) -> Iterator[bytes]:
    """Yield the bytes of arrays, of those that there are."""
    yield from (each.tobytes() for each in numbers if each is not None)


class PartTraining(Protocol):
    """Training data of a part beside the mean's trees, as chains have them."""

    @property
    def identity(self) -> bytes:
        """All of it, by which a checkpoint is known to be of the same fit; empty where settings have it."""

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Return that of some of the rows."""


Part = TypeVar("Part", bound=PartTraining)


@dataclass(frozen=True, eq=False)
class LinearTraining:
    """The terms of the training rows, float64 [term, n], and how they came about."""

    terms: LinearTerms
    z: NDArray[np.float64]

    @property
    def identity(self) -> bytes:
        """All of it that no setting has."""
        return self.z.tobytes()

    def take(self, rows: NDArray[np.int64]) -> LinearTraining:
        """Return that of some of the rows."""
        return replace(self, z=np.ascontiguousarray(self.z[:, rows]))


@dataclass(frozen=True)
class GroupTraining:
    """Groups of the training rows.

    Attributes
    ----------
    index
        The group of each row, int32 [grouping, n].
    sizes
        Number of groups of each grouping.
    scales
        Scale of the half-Cauchy prior of the intercepts' standard deviation, in units of y.
    z
        What the groups' slopes are multiplied by, float64 [slope, n]; None without slopes.
    of_line
        Number of the linear part's slope of the column of each of the groups' slopes; None where it has none.

    """

    index: NDArray[np.int32]
    sizes: tuple[int, ...]
    scales: tuple[float, ...]
    z: NDArray[np.float64] | None = None
    of_line: tuple[int | None, ...] = ()

    @property
    def num_slopes(self) -> int:
        """Slopes of each group."""
        return 0 if self.z is None else len(self.z)

    @property
    def identity(self) -> bytes:
        """All of it that isn't of the linear part too."""
        slopes = b"" if self.z is None else self.z.tobytes()
        return self.index.tobytes() + repr((self.sizes, self.scales)).encode() + slopes

    def take(self, rows: NDArray[np.int64]) -> GroupTraining:
        """Return that of some of the rows."""
        return replace(self, index=self.index[:, rows], z=None if self.z is None else self.z[:, rows])


@dataclass(frozen=True, eq=False)
class LevelSetsTraining:
    """Shares of the columns in rules, and running sums, float64 [2, p], where some are of sets of levels."""

    shares: NDArray[np.float64]

    @property
    def identity(self) -> bytes:
        """All of it that no setting has."""
        return self.shares.tobytes()

    def take(self, rows: NDArray[np.int64]) -> LevelSetsTraining:  # noqa: ARG002
        """Return itself, which is of columns."""
        return self


@dataclass(frozen=True, eq=False)
class SpatialTraining:
    """Places that differ, and the place of each training row, int64 [n]."""

    surface: Surface
    placed: PlacedRows
    place: NDArray[np.int64]

    @property
    def identity(self) -> bytes:
        """All of it that no setting has."""
        return self.place.tobytes() + self.placed.angle.tobytes() + self.placed.missing.tobytes()

    def take(self, rows: NDArray[np.int64]) -> SpatialTraining:
        """Return that of some of the rows."""
        return replace(self, place=self.place[rows])


@dataclass(frozen=True)
class EffectPrior:
    """Prior of a treatment's effect that has a forest of its own (docs/maths.md#treatments).

    Attributes
    ----------
    features
        Number of coded columns that its trees may split on, the first of all.
    barred
        Those of them that they may not split on, by their numbers.
    scale
        Scale of the half-normal prior of the standard deviation of the effect of a row, in units of y.
    start
        That standard deviation at first, and for good where `drawn` is False.
    num_trees, alpha, beta
        Number of its trees, and the prior of their splits.
    drawn
        Whether the standard deviation is drawn.
    mean_sd
        Prior standard deviation of a constant part of the effect beside its trees; 0 for none.
    parts
        Number of its forests: one of half the effect or of a dose, or one of each arm.
    dose
        Scale of a dose, whose effect by a standard deviation has this prior; None where there are arms.

    """

    features: int
    barred: tuple[int, ...]
    scale: float
    start: float
    num_trees: int = 50
    alpha: float = 0.25
    beta: float = 3.0
    drawn: bool = True
    mean_sd: float = 0.0
    parts: int = 1
    dose: Dose | None = field(default=None, repr=False)

    @property
    def share(self) -> float:
        """Part of the effect that a forest adds up to: half, or of a dose that of a unit."""
        return 0.5 if self.dose is None else self.dose.share

    @property
    def identity(self) -> bytes:
        """All of it as text; without a dose as it was before there were any."""
        return (repr(self) + ("" if self.dose is None else repr(self.dose))).encode()

    def take(self, rows: NDArray[np.int64]) -> EffectPrior:  # noqa: ARG002
        """Return itself: the treatments are not in it."""
        return self

    @property
    def weighs(self) -> bool:
        """Whether rows weigh otherwise for its trees than for the mean's."""
        return self.parts > 1 or self.dose is not None

    @classmethod
    def of(
        cls, features: int, barred: tuple[int, ...], sd: float, parts: int = 1, dose: Dose | None = None
    ) -> EffectPrior:
        """Let the effect's standard deviation have half of the outcome's, `sd`, as its prior median.

        Where arms have forests each has half its variance, and what it is given is twice that of its forest.
        """
        sd *= 1.0 if parts == 1 else math.sqrt(2.0)
        return cls(
            features, barred, 0.5 * sd / HALF_NORMAL_MEDIAN, 0.5 * sd, mean_sd=sd, parts=parts, dose=dose
        )


@dataclass(frozen=True, eq=False)
class SeveralTraining:
    """Several outcomes of the same rows, whose errors have a covariance (docs/maths.md#several-outcomes).

    Attributes
    ----------
    parts
        What the chain of each outcome runs on: its observed rows, with a noise that it does not draw.
    rows
        Which rows those are, int64 [n of the outcome], for each outcome.
    num_rows
        Number of rows, each with at least one outcome.
    covariance
        The errors' covariance, float64 [outcome, outcome], where it is known; None where it is drawn.
    weights
        Weights of the rows, float64 [n]: errors of weight w have the covariance by w. None where all have 1.
    noise
        What the chain of noise by row runs on: all rows, whose y are how many outcomes each has, and the
        columns that all outcomes have, in the numbering of the first. None where noise is of one size.

    """

    parts: tuple[Training, ...]
    rows: tuple[NDArray[np.int64], ...]
    num_rows: int
    covariance: NDArray[np.float64] | None = None
    weights: NDArray[np.float64] | None = None
    noise: Training | None = None

    @property
    def of_classes(self) -> int | None:
        """Number of the outcome that has two classes; None where all are numbers."""
        targets = [FAMILIES[part.settings.family].target for part in self.parts]
        return targets.index("two") if "two" in targets else None

    @cached_property
    def pattern(self) -> NDArray[np.int64]:
        """Outcomes of each row that were observed, int64 [n]: bit j for outcome j."""
        pattern = np.zeros(self.num_rows, np.int64)
        for number, rows in enumerate(self.rows):
            pattern[rows] |= 1 << number
        return pattern


@dataclass(frozen=True)
class Training:
    """Encoded training data and the resolved model.

    Attributes
    ----------
    codes
        uint8 [p, n], each column contiguous (`room_for_codes`); codes of present values are
        0..num_codes[j]-1, 255 is missing.
    num_codes
        int64 [p], at most 255.
    y
        float64 [n], finite.
    weights
        float64 [n] or None.
    constants
        Constants of the prior, in units of y.
    settings
        All settings, resolved.
    by_role
        float64 [n], what further columns with a role say of the rows, by role.
    limits
        float64 [2, n], lower and upper limits of the outcomes, infinite where there is none, equal to y where
        it was observed; None where all were. Of a censored row y is anything between its limits.
    at_point
        Rows whose outcomes are the point of a hurdle, bool [n], of which y holds the offset; None for other
        families.
    several
        All outcomes, where there are several; what else is here is the first one's. None where there is one.
    parts
        What chains have of the parts beside the mean's trees, by their names in
        `sampler.definitions.parts.PARTS`. Further columns of a treatment are the last of the codes.

    """

    codes: NDArray[np.uint8]
    num_codes: NDArray[np.int64]
    y: NDArray[np.float64]
    weights: NDArray[np.float64] | None
    constants: Constants
    settings: Settings
    by_role: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    limits: NDArray[np.float64] | None = None
    several: SeveralTraining | None = None
    at_point: NDArray[np.bool_] | None = None
    parts: Mapping[str, PartTraining] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.codes.dtype != np.uint8 or self.codes.ndim != 2 or self.codes.shape[1] != len(self.y):
            raise DataError(
                f"codes must be uint8 [columns, {len(self.y)}], not {self.codes.dtype} {self.codes.shape}"
            )
        if len(self.y) == 0 or len(self.codes) == 0:
            raise DataError("there must be at least one row and one column")
        if self.weights is not None and not (np.all(self.weights >= 0) and np.any(self.weights > 0)):
            raise DataError("weights must not be negative, and some must be positive")
        target = FAMILIES[self.settings.family].target
        if target == "two" and not np.all((self.y == 0) | (self.y == 1)):
            raise DataError("probit takes outcomes 0 and 1")
        if target in ("classes", "ordered", "counts") and not np.all(
            (self.y >= 0) & (self.y == np.floor(self.y))
        ):
            raise DataError(f"{self.settings.family} takes outcomes 0, 1, 2, ..")
        if self.shares is not None and self.shares.shape != (2, len(self.codes)):
            raise DataError(f"there are shares of {self.shares.shape[1]} columns, and {len(self.codes)}")
        largest = float(np.max(np.abs(self.y - self.constants.offset))) / self.constants.step
        if target in ("numbers", "two") and not largest < 2**25:  # also catches NaN
            raise SettingsError(
                "y exceeds the grid: give a larger prior step, or leave step out",
                field="prior.step",
                code="out_of_range",
            )

    def part(self, kind: type[Part]) -> Part:
        """Return what chains have of the part of that class, which there is."""
        return next(each for each in self.parts.values() if isinstance(each, kind))

    @cached_property
    def padded_codes(self) -> NDArray[np.uint8]:
        """Codes with rows padded to a multiple of 64, for all chains; not a copy if they have room for it."""
        columns, rows = self.codes.shape
        if rows % LANES == 0 and self.codes.flags.c_contiguous:
            return self.codes
        room, shape = self.codes.base, (columns, -(-rows // LANES) * LANES)
        if isinstance(room, np.ndarray) and room.shape == shape and _begins(room, self.codes):
            return room
        padded = np.zeros(shape, np.uint8)
        padded[:, :rows] = self.codes
        return padded

    @property
    def grid_y(self) -> NDArray[np.int32]:
        """Outcome minus offset, in grid steps, int32 [n]; zeros where outcomes are latent.

        Chains begin with it and don't need it any more: not kept, 4 bytes a row.
        """
        if FAMILIES[self.settings.family].has_latent_outcomes:
            return np.zeros(len(self.y), np.int32)
        return np.rint((self.y - self.constants.offset) / self.constants.step).astype(np.int32)

    @cached_property
    def censored(self) -> NDArray[np.int32]:
        """Rows whose outcome is only known to be between limits, int32 [censored]."""
        if self.limits is None:
            return np.zeros(0, np.int32)
        return np.flatnonzero(self.limits[0] < self.limits[1]).astype(np.int32)

    @cached_property
    def grid_limits(self) -> NDArray[np.float64]:
        """Limits of the censored rows less the offset, in grid steps, float64 [2, censored]."""
        if self.limits is None:
            return np.zeros((2, 0))
        limits = np.ascontiguousarray(self.limits[:, self.censored])
        return (limits - self.constants.offset) / self.constants.step

    @cached_property
    def examples(self) -> NDArray[np.int32]:
        """Some rows with each code of each column, int32 [p, 256, 8], -1 where there are fewer."""
        from sampler.kernels.rows import find_examples  # noqa: PLC0415  # kernels load late

        rows = np.empty((len(self.codes), 256, EXAMPLES), np.int32)
        for column, place in zip(self.padded_codes, rows, strict=True):
            find_examples(column, len(self.y), place)
        return rows

    @cached_property
    def most_equal(self) -> int:
        """Number of rows that no set of rows with equal codes exceeds: the largest of those of equal hash."""
        hashes = np.zeros(self.codes.shape[1], np.uint64)
        for column in self.codes:
            hashes = (hashes ^ column) * HASH_FACTOR
            hashes ^= hashes >> np.uint64(32)
        return int(np.unique(hashes, return_counts=True)[1].max(initial=0))

    @cached_property
    def weight_unit(self) -> float:
        """Unit of `grid_weights`, for which sums of weight x residual are exact in 64 bits."""
        if self.weights is None:
            return 1.0
        bits = min(WEIGHT_BITS - math.ceil(math.log2(len(self.y))), 30)
        largest = float(self.weights.max())
        unit = float(2.0 ** (math.floor(math.log2(largest)) + 1 - bits))
        if not np.any((self.weights > 0) & (self.weights < LEAST_UNITS * unit)):
            return unit
        of_all = math.fsum(self.weights / largest) * largest
        finest = 2.0 ** (math.floor(math.log2(largest)) + 1 - 30)
        return float(max(2.0 ** (math.floor(math.log2(of_all)) + 1 - WEIGHT_BITS), finest))

    @cached_property
    def unweighed(self) -> NDArray[np.bool_]:
        """Rows whose weight is too small, relative to the others, to be distinguished from 0; bool [n].

        They get weight 0. One unit each would give them more influence, and noise, than their weights.
        """
        if self.weights is None:
            return np.zeros(len(self.y), bool)
        return (self.weights > 0) & (self.weights < LEAST_UNITS * self.weight_unit)

    @cached_property
    def grid_weights(self) -> NDArray[np.int32]:
        """Weights in whole units, int32 [n]; empty without weights."""
        if self.weights is None:
            return np.zeros(0, np.int32)
        units = np.rint(self.weights / self.weight_unit)
        return np.where(self.unweighed, 0, units).astype(np.int32)

    @property
    def num_counted(self) -> int:
        """Rows that have a weight."""
        return len(self.y) if self.weights is None else int(np.count_nonzero(self.grid_weights))

    @property
    def typical_weight(self) -> float | None:
        """Geometric mean of the weights of the rows that count; None without weights."""
        if self.weights is None:
            return None
        return float(np.exp(np.mean(np.log(self.weights[self.grid_weights > 0]))))

    @property
    def directions(self) -> NDArray[np.int64] | None:
        """1 where the mean rises with a column, -1 where it falls, else 0, int64 [p]; or None."""
        return getattr(self.parts.get("monotone"), "directions", None)

    @property
    def shares(self) -> NDArray[np.float64] | None:
        """Shares of the columns in rules, and running sums, float64 [2, p]; None where all are alike."""
        return getattr(self.parts.get("categories"), "shares", None)

    @property
    def same_noise(self) -> NDArray[np.bool_] | None:
        """Columns on which a forest of the noise may not split, bool [p]: the monotone ones; None without.

        Rows that differ in them alone have the same noise, or ends of intervals, and through a transform
        means, would not be in order.
        """
        if self.directions is None or not NOISES[self.settings.noise].forest:
            return None
        return np.asarray(self.directions != 0)

    @cached_property
    def fingerprint(self) -> int:
        """Checksum of data and model: a checkpoint fits only the training data that it was made from.

        The numbers of draws and chains are not included, so that chains can be extended.
        """
        check = 0
        for piece in self._pieces():
            check = zlib.crc32(piece, check)
        return check

    def _pieces(self) -> Iterator[bytes | memoryview]:
        """Yield what the fingerprint is of, in the order of the files that were released."""
        parts = {name: each.identity for name, each in sorted(self.parts.items())}
        for column in self.codes:
            yield np.ascontiguousarray(column).data
        yield from _bytes_of(self.y, self.weights)
        yield parts.pop("line", b"")
        yield from _bytes_of(*self.by_role.values())
        yield parts.pop("groups", b"")
        yield from _bytes_of(self.at_point, self.limits)
        yield parts.pop("treatment", b"")
        if self.several is not None:
            yield repr(tuple(part.fingerprint for part in self.several.parts)).encode()
            yield self.several.pattern.tobytes()
        yield from _bytes_of(self.same_noise)
        yield from (name.encode() + own for name, own in parts.items() if own)
        yield repr((self.constants, self.settings.chain_identity)).encode()
        if self.constants.trees:
            yield repr(sorted(self.constants.trees.items())).encode()
        if self.constants.num_trees:
            yield repr((self.constants.num_trees, self.constants.num_trees_mean)).encode()
