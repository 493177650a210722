"""Common interface of the families of sums of trees: forests, leaf models, and the rest of a sweep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pkgutil import resolve_name
from typing import Any

from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart.kernels import forest_sweep, state
from sampler.bart.kernels.state import Forest, KeptDraws, Outcome, Schedule, Work
from sampler.bart.state import ForestPlan
from sampler.families import FAMILIES
from sampler.kernels.arrays import Data
from sampler.storage.draws import Draws
from sampler.training import Training


class Likelihood(ABC):
    """Dependence of the outcomes on the forests of one chain, and what a sweep draws besides their trees.

    What is drawn for each row comes from trees and scalars alone, at the start of a sweep: so a chain's state
    is its trees, `state` and the random numbers, and it resumes bit for bit.

    Attributes
    ----------
    plans
        The forests, in the order in which a sweep updates them and a draw has them.
    models
        Leaf model of each forest, with what it keeps for each row.
    scalar_names
        Names of the scalars that are kept with each draw; the first is sigma.
    scalars
        Their present values in units of y, float64 [scalar].

    """

    plans: tuple[ForestPlan, ...]
    models: list[Any]
    scalar_names: tuple[str, ...] = ("sigma",)
    scalars: Floats
    outcome: Outcome  # of families whose trees learn numbers, or latent ones

    noise_mean = 0.0  # in grid steps

    @abstractmethod
    def __init__(self, training: Training) -> None:
        """Make the arrays."""

    def state(self) -> list[NDArray[Any]]:
        """Return the random state besides trees and hyperparameters, as views; a checkpoint holds it."""
        return []

    def fits(self) -> bool:
        """Tell whether a restored `state` of finite numbers is one that a sweep may leave."""
        return True

    @abstractmethod
    def clear(self, training: Training) -> None:
        """Set the rows of the leaf models to the outcomes of `training` and forests without any tree."""

    def measure(self) -> None:  # noqa: B027  # few have anything to do
        """Complete the leaf models after the trees have been entered into the rows."""

    def seen_by(self, plan: ForestPlan) -> AbstractContextManager[None]:  # noqa: ARG002
        """Let the rows be as a forest's trees see them meanwhile."""
        return nullcontext()

    def data_of(self, plan: ForestPlan, data: Data) -> Data:  # noqa: ARG002
        """Return the rows with the columns that a forest's trees may split on."""
        return data

    @abstractmethod
    def sweep(self, data: Data, forests: Sequence[Forest], work: Work, iteration: int) -> None:
        """Do one iteration: draw what rows have, update every forest, draw the scalars."""

    def draw_beside(self, forest: Forest, work: Work, places: Sequence[int]) -> None:
        """Draw what stands beside the trees and comes before them, in a sweep that is done from outside."""
        raise NotImplementedError

    def count_rows(self, training: Training) -> None:
        """Let sigma be drawn by the rows that have a weight in `training`."""
        raise NotImplementedError

    def hold_latent(self) -> None:
        """Leave latent outcomes as they are from now on, since they are drawn elsewhere."""
        raise NotImplementedError

    def keep(self) -> None:  # noqa: B027  # few have any
        """Keep what a draw has besides trees and scalars."""

    def take(self, sigma: Floats) -> dict[str, Draws]:  # noqa: ARG002
        """Hand over, as forests by name, what was kept with the draws of that sigma since the last call."""
        return {}

    def complete(self, draws: Draws, scalars: Mapping[str, Floats]) -> Draws:  # noqa: ARG002
        """Return kept draws of the first forest, whose scalars these are, as they are stored."""
        return draws

    def run(
        self, data: Data, forests: Sequence[Forest], work: Work, kept: Sequence[KeptDraws], schedule: Schedule
    ) -> tuple[int, int]:
        """Iterate by a schedule; return the iterations done so far, and DONE or what is needed to go on."""
        for iteration in range(schedule.iteration, schedule.stop):
            past = iteration + 1 - schedule.num_burnin
            keeps = past > 0 and past % schedule.thin == 0
            for forest, into in zip(forests, kept, strict=True):
                need = forest_sweep.room_for_trees(forest.num_leaves, forest.plane, forest.leaf.shape[1])
                if need == state.DONE and keeps:
                    need = forest_sweep.room_for_draw(forest, into)
                if need != state.DONE:
                    return iteration, int(need)
            self.sweep(data, forests, work, iteration)
            need = _need_of_particles(forests, work, kept if keeps else ())
            if need != state.DONE:
                return iteration, need
            if work.pending.state[state.BROKEN]:
                return iteration + 1, state.OUT_OF_GRID
            if keeps:
                for forest, into in zip(forests, kept, strict=True):
                    forest_sweep.keep_draw(forest, work.stack, into, self.scalars)
                self.keep()
        return schedule.stop, state.DONE


def _need_of_particles(forests: Sequence[Forest], work: Work, kept: Sequence[KeptDraws]) -> int:
    """Return DONE, or what an iteration needed that particles did, for trees of any size."""
    need = int(work.pending.state[state.NEED])
    if forests[0].prior.swarm and need == state.DONE:
        return max(map(int, map(forest_sweep.room_for_draw, forests, kept)), default=state.DONE)
    return need


def likelihood_of(family: str) -> type[Likelihood]:
    """Find the class of a family's likelihoods."""
    likelihood: type[Likelihood] = resolve_name(FAMILIES[family].likelihood)
    return likelihood
