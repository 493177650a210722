"""One chain: start or resume, run, take the kept draws, checkpoint."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.compile import address, warm
from sampler.draws import Draws
from sampler.errors import PackedError, SamplerError
from sampler.settings import MOVES, RULE_DRAW

if TYPE_CHECKING:
    from sampler.kernels.shapes import Data, Forest, Kept, Work
    from sampler.training import Training

MAGIC = b"BSC1"
HEADER = struct.Struct(
    "<4sIIIqqqi"
)  # magic, checksum, fingerprint, chain, iteration, kept, trees' leaves, moves
FIRST_LEAVES = 16  # room per tree; doubled when a tree needs more
DEPTHS = 64  # tabled depths of the tree prior
COUNTED = (*MOVES, RULE_DRAW)


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
        warm()
        self.training = training
        self.chain = chain
        self.iteration = 0
        self.num_kept = 0
        self._data = _make_data(training)
        self._prior, self._depths, self._moves = _make_prior(training)
        self._counters = np.zeros((len(COUNTED), 2), np.int64)
        self._reshapes = bool({"change", "swap"} & training.settings.moves.keys())
        self._kept = _make_kept(0, 0, training.settings.num_trees)
        self._forest: Forest
        self._work: Work

    @classmethod
    def start(cls, training: Training, chain: int) -> Chain:
        """A chain at its first state: every tree a stump of value 0, sigma at its estimate."""
        self = cls(training, chain)
        num_trees = training.settings.num_trees
        self._forest = _make_forest(self._data, num_trees, FIRST_LEAVES)
        self._forest.leaf[:, 0] = (0, -1, 0, _can_split(self._data))
        seed = np.random.SeedSequence(training.settings.seed, spawn_key=(chain,))
        self._work = _make_work(
            self._data, FIRST_LEAVES, seed.generate_state(4, np.uint64), reshapes=self._reshapes
        )
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
        header, body = _open_checkpoint(checkpoint)
        fingerprint, chain, iteration, num_kept, capacity, _moves = header
        if fingerprint != training.fingerprint:
            raise PackedError("the checkpoint belongs to other data or settings")
        self = cls(training, chain)
        num_trees = training.settings.num_trees
        self.iteration, self.num_kept = iteration, num_kept
        self._forest = _make_forest(self._data, num_trees, capacity)
        reader = _Reader(body)
        words = reader.take(np.uint64, 4)
        self._work = _make_work(self._data, capacity, words, reshapes=self._reshapes)
        self._prior[0] = reader.take(np.float64, 1)[0]
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
        from sampler.kernels import shapes  # noqa: PLC0415  # kernels load with the first chain, not before
        from sampler.kernels.sweep import sweep  # noqa: PLC0415

        settings = self.training.settings
        before = self.iteration
        stop = min(before + max(int(iterations), 0), self.iterations)
        while self.iteration < stop:
            kept_before = int(self._kept.fill[0])
            reached, need = sweep(
                self._data, self._forest, self._work, self._prior, self._depths, self._moves, self._counters,
                self._kept, self.iteration, stop, settings.num_burnin, settings.thin,
            )  # fmt: skip
            self.iteration = int(reached)
            self.num_kept += int(self._kept.fill[0]) - kept_before
            if need == shapes.OUT_OF_GRID:
                raise SamplerError(
                    "the chain left the grid of residuals: the prior is thousands of times wider than y"
                )
            if need == shapes.NEEDS_LEAVES:
                self._enlarge_trees()
            elif need == shapes.NEEDS_PLANE:
                self._add_planes()
            elif need == shapes.NEEDS_ROOM:
                self._enlarge_kept(stop)
        return self.iteration - before

    def take(self) -> Draws | None:
        """The draws kept since the last take, or None; they are the caller's now."""
        draws, nodes = (int(value) for value in self._kept.fill)
        if draws == 0:
            return None
        kept = self._kept
        num_trees = self.training.settings.num_trees
        self._kept = _make_kept(0, 0, num_trees)
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
            self._counters,
            forest.num_leaves,
        ]
        for tree, leaves in enumerate(forest.num_leaves):
            parts += [forest.node[tree, : leaves - 1], forest.leaf[tree, :leaves]]
        body = zlib.compress(b"".join(part.tobytes() for part in parts), 1)
        fields = (self.training.fingerprint, self.chain, self.iteration, self.num_kept, forest.leaf.shape[1])
        head = HEADER.pack(MAGIC, 0, *fields, len(COUNTED))
        check = zlib.crc32(head + body)
        return HEADER.pack(MAGIC, check, *fields, len(COUNTED)) + body

    def statistics(self) -> dict[str, Any]:
        """What the moves did so far: `{"moves": {"grow": {"proposed": .., "accepted": ..}, ..}}`."""
        moves = {
            name: {"proposed": int(proposed), "accepted": int(accepted)}
            for name, (proposed, accepted) in zip(COUNTED, self._counters, strict=True)
            if proposed
        }
        return {"moves": moves}

    def residual(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """What the trees leave of y, in grid steps, int32 [n]; kept up by the sweep, never recomputed."""
        return self._work.residual[: self._data.num_rows].copy()

    def _recompute(self) -> None:
        """Slots, counts and residual from the trees."""
        from sampler.kernels.sweep import rebuild  # noqa: PLC0415

        self._add_planes()
        self._work.residual[: self._data.num_rows] = self.training.grid_y
        rebuild(self._data, self._forest, self._work)

    def _enlarge_trees(self) -> None:
        """Twice the room for leaves in every tree."""
        old = self._forest
        capacity = 2 * old.leaf.shape[1]
        new = _make_forest(self._data, len(old.num_leaves), capacity, rows=False)
        for name in ("node", "leaf", "count"):
            getattr(new, name)[:, : old.leaf.shape[1]] = getattr(old, name)
        self._forest = old._replace(node=new.node, leaf=new.leaf, count=new.count)
        state = self._work
        fresh = _make_work(self._data, capacity, state.random, reshapes=self._reshapes, rows=False)
        self._work = fresh._replace(
            residual=state.residual,
            state=state.state,
            mask=state.mask,
            member=state.member,
            latent=state.latent,
            place=state.place,
        )

    def _add_planes(self) -> None:
        """A high byte per row for each tree that is about to have more leaves than a byte can number."""
        forest = self._forest
        outgrown = np.flatnonzero((forest.num_leaves >= 255) & (forest.plane < 0))
        if len(outgrown):
            planes = int(forest.plane.max()) + 1
            forest.plane[outgrown] = planes + np.arange(len(outgrown), dtype=np.int32)
            high = np.zeros((planes + len(outgrown), forest.slots.shape[1]), np.uint8)
            high[:planes, : forest.high.shape[1]] = forest.high[:planes]
            self._forest = forest._replace(high=high)

    def _enlarge_kept(self, stop: int) -> None:
        """Room for the draws up to iteration `stop`, judged by the forest's size now."""
        old = self._kept
        draws, nodes = (int(value) for value in old.fill)
        settings = self.training.settings
        due = (
            max(stop - settings.num_burnin, 0) // settings.thin
            - max(self.iteration - settings.num_burnin, 0) // settings.thin
        )
        per_draw = int(np.sum(2 * self._forest.num_leaves + 1))
        self._kept = _make_kept(draws + due + 1, 2 * nodes + (due + 1) * per_draw, settings.num_trees)
        self._kept.fill[:] = draws, nodes
        for name in ("sigma", "tree_start", "feature", "cut", "missing_left", "leaf"):
            values = getattr(old, name)
            getattr(self._kept, name)[: len(values)] = values


class _Reader:
    """Arrays one after another from the body of a checkpoint."""

    def __init__(self, body: bytes) -> None:
        self.body, self.at = body, 0

    def take(self, dtype: Any, count: int) -> np.ndarray[Any, Any]:
        values = np.frombuffer(self.body, dtype, count, self.at)
        self.at += values.nbytes
        return values


def _open_checkpoint(checkpoint: bytes) -> tuple[tuple[int, ...], bytes]:
    if len(checkpoint) < HEADER.size or checkpoint[:4] != MAGIC:
        raise PackedError("not a checkpoint, or of another version")
    magic, check, *fields = HEADER.unpack_from(checkpoint)
    body = checkpoint[HEADER.size :]
    if zlib.crc32(HEADER.pack(magic, 0, *fields) + body) != check or fields[-1] != len(COUNTED):
        raise PackedError("the checkpoint is damaged or of another version")
    return tuple(fields), zlib.decompress(body)


def _make_data(training: Training) -> Data:
    from sampler.kernels.shapes import Data  # noqa: PLC0415

    codes = training.codes
    present = [column[column != 255] for column in codes]
    low = np.array([column.min(initial=255) for column in present], np.int64)
    high = np.array([column.max(initial=0) if len(column) else -1 for column in present], np.int64)
    missing = np.array([len(column) < codes.shape[1] for column in present], np.uint8)
    rows, weights = codes.shape[1], training.grid_weights
    seen = rows if len(weights) == 0 else int(np.count_nonzero(weights))
    probit = training.settings.family == "probit"
    labels = training.y.astype(np.uint8) if probit else np.zeros(0, np.uint8)
    return Data(training.padded_codes, low, high, missing, weights, rows, seen, labels, training.examples)


def _can_split(data: Data) -> bool:
    """Whether any column has two codes, so that the root can be split."""
    rules = data.high - data.low + data.missing * (data.high >= 0)
    return bool(np.any((data.high >= data.low) & (rules > 0)))


def _make_prior(
    training: Training,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    from sampler.kernels import shapes  # noqa: PLC0415

    constants, settings = training.constants, training.settings
    step = constants.step
    prior = np.zeros(shapes.PRIOR_SIZE)
    prior[shapes.SIGMA2] = (constants.sigma_start / step) ** 2
    prior[shapes.TAU2] = (constants.leaf_sd / step) ** 2
    prior[shapes.NU], prior[shapes.LAMBDA] = constants.nu, constants.lambda_ / step**2
    prior[shapes.ALPHA], prior[shapes.BETA] = constants.alpha, constants.beta
    prior[shapes.LIKELIHOOD] = not settings.prior_only
    prior[shapes.SIGMA_FIXED], prior[shapes.STEP] = constants.sigma_fixed, step
    prior[shapes.UNIT], prior[shapes.OFFSET] = training.weight_unit, constants.offset
    split = constants.alpha * (1.0 + np.arange(DEPTHS)) ** -constants.beta
    depths = np.stack([np.log1p(-split), np.log(split)])
    moves = np.array([settings.moves.get(name, 0.0) for name in COUNTED])
    return prior, depths, moves


def _make_forest(data: Data, num_trees: int, capacity: int, *, rows: bool = True) -> Forest:
    from sampler.kernels.shapes import Forest  # noqa: PLC0415

    width = data.codes.shape[1] if rows else 0
    return Forest(
        num_leaves=np.ones(num_trees, np.int32),
        node=np.zeros((num_trees, capacity, 6), np.int32),
        leaf=np.zeros((num_trees, capacity, 4), np.int32),
        count=np.zeros((num_trees, capacity), np.int64),
        slots=np.zeros((num_trees, width), np.uint8),
        plane=np.full(num_trees, -1, np.int32),
        high=np.zeros((1, 0), np.uint8),
    )


def _make_work(
    data: Data, capacity: int, random: np.ndarray[Any, Any], *, reshapes: bool, rows: bool = True
) -> Work:
    from sampler.kernels import fused, shapes  # noqa: PLC0415

    width = data.codes.shape[1] if rows else 0
    return shapes.Work(
        residual=np.zeros(width, np.int32),
        delta=np.zeros(capacity + 16, np.int32),
        old=np.zeros(capacity + 16, np.int32),
        sums=np.zeros(capacity + 16, np.int64),
        lanes=np.zeros((4, capacity + 16), np.int64),
        total=np.zeros(capacity + 16),
        size=np.zeros(capacity + 16),
        rule=np.zeros(3, np.int64),
        span=np.zeros(3, np.int64),
        state=np.zeros(shapes.STATE_SIZE, np.int64),
        columns=np.zeros(len(data.codes), np.int32),
        mask=np.zeros(width, np.uint8),
        member=np.zeros(width, np.uint8),
        latent=np.zeros(width if len(data.labels) else 0, np.int32),
        address=np.array([address(entry) for entry in fused.FUSED], np.int64),
        random=np.array(random, np.uint64),
        values=np.zeros(2048, np.int64),
        bins=np.zeros((2, 256), np.int64),
        code_sum=np.zeros((2, 256), np.int64),
        code_count=np.zeros((2, 256), np.int64),
        code_rows=np.zeros((2, 256), np.int64),
        terms=np.zeros((2, 512)),
        factors=np.zeros((2, 512)),
        info=np.zeros((2, 9), np.int64),
        order=np.zeros(capacity, np.int32),
        stack=np.zeros(capacity, np.int32),
        below_top=np.zeros(capacity, np.int32),
        place=np.zeros(width if reshapes else 0, np.int32),
        leaf_ranges=np.zeros((capacity if reshapes else 1, len(data.codes), 3), np.int32),
        node_ranges=np.zeros((capacity if reshapes else 1, len(data.codes), 3), np.int32),
    )


def _make_kept(draws: int, nodes: int, num_trees: int) -> Kept:
    from sampler.kernels.shapes import Kept  # noqa: PLC0415

    return Kept(
        fill=np.zeros(2, np.int64),
        sigma=np.zeros(draws),
        tree_start=np.zeros(draws * num_trees + 1, np.int64),
        feature=np.zeros(nodes, np.int32),
        cut=np.zeros(nodes, np.uint8),
        missing_left=np.zeros(nodes, np.uint8),
        leaf=np.zeros(nodes, np.int32),
    )
