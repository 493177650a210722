"""Divide, Conquer, Combine (DCC) over trees of soft splits (Cochrane, Wills and Johnson).

The mathematics: docs/maths.md#divide-conquer-combine.

A run keeps topologies, each with its own chains and an estimate of its evidence. An iteration selects the
topology with the largest utility, continues its chains, improves its evidence, and proposes a neighbour. A
topology proposed often enough becomes active: its chains (`topology_chains`) warm up and draw. The run's
draws are samples of all topologies together; their weights sum to the sum of the evidences.

Where the paper's text and code differ, this module follows the text. (The code also runs chains of inactive
topologies, without effect on the posterior.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.errors import PackedError
from sampler.kernels.jit import warm
from sampler.kernels.random import next_word, uniform
from sampler.posterior.core.topology import shape_of as text_of
from sampler.storage import tree_checkpoint as checkpoint
from sampler.training import Training
from sampler.trees.soft.draws import SoftDraws
from sampler.trees.soft.evidence import NOTHING, Evidence, fill_samples, reduce_samples, sample_layers
from sampler.trees.soft.kept_trees import KeptSoftTrees, leaf_values
from sampler.trees.soft.topology_chains import Bits, Chains, Local
from sampler.trees.soft.tree import (
    SoftTree,
    grow_at,
    leaves_of,
    log_topology,
    make_room,
    prunable_of,
    prune_at,
)

NEGLIGIBLE = 30.0  # log evidence below the best from which a topology's samples are discarded
REPORTED = 30  # topologies in the statistics
MOST_SPLITS = 60
ACTIVE, DROPPED = 1, 2
COUNTED, MEASURED = 9, 6  # integers and floats of a topology in a checkpoint
LOOKED_AT = 10  # draws of a chain by which it is compared with the others


@dataclass
class Topology:
    """State of one topology in a run."""

    proposals: int = 0
    selections: int = 0
    state: int = 0
    apart: float = 0.0  # largest difference between chains' mean log densities in the last round
    chains: Chains = field(default_factory=Chains)
    evidence: Evidence = field(default_factory=Evidence)


class DivideRun:
    """One run of the search, with the interface of `sampler.chains.AnyChain`.

    A unit of work is the warm-up of one chain, or one round of all chains of a topology.
    """

    def __init__(self, training: Training, chain: int, random: NDArray[Any]) -> None:
        """Initialise the state; make runs by `start` or `resume`."""
        warm(training.settings)
        self.training, self.chain = training, chain
        self.iteration = self.num_kept = 0
        self._search = training.settings.search
        self._local = Local(training)
        self._random = np.array(random, np.uint64)
        self._topologies: dict[Bits, Topology] = {}
        self._waiting: list[Bits] = []  # topologies about to become active
        self._kept: KeptSoftTrees | None = None

    @classmethod
    def start(cls, training: Training, chain: int) -> DivideRun:
        """Start a run with topologies drawn from the prior, without the stump."""
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
        """Restore the run that wrote the checkpoint, bit for bit; raise PackedError."""
        chain, arrays = checkpoint.read(training, data, "i8:1 u8:1 i8:1 u1:1 i8:1 i8:2 f8:2")
        counts, random, waiting, bits, ends, whole, real, *more = arrays
        if (whole.shape[1], real.shape[1]) != (COUNTED, MEASURED):
            raise PackedError("the checkpoint is of another version")
        self = cls(training, chain, random)
        self.iteration, self.num_kept = (int(value) for value in counts)
        for k, (number, figures) in enumerate(zip(whole, real, strict=True)):
            key = tuple(bool(bit) for bit in bits[ends[k] : ends[k + 1]])
            *counted, samples, finite = (int(value) for value in number)
            proposals, selections, state, warmed, seed, rounds, used = counted
            log_sum, log_squares, mean_log, spread_log, most, apart = (float(value) for value in figures)
            starts, points, log_weight = more[3 * k : 3 * k + 3]
            evidence = Evidence(
                samples, log_sum, log_squares, finite, mean_log, spread_log, most, points, log_weight
            )
            chains = Chains(starts, warmed, seed, rounds, used)
            self._topologies[key] = Topology(proposals, selections, state, apart, chains, evidence)
        keys = list(self._topologies)
        self._waiting = [keys[k] for k in waiting]
        return self

    @property
    def iterations(self) -> int:
        """Number of iterations of the search."""
        return int(self._search["iterations"])

    @property
    def phase(self) -> str:
        """Current phase: "burn_in" before the first iteration, then "sampling"."""
        return "sampling" if self.iteration else "burn_in"

    @property
    def done(self) -> bool:
        """Whether the search has ended."""
        return self.iteration >= self.iterations

    def run(self, iterations: int) -> int:
        """Do up to `iterations` units of work; return the number done (fewer only at the end)."""
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
        """Return the draws once the search has ended, and release them; None before and after."""
        if self._kept is None:
            return None
        kept, self._kept = self._kept, None
        return kept.take(self._log_weights)

    def checkpoint(self) -> bytes:
        """Encode the state between units of work."""
        topologies = list(self._topologies.values())
        keys = list(self._topologies)
        whole = [[each.proposals, each.selections, each.state, *each.chains.counts] for each in topologies]
        sums = [each.evidence for each in topologies]
        counts = [[e.samples, e.finite] for e in sums]
        real = [
            [e.log_sum, e.log_squares, e.mean_log, e.spread_log, e.most, each.apart]
            for e, each in zip(sums, topologies, strict=True)
        ]
        parts: list[NDArray[Any]] = [
            np.array([self.iteration, self.num_kept]),
            self._random,
            np.array([keys.index(bits) for bits in self._waiting], np.int64),
            np.array([bit for bits in keys for bit in bits], np.uint8),
            np.cumsum([0, *map(len, keys)]),
            np.concatenate([np.array(whole, np.int64), np.array(counts, np.int64)], axis=1),
            np.array(real),
        ]
        for each in topologies:
            parts += [each.chains.starts, each.evidence.points, each.evidence.log_weight]
        return checkpoint.write(self.training, self.chain, parts)

    def statistics(self) -> dict[str, Any]:
        """Return the numbers of proposed and active topologies, and those with the largest evidence."""
        active = [(bits, each) for bits, each in self._topologies.items() if each.evidence.samples]
        active.sort(key=lambda item: -item[1].evidence.log_evidence)
        total = np.logaddexp.reduce([each.evidence.log_evidence for _, each in active]) if active else NOTHING
        entries = [
            {
                "topology": text_of(np.array(bits)),
                "log_evidence": self._log_constant + each.evidence.log_evidence,
                "share": math.exp(each.evidence.log_evidence - total),
                "chains": int(self._search["chains"]),
                "samples": each.evidence.samples,
                "ess": each.evidence.ess,
                "selected": each.selections,
            }
            | ({"apart": each.apart} if self._search["chains"] > 1 else {})
            for bits, each in active[:REPORTED]
            if each.evidence.log_evidence > NOTHING
        ]
        return {"divide": {"proposed": len(self._topologies), "active": len(active), "topologies": entries}}

    @property
    def _log_constant(self) -> float:
        """Contribution of the rows' weights to the log likelihood."""
        weights = self.training.weights
        if weights is None or self.training.settings.prior_only:
            return 0.0
        return 0.5 * float(np.sum(np.log(weights)))

    def _from_prior(self) -> Bits | None:
        """Draw a topology from the prior; None for the stump and for more than `MOST_SPLITS` splits."""
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
        """Count a proposal; queue the topology for activation once it has enough."""
        topology = self._topologies.setdefault(bits, Topology())
        topology.proposals += 1
        if (
            topology.proposals >= self._search["proposals"]
            and not topology.state
            and bits not in self._waiting
        ):
            self._waiting.append(bits)

    def _activate(self, bits: Bits) -> None:
        """Warm up one more chain; after the last, start the sampler and activate the topology."""
        topology = self._topologies[bits]
        chains = topology.chains
        if chains.warmed < self._search["chains"]:
            u = self._local.warmed_up(bits, self._random)
            chains.starts = u[None] if not chains.warmed else np.concatenate([chains.starts, u[None]])
            chains.warmed += 1
            return
        chains.starts = self._local.restart_stragglers(bits, chains.starts)
        topology.state = ACTIVE
        topology.selections = 1
        self._draw_on(bits, topology)
        self._waiting.remove(bits)

    def _iterate(self) -> None:
        """Continue the most useful topology, propose a neighbour, and drop the least useful if too many."""
        bits = self._most_useful()
        topology = self._topologies[bits]
        topology.selections += 1
        self._draw_on(bits, topology)
        self._propose(self._neighbour(bits))
        active = [key for key, each in self._topologies.items() if each.state == ACTIVE]
        if len(active) > self._search["most"]:
            useless = active[int(np.argmin(self._utilities(active)))]
            dropped = self._topologies[useless]
            dropped.state, dropped.chains = DROPPED, Chains()

    def _most_useful(self) -> Bits:
        active = [bits for bits, topology in self._topologies.items() if topology.state == ACTIVE]
        return active[int(np.argmax(self._utilities(active)))]

    def _utilities(self, active: Sequence[Bits]) -> Floats:
        topologies = [self._topologies[bits] for bits in active]
        entries = {name: self._search[name] for name in ("delta", "kappa", "optimism")}
        return utilities(
            [each.evidence for each in topologies], [each.selections for each in topologies], **entries
        )

    def _neighbour(self, bits: Bits) -> Bits:
        """Propose the topology itself, a grown one, or a pruned one."""
        moves = self.training.settings.moves
        if self._uniform() < moves.get("stay", 0.0):
            return bits
        splits = sum(bits)
        grows = splits == 1 or self._uniform() < moves["grow"] / (moves["grow"] + moves["prune"])
        if grows and splits >= MOST_SPLITS:
            return bits
        places = leaves_of(bits) if grows else prunable_of(bits)
        node = places[int(self._uniform() * len(places))]
        return grow_at(bits, node) if grows else prune_at(bits, node)

    def _draw_on(self, bits: Bits, topology: Topology) -> None:
        """Draw a round of every chain, and update the evidence with samples around these draws."""
        search, rng = self._search, self._generator()
        active = sum(each.state == ACTIVE for each in self._topologies.values()) + len(self._waiting)
        likely = 1 + (self.iterations - self.iteration) // active  # if all are selected equally often
        draws = self._local.next_round(
            bits, topology.chains, int(search["draws"]), likely, active, int(rng.integers(2**62))
        )
        few = draws[:, :: max(1, draws.shape[1] // LOOKED_AT)]
        levels = self._local.density(bits, few.reshape(-1, draws.shape[2])).reshape(few.shape[:2])
        topology.apart = float(np.ptp(levels.mean(axis=1)))
        log_prior = log_topology(bits, self._local.constants.alpha, self._local.constants.beta)

        def log_density(points: Floats) -> Floats:
            return self._local.density(bits, points) + log_prior

        samples, spatial = int(search["samples"]), bool(search["spatial"])
        for points, weights in sample_layers(draws, log_density, samples, rng, spatial=spatial):
            topology.evidence.add(points, weights, self.training.settings.num_draws, rng)
        best = max(each.evidence.log_evidence for each in self._topologies.values())
        for each in self._topologies.values():
            evidence = each.evidence
            if len(evidence.log_weight) and evidence.log_evidence < best - NEGLIGIBLE:
                evidence.points, evidence.log_weight = evidence.points[:0], evidence.log_weight[:0]

    def _finish(self) -> None:
        """Reduce the samples of all topologies to the run's draws."""
        rng = self._generator()
        weights, owners = [], []
        for bits, each in self._topologies.items():
            for place, log_weight in enumerate(each.evidence.log_weight):
                weights.append(log_weight - math.log(each.evidence.samples))
                owners.append((bits, place))
        chosen, log_weight = reduce_samples(np.array(weights), self.training.settings.num_draws, rng)
        chosen, log_weight = fill_samples(chosen, log_weight, self.training.settings.num_draws)
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

        return float(uniform(self._random))

    def _generator(self) -> np.random.Generator:

        return np.random.default_rng(int(next_word(self._random)))


def utilities(
    evidences: Sequence[Evidence], selections: Sequence[int], *, delta: float, kappa: float, optimism: float
) -> Floats:
    """Compute the utility of continuing each topology (Rainforth et al. 2018).

    The mathematics: docs/maths.md#divide-conquer-combine.

    Parameters
    ----------
    evidences, selections
        Evidence and number of selections, by topology.
    delta
        Weight of exploration (the chance of weights above all seen so far) against exploitation.
    kappa
        Weight of the variance of the weights relative to the evidence.
    optimism
        Preference for topologies that were selected rarely.

    Returns
    -------
    array
        float64 [topology].

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


LOOK_AHEAD = 1000  # number of future weights of which one may exceed all seen so far
