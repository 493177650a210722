"""One chain of several outcomes: a chain of each, in turn, and the covariance of their errors.

y_ij = f_j(x_i) + e_ij with e_i ~ Normal(0, Sigma) (Chipman, George and McCulloch 2010, equation 29, with an f
for each outcome). Given the other outcomes' errors, an outcome's own is a normal variable whose mean is their
regression, so an ordinary chain draws f_j once that is taken out of its residuals. Outcomes that were not
observed are integrated out while trees are drawn, and drawn anew for each draw of Sigma. One outcome may have
two classes: its latent outcomes, of errors with variance 1, are drawn given the others as iterations begin.
Errors of a row of weight w have the covariance Sigma / w: what others say of an outcome is the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
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
from sampler.chains import MarkovChain, check_random
from sampler.definitions.several import correlation_name, forest_name, scalar_name
from sampler.errors import PackedError
from sampler.kernels.jit import warm
from sampler.settings import LIMITS
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
    covariance
        The errors' covariance, float64 [outcome, outcome], each outcome in its own grid steps.

    """

    def __init__(self, training: Training, chain: int, chains: Sequence[Chain], random: Any) -> None:
        """Put the chains of the outcomes together (see `start`, `resume`)."""
        assert training.several is not None, "there are several outcomes"
        warm(["forest-call", "several-outcomes"])
        self.training, self.chain, self.chains = training, chain, list(chains)
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
        self._incomplete = [
            (code, np.flatnonzero(pattern == code)) for code in np.unique(pattern).tolist() if code != whole
        ]
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
        return cls(training, chain, chains, random)

    @classmethod
    def resume(cls, training: Training, checkpoint: bytes) -> SeveralChain:
        """Restore the chain that `checkpoint` was taken of, bit for bit.

        Raises
        ------
        PackedError
            For bytes that are damaged or were taken of other data or settings.

        """
        (chain, iteration, num_kept, size), body = read_checkpoint(checkpoint, training)
        if size != len(training.several.parts):  # type: ignore[union-attr]
            raise PackedError("the checkpoint is of other outcomes")
        reader = Reader(body)
        random = reader.take(np.uint64, 4)
        check_random(random)
        covariance = reader.take(np.float64, size * size).reshape(size, size)
        lengths = reader.take(np.int64, size)
        states = [reader.take(np.uint8, int(length)).tobytes() for length in lengths]
        parts = _parts(training)
        self = cls(training, chain, list(map(Chain.resume, parts, states)), random)
        self.iteration, self.num_kept = iteration, num_kept
        self.check_counts()
        if any(each.iteration != iteration for each in self.chains):
            raise PackedError("the checkpoint's chains are not at the same iteration")
        if not np.array_equal(covariance, covariance.T) or np.linalg.eigvalsh(covariance)[0] <= 0:
            raise PackedError("the checkpoint's covariance is none")
        self.covariance = covariance.copy()
        return self

    def checkpoint(self) -> bytes:
        """Pack the state between iterations; draws not yet taken are not part of it."""
        states = [chain.checkpoint() for chain in self.chains]
        lengths = np.array([len(state) for state in states], np.int64)
        body = [self._random.tobytes(), self.covariance.tobytes(), lengths.tobytes(), *states]
        numbers = self.chain, self.iteration, self.num_kept, len(states)
        return write_checkpoint(self.training, numbers, b"".join(body))

    @property
    def sigma(self) -> float:
        """The noise standard deviation of the first outcome in the current state, in units of it."""
        return float(math.sqrt(self.covariance[0, 0]) * self._steps[0])

    @property
    def leaf_counts(self) -> NDArray[np.int32]:
        """Leaves of each tree of the current state, int32 [trees of all outcomes]."""
        return np.concatenate([chain.leaf_counts for chain in self.chains])

    def statistics(self) -> dict[str, Any]:
        """Count the moves so far, of all outcomes: see `Chain.statistics`."""
        moves: dict[str, dict[str, int]] = {}
        for chain in self.chains:
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
        if len(patterns) > 1:  # rows of which more is known count for more
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
            if self._several.weights is None:
                add_products(self._residual, scatter)
            else:
                add_weighted_products(self._residual, self._several.weights, scatter)
        draw_covariance(scatter, float(degrees), self._random, self._root, self._triangle, self.covariance)
        if number is not None:
            slopes = self.covariance[number] / self.covariance[number, number]
            less = self.covariance[number, number] - 1 / self._steps[number] ** 2
            self.covariance -= less * np.outer(slopes, slopes)

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
                if self._several.weights is not None:
                    error /= np.sqrt(self._several.weights[rows])
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
        return replace(own[0], scalars=scalars, forests=forests)


def _codes(several: SeveralTraining, rows: NDArray[np.int64]) -> list[int]:
    """List the patterns of observed outcomes among some rows."""
    codes: list[int] = np.unique(several.pattern[rows]).tolist()
    return codes


def _parts(training: Training) -> list[Training]:
    """Return what each outcome's chain runs on, with the lengths of the whole fit."""
    assert training.several is not None, "there are several outcomes"
    whole = training.settings
    lengths = {name: getattr(whole, name) for name in ("num_draws", "num_burnin", "thin")}
    return [
        part
        if all(getattr(part.settings, name) == value for name, value in lengths.items())
        else replace(part, settings=replace(part.settings, **lengths))
        for part in training.several.parts
    ]
