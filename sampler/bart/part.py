"""Parts that may stand beside the mean's trees in a chain: forests, scalars and steps of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pkgutil import resolve_name
from typing import Any, Protocol

from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart import hyperpriors
from sampler.bart.kernels.leaf_models.normal import Normal
from sampler.bart.kernels.state import Forest, Outcome, Work
from sampler.bart.state import ForestPlan
from sampler.definitions.parts import PARTS
from sampler.families import FAMILIES
from sampler.kernels.arrays import Data
from sampler.storage.draws import Draws
from sampler.training import Training


class HasParts(Protocol):
    """A likelihood as its parts see it; see `sampler.bart.families.likelihood.Likelihood`."""

    plans: tuple[ForestPlan, ...]
    models: list[Any]
    scalar_names: tuple[str, ...]
    outcome: Outcome
    parts: dict[str, ChainPart]


class ChainPart:
    """A part of one chain of numbers, or of latent ones.

    Parts come in the order of `sampler.definitions.parts.PARTS`. Before the mean's trees they are drawn in
    that order, after these in the reverse order, in which their forests are swept too. As of a likelihood,
    all that isn't in `state` nor among the scalars is made anew from these and the trees.

    Attributes
    ----------
    is_compiled
        Whether the compiled sweep of many iterations does all that the part does.
    noise_mean
        What it adds to the mean of the noise, in grid steps.

    """

    is_compiled = False
    noise_mean = 0.0

    @classmethod
    def of(cls, training: Training) -> type[ChainPart] | None:  # noqa: ARG003
        """Return the class of the part that a training has; None without one, by the settings."""
        return cls

    @classmethod
    def plan(cls, training: Training, mean: ForestPlan) -> tuple[ForestPlan, ...]:  # noqa: ARG003
        """Plan the forests, beside that of the mean; each has the part's name."""
        return ()

    @classmethod
    def scalars(cls, training: Training) -> tuple[str, ...]:  # noqa: ARG003
        """Name the scalars that a draw keeps of it."""
        return ()

    @classmethod
    def kernels(cls, training: Training) -> tuple[str, ...]:  # noqa: ARG003
        """Name the groups of compiled kernels that it needs."""
        return ()

    @classmethod
    def model_of(cls, training: Training, plan: ForestPlan, mean: Normal) -> Any:
        """Make the leaf model of one of its forests, beside that of the mean's, with the same residuals."""
        raise NotImplementedError

    def __init__(self, training: Training, host: HasParts) -> None:
        """Make the arrays; the host has its forests, leaf models and scalars, and the parts before it."""

    def state(self) -> list[NDArray[Any]]:
        """Return the random state besides trees and scalars, as views; a checkpoint holds it."""
        return []

    def fits(self, scalars: Mapping[str, float]) -> bool:  # noqa: ARG002
        """Tell whether the scalars of a stored state, by name, and `state` are in their ranges."""
        return True

    def clear(self) -> None:
        """Begin without any tree."""

    def take_out(self, model: Normal) -> None:
        """Take the part out of residuals that have it all, once the trees have been entered."""

    def data_of(self, plan: ForestPlan, data: Data) -> Data:  # noqa: ARG002
        """Return the rows with the columns that trees of one of its forests may split on."""
        return data

    def seen_by(self, plan: ForestPlan) -> AbstractContextManager[None]:  # noqa: ARG002
        """Let the rows be meanwhile as the trees of one of its forests see them."""
        return nullcontext()

    def begin(self, work: Work, iteration: int) -> None:
        """Begin a sweep, before latent outcomes are drawn."""

    def draw(self, forest: Forest, work: Work, places: Sequence[int]) -> None:
        """Draw what comes before the trees, given these, the mean's forest among them, and the noise.

        `places` are the addresses of rows, forest, leaf model and work, for compiled code.
        """

    def end(self, data: Data, forests: Sequence[Forest], work: Work, iteration: int) -> None:
        """Draw what comes after the trees and sigma, given these; `forests` are its own."""

    def keep(self) -> None:
        """Keep what a draw has of it besides trees and scalars."""

    def take(self, sigma: Floats) -> dict[str, Draws]:  # noqa: ARG002
        """Hand over, as forests by name, what was kept with the draws of that sigma since the last call."""
        return {}

    def complete(self, draws: Draws, scalars: Mapping[str, Floats]) -> Draws:  # noqa: ARG002
        """Return kept draws of the mean's forest, whose scalars these are, as they are stored."""
        return draws


def kernels_of(training: Training) -> tuple[str, ...]:
    """List the groups of kernels that a prior, weights and parts need beyond those of the settings."""
    hyper = (hyperpriors.GROUP,) if training.constants.sparse else ()
    weights = ("weights",) if training.weights is not None else ()
    lines = "line" in training.parts and training.settings.family == "categorical"
    of_classes = ("class-lines",) if lines else ()
    latent = ("latent-outcomes",) if len(training.censored) else ()
    parts = (group for part in parts_of(training).values() for group in part.kernels(training))
    several: tuple[str, ...] = ()
    if training.several is not None:
        each = (group for one in training.several.parts for group in kernels_of(one))
        families = (
            group for one in training.several.parts for group in FAMILIES[one.settings.family].kernels
        )
        several = ("forest-call", "several-outcomes", *each, *families)
    return (*hyper, *weights, *latent, *of_classes, *parts, *several)


def parts_of(training: Training) -> dict[str, type[ChainPart]]:
    """Return the classes of the parts that a training has, by name, in their order.

    Those with a design have training data.
    """
    classes: dict[str, type[ChainPart]] = {
        name: resolve_name(part.chain)
        for name, part in PARTS.items()
        if part.chain and (name in training.parts or not part.design)
    }
    return {name: own for name, each in classes.items() if (own := each.of(training)) is not None}
