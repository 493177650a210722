"""Divide, Conquer, Combine over trees of soft splits (Cochrane, Wills and Johnson).

The mathematics: docs/maths.md#divide-conquer-combine.

A run keeps topologies, each with chains of its own and an estimate of its evidence. An iteration picks the
topology of the largest utility, lets its chains draw on, improves its evidence, and proposes a neighbour. A
topology proposed often enough becomes active: its chains (`local`) warm up and draw. The run's draws are
samples of all topologies together; their weights add up to the sum of the evidences.

Where the paper's text and code differ the text is followed; its code also runs chains of topologies that are
not active, to no effect on the posterior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.errors import PackedError
from sampler.kernels.jit import warm
from sampler.posterior.topology import shape_of as text_of
from sampler.soft.evidence import NOTHING, Evidence, filled, layered, reduced
from sampler.soft.kept_trees import KeptSoftTrees, leaf_values
from sampler.soft.topology_chains import Chains, Local
from sampler.soft.tree import SoftTree, grown, leaves_of, log_topology, make_room, prunable_of, pruned
from sampler.storage import tree_checkpoint as checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.storage.soft_draws import SoftDraws
    from sampler.training import Training

    Floats = NDArray[np.float64]
    Bits = tuple[bool, ...]

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
    chains: Chains = field(default_factory=Chains)
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
        self._local = Local(training)
        self._random = np.array(random, np.uint64)
        self._topologies: dict[Bits, Topology] = {}
        self._waiting: list[Bits] = []  # to become active
        self._kept: KeptSoftTrees | None = None

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
            chains = Chains(starts, warmed, seed, rounds, used)
            self._topologies[key] = Topology(proposals, selections, state, chains, evidence)
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
        whole = [[each.proposals, each.selections, each.state, *each.chains.counts] for each in found]
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
            parts += [each.chains.starts, each.evidence.points, each.evidence.log_weight]
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
        alpha, beta = self._local.constants.alpha, self._local.constants.beta
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
        chains = found.chains
        if chains.warmed < self._search["chains"]:
            u = self._local.warmed_up(bits, self._random)
            chains.starts = u[None] if not chains.warmed else np.concatenate([chains.starts, u[None]])
            chains.warmed += 1
            return
        chains.starts = self._local.begun_anew(bits, chains.starts)
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
            dropped.state, dropped.chains = DROPPED, Chains()

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

    def _draw_on(self, bits: Bits, found: Topology) -> None:
        """More draws of every chain, and the evidence with samples around them."""
        search, rng = self._search, self._generator()
        active = sum(each.state == ACTIVE for each in self._topologies.values()) + len(self._waiting)
        likely = 1 + (self.iterations - self.iteration) // active  # if all are chosen alike from now on
        draws = self._local.next_round(
            bits, found.chains, int(search["draws"]), likely, active, int(rng.integers(2**62))
        )
        log_prior = log_topology(bits, self._local.constants.alpha, self._local.constants.beta)

        def log_density(points: Floats) -> Floats:
            return self._local.density(bits, points) + log_prior

        samples, spatial = int(search["samples"]), bool(search["spatial"])
        for points, weights in layered(draws, log_density, samples, rng, spatial=spatial):
            found.evidence.add(points, weights, self.training.settings.num_draws, rng)
        best = max(each.evidence.log_evidence for each in self._topologies.values())
        for each in self._topologies.values():
            evidence = each.evidence
            if len(evidence.log_weight) and evidence.log_evidence < best - NEGLIGIBLE:
                evidence.points, evidence.log_weight = evidence.points[:0], evidence.log_weight[:0]

    def _finish(self) -> None:
        """The run's draws: of all topologies' samples so many that stand for them."""
        rng = self._generator()
        weights, owners = [], []
        for bits, each in self._topologies.items():
            for place, log_weight in enumerate(each.evidence.log_weight):
                weights.append(log_weight - math.log(each.evidence.samples))
                owners.append((bits, place))
        chosen, log_weight = reduced(np.array(weights), self.training.settings.num_draws, rng)
        chosen, log_weight = filled(chosen, log_weight, self.training.settings.num_draws)
        rows, parameters, sharpness = (
            self._local.rows,
            self._local.parameters,
            self._local.constants.sharpness,
        )
        self._kept = KeptSoftTrees(sharpness)
        for place in chosen:
            bits, at = owners[place]
            u = self._topologies[bits].evidence.points[at].copy()
            tree = SoftTree(bits, np.full(sum(bits), -1, np.int64), u)
            parts, room = parameters.taken_apart(tree), make_room(rows, tree.splits)
            values = leaf_values(rows, tree, parts, sharpness, room, self._random)
            self._kept.add(tree, parameters, values)
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
    """How useful more draws of each topology are (Rainforth et al. 2018).

    The mathematics: docs/maths.md#divide-conquer-combine.

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
