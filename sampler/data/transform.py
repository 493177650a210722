"""Transforms of the outcome: the model learns T(y), answers are about y (docs/maths.md#transforms)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from sampler.array_types import Floats
from sampler.errors import SettingsError

TransformKind = Literal["log", "yeo-johnson"]
POWERS = tuple(round(0.1 * k, 1) for k in range(21))  # powers of Yeo and Johnson at which T takes every value
NODES = 12  # nodes of the quadrature over the noise


@dataclass(frozen=True)
class Transform:
    """An increasing transform T.

    Attributes
    ----------
    kind
        "log", or "yeo-johnson" of (y - centre) / scale (Yeo and Johnson 2000).
    centre, scale, power
        Of the second kind.

    """

    kind: TransformKind
    centre: float = 0.0
    scale: float = 1.0
    power: float = 0.0

    def of(self, name: str) -> str:
        """Say in words what the transform of the outcome of that name is."""
        return f"the {'logarithm' if self.kind == 'log' else 'Yeo-Johnson power'} of {name}"

    def forward(self, y: Floats) -> Floats:
        """Compute T(y); minus infinity where the logarithm has no value."""
        if self.kind == "log":
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(y > 0, np.log(y), -np.inf)
        z = (y - self.centre) / self.scale
        above, below = np.log1p(np.maximum(z, 0)), np.log1p(np.maximum(-z, 0))
        return np.where(z >= 0, _powered(above, self.power), -_powered(below, 2 - self.power))

    def inverse(self, u: Floats) -> Floats:
        """Compute the y at which T is u."""
        if self.kind == "log":
            return np.exp(u)
        above = np.expm1(_unpowered(np.maximum(u, 0), self.power))
        below = np.expm1(_unpowered(np.maximum(-u, 0), 2 - self.power))
        return np.asarray(self.centre + self.scale * np.where(u >= 0, above, -below))

    def log_slope(self, y: Floats) -> Floats:
        """Compute the logarithm of T's derivative at y; minus infinity where T has no value."""
        if self.kind == "log":
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(y > 0, -np.log(y), -np.inf)
        z = (y - self.centre) / self.scale
        return np.asarray(np.sign(z) * (self.power - 1) * np.log1p(np.abs(z)) - math.log(self.scale))

    def moments(self, f: Floats, sd: Floats) -> tuple[Floats, Floats]:
        """Compute the mean and standard deviation of y where T(y) is Normal(f, sd^2)."""
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
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Transform:
        """Read a transform; raise ValueError, KeyError or TypeError."""
        transform = cls(values["kind"], *(float(values[name]) for name in ("centre", "scale", "power")))
        numbers = (
            np.isfinite([transform.centre, transform.scale, transform.power]).all() and transform.scale > 0
        )
        if transform.kind not in ("log", "yeo-johnson") or not numbers or not 0 <= transform.power <= 2:
            raise ValueError("its transform is not one that a fit makes")
        return transform


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
