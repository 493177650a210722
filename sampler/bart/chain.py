"""One chain: start or resume, run, take the kept draws, checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.bart.checkpoint import Reader, read_checkpoint, write_checkpoint
from sampler.bart.hyperpriors import Hyper, drawn, groups_of
from sampler.bart.particle_gibbs import Particles, are_used
from sampler.bart.state import can_split, make_data, make_forest, make_kept, make_prior, make_work
from sampler.errors import SamplerError
from sampler.kernels.jit import warm
from sampler.methods import MOVE_NAMES
from sampler.storage.draws import Draws

if TYPE_CHECKING:
    from sampler.bart.kernels.state import Forest, Work
    from sampler.training import Training

FIRST_LEAVES = 16  # room per tree; doubled when a tree needs more
FAINTEST = 0.02  # the likelihood's power in an annealed chain's first iteration


class Chain:
    """A Markov chain over forests.

    Nothing depends on where calls of `run` fall, and chain c's random numbers depend on the seed and c alone.

    Attributes
    ----------
    training
        What it runs on.
    chain
        Its number.
    iteration
        Iterations done.

    """

    def __init__(self, training: Training, chain: int) -> None:
        """Use `start` or `resume`."""
        warm(training.settings)
        for group in groups_of(training):
            warm(group)
        self.training = training
        self.chain = chain
        self.iteration = 0
        self.num_kept = 0
        self._data = make_data(training)
        self._prior, self._depths, self._moves = make_prior(training)
        self._counters = np.zeros((len(MOVE_NAMES), 2), np.int64)
        self._kept = make_kept(0, 0, training.settings.num_trees)
        self._particles = Particles(self._data, training.settings) if are_used(training.settings) else None
        self._hyper: Hyper | None = None
        if drawn(training.constants):
            self._hyper = Hyper(self._data, training)
        self._forest: Forest
        self._work: Work

    @classmethod
    def start(cls, training: Training, chain: int) -> Chain:
        """A chain at its first state: every tree a stump of value 0, sigma at its estimate."""
        self = cls(training, chain)
        num_trees = training.settings.num_trees
        self._forest = make_forest(self._data, num_trees, FIRST_LEAVES)
        self._forest.leaf[:, 0] = (0, -1, 0, can_split(self._data))
        seed = np.random.SeedSequence(training.settings.seed, spawn_key=(chain,))
        self._work = make_work(self._data, FIRST_LEAVES, seed.generate_state(4, np.uint64), training.settings)
        self._recompute()
        return self

    @classmethod
    def resume(cls, training: Training, checkpoint: bytes) -> Chain:
        """The chain that `checkpoint` was taken of, bit for bit.

        Raises
        ------
        PackedError
            For bytes that are damaged or were taken of other data or settings.

        """
        (chain, iteration, num_kept, capacity), body = read_checkpoint(checkpoint, training)
        self = cls(training, chain)
        num_trees = training.settings.num_trees
        self.iteration, self.num_kept = iteration, num_kept
        self._forest = make_forest(self._data, num_trees, capacity)
        reader = Reader(body)
        words = reader.take(np.uint64, 4)
        self._work = make_work(self._data, capacity, words, training.settings)
        self._prior[0] = reader.take(np.float64, 1)[0]
        if self._hyper:
            self._hyper.restore(self._prior, reader.take(np.float64, self._hyper.size))
        self._counters[:] = reader.take(np.int64, self._counters.size).reshape(self._counters.shape)
        self._forest.num_leaves[:] = reader.take(np.int32, num_trees)
        for tree, leaves in enumerate(self._forest.num_leaves):
            self._forest.node[tree, : leaves - 1] = reader.take(np.int32, (leaves - 1) * 6).reshape(-1, 6)
            self._forest.leaf[tree, :leaves] = reader.take(np.int32, leaves * 4).reshape(-1, 4)
        self._recompute()
        return self

    @property
    def iterations(self) -> int:
        """Iterations in all, burn-in and sampling."""
        return self.training.settings.iterations

    @property
    def phase(self) -> str:
        """`burn_in` or `sampling`."""
        return "burn_in" if self.iteration < self.training.settings.num_burnin else "sampling"

    @property
    def done(self) -> bool:
        """Whether every iteration is done."""
        return self.iteration >= self.iterations

    @property
    def sigma(self) -> float:
        """The noise standard deviation of the current state, in units of y."""
        return float(np.sqrt(self._prior[0])) * self.training.constants.step

    @property
    def leaf_counts(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """Leaves of each tree of the current state, int32 [m]."""
        return self._forest.num_leaves.copy()

    def run(self, iterations: int) -> int:
        """Do up to that many iterations, without the GIL; returns how many were done (fewer only at the end).

        Raises
        ------
        SamplerError
            When the state leaves the grid of residuals: the prior allows values far beyond the data's.

        """
        from sampler.bart.kernels import state as bart_state  # noqa: PLC0415

        before = self.iteration
        stop = min(before + max(int(iterations), 0), self.iterations)
        while self.iteration < stop:
            kept_before = int(self._kept.fill[0])
            self.iteration, need = self._sweep(stop)
            self.num_kept += int(self._kept.fill[0]) - kept_before
            if need == bart_state.OUT_OF_GRID:
                raise SamplerError(
                    "the chain left the grid of residuals: the prior is thousands of times wider than y"
                )
            if need == bart_state.NEEDS_LEAVES:
                self._enlarge_trees()
            elif need == bart_state.NEEDS_PLANE:
                self._add_planes()
            elif need == bart_state.NEEDS_ROOM:
                self._enlarge_kept(stop)
            elif need == bart_state.NEEDS_NODES and self._particles:
                self._particles.enlarge()
        return self.iteration - before

    def _sweep(self, stop: int) -> tuple[int, int]:
        """Iterations up to `stop`, or until something is needed: how many are done, and what.

        One call does as many as are of one kind with nothing to draw between them.
        """
        particles, hyper = self._particles, self._hyper
        stop = self._temper(stop)
        if hyper or (particles and not particles.alone):
            stop = min(stop, self.iteration + 1)
        if particles and particles.take_turn(self.iteration, self._work.random):
            tables = self._prior, self._depths, self._counters
            reached, need = particles.sweep(
                self._data, self._forest, self._work, tables, self._kept, self.iteration, stop
            )
        else:
            reached, need = self._sweep_locally(stop)
        if reached > self.iteration:
            if particles:
                particles.end_turn()
            if hyper:
                hyper.step(self._data, self._forest, self._work, self._prior)
        return reached, need

    def _temper(self, stop: int) -> int:
        """Set the likelihood's power for the next iteration; until which one, `stop` at most, it stays.

        It depends on the iteration alone: a resumed chain has it too.
        """
        from sampler.bart.kernels.state import LIKELIHOOD  # noqa: PLC0415  # kernels load with the first chain

        settings = self.training.settings
        half = settings.num_burnin // 2
        if settings.start != "annealed" or settings.prior_only:
            return stop
        if self.iteration >= half:
            self._prior[LIKELIHOOD] = 1.0
            return stop
        self._prior[LIKELIHOOD] = FAINTEST ** (1 - self.iteration / half)
        return min(stop, self.iteration + 1)

    def _sweep_locally(self, stop: int) -> tuple[int, int]:
        from sampler.bart.kernels.sweep import sweep  # noqa: PLC0415  # kernels load with the first chain

        settings = self.training.settings
        reached, need = sweep(
            self._data, self._forest, self._work, self._prior, self._depths, self._moves, self._counters,
            self._kept, self.iteration, stop, settings.num_burnin, settings.thin,
        )  # fmt: skip
        return int(reached), int(need)

    def take(self) -> Draws | None:
        """The draws kept since the last take, or None; they are the caller's now."""
        draws, nodes = (int(value) for value in self._kept.fill)
        if draws == 0:
            return None
        kept = self._kept
        num_trees = self.training.settings.num_trees
        self._kept = make_kept(0, 0, num_trees)
        return Draws(
            num_trees=num_trees,
            sigma=kept.sigma[:draws].copy(),
            tree_start=kept.tree_start[: draws * num_trees + 1].copy(),
            feature=kept.feature[:nodes].copy(),
            cut=kept.cut[:nodes].copy(),
            missing_left=kept.missing_left[:nodes].copy(),
            leaf=kept.leaf[:nodes].copy(),
        )

    def checkpoint(self) -> bytes:
        """The state between iterations, small; draws not yet taken are not in it."""
        forest = self._forest
        parts = [
            self._work.random,
            self._prior[:1],
            *(self._hyper.state(self._prior) if self._hyper else []),
            self._counters,
            forest.num_leaves,
        ]
        for tree, leaves in enumerate(forest.num_leaves):
            parts += [forest.node[tree, : leaves - 1], forest.leaf[tree, :leaves]]
        numbers = self.chain, self.iteration, self.num_kept, forest.leaf.shape[1]
        return write_checkpoint(self.training, numbers, b"".join(part.tobytes() for part in parts))

    def statistics(self) -> dict[str, Any]:
        """What the moves did so far: `{"moves": {"grow": {"proposed": .., "accepted": ..}, ..}}`."""
        moves = {
            name: {"proposed": int(proposed), "accepted": int(accepted)}
            for name, (proposed, accepted) in zip(MOVE_NAMES, self._counters, strict=True)
            if proposed
        }
        return {"moves": moves}

    def residual(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """What the trees leave of y, in grid steps, int32 [n]; kept up by the sweep, never recomputed."""
        return self._work.residual[: self._data.num_rows].copy()

    def _recompute(self) -> None:
        """Slots, counts and residual from the trees."""
        from sampler.bart.kernels.sweep import rebuild  # noqa: PLC0415

        if self._hyper:
            self._work = self._hyper.with_law(self._work)
        self._add_planes()
        self._work.residual[: self._data.num_rows] = self.training.grid_y
        rebuild(self._data, self._forest, self._work)

    def _enlarge_trees(self) -> None:
        """Twice the room for leaves in every tree, or more if particles found a larger one."""
        old = self._forest
        capacity = 2 * old.leaf.shape[1]
        while self._particles and capacity < self._particles.leaves:
            capacity *= 2
        new = make_forest(self._data, len(old.num_leaves), capacity, rows=False)
        for name in ("node", "leaf", "count"):
            getattr(new, name)[:, : old.leaf.shape[1]] = getattr(old, name)
        self._forest = old._replace(node=new.node, leaf=new.leaf, count=new.count)
        state = self._work
        fresh = make_work(self._data, capacity, state.random, self.training.settings, rows=False)
        fresh.old[: len(state.old)] = state.old  # of a tree that particles are about to replace
        self._work = fresh._replace(
            law=state.law,
            residual=state.residual,
            state=state.state,
            mask=state.mask,
            member=state.member,
            latent=state.latent,
        )

    def _add_planes(self) -> None:
        """A high byte per row for each tree that is about to have more leaves than a byte can number."""
        forest = self._forest
        outgrows = forest.num_leaves >= 255
        if self._particles and self._particles.leaves > 255:  # of the tree under way; none after the last one
            outgrows[self._particles.tree : self._particles.tree + 1] = True
        outgrown = np.flatnonzero(outgrows & (forest.plane < 0))
        if len(outgrown):
            planes = int(forest.plane.max()) + 1
            forest.plane[outgrown] = planes + np.arange(len(outgrown), dtype=np.int32)
            high = np.zeros((planes + len(outgrown), forest.slots.shape[1]), np.uint8)
            high[:planes, : forest.high.shape[1]] = forest.high[:planes]
            self._forest = forest._replace(high=high)

    def _enlarge_kept(self, stop: int) -> None:
        """Room for the draws up to iteration `stop`, by the forest as it is; never less than there was."""
        old = self._kept
        draws, nodes = (int(value) for value in old.fill)
        settings = self.training.settings
        due = (
            max(stop - settings.num_burnin, 0) // settings.thin
            - max(self.iteration - settings.num_burnin, 0) // settings.thin
        )
        per_draw = int(np.sum(2 * self._forest.num_leaves + 1))
        more_draws = max(draws + due + 1, len(old.sigma))
        more_nodes = max(2 * nodes + (due + 1) * per_draw, len(old.feature))
        self._kept = make_kept(more_draws, more_nodes, settings.num_trees)
        self._kept.fill[:] = draws, nodes
        for name in ("sigma", "tree_start", "feature", "cut", "missing_left", "leaf"):
            values = getattr(old, name)
            getattr(self._kept, name)[: len(values)] = values
