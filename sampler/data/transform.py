"""Transforms of the outcome: the model learns T(y), answers are about y (docs/maths.md#transforms)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from scipy.special import ndtr

from sampler.array_types import Floats
from sampler.errors import SettingsError

TransformKind = Literal["none", "log", "yeo-johnson"]
POWERS = tuple(round(0.1 * k, 1) for k in range(21))  # powers of Yeo and Johnson at which T takes every value
NODES = 12  # nodes of the quadrature over the noise
REACH = 4.0  # standard deviations of log-normal squares beyond which there are next to none
WIDEST = 7.0  # standard deviations of the noise
ROOT = math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class Transform:
    """An increasing transform T; true where it changes outcomes.

    Attributes
    ----------
    kind
        "none", "log", or "yeo-johnson" of (y - centre) / scale (Yeo and Johnson 2000).
    centre, scale, power
        Of the last kind.
    low, high
        Ends at which outcomes are held when they are averaged or drawn, since the inverse has no bounds: half
        a range from the training outcomes. None in models made before there were any.

    """

    kind: TransformKind
    centre: float = 0.0
    scale: float = 1.0
    power: float = 0.0
    low: float | None = None
    high: float | None = None

    def __bool__(self) -> bool:
        return self.kind != "none"

    def within(self, y: Floats) -> Self:
        """Return the transform with the ends that training outcomes y give."""
        low, high = float(y.min()), float(y.max())
        margin = (high - low) / 2
        return replace(self, low=low - margin, high=high + margin) if 0 < margin < np.inf else self

    def of(self, name: str) -> str:
        """Say in words what the transform of the outcome of that name is."""
        if not self:
            return name
        return f"the {'logarithm' if self.kind == 'log' else 'Yeo-Johnson power'} of {name}"

    def forward(self, y: Floats) -> Floats:
        """Compute T(y); minus infinity where the logarithm has no value."""
        if not self:
            return y
        if self.kind == "log":
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(y > 0, np.log(y), -np.inf)
        z = (y - self.centre) / self.scale
        above, below = np.log1p(np.maximum(z, 0)), np.log1p(np.maximum(-z, 0))
        return np.where(z >= 0, _powered(above, self.power), -_powered(below, 2 - self.power))

    def inverse(self, u: Floats) -> Floats:
        """Compute the y at which T is u."""
        if not self:
            return u
        if self.kind == "log":
            return np.exp(u)
        above = np.expm1(_unpowered(np.maximum(u, 0), self.power))
        below = np.expm1(_unpowered(np.maximum(-u, 0), 2 - self.power))
        return np.asarray(self.centre + self.scale * np.where(u >= 0, above, -below))

    def outcome(self, u: Floats) -> Floats:
        """Compute the outcome at which T is u, held at the ends."""
        with np.errstate(over="ignore"):
            y = self.inverse(u)
        return y if self.high is None else np.clip(y, self.low, self.high)

    def log_slope(self, y: Floats) -> Floats:
        """Compute the logarithm of T's derivative at y; minus infinity where T has no value."""
        if not self:
            return np.zeros(np.shape(y))
        if self.kind == "log":
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(y > 0, -np.log(y), -np.inf)
        z = (y - self.centre) / self.scale
        return np.asarray(np.sign(z) * (self.power - 1) * np.log1p(np.abs(z)) - math.log(self.scale))

    def moments(self, f: Floats, sd: Floats) -> tuple[Floats, Floats]:
        """Compute the mean and standard deviation of y, held at the ends, where T(y) is Normal(f, sd^2)."""
        if not self:
            return f, sd
        if self.low is None or self.high is None:
            return self._free_moments(f, sd)
        low, high = self.forward(np.array([self.low, self.high]))
        reach = (REACH + 2 * sd) * sd
        held = (f + reach > high) | (f - reach < low)
        if not held.any():
            return self._free_moments(f, sd)
        f, sd = np.broadcast_arrays(f, sd)
        mean, spread = np.empty(f.shape), np.empty(f.shape)
        mean[held], spread[held] = self._held_moments(f[held], sd[held], low, high)
        free = ~held
        mean[free], spread[free] = self._free_moments(f[free], sd[free])
        return mean, spread

    def _held_moments(self, f: Floats, sd: Floats, low: float, high: float) -> tuple[Floats, Floats]:
        """Compute them where an end matters; `low` and `high` are T at the ends.

        Between the ends outcomes are summed over the nodes of a quadrature.
        """
        assert self.low is not None, "there are ends"
        assert self.high is not None, "there are ends"
        start, end = np.clip([f - WIDEST * sd, f + WIDEST * sd], low, high)
        below, above = ndtr((low - f) / sd), ndtr((f - high) / sd)
        middle = self.outcome(f)
        nodes, shares = np.polynomial.legendre.leggauss(2 * NODES)
        mean = below * (self.low - middle) + above * (self.high - middle)
        square = below * (self.low - middle) ** 2 + above * (self.high - middle) ** 2
        for node, share in zip(nodes, shares, strict=True):
            u = 0.5 * (start + end) + 0.5 * node * (end - start)
            weight = share * 0.5 * (end - start) / sd * np.exp(-0.5 * ((u - f) / sd) ** 2) / ROOT
            away = self.inverse(u) - middle
            mean += weight * away
            square += weight * away * away
        return middle + mean, np.sqrt(np.maximum(square - mean * mean, 0.0))

    def _free_moments(self, f: Floats, sd: Floats) -> tuple[Floats, Floats]:
        """Compute them where there are no ends, or none that matters."""
        if self.kind == "log":
            mean = np.exp(f + 0.5 * sd * sd)
            return mean, np.asarray(mean * np.sqrt(np.expm1(sd * sd)))
        nodes, shares = np.polynomial.hermite_e.hermegauss(NODES)
        shares = shares / shares.sum()
        mean, square = np.zeros(np.shape(f)), np.zeros(np.shape(f))
        middle = self.inverse(f)
        for node, share in zip(nodes, shares, strict=True):
            away = self.inverse(f + node * sd) - middle
            mean += share * away
            square += share * away * away
        return middle + mean, np.sqrt(np.maximum(square - mean * mean, 0.0))

    def to_json(self) -> dict[str, Any]:
        """Return a dict that `from_json` reads exactly."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Transform:
        """Read a transform; raise ValueError, KeyError or TypeError."""
        ends = {name: float(values[name]) for name in ("low", "high") if name in values}
        plain = (float(values[name]) for name in ("centre", "scale", "power"))
        transform = cls(values["kind"], *plain, **ends)
        numbers = (
            np.isfinite([transform.centre, transform.scale, transform.power]).all() and transform.scale > 0
        )
        if transform.kind not in ("log", "yeo-johnson") or not numbers or not 0 <= transform.power <= 2:
            raise ValueError("its transform is not one that a fit makes")
        if ends and (len(ends) < 2 or not np.isfinite([*ends.values()]).all() or ends["low"] >= ends["high"]):
            raise ValueError("the ends of its transform are out of range")
        return transform


IDENTITY = Transform("none")


def _powered(log: Floats, power: float) -> Floats:
    """Compute (e^(power log) - 1) / power, log for power 0."""
    return log if power == 0 else np.expm1(power * log) / power


def _unpowered(u: Floats, power: float) -> Floats:
    """Invert `_powered`."""
    return u if power == 0 else np.log1p(power * u) / power


def check_outcomes(name: str, y: Floats) -> None:
    """Refuse outcomes that have no transform of that name, with their row; raise SettingsError."""
    if name != "log" or y.min() > 0:
        return
    row = int(np.argmax(y <= 0))
    raise SettingsError(
        f"transform log takes positive outcomes, and row {row + 1} has {y[row]:g}: use transform "
        "yeo-johnson, or auto",
        field="transform",
        code="not_applicable",
    )
