"""One chain: start or resume, run, take the kept draws, checkpoint."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sampler.bart.checkpoint import (
    Reader,
    check_leaves,
    check_numbers,
    check_sizes,
    check_trees,
    distinct_rows,
    read_checkpoint,
    write_checkpoint,
)
from sampler.bart.families.likelihood import Likelihood, likelihood_of
from sampler.bart.forest_call import ForestCall
from sampler.bart.hyperpriors import Hyper, drawn
from sampler.bart.kernels import state as bart_state
from sampler.bart.kernels.forest_sweep import (
    keep_draw,
    rebuild,
    recount,
    room_for_draw,
    room_for_trees,
)
from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, SIGMA2, UNIT
from sampler.bart.kernels.leaf_models.residual_bound import measure_bound
from sampler.bart.kernels.probit import draw_latent_given
from sampler.bart.kernels.state import (
    BROKEN,
    GRID_LIMIT,
    KEEP,
    NEED,
    PREVIOUS,
    Forest,
    KeptDraws,
    Schedule,
    Work,
)
from sampler.bart.kernels.steps.one_outcome import SWEEP_OUTCOME
from sampler.bart.number_of_trees import with_number_drawn
from sampler.bart.part import kernels_of
from sampler.bart.particle_gibbs import Particles, are_used
from sampler.bart.shared.threads import Threads
from sampler.bart.state import (
    can_split,
    make_data,
    make_forest,
    make_kept,
    make_tree_prior,
    make_work,
    monotone_columns,
)
from sampler.chains import MarkovChain, check_random, count_moves
from sampler.errors import PackedError, SamplerError
from sampler.kernels.arrays import BYTE_LEAVES
from sampler.kernels.jit import warm
from sampler.moves import MOVE_NAMES
from sampler.storage.draws import NUM_TREES, Draws
from sampler.training import Training

FIRST_LEAVES = 16  # room per tree; doubled when a tree needs more
OUT_OF_GRID = "the chain left the grid of residuals: the prior is thousands of times wider than y"
FAINTEST = 0.02  # the likelihood's power in an annealed chain's first iteration


class Chain(MarkovChain):
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
    team
        Threads that share its passes over rows (docs/maths.md#several-threads), from the first run on that
        has several, and where it has normal leaves.

    """

    def __init__(self, training: Training, chain: int, leaves: int) -> None:
        """Make the arrays, with room for `leaves` leaves in each tree (see `start`, `resume`)."""
        warm([training.settings, *kernels_of(training)])
        self.training = training
        self.chain = chain
        self.iteration = 0
        self.num_kept = 0
        self._data = make_data(training)
        self._likelihood = self._make_likelihood(training)
        self._plans, self._models = self._likelihood.plans, self._likelihood.models
        self._noise = self._models[0].noise  # the models share one array
        self._forests: list[Forest] = [
            make_forest(
                self._likelihood.data_of(plan, self._data),
                make_tree_prior(plan, model, monotone_columns(self._data, training, plan), training.shares),
                plan.num_trees,
                leaves,
            )
            for plan, model in zip(self._plans, self._models, strict=True)
        ]
        self._kept = self._make_kept()
        self._particles: Particles | None = None
        if are_used(training.settings):
            self._particles = Particles(self._data, training.settings)
            trees = [plan.trees for plan in self._plans]
            self._forests = list(map(self._particles.updating, self._forests, self._models, trees))
        self._hyper: Hyper | None = None
        if drawn(training.constants) and self._plans[0].leaves == "normal":
            self._hyper = Hyper(self._data, training)
            self._forests[0] = self._hyper.with_shares(self._forests[0])
        if training.constants.num_trees:
            scalars, place = self._likelihood.scalars, self._likelihood.scalar_names.index(NUM_TREES)
            self._forests[0] = with_number_drawn(
                self._forests[0], self._models[0], training.constants, scalars[place : place + 1]
            )
        for plan, forest in zip(self._plans, self._forests, strict=True):
            forest.leaf[:, 0] = (0, -1, 0, can_split(self._likelihood.data_of(plan, self._data)))
        self.team: Threads | None = None
        self._work: Work

    @staticmethod
    def _make_likelihood(training: Training) -> Likelihood:
        """Make what the outcomes depend on the forests by."""
        return likelihood_of(training.settings.family)(training)

    @classmethod
    def start(cls, training: Training, chain: int) -> Self:
        """Start a chain: every tree a stump of value 0, sigma at its estimate."""
        self = cls(training, chain, FIRST_LEAVES)
        seed = np.random.SeedSequence(training.settings.seed, spawn_key=(chain,))
        self._work = make_work(self._data, FIRST_LEAVES, seed.generate_state(4, np.uint64), training.settings)
        self._recompute()
        return self

    @classmethod
    def resume(cls, training: Training, checkpoint: bytes) -> Self:
        """Restore the chain that `checkpoint` was taken of, bit for bit.

        Returns
        -------
        Chain
            The chain, between the same two iterations.

        Raises
        ------
        PackedError
            For bytes that are damaged or were taken of other data or settings.

        """
        (chain, iteration, num_kept, capacity), body = read_checkpoint(checkpoint, training)
        most = max(FIRST_LEAVES, 4 * training.codes.shape[1])
        if not FIRST_LEAVES <= capacity <= most:
            raise PackedError(
                "the checkpoint's trees have impossible sizes: it is damaged or of another version"
            )
        self = cls(training, chain, capacity)
        self.iteration, self.num_kept = iteration, num_kept
        self.check_counts()
        reader = Reader(body)
        random = reader.take(np.uint64, 4)
        check_random(random)
        self._work = make_work(self._data, capacity, random, training.settings)
        for values in self._state():
            taken = reader.take(values.dtype, values.size).reshape(values.shape)
            check_numbers(taken)
            values[...] = taken
        for plan, forest in zip(self._plans, self._forests, strict=True):
            data = self._likelihood.data_of(plan, self._data)
            for values in _moves_and_sizes(forest):
                values[...] = reader.take(values.dtype, values.size).reshape(values.shape)
            least = 0 if len(forest.prior.log_odds) else 1
            check_sizes(forest.num_leaves, capacity, data.num_rows, least)
            for values in _tables(forest):
                values[...] = reader.take(values.dtype, values.size).reshape(values.shape)
            check_trees(forest, len(data.codes))
        if not self._likelihood.fits() or not (self._hyper is None or self._hyper.fits(self._models[0])):
            raise PackedError("the checkpoint's numbers are out of range")
        self._recompute()
        self._check_rows()
        return self

    def _check_rows(self) -> None:
        """Check that restored trees part the rows, and leave these within the grid; raise PackedError."""
        distinct: dict[int, NDArray[np.int64]] = {}
        for plan, forest, model in zip(self._plans, self._forests, self._models, strict=True):
            data = self._likelihood.data_of(plan, self._data)
            if id(data.codes) not in distinct:
                distinct[id(data.codes)] = distinct_rows(data)
            check_leaves(forest, distinct[id(data.codes)])
            rows = model.residual if plan.leaves == "normal" else model.log_value
            if np.abs(rows[: data.num_rows].astype(np.int64)).max() > 4 * GRID_LIMIT:
                raise PackedError("the checkpoint's trees leave the grid")

    @property
    def sigma(self) -> float:
        """The noise standard deviation of the current state, in units of y."""
        return float(np.sqrt(self._noise[0])) * self.training.constants.step

    @property
    def noise_mean(self) -> float:
        """The mean of the noise, which draws have in the leaves of their first trees, in grid steps."""
        return self._likelihood.noise_mean

    @property
    def leaf_counts(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """Leaves of each tree of the current state, int32 [trees of all forests]."""
        return np.concatenate([forest.num_leaves for forest in self._forests])

    def run(self, iterations: int) -> int:
        """Run up to `iterations` iterations without the GIL; return how many (fewer only at the end).

        Raises
        ------
        SamplerError
            When the state leaves the grid of residuals: the prior allows values far beyond the data's.

        """
        before = self.iteration
        stop = min(before + max(int(iterations), 0), self.iterations)
        with self._sharing():
            self._run_to(stop)
        return self.iteration - before

    def _sharing(self) -> AbstractContextManager[None]:
        """Share passes over rows with other threads in a block, if there are to be several."""
        if self.threads == 1 or self._particles or self._plans[0].leaves != "normal":
            return nullcontext()
        if self.team is None:
            self.team = Threads(self.threads, self._data.codes.shape[1])
            self._work = self.team.join(self._work)
        return self.team.working()

    def _run_to(self, stop: int) -> None:
        """Iterate to `stop`, and make room whenever it is needed.

        Particles find out in the middle of an iteration: it is then done again from its start.
        """
        while self.iteration < stop:
            kept_before = int(self._kept[0].fill[0])
            before = [values.copy() for values in self._between_iterations()] if self._particles else []
            rows = [values.copy() for values in self._rows_from_outside] if before else []
            self.iteration, need = self._sweep(stop)
            self.num_kept += int(self._kept[0].fill[0]) - kept_before
            if need == bart_state.OUT_OF_GRID:
                raise SamplerError(OUT_OF_GRID)
            if need == bart_state.NEEDS_ROOM:
                self._enlarge_kept(stop)
            if need != bart_state.DONE and before:
                for values, old in zip(self._between_iterations(), before, strict=True):
                    values[...] = old
                self._recompute()
                for values, old in zip(self._rows_from_outside, rows, strict=True):
                    values[...] = old
                    measure_bound(self._models[0].residual, self._models[0].bound)
            if need == bart_state.NEEDS_LEAVES:
                self._enlarge_trees()
            elif need == bart_state.NEEDS_PLANE:
                self._add_planes()
            elif need == bart_state.NEEDS_NODES and self._particles:
                self._particles.enlarge()

    def _sweep(self, stop: int) -> tuple[int, int]:
        """Iterate up to `stop` or until room is needed; return iterations done so far and the need.

        One call does all successive iterations of one kind between which nothing else is drawn.
        """
        particles, hyper = self._particles, self._hyper
        stop = self._temper(stop)
        shares_drawn = self.training.constants.sparse
        if shares_drawn or particles:
            stop = min(stop, self.iteration + 1)
        if particles:
            particles.take_turn(self.iteration, self._work.random)
        reached, need = self._likelihood.run(
            self._data, self._forests, self._work, self._kept, self._schedule(stop)
        )
        if reached > self.iteration and hyper and shares_drawn:
            hyper.step(self._data, self._forests[0], self._work)
        return reached, need

    def _temper(self, stop: int) -> int:
        """Set the likelihood's power for the next iteration; return up to which one it stays, at most `stop`.

        It depends on the iteration alone: a resumed chain has it too.
        """
        settings = self.training.settings
        half = settings.num_burnin // 2
        if settings.start != "annealed" or settings.prior_only:
            return stop
        if self.iteration >= half:
            self._noise[LIKELIHOOD] = 1.0
            return stop
        self._noise[LIKELIHOOD] = FAINTEST ** (1 - self.iteration / half)
        return min(stop, self.iteration + 1)

    def _schedule(self, stop: int) -> Schedule:
        """Make the schedule of the iterations from the present one to `stop`."""
        settings = self.training.settings
        return Schedule(self.iteration, stop, settings.num_burnin, settings.thin)

    def take(self) -> Draws | None:
        """Hand over the draws kept since the last take; None if there are none."""
        if self._kept[0].fill[0] == 0:
            return None
        first, *others = [
            _draws_of(kept, plan.num_trees) for kept, plan in zip(self._kept, self._plans, strict=True)
        ]
        scalars = {
            name: self._kept[0].scalars[: first.num_draws, k].copy()
            for k, name in enumerate(self._likelihood.scalar_names)
            if k > 0
        }
        self._kept = self._make_kept()
        names = [plan.name for plan in self._plans[1:]]
        forests = dict(zip(names, others, strict=True)) | self._likelihood.take(first.sigma)
        return replace(self._likelihood.complete(first, scalars), scalars=scalars, forests=forests)

    def present(self) -> Draws:
        """Copy the current state as one draw, without draws kept so far."""
        kept, self._kept = self._kept, self._make_kept()
        self._enlarge_kept(self.iteration, at_least=1)
        for forest, into in zip(self._forests, self._kept, strict=True):
            keep_draw(forest, self._work.stack, into, self._likelihood.scalars)
        self._likelihood.keep()
        draw = self.take()
        assert draw is not None
        self._kept = kept
        return draw

    def set_outcome(self, training: Training) -> None:
        """Go on with other outcomes of the same rows: those of `training`, which differs in nothing else.

        For numbers that are not censored: their residuals move by the difference of the outcomes.
        """
        residual, num_rows = self._models[0].residual, self._data.num_rows
        residual[:num_rows] += training.grid_y - self.training.grid_y
        measure_bound(residual, self._models[0].bound)
        self.training = training

    def set_weights(self, training: Training) -> None:
        """Go on with other weights of the same rows: those of `training`, which differs in nothing else.

        For numbers that had weights from the start, with normal noise of one size.
        """
        self._likelihood.count_rows(training)
        self.reweigh(training.grid_weights, training.weight_unit)
        self.training = training

    def _make_kept(self) -> list[KeptDraws]:
        return [make_kept(0, 0, plan.num_trees, len(self._likelihood.scalars)) for plan in self._plans]

    def checkpoint(self) -> bytes:
        """Pack the state between iterations; draws not yet taken are not part of it."""
        parts = [self._work.random, *self._state()]
        for forest in self._forests:
            parts += [*_moves_and_sizes(forest), *_tables(forest)]
        numbers = self.chain, self.iteration, self.num_kept, self._forests[0].leaf.shape[1]
        return write_checkpoint(self.training, numbers, b"".join(part.tobytes() for part in parts))

    def _state(self) -> list[NDArray[Any]]:
        """Random state besides the forests, as views: of the likelihood, then the hyperparameters."""
        hyper = self._hyper.state(self._models[0]) if self._hyper else []
        return [*self._likelihood.state(), *hyper]

    def _between_iterations(self) -> list[NDArray[Any]]:
        """All that determines what follows, as views; the rows' part of it is computed anew."""
        tables = [table for forest in self._forests for table in (forest.node, forest.leaf)]
        sizes = [values for forest in self._forests for values in _moves_and_sizes(forest)]
        return [self._work.random, *self._state(), *sizes, *tables]

    def statistics(self) -> dict[str, Any]:
        """Count the moves so far: `{"moves": {"grow": {"proposed": .., "accepted": ..}, ..}}`."""
        counters = np.sum([forest.counters for forest in self._forests], axis=0)
        return {"moves": count_moves(MOVE_NAMES, counters)}

    def residual(self) -> NDArray[np.int32]:
        """Copy the residual y minus all trees, in grid steps, int32 [n], as the sweep keeps it up to date."""
        residual: NDArray[np.int32] = self._models[0].residual
        return residual[: self._data.num_rows].copy()

    def sweep_given(self, others: NDArray[np.int32], variance: float) -> None:
        """Do one iteration while the residual has what other outcomes say of the errors taken out.

        Latent outcomes of classes stay as they are: see `draw_latent_given`.
        `others` are what they say, int32 [n] in grid steps; `variance` is that of the noise given them.
        """
        residual = self._models[0].residual[: self._data.num_rows]
        residual -= others
        self._noise[SIGMA2] = variance
        measure_bound(self._models[0].residual, self._models[0].bound)
        self._iterate_alone(self._held)
        residual += others

    @cached_property
    def _held(self) -> ForestCall:
        """The call of a sweep while latent outcomes stay as they are, which they do from now on."""
        self._likelihood.hold_latent()
        return ForestCall(SWEEP_OUTCOME)

    @property
    def _rows_from_outside(self) -> list[NDArray[np.int32]]:
        """Rows' numbers that other outcomes tell, of which trees and scalars say nothing, as views."""
        if "_held" not in vars(self):
            return []
        return [self._models[0].residual, self._likelihood.outcome.latent]

    def draw_latent_given(self, others: NDArray[np.int32], rows: NDArray[np.int64], variance: float) -> None:
        """Draw the latent outcomes of some rows given their classes and other outcomes: see `sweep_given`."""
        outcome, residual, sd = self._likelihood.outcome, self._models[0].residual, math.sqrt(variance)
        draw_latent_given(outcome, residual, others, rows, sd * outcome.step, self._work.random)

    def _iterate_alone(self, call: ForestCall) -> None:
        """Do what `run` does in one iteration whose noise is not drawn, in some microseconds less."""
        forest, settings = self._forests[0], self.training.settings
        past = self.iteration + 1 - settings.num_burnin
        keeps = past > 0 and past % settings.thin == 0
        shares_drawn = self.training.constants.sparse
        need = room_for_trees(forest.num_leaves, forest.plane, forest.leaf.shape[1])
        if need != bart_state.DONE or shares_drawn or self._particles:
            self.run(1)
            return
        if keeps and room_for_draw(forest, self._kept[0]) != bart_state.DONE:
            self._enlarge_kept(self.iteration, at_least=1 + int(self._kept[0].fill[0]))
        model, work = self._models[0], self._work
        self._likelihood.draw_beside(forest, work, call.places_of(self._data, forest, model, work))
        call(self._data, forest, model, work)
        self.iteration += 1
        if work.pending.state[BROKEN]:
            raise SamplerError(OUT_OF_GRID)
        if keeps:
            keep_draw(forest, work.stack, self._kept[0], self._likelihood.scalars)
            self._likelihood.keep()
            self.num_kept += 1

    def reweigh(self, weights: NDArray[np.int32], unit: float) -> None:
        """Set the rows' weights, int32 [n] in units of `unit`, and count the leaves' weights anew."""
        self._models[0].weights[:] = weights
        self._noise[UNIT] = unit
        for forest, model in zip(self._forests, self._models, strict=True):
            recount(self._data, forest, model)

    def _recompute(self) -> None:
        """Recompute slots, counts and residual from the trees."""
        if self._hyper:
            self._hyper.set_shares(self._forests[0])
        self._add_planes()
        self._work.pending.state[[BROKEN, PREVIOUS, KEEP, NEED]] = 0, -1, -1, 0
        self._likelihood.clear(self.training)
        for plan, forest, model in zip(self._plans, self._forests, self._models, strict=True):
            data = self._likelihood.data_of(plan, self._data)
            with self._likelihood.seen_by(plan):
                rebuild(data, forest, model)
            recount(data, forest, model)
        self._likelihood.measure()

    def _enlarge_trees(self) -> None:
        """Double the room for leaves in every tree, or more if particles grew a larger one."""
        room = self._forests[0].leaf.shape[1]
        capacity = 2 * room
        while self._particles and capacity < self._particles.outgrown[1]:
            capacity *= 2
        for number, old in enumerate(self._forests):
            new = make_forest(self._data, old.prior, len(old.num_leaves), capacity, rows=False)
            for name in ("node", "leaf", "count"):
                getattr(new, name)[:, :room] = getattr(old, name)
            self._forests[number] = old._replace(node=new.node, leaf=new.leaf, count=new.count)
        work = self._work
        fresh = make_work(self._data, capacity, work.random, self.training.settings, rows=False)
        fresh.pending.state[:] = work.pending.state
        self._work = fresh._replace(marks=work.marks, team=work.team, shared=work.shared)

    def _add_planes(self) -> None:
        """Add a high byte per row to each tree that is about to have more leaves than a byte can number."""
        for number, forest in enumerate(self._forests):
            outgrows = forest.num_leaves >= BYTE_LEAVES
            tree, leaves = self._particles.outgrown if self._particles else (0, 0)
            if leaves > BYTE_LEAVES:
                outgrows[tree : tree + 1] = True
            outgrown = np.flatnonzero(outgrows & (forest.plane < 0))
            if len(outgrown):
                planes = int(forest.plane.max()) + 1
                forest.plane[outgrown] = planes + np.arange(len(outgrown), dtype=np.int32)
                high = np.zeros((planes + len(outgrown), forest.slots.shape[1]), np.uint8)
                high[:planes, : forest.high.shape[1]] = forest.high[:planes]
                self._forests[number] = forest._replace(high=high)

    def _enlarge_kept(self, stop: int, at_least: int = 0) -> None:
        """Make room for the draws up to iteration `stop`, by the present sizes; never less than before."""
        settings = self.training.settings
        due = (
            max(stop - settings.num_burnin, 0) // settings.thin
            - max(self.iteration - settings.num_burnin, 0) // settings.thin
        )
        due = max(due, at_least)
        for number, (old, forest) in enumerate(zip(self._kept, self._forests, strict=True)):
            draws, nodes = (int(value) for value in old.fill)
            per_draw = int(np.sum(2 * forest.num_leaves + 1))
            more_draws = max(draws + due + 1, len(old.scalars))
            more_nodes = max(2 * nodes + (due + 1) * per_draw, len(old.feature))
            self._kept[number] = kept = make_kept(
                more_draws, more_nodes, len(forest.num_leaves), len(self._likelihood.scalars)
            )
            kept.fill[:] = draws, nodes
            for name in ("scalars", "tree_start", "feature", "cut", "missing_left", "leaf"):
                values = getattr(old, name)
                getattr(kept, name)[: len(values)] = values


def _moves_and_sizes(forest: Forest) -> list[NDArray[Any]]:
    """Move counters and tree sizes of a forest as a checkpoint holds them, as views."""
    return [forest.counters, forest.num_leaves]


def _tables(forest: Forest) -> list[NDArray[Any]]:
    """Tables of splits and leaves, tree by tree, as views."""
    return [
        table
        for tree, leaves in enumerate(forest.num_leaves)
        for table in (forest.node[tree, : leaves - 1], forest.leaf[tree, :leaves])
    ]


def _draws_of(kept: KeptDraws, num_trees: int) -> Draws:
    """Copy the kept draws of one forest."""
    draws, nodes = (int(value) for value in kept.fill)
    return Draws(
        num_trees=num_trees,
        sigma=kept.scalars[:draws, 0].copy(),
        tree_start=kept.tree_start[: draws * num_trees + 1].copy(),
        feature=kept.feature[:nodes].copy(),
        cut=kept.cut[:nodes].copy(),
        missing_left=kept.missing_left[:nodes].copy(),
        leaf=kept.leaf[:nodes].copy(),
    )
