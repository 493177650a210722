"""The Markov chain of single-tree methods (Bayesian CART)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.cart import state as arrays
from sampler.cart.kernels import state
from sampler.cart.kernels.sweep import cart_sweep
from sampler.cart.kernels.tree import look_below, plant
from sampler.chains import MarkovChain, count_moves
from sampler.kernels.jit import warm
from sampler.storage import tree_checkpoint as checkpoint

if TYPE_CHECKING:
    from sampler.storage.draws import Draws
    from sampler.training import Training

MOVES = ("grow", "prune", "change", "swap", "restructure")


class TreeChain(MarkovChain):
    """Bayesian CART (Chipman, George and McCulloch 1998), with leaf parameters integrated out.

    It has the interface of `sampler.chains.AnyChain`.
    """

    def __init__(self, training: Training, chain: int, random: np.ndarray[Any, Any]) -> None:
        """Initialise the arrays; make chains by `start` or `resume`."""
        warm(training.settings)

        self.training = training
        self.chain = chain
        self.iteration = 0
        self.num_kept = 0
        self._random = np.array(random, np.uint64)
        self._rows = arrays.make_rows(training)
        self._stats, self._values = arrays.num_stats(training), arrays.num_values(training)
        self._moves = np.array([training.settings.moves.get(name, 0.0) for name in MOVES])
        self._counters = np.zeros((len(MOVES), 2), np.int64)
        self._kept = arrays.make_kept(0, 0, self._values)
        self._make_room(arrays.FIRST_NODES)
        self._tree = arrays.make_tree(self._rows, self._stats, arrays.FIRST_NODES)
        plant(self._rows, self._tree)

    @classmethod
    def start(cls, training: Training, chain: int) -> TreeChain:
        """Start a chain from a lone leaf."""
        seed = np.random.SeedSequence(training.settings.seed, spawn_key=(chain,))
        return cls(training, chain, seed.generate_state(4, np.uint64))

    @classmethod
    def resume(cls, training: Training, data: bytes) -> TreeChain:
        """Restore the chain that wrote the checkpoint, bit for bit; raise PackedError."""
        chain, (counts, random, counters, node) = checkpoint.read(training, data)
        self = cls(training, chain, random)
        self.iteration, self.num_kept = (int(value) for value in counts)
        self._counters[:] = counters
        while len(self._tree.node) < len(node):
            self._enlarge()
        self._tree.size[0] = len(node)
        self._tree.node[: len(node)] = node

        look_below(self._rows, self._tree, self._room, 0, False)
        return self

    def run(self, iterations: int) -> int:
        """Run up to `iterations` iterations without the GIL; return the number done."""
        settings = self.training.settings
        before = self.iteration
        stop = min(before + max(int(iterations), 0), self.iterations)
        plan = np.array([before, stop, settings.num_burnin, settings.thin, 0])
        need = -1
        while need != state.DONE:
            plan[0] = self.iteration
            kept = int(self._kept.fill[0])
            reached, need = cart_sweep(
                self._rows, self._tree, self._trial, self._room, self._random, self._moves, self._counters,
                self._kept, plan,
            )  # fmt: skip
            self.iteration = int(reached)
            self.num_kept += int(self._kept.fill[0]) - kept
            if need == state.NEEDS_NODES:
                self._enlarge()
            elif need == state.NEEDS_ROOM:
                self._enlarge_kept(stop)
        return self.iteration - before

    def take(self) -> Draws | None:
        """Return the draws kept since the last call, or None, and release them."""
        draws = arrays.take(self._kept)
        self._kept = arrays.make_kept(0, 0, self._values)
        return draws

    def checkpoint(self) -> bytes:
        """Encode the state between iterations, without draws not yet taken."""
        counts = np.array([self.iteration, self.num_kept])
        node = self._tree.node[: int(self._tree.size[0])]
        return checkpoint.write(self.training, self.chain, [counts, self._random, self._counters, node])

    def statistics(self) -> dict[str, Any]:
        """Return the counters of the moves: `{"moves": {"grow": {"proposed": .., "accepted": ..}, ..}}`."""
        return {"moves": count_moves(MOVES, self._counters)}

    def _make_room(self, capacity: int) -> None:
        restructures = bool(self._moves[-1])
        self._room = arrays.make_room(self._rows, self._stats, capacity, restructures=restructures)
        self._trial = arrays.make_tree(self._rows, self._stats, capacity)

    def _enlarge(self) -> None:
        """Double the room for nodes."""
        capacity = 2 * len(self._tree.node)
        self._tree = arrays.enlarge(self._tree, capacity)
        self._make_room(capacity)

    def _enlarge_kept(self, stop: int) -> None:
        """Make room for the draws up to iteration `stop`, estimated from the tree's current size."""
        draws, nodes, _ = (int(value) for value in self._kept.fill)
        settings = self.training.settings
        left = max(stop - max(self.iteration, settings.num_burnin), 0) // settings.thin + 2
        per_draw = 2 * int(self._tree.size[0]) + 4
        self._kept = arrays.enlarge_kept(self._kept, draws + left, 2 * nodes + left * per_draw)
