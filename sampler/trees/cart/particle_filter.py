"""The particle filter over single trees (method smc)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.cart.kernels.particle_filter import Cloud, advance, resample
from sampler.cart.kernels.rows import log_likelihood
from sampler.cart.kernels.state import KeptTrees, Room, Tree
from sampler.cart.kernels.sweep import keep
from sampler.cart.kernels.tree import look_below, plant, totals
from sampler.errors import SettingsError
from sampler.kernels.jit import warm
from sampler.storage import tree_checkpoint as checkpoint
from sampler.storage.draws import Draws
from sampler.training import Training
from sampler.trees.cart import state
from sampler.trees.cart.leaf_models import log_constant

THRESHOLD = 0.1  # effective sample size over particles at which they are resampled
MOST_CELLS = 50_000_000  # particles times rows: each particle lists every row, twice 4 bytes
# counters in a checkpoint
CURSOR, IDLE, STAGES, DRAWN, FURTHEST, COMPLETE = range(6)


def check_size(particles: int, rows: int) -> None:
    """Raise SettingsError where particles of that many rows need too much memory."""
    if particles * rows > MOST_CELLS:
        raise SettingsError(
            f"num_draws: {particles} particles of {rows} rows are too many, since each lists every row; "
            f"at most {max(MOST_CELLS // rows, 1)} here",
            field="num_draws",
            code="too_large",
        )


class FilterRun:
    """One run of the particle filter of Lakshminarayanan, Roy and Teh (2013).

    It has the interface of `sampler.chains.AnyChain`. A unit of work is one node of one particle; `iteration`
    counts complete particles. The draws, one per particle, come at the end; their weights sum to the run's
    estimate of the evidence.
    """

    def __init__(self, training: Training, chain: int, random: NDArray[Any]) -> None:
        """Initialise the arrays; make runs by `start` or `resume`."""
        warm(training.settings)
        check_size(training.settings.num_draws, len(training.y))
        self.training = training
        self.chain = chain
        self.num_kept = 0
        self._random = np.array(random, np.uint64)
        self._rows = state.make_rows(training)
        self._best = "optimal" in training.settings.moves
        self._counts = np.zeros(6, np.int64)
        self._evidence = np.zeros(1)
        self._kept: KeptTrees | None = None
        self._cloud: Cloud = self._make_cloud(state.FIRST_NODES)
        self._spare: Cloud = self._make_cloud(state.FIRST_NODES)
        self._room = self._make_room(state.FIRST_NODES)

    @classmethod
    def start(cls, training: Training, chain: int) -> FilterRun:
        """Start a run with every particle a lone leaf; raise SettingsError where memory is too small."""
        seed = np.random.SeedSequence(training.settings.seed, spawn_key=(chain,))
        self = cls(training, chain, seed.generate_state(4, np.uint64))
        for c in range(training.settings.num_draws):
            plant(self._rows, self._tree(c))
        self._evidence[0] = log_constant(training) + log_likelihood(self._rows, *totals(self._tree(0)))
        return self

    @classmethod
    def resume(cls, training: Training, data: bytes) -> FilterRun:
        """Restore the run that wrote the checkpoint, bit for bit; raise PackedError."""
        chain, (counts, random, evidence, log_weight, size, after, node) = checkpoint.read(
            training, data, "i8:1 u8:1 f8:1 f8:1 i8:1 i8:1 i4:3"
        )
        self = cls(training, chain, random)
        self._counts[:], self._evidence[:] = counts, evidence
        self._enlarge(max(node.shape[1], state.FIRST_NODES))
        cloud = self._cloud
        cloud.log_weight[:], cloud.size[:], cloud.next[:] = log_weight, size, after
        cloud.node[:, : node.shape[1]] = node
        cloud.span[:, 0, 1] = len(training.y)  # the root's rows; the others follow from the rules
        for c in range(len(size)):
            look_below(self._rows, self._tree(c), self._room, 0, False)
        self.num_kept = len(size) if counts[COMPLETE] else 0
        return self

    @property
    def iterations(self) -> int:
        """Number of particles."""
        return self.training.settings.num_draws

    @property
    def iteration(self) -> int:
        """Largest number of complete particles at the end of any stage so far."""
        return int(self._counts[FURTHEST])

    @property
    def phase(self) -> str:
        """Always "sampling"."""
        return "sampling"

    @property
    def done(self) -> bool:
        """Whether every particle is complete."""
        return bool(self._counts[COMPLETE])

    def run(self, iterations: int) -> int:
        """Decide on up to `iterations` nodes of particles without the GIL; return the number visited."""
        counts, left = self._counts, max(int(iterations), 0)
        while left > 0 and not self.done:
            if counts[CURSOR] == 0 and int(self._cloud.size.max()) + 2 > self._cloud.node.shape[1]:
                self._enlarge(2 * self._cloud.node.shape[1])
            first = int(counts[CURSOR])
            cursor, idle = advance(
                self._rows, self._cloud, self._room, self._random, first, left, self._best
            )  # fmt: skip
            left -= int(cursor) - first
            counts[CURSOR] = cursor
            counts[IDLE] += idle
            if cursor == self.iterations:
                self._end_stage()
        return max(int(iterations), 0) - left

    def take(self) -> Draws | None:
        """Return the draws once every particle is complete, and release them; None before and after."""
        if not self.done or self._kept is None:
            return None
        kept, self._kept = self._kept, None
        total = np.logaddexp.reduce(self._cloud.log_weight)
        return state.take(kept, self._cloud.log_weight - total + self._evidence[0])

    def checkpoint(self) -> bytes:
        """Encode the state between units of work."""
        cloud = self._cloud
        parts = [self._counts, self._random, self._evidence, cloud.log_weight, cloud.size, cloud.next]
        return checkpoint.write(self.training, self.chain, [*parts, cloud.node[:, : int(cloud.size.max())]])

    def statistics(self) -> dict[str, Any]:
        """Return the numbers of stages and resamplings, and the log evidence (None before the end)."""
        return {
            "filter": {
                "stages": int(self._counts[STAGES]),
                "resampled": int(self._counts[DRAWN]),
                "log_evidence": float(self._evidence[0]) if self.done else None,
            }
        }

    def _end_stage(self) -> None:

        counts = self._counts
        finished = int(counts[IDLE])
        counts[STAGES] += 1
        counts[CURSOR] = counts[IDLE] = 0
        counts[FURTHEST] = max(counts[FURTHEST], min(finished, self.iterations - 1))
        if finished == self.iterations:
            self._finish()
            return
        drawn, log_mean = resample(self._cloud, self._spare, self._random, THRESHOLD)
        if drawn:
            self._cloud, self._spare = self._spare, self._cloud
            self._evidence[0] += log_mean
            counts[DRAWN] += 1

    def _finish(self) -> None:
        """Draw the leaf parameters of every particle; add the remaining weights to the evidence."""
        many = self.iterations
        self._evidence[0] += np.logaddexp.reduce(self._cloud.log_weight) - np.log(many)
        size = self._cloud.size
        room = int(size.sum() + size.max())  # the kernel asks for room as if all nodes of a tree were leaves
        kept = state.make_kept(many, room, state.num_values(self.training))
        for c in range(many):
            assert keep(self._rows, self._tree(c), self._room, self._random, kept)
        self._kept = kept
        self.num_kept = many
        self._counts[COMPLETE], self._counts[FURTHEST] = 1, many

    def _tree(self, c: int) -> Tree:
        cloud = self._cloud
        return Tree(
            cloud.size[c : c + 1], cloud.node[c], cloud.span[c], cloud.stat[c], cloud.term[c], cloud.order[c]
        )

    def _enlarge(self, capacity: int) -> None:
        """Make room for `capacity` nodes of every particle."""
        old, new = self._cloud, self._make_cloud(capacity)
        for name in new._fields:
            values = getattr(old, name)
            getattr(new, name)[tuple(slice(size) for size in values.shape)] = values
        self._cloud, self._spare = new, self._make_cloud(capacity)
        self._room = self._make_room(capacity)

    def _make_cloud(self, capacity: int) -> Cloud:
        return state.make_cloud(self._rows, state.num_stats(self.training), self.iterations, capacity)

    def _make_room(self, capacity: int) -> Room:
        stats = state.num_stats(self.training)
        return state.make_room(self._rows, stats, capacity, restructures=False)
