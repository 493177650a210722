"""Parts beside the mean's trees in a law of outcomes, as stored draws tell of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.definitions.parts import PARTS, code_of_parts
from sampler.posterior.verdict.reasons import Reason
from sampler.storage.draws import Draws
from sampler.storage.model_header import Header

if TYPE_CHECKING:
    from sampler.posterior.core.intervals import Sums


class LawPart:
    """A part beside the mean's trees, of all draws, one chain after the other.

    It does nothing but what a subclass says.

    Attributes
    ----------
    work, row_work
        Cost of it at a row, of a draw and whatever the number of draws; see `Law.own_work`.
    in_steps
        Whether it adds whole grid steps to sums of trees at rows of which it knows all.
    knows_all
        Whether there are no rows of which it doesn't know all.
    wraps
        Whether it changes the law of outcomes and leaves f as it is.
    not_explained
        Words for what SHAP values leave out.
    included
        What answers include of it, by the kind of interval.

    """

    work: float = 0
    row_work: float = 0
    in_steps: ClassVar[bool] = False
    knows_all: ClassVar[bool] = True
    wraps: ClassVar[bool] = False
    not_explained: ClassVar[str] = ""
    included: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def of(cls, facts: Any, header: Header, chains: Sequence[Draws]) -> LawPart:  # noqa: ARG003
        """Read the part of a model, of which the header keeps these facts, from its draws.

        Raises PackedError for draws that don't have what the header says.
        """
        return cls(facts, chains)

    def __init__(self, facts: Any, chains: Sequence[Draws]) -> None:
        """Read the part, where that takes no more of the header."""

    def with_columns(self, coded: Coded) -> Coded:
        """Return rows with the columns that the mean's trees have beside those of the features."""
        return coded

    def add_steps(self, sums: Sums, coded: Coded, chosen: NDArray[np.int64]) -> Sums:  # noqa: ARG002
        """Add its forests to the sums of the mean's trees in the chosen draws [draw, row], in grid steps."""
        return sums

    def add_to(self, f: Floats, coded: Coded, chosen: NDArray[np.int64]) -> None:
        """Add what it knows of the rows to f of the chosen draws [draw, row]."""

    def added(self, sums: Sums, coded: Coded, chosen: NDArray[np.int64]) -> Sums:  # noqa: ARG002
        """Add it to sums at rows of which it knows all, in grid steps [draw, row], if it is `in_steps`."""
        return sums

    def known(self, coded: Coded) -> NDArray[np.bool_]:
        """Return of which rows it knows all, bool [row]."""
        return np.ones(coded.num_rows, bool)

    def new_variance(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats | None:  # noqa: ARG002
        """Return the variance of what it doesn't know of rows, float64 [draw, row]; None for none."""
        return None

    def for_means(self) -> Self:
        """Return the part by which means through a transform are computed; see `Law.for_means`."""
        return self

    def with_drawn(
        self,
        coded: Coded,
        chosen: NDArray[np.int64],  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> tuple[Self, Coded]:
        """Draw what it doesn't know of rows in the chosen draws; return both as if it were known."""
        return self, coded

    def reasons(self, chosen: NDArray[np.int64], num_chains: int) -> list[Reason]:  # noqa: ARG002
        """Return what its draws say against the agreement of the chains."""
        return []


def load_parts() -> None:
    """Import the code of all parts, so that no model read later does."""
    for piece in ("header", "law"):
        for place in code_of_parts(piece).values():
            resolve_name(place)


def parts_of(header: Header, chains: Sequence[Draws], without: Sequence[str] = ()) -> list[LawPart]:
    """Read the parts of a model, in their order, but some by name."""
    names = [name for name in PARTS if PARTS[name].law and name in header.parts and name not in without]
    return [resolve_name(PARTS[name].law).of(header.parts[name], header, chains) for name in names]
