"""Transforms of the outcome: the model learns T(y), answers are about y (docs/maths.md#transforms).

Whether a linear part stands beside the trees is chosen here too, by the same scores.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sampler.data.quick_regression import MOST_TERMS, held_out_residuals, standardised
from sampler.errors import SettingsError
from sampler.prior import residual_sd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TransformKind = Literal["log", "yeo-johnson"]
POWERS = tuple(round(0.1 * k, 1) for k in range(21))  # of Yeo and Johnson: with these T takes every value
NODES = 12  # of the integral over the noise
MARGIN = 3.5  # standard errors by which a transform's log score must be above a simpler one's
LINE_MARGIN = 2.5  # by which that with a linear part must be above that without
FEWEST_ROWS, MOST_ROWS = 30, 1_000  # looked at to choose
MOST_SLOPES = 2_000  # of all classes
MOST_CELLS = 500_000  # rows times columns for which a linear part is looked for
SYMMETRIC = 0.4  # skewness of an outcome up to which none is looked for


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


def choose_transform(
    name: str,
    y: Floats,
    design: Floats,
    weights: Floats | None,
    codes: NDArray[np.uint8],
    *,
    linear: bool = False,
) -> Transform | None:
    """Choose the transform that the setting `transform` names; None for none.

    The power of Yeo and Johnson's is that of the largest likelihood of a linear model with normal noise, on
    up to 1,000 rows; "auto" compares none, the logarithm and theirs by the log score of these rows under
    normal noise around boosted trees fitted to others, and takes a later one only where its score is higher
    by three and a half standard errors. It takes none for outcomes of skewness .4 or less, and for fewer
    than 30 rows.

    Parameters
    ----------
    name
        "none", "log", "yeo-johnson" or "auto".
    y, weights
        Outcomes and weights (or None), float64 [n].
    design, codes
        Coded columns before binning and after, float64 and uint8 [column, n].
    linear
        Whether the trees have a linear part beside them; so they have then here.

    Returns
    -------
    Transform or None
        The transform, with its parameters.

    Raises
    ------
    SettingsError
        For the logarithm of outcomes that are not positive.

    """
    if name == "none":
        return None
    check_outcomes(name, y)
    positive = bool(y.min() > 0)
    if name == "log":
        return Transform("log")
    if name == "auto" and (len(y) < FEWEST_ROWS or abs(_skewness(y)) <= SYMMETRIC):
        return None
    rows = _rows_looked_at(len(y))
    weight = _weights_looked_at(weights, rows)
    few = y[rows], design[:, rows], weight
    low, middle, high = np.quantile(y, [0.25, 0.5, 0.75])
    scale = float(high - low) / 1.349 or float(np.std(y))
    powers = [Transform("yeo-johnson", float(middle), scale, power) for power in POWERS]
    best = max(powers, key=lambda each: _log_likelihood(each, *few))
    if name == "yeo-johnson":
        return best
    chosen: Transform | None = None
    known = y[rows], standardised(few[1]) if linear else None, weight, codes[:, rows]
    scores = _log_scores(None, *known)
    for candidate in [*([Transform("log")] if positive else []), *([best] if best.power != 1 else [])]:
        own = _log_scores(candidate, *known)
        if _is_clearly_better(own, scores):
            chosen, scores = candidate, own
    return chosen


def is_better_with_line(
    transform: Transform | None,
    y: Floats,
    design: Floats,
    weights: Floats | None,
    codes: NDArray[np.uint8],
) -> bool:
    """Tell whether a linear part beside the trees pays, by the log score of rows left out.

    Boosted trees alone are compared with such trees after a ridge regression, on up to 1,000 rows; the line
    has to be better by two and a half standard errors. There is none for fewer than 30 rows, for more than
    250 terms, and where rows times terms are more than half a million: it would take longer than the trees.

    Parameters
    ----------
    transform
        Transform of the outcome, or None.
    y, weights
        Outcomes and weights (or None), float64 [n].
    design, codes
        Coded columns before binning and after, float64 and uint8 [column, n].

    Returns
    -------
    bool
        Whether it pays clearly.

    """
    if len(y) < FEWEST_ROWS or len(design) > MOST_TERMS or design.size > MOST_CELLS:
        return False
    rows = _rows_looked_at(len(y))
    line = standardised(design[:, rows])
    if line is None:
        return False
    weight = _weights_looked_at(weights, rows)
    alone, beside = (_log_scores(transform, y[rows], z, weight, codes[:, rows]) for z in (None, line))
    return _is_clearly_better(beside, alone, LINE_MARGIN)


def may_have_line(design: Floats, classes: int) -> bool:
    """Tell whether classes have a linear part unless asked: it is shrunk where it doesn't help.

    There is none for fewer than 30 rows, for columns with one value, for more than 2,000 slopes, and where
    rows times terms are more than half a million: it would take longer than the trees.

    Parameters
    ----------
    design
        Coded columns before binning, float64 [column, n].
    classes
        Number of classes.

    Returns
    -------
    bool
        Whether they have one.

    """
    columns, rows = design.shape
    few = 2 * columns <= MOST_TERMS and columns * classes <= MOST_SLOPES and design.size <= MOST_CELLS
    return rows >= FEWEST_ROWS and few and any(np.ptp(column[np.isfinite(column)]) > 0 for column in design)


def _rows_looked_at(count: int) -> NDArray[np.int64]:
    """Choose up to 1,000 rows, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_ROWS)).astype(np.int64))


def _weights_looked_at(weights: Floats | None, rows: NDArray[np.int64]) -> Floats:
    """Return the weights of those rows with mean 1: their unit means nothing."""
    if weights is None or not weights[rows].any():
        return np.ones(len(rows))
    return np.asarray(weights[rows] / weights[rows].mean())


def _is_clearly_better(scores: Floats, others: Floats, margin: float = MARGIN) -> bool:
    gain = scores - others
    return bool(gain.sum() > margin * math.sqrt(len(gain)) * gain.std())


def _skewness(y: Floats) -> float:
    centred = y - y.mean()
    return float(np.mean(centred**3)) / (float(np.mean(centred**2)) ** 1.5 or 1.0)


def _log_likelihood(transform: Transform, y: Floats, design: Floats, weights: Floats) -> float:
    """Compute the largest log likelihood of a linear model of T(y), up to a constant."""
    u = transform.forward(y)
    sd = residual_sd(u, design, weights)
    if sd is None:
        sd = float(np.std(u))
    return float(transform.log_slope(y).sum()) - len(y) * math.log(max(sd, np.finfo(float).tiny))


def _log_scores(
    transform: Transform | None, y: Floats, z: Floats | None, weights: Floats, codes: NDArray[np.uint8]
) -> Floats:
    """Compute each row's log density of y, up to a constant, by fits to other rows."""
    u = y if transform is None else transform.forward(y)
    centre, scale = float(np.median(u)), float(np.std(u)) or 1.0
    squares = weights * held_out_residuals(codes, z, (u - centre) / scale, weights) ** 2
    seen = max(int(np.count_nonzero(weights)), 1)
    variance = max(float(squares.sum()) / seen, np.finfo(float).tiny)
    slopes = 0.0 if transform is None else transform.log_slope(y)
    density = slopes - math.log(scale) - 0.5 * (math.log(variance) + squares / variance)
    return np.where(weights > 0, density, 0.0)
