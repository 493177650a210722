"""Divide, Conquer, Combine over trees of soft splits (Cochrane, Wills and Johnson; `sampler_math` 7.9).

A run keeps topologies, each with chains of its own and an estimate of its evidence. An iteration picks the
topology of the largest utility, lets its chains draw on, improves its evidence, and proposes a neighbour. A
topology proposed often enough becomes active: its chains warm up while splits sharpen, those that ended far
below the others begin anew where others are, and the no-U-turn sampler takes over. The run's draws are
samples of all topologies together; their weights add up to the sum of the evidences.

Where the paper's text and code differ the text is followed; its code also runs chains of topologies that are
not active, to no effect on the posterior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.compile import warm
from sampler.errors import PackedError
from sampler.single import checkpoint
from sampler.single.evidence import NOTHING, Evidence, layered
from sampler.single.nuts import nuts
from sampler.single.soft_kept import Kept, leaf_values
from sampler.single.soft_prior import soft_constants
from sampler.single.soft_tree import (
    Parameters,
    SoftTree,
    grown,
    leaves_of,
    log_topology,
    make_room,
    make_soft_rows,
    prunable_of,
    pruned,
    scale_guesses,
    shape_of,
)
from sampler.single.topology import shape_of as text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.soft import SoftDraws
    from sampler.training import Training

    Floats = NDArray[np.float64]
    Bits = tuple[bool, ...]

SHARPENING = 0.8  # of the warm-up: at ever sharper widths; the rest at the last
MOST_STEPS = 12  # of a transition in warm-up
FIRST_STEP, RATE = 0.2, 0.1
TUNE = 200  # draws that the no-U-turn sampler tunes by, each time that it is called
AHEAD = 5  # rounds that it draws in one call, at most
FAR_BELOW = 10.0  # log densities, and 3 for each parameter: where a chain begins anew
NEGLIGIBLE = 30.0  # log evidences below the best: samples of such topologies are let go
REPORTED = 30  # topologies told in the statistics
MOST_SPLITS = 60
ACTIVE, DROPPED = 1, 2
COUNTED = 9  # whole numbers that a checkpoint has of a topology


@dataclass
class Topology:
    """What a run knows of one topology."""

    proposals: int = 0
    selections: int = 0
    state: int = 0
    warmed: int = 0  # chains that have warmed up
    starts: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # [chain, u] of the last call
    seed: int = 0  # of the sampler's last call, for so many rounds of which so many are used
    rounds: int = 0
    used: int = 0
    drawn: Floats | None = None  # [chain, draw, u] of that call; not in checkpoints: it is done again
    evidence: Evidence = field(default_factory=Evidence)


class DivideRun:
    """One run, in the clothes of a chain: start or resume, run, take, checkpoint.

    A unit of work is the warm-up of one chain, or one round of all chains of a topology.
    """

    def __init__(self, training: Training, chain: int, random: NDArray[Any]) -> None:
        """Use `start` or `resume`."""
        warm(training.settings)
        self.training, self.chain = training, chain
        self.iteration = self.num_kept = 0
        self._search = training.settings.search
        self._constants = soft_constants(training)
        self._rows = make_soft_rows(training)
        self._random = np.array(random, np.uint64)
        self._parameters = Parameters(self._constants, len(self._rows.x), by_axis=False)
        self._topologies: dict[Bits, Topology] = {}
        self._waiting: list[Bits] = []  # to become active
        self._kept: Kept | None = None

    @classmethod
    def start(cls, training: Training, chain: int) -> DivideRun:
        """A run at its beginning: topologies drawn from the prior, the stump left out."""
        seed = np.random.SeedSequence(training.settings.seed, spawn_key=(chain,))
        self = cls(training, chain, seed.generate_state(4, np.uint64))
        while not self._topologies:
            for _ in range(int(self._search["first"])):
                bits = self._from_prior()
                if bits is not None:
                    self._propose(bits)
        if not self._waiting:
            self._waiting.append(max(self._topologies, key=lambda bits: self._topologies[bits].proposals))
        return self

    @classmethod
    def resume(cls, training: Training, data: bytes) -> DivideRun:
        """The run that `data` was taken of, bit for bit; raises PackedError."""
        chain, arrays = checkpoint.read(training, data)
        counts, random, waiting, bits, ends, whole, real, *more = arrays
        if whole.shape[1] != COUNTED:
            raise PackedError("the checkpoint is of another version")
        self = cls(training, chain, random)
        self.iteration, self.num_kept = (int(value) for value in counts)
        for k, (number, figures) in enumerate(zip(whole, real, strict=True)):
            key = tuple(bool(bit) for bit in bits[ends[k] : ends[k + 1]])
            *counted, samples, finite = (int(value) for value in number)
            proposals, selections, state, warmed, seed, rounds, used = counted
            log_sum, log_squares, mean_log, spread_log, most = (float(value) for value in figures)
            starts, points, log_weight = more[3 * k : 3 * k + 3]
            evidence = Evidence(
                samples, log_sum, log_squares, finite, mean_log, spread_log, most, points, log_weight
            )
            self._topologies[key] = Topology(
                proposals, selections, state, warmed, starts, seed, rounds, used, evidence=evidence
            )
        keys = list(self._topologies)
        self._waiting = [keys[k] for k in waiting]
        return self

    @property
    def iterations(self) -> int:
        """Iterations of the search."""
        return int(self._search["iterations"])

    @property
    def phase(self) -> str:
        """`burn_in` before the first iteration."""
        return "sampling" if self.iteration else "burn_in"

    @property
    def done(self) -> bool:
        """Whether the search is over."""
        return self.iteration >= self.iterations

    def run(self, iterations: int) -> int:
        """Do so many units of work, unless the search ends; returns how many."""
        units = 0
        while units < iterations and not self.done:
            if self._waiting:
                self._activate(self._waiting[0])
            else:
                self._iterate()
                self.iteration += 1
                if self.iteration >= self.iterations:
                    self._finish()
            units += 1
        return units

    def take(self) -> SoftDraws | None:
        """The draws, once the search is over and they were not taken yet, or None."""
        if self._kept is None:
            return None
        kept, self._kept = self._kept, None
        return kept.taken(self._log_weights)

    def checkpoint(self) -> bytes:
        """The state between units of work."""
        found = list(self._topologies.values())
        keys = list(self._topologies)
        whole = [[t.proposals, t.selections, t.state, t.warmed, t.seed, t.rounds, t.used] for t in found]
        sums = [each.evidence for each in found]
        counts = [[e.samples, e.finite] for e in sums]
        real = [[e.log_sum, e.log_squares, e.mean_log, e.spread_log, e.most] for e in sums]
        parts: list[NDArray[Any]] = [
            np.array([self.iteration, self.num_kept]),
            self._random,
            np.array([keys.index(bits) for bits in self._waiting], np.int64),
            np.array([bit for bits in keys for bit in bits], np.uint8),
            np.cumsum([0, *map(len, keys)]),
            np.concatenate([np.array(whole, np.int64), np.array(counts, np.int64)], axis=1),
            np.array(real),
        ]
        for each in found:
            parts += [each.starts, each.evidence.points, each.evidence.log_weight]
        return checkpoint.write(self.training, self.chain, parts)

    def statistics(self) -> dict[str, Any]:
        """How many topologies were proposed and are active, and those of the largest evidence."""
        active = [(bits, each) for bits, each in self._topologies.items() if each.evidence.samples]
        active.sort(key=lambda item: -item[1].evidence.log_evidence)
        total = np.logaddexp.reduce([each.evidence.log_evidence for _, each in active]) if active else NOTHING
        told = [
            {
                "topology": text_of(np.array(bits)),
                "log_evidence": self._log_constant + each.evidence.log_evidence,
                "share": math.exp(each.evidence.log_evidence - total),
                "chains": int(self._search["chains"]),
                "samples": each.evidence.samples,
                "ess": each.evidence.ess,
                "selected": each.selections,
            }
            for bits, each in active[:REPORTED]
            if each.evidence.log_evidence > NOTHING
        ]
        return {"divide": {"proposed": len(self._topologies), "active": len(active), "topologies": told}}

    @property
    def _log_constant(self) -> float:
        """What the weights of rows add to the log likelihood."""
        weights = self.training.weights
        if weights is None or self.training.settings.prior_only:
            return 0.0
        return 0.5 * float(np.sum(np.log(weights)))

    def _from_prior(self) -> Bits | None:
        """A topology from the prior; None for the stump, and for one larger than can be."""
        alpha, beta = self._constants.alpha, self._constants.beta
        bits: list[bool] = []
        depths = [0]
        while depths:
            depth = depths.pop()
            splits = self._uniform() < alpha * (1.0 + depth) ** -beta
            bits.append(splits)
            depths += [depth + 1, depth + 1] if splits else []
            if sum(bits) > MOST_SPLITS:
                return None
        return tuple(bits) if len(bits) > 1 else None

    def _propose(self, bits: Bits) -> None:
        """Count a proposal; the topology waits to become active once it has enough."""
        found = self._topologies.setdefault(bits, Topology())
        found.proposals += 1
        if found.proposals >= self._search["proposals"] and not found.state and bits not in self._waiting:
            self._waiting.append(bits)

    def _activate(self, bits: Bits) -> None:
        """Warm one more chain up, or after the last let the sampler take over."""
        found = self._topologies[bits]
        if found.warmed < self._search["chains"]:
            u = self._warmed_up(bits)
            found.starts = u[None] if not found.warmed else np.concatenate([found.starts, u[None]])
            found.warmed += 1
            return
        found.starts = self._begun_anew(bits, found.starts)
        found.state = ACTIVE
        found.selections = 1
        self._draw_on(bits, found)
        self._waiting.remove(bits)

    def _iterate(self) -> None:
        """Draw on where it is most useful; propose a neighbour of there; keep no more than so many."""
        bits = self._most_useful()
        found = self._topologies[bits]
        found.selections += 1
        self._draw_on(bits, found)
        self._propose(self._neighbour(bits))
        active = [key for key, each in self._topologies.items() if each.state == ACTIVE]
        if len(active) > self._search["most"]:
            useless = active[int(np.argmin(self._utilities(active)))]
            dropped = self._topologies[useless]
            dropped.state, dropped.starts, dropped.drawn = DROPPED, np.zeros((0, 0)), None

    def _most_useful(self) -> Bits:
        active = [bits for bits, found in self._topologies.items() if found.state == ACTIVE]
        return active[int(np.argmax(self._utilities(active)))]

    def _utilities(self, active: Sequence[Bits]) -> Floats:
        found = [self._topologies[bits] for bits in active]
        knobs = {name: self._search[name] for name in ("delta", "kappa", "optimism")}
        return utilities([each.evidence for each in found], [each.selections for each in found], **knobs)

    def _neighbour(self, bits: Bits) -> Bits:
        """The topology itself, grown, or pruned."""
        moves = self.training.settings.moves
        if self._uniform() < moves.get("stay", 0.0):
            return bits
        splits = sum(bits)
        grows = splits == 1 or self._uniform() < moves["grow"] / (moves["grow"] + moves["prune"])
        if grows and splits >= MOST_SPLITS:
            return bits
        places = leaves_of(bits) if grows else prunable_of(bits)
        node = places[int(self._uniform() * len(places))]
        return grown(bits, node) if grows else pruned(bits, node)

    def _warmed_up(self, bits: Bits) -> Floats:
        """A chain from the prior, its splits sharpening as it goes, and where it comes to."""
        from sampler.kernels import soft_state as state  # noqa: PLC0415  # kernels load late
        from sampler.kernels.soft_hmc import transitions  # noqa: PLC0415

        constants, many = self._constants, max(self.training.settings.num_burnin, 1)
        tree = self._parameters.first(self._random, math.log(constants.leaf_sd))
        while tree.splits < sum(bits):
            tree, _ = self._parameters.grow(tree, leaves_of(tree.is_split)[-1], self._random)
        widths = np.full(many, constants.sharpness)
        sharpening = int(SHARPENING * many)
        if sharpening:
            widths[:sharpening] = np.geomspace(constants.sharpness_start, constants.sharpness, sharpening)
        tune = np.zeros(state.TUNE_SIZE)
        tune[state.LOG_STEP], tune[state.RATE] = math.log(FIRST_STEP), RATE
        scale = scale_guesses(self.training, self._rows)[self._parameters.kinds(tree.splits)]
        u = tree.u.copy()  # parameters depend on the number of splits alone, not on where they are
        shape = shape_of(bits, np.full(sum(bits), -1, np.int64))
        transitions(
            self._rows, shape, widths, u, scale, MOST_STEPS, tune, make_room(self._rows, sum(bits)),
            self._random, np.empty((4, len(u))),
        )  # fmt: skip
        return u

    def _begun_anew(self, bits: Bits, starts: Floats) -> Floats:
        """The chains' states, those far below the best replaced by others' in turn."""
        log = self._density(bits, starts)
        near = np.flatnonzero(log > log.max() - FAR_BELOW - 3 * starts.shape[1])
        near = near[np.argsort(-log[near], kind="stable")]
        found, taken = starts.copy(), 0
        for chain in range(len(starts)):
            if chain not in near:
                found[chain] = starts[near[taken % len(near)]]
                taken += 1
        return found

    def _draw_on(self, bits: Bits, found: Topology) -> None:
        """More draws of every chain, and the evidence with samples around them."""
        search, rng = self._search, self._generator()
        draws = self._next_round(bits, found, rng)
        log_prior = log_topology(bits, self._constants.alpha, self._constants.beta)

        def log_density(points: Floats) -> Floats:
            return self._density(bits, points) + log_prior

        points, weights = layered(
            draws, log_density, int(search["samples"]), rng, spatial=bool(search["spatial"])
        )
        found.evidence.add(points, weights, self.training.settings.num_draws, rng)
        best = max(each.evidence.log_evidence for each in self._topologies.values())
        for each in self._topologies.values():
            evidence = each.evidence
            if len(evidence.log_weight) and evidence.log_evidence < best - NEGLIGIBLE:
                evidence.points, evidence.log_weight = evidence.points[:0], evidence.log_weight[:0]

    def _next_round(self, bits: Bits, found: Topology, rng: np.random.Generator) -> Floats:
        """The chains' next draws [chain, draw, u].

        The sampler can't go on with the steps and scales that it tuned, so it draws in one call what the
        topology will need if all active ones are chosen alike from now on.
        """
        many = int(self._search["draws"])
        if found.used == found.rounds:
            active = sum(each.state == ACTIVE for each in self._topologies.values()) + len(self._waiting)
            likely = 1 + (self.iterations - self.iteration) // active
            found.seed, found.rounds, found.used = int(rng.integers(2**62)), min(likely, AHEAD), 0
        if found.drawn is None:
            sharpness, total = self._constants.sharpness, found.rounds * many
            found.drawn = nuts(self._rows, bits, sharpness, found.starts, TUNE, total, found.seed)
        draws = found.drawn[:, found.used * many :][:, :many]
        found.used += 1
        if found.used == found.rounds:
            found.starts, found.drawn = draws[:, -1].copy(), None
        return draws

    def _density(self, bits: Bits, points: Floats) -> Floats:
        from sampler.kernels.soft_density import densities  # noqa: PLC0415

        shape, into = shape_of(bits, np.full(sum(bits), -1, np.int64)), np.empty(len(points))
        slope, room = np.empty(points.shape[1]), make_room(self._rows, sum(bits))
        densities(
            self._rows, shape, self._constants.sharpness, np.ascontiguousarray(points), room, slope, into
        )  # fmt: skip
        return into

    def _finish(self) -> None:
        """The run's draws: of all topologies' samples so many that stand for them."""
        from sampler.single.evidence import reduced  # noqa: PLC0415

        rng = self._generator()
        weights, owners = [], []
        for bits, each in self._topologies.items():
            for place, log_weight in enumerate(each.evidence.log_weight):
                weights.append(log_weight - math.log(each.evidence.samples))
                owners.append((bits, place))
        chosen, log_weight = reduced(np.array(weights), self.training.settings.num_draws, rng)
        chosen, log_weight = filled(chosen, log_weight, self.training.settings.num_draws)
        self._kept = Kept(self._constants.sharpness)
        for place in chosen:
            bits, at = owners[place]
            u = self._topologies[bits].evidence.points[at].copy()
            tree = SoftTree(bits, np.full(sum(bits), -1, np.int64), u)
            parts = self._parameters.taken_apart(tree)
            room = make_room(self._rows, tree.splits)
            values = leaf_values(self._rows, tree, parts, self._constants.sharpness, room, self._random)
            self._kept.add(tree, self._parameters, values)
        self._log_weights = log_weight + self._log_constant
        self.num_kept = len(chosen)

    def _uniform(self) -> float:
        from sampler.kernels.random import uniform  # noqa: PLC0415

        return float(uniform(self._random))

    def _generator(self) -> np.random.Generator:
        from sampler.kernels.random import next_word  # noqa: PLC0415

        return np.random.default_rng(int(next_word(self._random)))


def utilities(
    evidences: Sequence[Evidence], selections: Sequence[int], *, delta: float, kappa: float, optimism: float
) -> Floats:
    """How useful more draws of each topology are (`sampler_math` 7.9; Rainforth et al. 2018).

    Parameters
    ----------
    evidences, selections
        Of the topologies.
    delta
        The share of exploration, that a topology may still have weights above all seen, against exploitation.
    kappa
        How much the spread of the weights counts beside the evidence.
    optimism
        How much topologies that were seldom chosen are preferred.

    Returns
    -------
    array
        float64 [topology]

    """
    from scipy.special import log_ndtr  # noqa: PLC0415  # slow to import

    chosen = np.array(selections, np.float64)
    log_use = np.array(
        [
            0.5 * np.logaddexp(2 * each.log_evidence, math.log1p(kappa) + each.log_variance)
            for each in evidences
        ]
    )
    top = log_use.max()
    exploited = np.exp(log_use - top) if top > NOTHING else np.ones(len(log_use))
    explored = np.zeros(len(log_use))
    if delta > 0:
        threshold = max(each.most for each in evidences)
        for k, each in enumerate(evidences):
            if each.finite > 1 and each.spread_log > 0:
                z = (threshold - each.mean_log) / math.sqrt(each.spread_log / (each.finite - 1))
                explored[k] = -math.expm1(LOOK_AHEAD * float(log_ndtr(z)))
        if explored.max() > 0:
            explored /= explored.max()
    rare = np.log(chosen.sum()) / np.sqrt(chosen)
    return np.asarray(((1 - delta) * exploited + delta * explored + optimism * rare) / chosen)


LOOK_AHEAD = 1000  # weights to come, of which one may be above all seen


def filled(chosen: NDArray[np.int64], log_weight: Floats, many: int) -> tuple[NDArray[np.int64], Floats]:
    """So many samples: where there are fewer, the heaviest are split in two of half the weight."""
    chosen, log_weight = chosen.copy(), log_weight.copy()
    while len(chosen) < many:
        heaviest = int(np.argmax(log_weight))
        log_weight[heaviest] -= math.log(2)
        chosen, log_weight = np.append(chosen, chosen[heaviest]), np.append(log_weight, log_weight[heaviest])
    return chosen, log_weight
