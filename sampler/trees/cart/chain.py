"""The Markov chain of single-tree methods (Bayesian CART)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.cart.kernels import state
from sampler.cart.kernels.sweep import cart_sweep
from sampler.cart.kernels.tree import look_below, plant
from sampler.chains import MarkovChain, count_moves
from sampler.errors import PackedError
from sampler.kernels.arrays import MISSING
from sampler.kernels.jit import warm
from sampler.storage import tree_checkpoint as checkpoint
from sampler.storage.draws import Draws
from sampler.training import Training
from sampler.trees.cart import state as arrays

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
        chain, (counts, random, counters, node, *_) = checkpoint.read(training, data, "i8:1 u8:1 i8:2 i4:2")
        self = cls(training, chain, random)
        self.iteration, self.num_kept = (int(value) for value in counts[:2])
        self.check_counts()
        if counters.shape != self._counters.shape or not _is_tree(node, *self._rows.codes.shape):
            raise PackedError("the checkpoint's tree is none")
        self._counters[:] = counters
        splittable = self._tree.node[0, state.SPLITTABLE]  # of the root, which has all rows
        while len(self._tree.node) < len(node):
            self._enlarge()
        self._tree.size[0] = len(node)
        self._tree.node[: len(node)] = node
        self._tree.node[0, state.SPLITTABLE] = splittable
        if not look_below(self._rows, self._tree, self._room, 0, False)[0]:
            raise PackedError("the checkpoint's tree doesn't part its rows")
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


def _is_tree(node: NDArray[np.int32], num_columns: int, num_rows: int) -> bool:
    """Tell whether nodes, int32 [node, 7], hang together as a tree of rules on columns."""
    if node.shape[1] != state.NODE_SIZE or not 1 <= len(node) <= 2 * num_rows - 1:
        return False
    waiting, seen, table = [(0, 0, 0)], set[int](), node.tolist()
    while waiting:
        at, parent, depth = waiting.pop()
        if not 0 <= at < len(table) or at in seen:
            return False
        seen.add(at)
        feature, cut, side, child, above, level, _ = table[at]
        if level != depth or (at > 0 and above != parent):
            return False
        if feature != state.LEAF:
            if not (0 <= feature < num_columns and 0 <= cut < MISSING and side in (0, 1)):
                return False
            waiting += [(child, at, depth + 1), (child + 1, at, depth + 1)]
    return len(seen) == len(table)
