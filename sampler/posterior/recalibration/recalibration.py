"""The law F'(y | x) = Phi(T(Phi^-1(F(y | x)) / s(x))): T, s, and what they do to normal scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from sampler.array_types import Floats
from sampler.definitions.parts import PartFacts
from sampler.posterior.recalibration.scale_trees import ScaleTrees

FARTHEST = 8.2  # normal scores beyond which a probability is 0 or 1 in floating point
FAR = 50.0  # times the last knot: no score is beyond
FINEST = 1 / 24  # steps of log s: rows of one step have their ends computed together
WIDEST = 36  # such steps, on either side
KNOTS = 15
LEAST_SLOPE, LARGEST_SLOPE = 0.2, 5.0
POINTS = np.linspace(-6, 6, 97)  # normal scores at which scores are summed, and at every other one moments
SHARES = np.exp(-0.5 * POINTS**2) / np.exp(-0.5 * POINTS**2).sum()


@dataclass(frozen=True)
class Recalibration(PartFacts):
    """Difference between the distribution of outcomes and what a law says of it, as learnt from rows.

    Attributes
    ----------
    source, target
        T, float64 [knot]: linear between these scores, in proportion to the score beyond them.
    trees, factor, middle
        log s(x) is `factor` times what `trees` add up to less `middle`; without trees s is 1. Features are
        the codes of a row, then the mean and the sd of its law.
    low, high
        Outcomes beyond which there are none: half a range from the training outcomes.
    shift
        Added to every outcome, for the sake of the mean.
    rows, of_training
        By how many held-out and training rows it was learnt.
    draws
        Draws per chain of the law.

    """

    source: Floats
    target: Floats
    low: float
    high: float
    rows: int
    of_training: int
    draws: int
    trees: ScaleTrees | None = None
    factor: float = 0.0
    middle: float = 0.0
    shift: float = 0.0

    def forward(self, z: Floats) -> Floats:
        """Compute T."""
        return _piecewise(z, self.source, self.target)

    def backward(self, v: Floats) -> Floats:
        """Compute the inverse of T."""
        return _piecewise(v, self.target, self.source)

    def slope(self, z: Floats) -> Floats:
        """Compute the derivative of T."""
        inner = np.diff(self.target) / np.diff(self.source)
        ends = self.target[[0, -1]] / self.source[[0, -1]]
        slopes = np.concatenate([ends[:1], inner, ends[1:]])
        return np.asarray(slopes[np.searchsorted(self.source, z)])

    def scale(self, codes: NDArray[np.uint8], mean: Floats, sd: Floats) -> Floats:
        """Compute s of rows, float64 [row], in steps, by their codes [column, row] and moments [row]."""
        if self.trees is None:
            return np.ones(len(mean))
        log_scale = self.factor * (self.trees.of(features_of(codes, mean, sd)) - self.middle)
        return np.asarray(np.exp(FINEST * np.clip(np.rint(log_scale / FINEST), -WIDEST, WIDEST)))

    def score(self, w: Floats, scale: Floats) -> Floats:
        """Return the normal score that F' gives where F gives `w`."""
        return self.forward(w / scale)

    def score_before(self, v: Floats, scale: Floats | float) -> Floats:
        """Return the normal score that F gives where F' gives `v`."""
        return np.asarray(scale * self.backward(v))

    def tails(self, tails: Floats, scale: float) -> Floats:
        """Return the tails of F that are these of F', negative for upper ones, at rows of such a scale."""
        v = np.where(tails < 0, -1.0, 1.0) * ndtri(np.abs(tails))
        w = np.clip(self.score_before(v, scale), -FARTHEST, FARTHEST)
        return np.asarray(np.where(w > 0, -ndtr(-w), ndtr(w)))

    def inside(self, y: Floats) -> Floats:
        """Shift outcomes of F' and hold them where there are any."""
        return np.asarray(np.clip(y + self.shift, self.low, self.high))

    def shifted(self, shift: float) -> Self:
        """Return it with so much added to every outcome."""
        return replace(self, shift=shift)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        plain = {name: getattr(self, name) for name in PLAIN}
        trees = {} if self.trees is None else {"trees": self.trees.to_json()}
        return {"source": self.source.tolist(), "target": self.target.tolist(), **plain, **trees}

    @classmethod
    def from_json(cls, values: Any, schema: Any, shape: tuple[int, ...]) -> Self:  # noqa: ARG003
        """Read what `to_json` returned, of a model with reference rows of that shape [coded column, row].

        Raises ValueError, KeyError or TypeError for anything else.
        """
        trees = values.get("trees")
        read = None if trees is None else ScaleTrees.from_json(trees, shape[0] + 2)
        knots = [np.array(values[name], np.float64) for name in ("source", "target")]
        plain: dict[str, Any] = {name: kind(values[name]) for name, kind in PLAIN.items()}
        own = cls(source=knots[0], target=knots[1], trees=read, **plain)
        sound = [own.factor, own.middle, own.low, own.high, own.shift, *own.source, *own.target]
        if not np.isfinite(sound).all() or own.low >= own.high or abs(own.factor) > 1:
            raise ValueError("its recalibration is out of range")
        if any(each.shape != (KNOTS,) or not each[0] < 0 < each[-1] for each in knots) or not all(
            np.all(np.diff(each) > 0) for each in knots
        ):
            raise ValueError("the knots of its recalibration don't increase")
        return own


PLAIN = {
    **dict.fromkeys(("low", "high", "factor", "middle", "shift"), float),
    **dict.fromkeys(("rows", "of_training", "draws"), int),
}


def features_of(codes: NDArray[np.uint8], mean: Floats, sd: Floats) -> Floats:
    """Arrange the features of the scale's trees, float64 [feature, row]."""
    features: Floats = np.concatenate([codes.astype(np.float64), mean[None], sd[None]])
    return np.nan_to_num(features, nan=np.inf, posinf=np.inf, neginf=-np.inf)


def _piecewise(at: Floats, x: Floats, y: Floats) -> Floats:
    """Interpolate linearly between knots, in proportion beyond the first and the last."""
    xs, ys = (np.concatenate([FAR * each[:1], each, FAR * each[-1:]]) for each in (x, y))
    return np.asarray(np.interp(at, xs, ys), np.float64)
