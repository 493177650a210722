"""One chain of several outcomes: a chain of each, in turn, and the covariance of their errors.

y_ij = f_j(x_i) + e_ij with e_i ~ Normal(0, Sigma) (Chipman, George and McCulloch 2010, equation 29, with an f
for each outcome). Given the other outcomes' errors, an outcome's own is a normal variable whose mean is their
regression, so an ordinary chain draws f_j once that is taken out of its residuals. Outcomes that were not
observed are integrated out while trees are drawn, and drawn anew for each draw of Sigma. One outcome may have
two classes: its latent outcomes, of errors with variance 1, are drawn given the others as iterations begin.
Errors of a row of weight w have the covariance Sigma / w: what others say of an outcome is the same. Noise by
row is a weight that a forest of precisions says, learnt from the errors that a row has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart import noise_forest
from sampler.bart.chain import Chain
from sampler.bart.checkpoint import Reader, read_checkpoint, write_checkpoint
from sampler.bart.kernels.steps.covariance import (
    add_products,
    add_weighted_products,
    draw_covariance,
    draw_gamma,
    fill_normals,
    find_regression,
    regress,
)
from sampler.bart.several.noise import SharedNoise, in_units
from sampler.chains import MarkovChain, check_random
from sampler.definitions.several import correlation_name, forest_name, scalar_name
from sampler.errors import PackedError
from sampler.kernels.jit import warm
from sampler.settings import LIMITS, Settings
from sampler.storage.draws import Draws
from sampler.training import WEIGHT_BITS, SeveralTraining, Training

STREAMS = LIMITS["num_chains"][1]  # between the numbers of two outcomes' chains: none has another's stream
FARTHEST = 2.0**25  # of a residual, in grid steps


class SeveralChain(MarkovChain):
    """A Markov chain over the forests of several outcomes and the covariance of their errors.

    Attributes
    ----------
    training
        What it runs on.
    chain
        Its number.
    chains
        The chain of each outcome.
    noise
        The chain of precisions that differ by row; None for noise of one size.
    covariance
        The errors' covariance, float64 [outcome, outcome], each outcome in its own grid steps; of a row of
        weight 1 whose precision is 1.

    """

    def __init__(
        self,
        training: Training,
        chain: int,
        chains: Sequence[Chain],
        random: Any,
        noise: SharedNoise | None = None,
    ) -> None:
        """Put the chains of the outcomes together (see `start`, `resume`)."""
        assert training.several is not None, "there are several outcomes"
        warm(["forest-call", "several-outcomes"])
        self.training, self.chain, self.chains, self.noise = training, chain, list(chains), noise
        self._every: list[Chain] = [*chains] if noise is None else [*chains, noise]
        self._several = training.several
        self.iteration = self.num_kept = 0
        self._random = np.array(random, np.uint64)
        self._steps = np.array([part.constants.step for part in self._several.parts])
        self._of_classes = self._several.of_classes
        known = self._several.covariance
        starts = [part.constants.sigma_start for part in self._several.parts]
        start = np.diag(np.square(starts)) if known is None else known
        self.covariance: Floats = start / np.outer(self._steps, self._steps)
        self._kept: list[Floats] = []
        self._patterns = [
            [
                (code, np.flatnonzero(self._several.pattern[rows] == code))
                for code in _codes(self._several, rows)
            ]
            for rows in self._several.rows
        ]
        self._residual = np.zeros((len(self.chains), self._several.num_rows), np.int32)
        whole, pattern = (1 << len(self.chains)) - 1, self._several.pattern
        self._by_pattern = [(code, np.flatnonzero(pattern == code)) for code in np.unique(pattern).tolist()]
        self._incomplete = [each for each in self._by_pattern if each[0] != whole]
        self._weights = self._find_weights()
        self._others = [np.zeros(len(rows), np.int32) for rows in self._several.rows]
        scales = [part.constants.nu * part.constants.lambda_ for part in self._several.parts]
        self._prior_scatter = np.diag(scales / self._steps**2)
        size = len(self.chains)
        self._root, self._triangle, self._equations = np.zeros((3, size, size + 1))
        self._slopes = np.zeros(size)
        self._shape = next(
            part.constants.nu for number, part in enumerate(self._several.parts) if number != self._of_classes
        )
        for number in range(len(self.chains)):
            self._read_residual(number)

    @classmethod
    def start(cls, training: Training, chain: int) -> SeveralChain:
        """Start a chain: every tree a stump of value 0, errors without correlation."""
        parts = _parts(training)
        chains = [Chain.start(part, chain + STREAMS * number) for number, part in enumerate(parts)]
        key = (chain + STREAMS * len(parts),)
        random = np.random.SeedSequence(training.settings.seed, spawn_key=key).generate_state(4, np.uint64)
        place = chain + STREAMS * (len(parts) + 1)
        noise = [SharedNoise.start(own, place) for own in _noise(training)]
        return cls(training, chain, chains, random, *noise)

    @classmethod
    def resume(cls, training: Training, checkpoint: bytes) -> SeveralChain:
        """Restore the chain that `checkpoint` was taken of, bit for bit.

        Raises
        ------
        PackedError
            For bytes that are damaged or were taken of other data or settings.

        """
        (chain, iteration, num_kept, size), body = read_checkpoint(checkpoint, training)
        parts, noise = _parts(training), _noise(training)
        if size != len(parts):
            raise PackedError("the checkpoint is of other outcomes")
        reader = Reader(body)
        random = reader.take(np.uint64, 4)
        check_random(random)
        covariance = reader.take(np.float64, size * size).reshape(size, size)
        lengths = reader.take(np.int64, size + len(noise))
        states = [reader.take(np.uint8, int(length)).tobytes() for length in lengths]
        chains, of_noise = map(Chain.resume, parts, states), map(SharedNoise.resume, noise, states[size:])
        self = cls(training, chain, list(chains), random, *of_noise)
        self.iteration, self.num_kept = iteration, num_kept
        self.check_counts()
        if any(each.iteration != iteration for each in self._every):
            raise PackedError("the checkpoint's chains are not at the same iteration")
        if not np.array_equal(covariance, covariance.T) or np.linalg.eigvalsh(covariance)[0] <= 0:
            raise PackedError("the checkpoint's covariance is none")
        self.covariance = covariance.copy()
        return self

    def checkpoint(self) -> bytes:
        """Pack the state between iterations; draws not yet taken are not part of it."""
        states = [chain.checkpoint() for chain in self._every]
        lengths = np.array([len(state) for state in states], np.int64)
        body = [self._random.tobytes(), self.covariance.tobytes(), lengths.tobytes(), *states]
        numbers = self.chain, self.iteration, self.num_kept, len(self.chains)
        return write_checkpoint(self.training, numbers, b"".join(body))

    @property
    def sigma(self) -> float:
        """The noise standard deviation of the first outcome in the current state, in units of it."""
        return float(math.sqrt(self.covariance[0, 0]) * self._steps[0])

    @property
    def leaf_counts(self) -> NDArray[np.int32]:
        """Leaves of each tree of the current state, int32 [trees of all outcomes]."""
        return np.concatenate([chain.leaf_counts for chain in self._every])

    def statistics(self) -> dict[str, Any]:
        """Count the moves so far, of all outcomes: see `Chain.statistics`."""
        moves: dict[str, dict[str, int]] = {}
        for chain in self._every:
            for name, counts in chain.statistics()["moves"].items():
                total = moves.setdefault(name, dict.fromkeys(counts, 0))
                for each, count in counts.items():
                    total[each] += count
        return {"moves": moves}

    def run(self, iterations: int) -> int:
        """Run up to `iterations` iterations; return how many (fewer only at the end).

        Raises
        ------
        SamplerError
            When a state leaves the grid of residuals: see `Chain.run`.

        """
        before, settings = self.iteration, self.training.settings
        while self.iteration < min(before + max(int(iterations), 0), self.iterations):
            self._draw_latent()
            for number, chain in enumerate(self.chains):
                self._sweep(number, chain)
            if self._several.covariance is None:
                self._draw_covariance()
            if self.noise is not None:
                self.noise.learn(self._squares())
                self._weights = self._find_weights()
            self.iteration += 1
            past = self.iteration - settings.num_burnin
            if past > 0 and past % settings.thin == 0:
                self._kept.append(self.covariance.copy())
                self.num_kept += 1
        return self.iteration - before

    def _sweep(self, number: int, chain: Chain) -> None:
        """Let an outcome's chain do an iteration given the other outcomes' errors."""
        rows, patterns = self._several.rows[number], self._patterns[number]
        variances = self._regress(number)
        least = min(variances)
        if self.noise is not None:
            precision = noise_forest.given_weights(self._several.parts[number]) * self._precisions[rows]
            for variance, (_, members) in zip(variances, patterns, strict=True):
                precision[members] *= least / variance
            chain.reweigh(*in_units(precision))
        elif len(patterns) > 1:  # rows of which more is known count for more
            bits = min(WEIGHT_BITS - math.ceil(math.log2(len(rows))), 30)
            weights, part = np.zeros(len(rows), np.int32), self._several.parts[number]
            most = 2.0**bits - 1 if self._several.weights is None else part.grid_weights
            for variance, (_, members) in zip(variances, patterns, strict=True):
                own = most if isinstance(most, float) else most[members]
                weights[members] = np.rint(least / variance * own)
            chain.reweigh(weights, 1 / most if isinstance(most, float) else part.weight_unit)
        chain.sweep_given(self._others[number], least)
        self._read_residual(number)

    def _regress(self, number: int) -> list[float]:
        """Find what other outcomes say of an outcome's errors; return the variance left, by pattern."""
        rows, others, variances = self._several.rows[number], self._others[number], []
        for code, members in self._patterns[number]:
            variances.append(self._regression(number, code & ~(1 << number)))
            regress(self._residual, self._slopes, rows, members, others)
        return variances

    def _draw_latent(self) -> None:
        """Draw the latent outcomes of two classes given the numbers beside them, where there are classes."""
        number = self._of_classes
        if number is None or self.training.settings.prior_only:
            return
        for variance, (_, rows) in zip(self._regress(number), self._patterns[number], strict=True):
            self.chains[number].draw_latent_given(self._others[number], rows, variance)
        self._read_residual(number)

    def _draw_covariance(self) -> None:
        """Draw the errors' covariance, once errors that were not observed are drawn given those that were."""
        size, rows = len(self.chains), self._several.num_rows
        scatter, degrees = self._prior_scatter.copy(), self._shape + size - 1
        number = self._of_classes
        if number is not None:
            scatter[number, number] = self._spread(number)
        if not self.training.settings.prior_only:
            self._impute()
            degrees += rows
            if self._weights is None:
                add_products(self._residual, scatter)
            else:
                add_weighted_products(self._residual, self._weights, scatter)
        draw_covariance(scatter, float(degrees), self._random, self._root, self._triangle, self.covariance)
        if number is not None:
            slopes = self.covariance[number] / self.covariance[number, number]
            less = self.covariance[number, number] - 1 / self._steps[number] ** 2
            self.covariance -= less * np.outer(slopes, slopes)

    def _find_weights(self) -> Floats | None:
        """Return what divides the covariance of the rows' errors, float64 [n]; None where nothing does."""
        weights = self._several.weights
        if self.noise is None:
            return weights
        self._precisions = self.noise.precisions()
        return self._precisions * (1.0 if weights is None else weights)

    def _squares(self) -> Floats:
        """Compute the sizes of the observed errors by row, e' Sigma^-1 e by weight, float64 [n]."""
        squares = np.zeros(self._several.num_rows)
        for code, rows in self._by_pattern:
            before = 0
            for j in (j for j in range(len(self.chains)) if code >> j & 1):
                variance = self._regression(j, before)
                error = self._residual[j, rows].astype(np.float64)
                for k in (k for k in range(j) if code >> k & 1):
                    error -= self._slopes[k] * self._residual[k, rows]
                squares[rows] += error * error / variance
                before |= 1 << j
        return squares if self._several.weights is None else squares * self._several.weights

    def _spread(self, number: int) -> float:
        """Draw the prior precision of the numbers' slopes on the error of two classes.

        The slopes are normal with variances in proportion to s^2 ~ 1 / chi-square(nu), by which correlations
        have the law that they have among numbers (docs/maths.md#several-outcomes).
        """
        left = self._regression(number, ((1 << len(self.chains)) - 1) & ~(1 << number))
        drawn = draw_gamma(self._random, 0.5 * (self._shape + len(self.chains) - 1))
        return float(2 * left * drawn)

    def _impute(self) -> None:
        """Draw the errors that were not observed, in whole grid steps."""
        for code, rows in self._incomplete:
            for j in (j for j in range(len(self.chains)) if not code >> j & 1):
                variance = self._regression(j, code)
                error = np.empty(len(rows))
                fill_normals(self._random, error)
                error *= math.sqrt(variance)
                if self._weights is not None:
                    error /= np.sqrt(self._weights[rows])
                for k in (k for k in range(len(self.chains)) if code >> k & 1):
                    error += self._slopes[k] * self._residual[k, rows]
                self._residual[j, rows] = np.rint(np.clip(error, -FARTHEST, FARTHEST))
                code |= 1 << j  # noqa: PLW2901

    def _regression(self, number: int, seen: int) -> float:
        """Find the slopes of an outcome's error on others (bits of `seen`); return the variance left."""
        return float(find_regression(self.covariance, number, seen, self._equations, self._slopes))

    def _read_residual(self, number: int) -> None:
        """Take the present residuals of an outcome's chain."""
        residual = self.chains[number].residual()
        if len(residual) == self._several.num_rows:
            self._residual[number] = residual
        else:
            self._residual[number, self._several.rows[number]] = residual

    def set_outcomes(self, parts: Sequence[Training]) -> None:
        """Go on with other outcomes of the same rows: see `Chain.set_outcome`."""
        for chain, part in zip(self.chains, parts, strict=True):
            chain.set_outcome(part)
        for number in range(len(self.chains)):
            self._read_residual(number)

    def take(self) -> Draws | None:
        """Hand over the draws kept since the last take; None if there are none.

        They are those of the first outcome, with the other outcomes' as further forests, and with the errors'
        correlations as scalars (`sampler.definitions.several`).
        """
        taken = [chain.take() for chain in self.chains]
        if not self._kept:
            return None
        covariances, self._kept = np.array(self._kept), []
        sds = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
        scalars: dict[str, Floats] = {}
        own: list[Draws] = []
        for number, draws in enumerate(taken):
            assert draws is not None, "all chains keep draws at the same iterations"
            scalars |= {scalar_name(number, name): values for name, values in draws.scalars.items()}
            own.append(replace(draws, sigma=sds[:, number] * self._steps[number], scalars={}))
        for j in range(len(own)):
            for k in range(j):
                scalars[correlation_name(k, j)] = covariances[:, k, j] / (sds[:, k] * sds[:, j])
        forests = {
            forest_name(number): replace(draws, forests={}) for number, draws in enumerate(own) if number > 0
        }
        for number, draws in enumerate(own):  # of parts beside the trees
            forests |= {scalar_name(number, name): each for name, each in draws.forests.items()}
        if self.noise is not None and (precisions := self.noise.take()) is not None:
            scalars |= precisions.scalars
            forests[noise_forest.NAME] = replace(precisions, sigma=own[0].sigma, scalars={})
        return replace(own[0], scalars=scalars, forests=forests)


def _codes(several: SeveralTraining, rows: NDArray[np.int64]) -> list[int]:
    """List the patterns of observed outcomes among some rows."""
    codes: list[int] = np.unique(several.pattern[rows]).tolist()
    return codes


def _noise(training: Training) -> list[Training]:
    """Return what the chain of precisions runs on, if any, with the lengths of the whole fit."""
    assert training.several is not None, "there are several outcomes"
    noise = training.several.noise
    return [] if noise is None else _with_lengths(training.settings, [noise])


def _parts(training: Training) -> list[Training]:
    """Return what each outcome's chain runs on, with the lengths of the whole fit."""
    assert training.several is not None, "there are several outcomes"
    return _with_lengths(training.settings, training.several.parts)


def _with_lengths(whole: Settings, parts: Sequence[Training]) -> list[Training]:
    """Return trainings with as many iterations and draws as a whole fit has."""
    lengths = {name: getattr(whole, name) for name in ("num_draws", "num_burnin", "thin")}
    return [
        part
        if all(getattr(part.settings, name) == value for name, value in lengths.items())
        else replace(part, settings=replace(part.settings, **lengths))
        for part in parts
    ]
