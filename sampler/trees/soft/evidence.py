"""The evidence of one topology, by layered adaptive importance sampling with log weights.

The mathematics: docs/maths.md#divide-conquer-combine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats

LogDensity = Callable[[Floats], Floats]

RIDGE = 1e-9
BLOCK = 1 << 21  # distances between samples and draws held at once
NOTHING = -math.inf
UNSEEN = 700.0  # log weight below the largest from which a weight is negligible (exp underflows)


def sample_layers(
    draws: Floats, density: LogDensity, samples: int, rng: np.random.Generator, *, spatial: bool = True
) -> Iterator[tuple[Floats, Floats]]:
    """Draw samples around every draw, and compute their log weights, in blocks of bounded size.

    Samples around the draws of a chain are normal, with that chain's covariance. Their weight is the density
    divided by that of their own normal ("basic"), or by the mean of the normals of all draws of all chains
    ("spatial"), which wastes far fewer samples. A chain in a poor mode then takes nothing from one in a good
    mode, which the mean of each chain's own estimate would divide by the number of chains.

    Parameters
    ----------
    draws
        float64 [chain, draw, u].
    density
        Function from points [point, u] to their log densities [point], with all constants.
    samples
        Number of samples around each draw.
    rng
        Generator of the normals.
    spatial
        Whether weights are "spatial" rather than "basic".

    Yields
    ------
    tuple
        Samples, float64 [sample, u], and log weights, float64 [sample], minus infinity where the density is
        0.

    """
    chains, many, size = draws.shape
    step = max(1, BLOCK // (many + size))
    roots = [np.linalg.cholesky(_covariance(chain)) for chain in draws]
    centres = [np.linalg.solve(root, chain.T).T for root, chain in zip(roots, draws, strict=True)]
    constants = [-0.5 * size * math.log(2 * math.pi) - float(np.sum(np.log(np.diag(root)))) for root in roots]
    for k, chain in enumerate(draws):
        for begin in range(0, many * samples, step):
            near = np.arange(begin, min(begin + step, many * samples)) // samples
            z = rng.standard_normal((len(near), size))
            points = chain[near] + z @ roots[k].T
            if spatial:
                of_chains = [
                    constants[j]
                    + _log_mixture(
                        centres[k][near] + z if j == k else np.linalg.solve(roots[j], points.T).T, centres[j]
                    )
                    for j in range(chains)
                ]
                log_proposal = np.logaddexp.reduce(of_chains) - math.log(chains)
            else:
                log_proposal = constants[k] - 0.5 * np.sum(z**2, axis=1)
            log_target = density(points)
            yield points, np.where(np.isfinite(log_target), log_target - log_proposal, NOTHING)


def _covariance(draws: Floats) -> Floats:
    """Estimate the covariance of draws [draw, u], shrunk to its diagonal when draws are few."""
    many, size = draws.shape
    covariance = np.atleast_2d(np.cov(draws, rowvar=False))
    share = size / (size + many)
    scale = np.diag(np.diag(covariance))
    return np.asarray((1 - share) * covariance + share * scale + RIDGE * np.eye(size))


def _log_mixture(points: Floats, centres: Floats) -> Floats:
    """Compute the log of the mean of exp(-|point - centre|^2 / 2) over the centres, by point."""
    squares = np.sum(points**2, axis=1)[:, None] + np.sum(centres**2, axis=1) - 2 * points @ centres.T
    half = 0.5 * np.maximum(squares, 0)
    nearest = half.min(axis=1)  # cheaper than logaddexp, which takes an exp and a log for each pair
    total = np.exp(nearest[:, None] - half).sum(axis=1)
    return np.asarray(np.log(total) - nearest - math.log(len(centres)))


@dataclass
class Evidence:
    """Estimate of a topology's evidence: sums over all weights, and a reduced set of weighted samples."""

    samples: int = 0
    log_sum: float = NOTHING
    log_squares: float = NOTHING
    finite: int = 0
    mean_log: float = 0.0
    spread_log: float = 0.0  # sum of squares about that mean
    most: float = NOTHING
    points: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    log_weight: Floats = field(default_factory=lambda: np.zeros(0))

    def add(self, points: Floats, log_weight: Floats, room: int, rng: np.random.Generator) -> None:
        """Add samples [sample, u] and their log weights; keep at most `room` that represent all so far."""
        self.samples += len(log_weight)
        self.log_sum = float(np.logaddexp(self.log_sum, np.logaddexp.reduce(log_weight)))
        self.log_squares = float(np.logaddexp(self.log_squares, np.logaddexp.reduce(2 * log_weight)))
        seen = log_weight[np.isfinite(log_weight)]
        if len(seen):
            mean, total = float(seen.mean()), self.finite + len(seen)
            apart = (mean - self.mean_log) ** 2 * self.finite * len(seen) / total
            self.spread_log += float(np.sum((seen - mean) ** 2)) + apart
            self.mean_log += (mean - self.mean_log) * len(seen) / total
            self.finite = total
            self.most = max(self.most, float(seen.max()))
        points = np.concatenate([self.points.reshape(-1, points.shape[1]), points])
        chosen, weights = reduce_samples(np.concatenate([self.log_weight, log_weight]), room, rng)
        self.points, self.log_weight = points[chosen], weights

    @property
    def log_evidence(self) -> float:
        """Log of the mean weight."""
        return self.log_sum - math.log(self.samples) if self.samples else NOTHING

    @property
    def ess(self) -> float:
        """Effective sample size."""
        return math.exp(2 * self.log_sum - self.log_squares) if self.log_sum > NOTHING else 0.0

    @property
    def log_variance(self) -> float:
        """Log of the variance of the weights."""
        mean_square = self.log_squares - math.log(self.samples)
        less = 2 * self.log_evidence - mean_square
        return mean_square + math.log(-math.expm1(less)) if less < 0 else NOTHING


def reduce_samples(
    log_weight: Floats, room: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Floats]:
    """Choose at most `room` weighted samples, with new weights of the same expectation.

    Heavy samples keep their weight; of the others some are chosen systematically by weight and get equal
    weights. This choice has the least variance (Fearnhead and Clifford 2003). Returns positions and log
    weights.
    """
    top = float(log_weight.max(initial=NOTHING))
    there = np.flatnonzero(log_weight > top - UNSEEN)
    if len(there) <= room:
        return there, log_weight[there]
    weight = np.exp(log_weight[there] - top)
    order = np.argsort(-weight, kind="stable")
    ranked = weight[order]
    rest = np.cumsum(ranked[::-1])[::-1]  # weights of each sample and all lighter ones
    # the number of heavy samples: the first at which the next weight is at most rest / places left
    heavy = int(np.argmax(ranked[:room] * (room - np.arange(room)) <= rest[:room] * (1 + 1e-12)))
    light = order[heavy:]
    each = rest[heavy] / (room - heavy)
    ends = np.cumsum(weight[light])
    places = (np.arange(room - heavy) + rng.random()) * each
    chosen = light[np.minimum(np.searchsorted(ends, places, side="right"), len(light) - 1)]
    selected = np.concatenate([order[:heavy], chosen])
    weights = np.concatenate([log_weight[there][order[:heavy]], np.full(len(chosen), math.log(each) + top)])
    return there[selected], weights


def fill_samples(
    chosen: NDArray[np.int64], log_weight: Floats, many: int
) -> tuple[NDArray[np.int64], Floats]:
    """Split the heaviest samples in two of half the weight until there are `many`."""
    chosen, log_weight = chosen.copy(), log_weight.copy()
    while len(chosen) < many:
        heaviest = int(np.argmax(log_weight))
        log_weight[heaviest] -= math.log(2)
        chosen, log_weight = np.append(chosen, chosen[heaviest]), np.append(log_weight, log_weight[heaviest])
    return chosen, log_weight
