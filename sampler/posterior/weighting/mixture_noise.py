"""A mixture of normals as the shape of the noise (docs/maths.md#mixtures-of-normals)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from sampler.array_types import Floats
from sampler.kernels.jit import warm
from sampler.posterior.kernels.normal_mixture import density_at, probability_below

LEAST = 1e-6  # share of a component that counts
CLOSE = 1e-6  # of shares to a sum of 1
LARGEST = 1e150  # mean or sd, and one over an sd: their squares are still finite


def are_components(parts: Floats) -> bool:
    """Tell whether shares, means and sds, [3, component, ..], are those of mixtures."""
    share, mean, sd = parts
    right = np.all(np.abs(mean) <= LARGEST) and np.all((sd >= 1 / LARGEST) & (sd <= LARGEST))
    right = right and np.all(share >= 0)
    return bool(right and np.all(np.abs(share.sum(axis=0) - 1) < CLOSE))


@dataclass(frozen=True)
class Mixture:
    """Mixtures of normals, of mean 0 and sd 1.

    Attributes
    ----------
    share, mean, sd
        Of the components, float64 [component, ..]; the others after the first axis are those of errors.
        Components are in the order of their shares, those that count for nothing are 0.

    """

    share: Floats
    mean: Floats
    sd: Floats

    @classmethod
    def of(cls, parts: Floats) -> Mixture:
        """Make the shape of mixtures of any mean and sd from shares, means and sds [3, component, ..]."""
        share, mean, sd = parts
        middle = np.sum(share * mean, axis=0)
        spread = np.sqrt(np.sum(share * ((mean - middle) ** 2 + sd**2), axis=0))
        share = np.where(share < LEAST, 0.0, share)
        order = np.argsort(-share, axis=0, kind="stable")
        most = int(np.max(np.sum(share > 0, axis=0)))
        ranked = [np.take_along_axis(each, order, axis=0)[:most] for each in (share, mean, sd)]
        return cls(ranked[0] / ranked[0].sum(axis=0), (ranked[1] - middle) / spread, ranked[2] / spread)

    @property
    def narrowest(self) -> Floats:
        """The sds' mean by their logarithms."""
        return np.asarray(np.exp(np.sum(self.share * np.log(self.sd), axis=0)))

    def map(self, change: Callable[[Floats], Floats]) -> Mixture:
        """Return the shape with its arrays by draw changed."""
        share, mean, sd = (
            np.stack([change(each) for each in part]) for part in (self.share, self.mean, self.sd)
        )
        return Mixture(share, mean, sd)

    def mirrored(self) -> Mixture:
        """Return the shape of the noise with the sign changed."""
        return Mixture(self.share, -self.mean, self.sd)

    def log_density(self, z: Floats) -> Floats:
        """Compute the log density at z."""
        with np.errstate(divide="ignore"):
            parts = [
                np.log(share) - np.log(sd) - 0.5 * ((z - mean) / sd) ** 2
                for share, mean, sd in zip(self.share, self.mean, self.sd, strict=True)
            ]
        return np.asarray(np.logaddexp.reduce(parts, axis=0) - 0.5 * np.log(2 * np.pi))

    def scaled_density(self, z: Floats) -> Floats:
        """Compute the density at z times the root of 2 pi."""
        return np.asarray(self._evaluated(density_at, z) * np.sqrt(2 * np.pi))

    def below(self, z: Floats) -> Floats:
        """Compute the probability of values below z."""
        return self._evaluated(probability_below, z)

    def _evaluated(self, kernel: Callable[..., None], z: Floats) -> Floats:
        by_draw = self.share.shape[1:]
        count = int(np.prod(by_draw))
        full = np.broadcast_shapes(z.shape, by_draw)
        place = np.broadcast_to(np.arange(count).reshape(by_draw), full)
        share, mean, inverse = (
            np.ascontiguousarray(part.reshape(len(part), count).T)
            for part in (self.share, self.mean, 1 / self.sd)
        )
        values, z = np.empty(full), np.array(np.broadcast_to(z, full), np.float64, order="C")
        unknown = np.isnan(z)
        z[unknown] = 0.0  # a number that no table lacks
        warm("mixtures")
        kernel(
            z.reshape(-1),
            np.array(place, np.int64, order="C").reshape(-1),
            share,
            mean,
            inverse,
            values.reshape(-1),
        )
        values[unknown] = np.nan
        return values

    def around(self, q: float) -> tuple[Floats, Floats]:
        """Compute the least and the largest of the components' q-quantiles."""
        return self._ends(ndtri(q), ndtri(q))

    def reach(self, sds: float) -> tuple[Floats, Floats]:
        """Compute the farthest ends of all components, that many of their sds from their means."""
        return self._ends(-sds, sds)

    def _ends(self, low: float, high: float) -> tuple[Floats, Floats]:
        counts = self.share > 0
        least = np.where(counts, self.mean + low * self.sd, np.inf).min(axis=0)
        return least, np.where(counts, self.mean + high * self.sd, -np.inf).max(axis=0)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draw values of that shape, with which the arrays by draw broadcast."""
        u = rng.uniform(size=shape)
        edges = np.cumsum(self.share, axis=0)[:-1]
        label = np.sum([u >= edge for edge in edges], axis=0, dtype=np.int64) + np.zeros(shape, np.int64)
        mean, sd = (
            np.choose(label, [np.broadcast_to(each, shape) for each in part]) for part in (self.mean, self.sd)
        )
        return np.asarray(mean + sd * rng.standard_normal(shape))

    def mean_size(self, mean: Floats, sd: Floats) -> Floats:
        """Compute E|Z| for Z of that mean and standard deviation."""
        total = np.zeros(np.broadcast_shapes(mean.shape, sd.shape, self.share.shape[1:]))
        for share, middle, spread in zip(self.share, self.mean, self.sd, strict=True):
            at, width = mean + sd * middle, sd * spread
            z = at / width
            total += share * (2 * width * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi) + at * (2 * ndtr(z) - 1))
        return total
