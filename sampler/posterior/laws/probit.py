"""The law of two classes: a sum of trees is the normal quantile of the probability of the second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sampler import interrupt
from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.posterior.core.intervals import IntervalFigures, RowIndex
from sampler.posterior.core.row_blocks import by_blocks, draws_by_row
from sampler.posterior.core.stored_draws import StoredDraws
from sampler.posterior.laws.law import Law
from sampler.storage.draws import Draws

PROBABILITY = 300  # cost of a normal probability, see `Law.own_work`


class ProbitLaw(Law):
    """Two classes: f is the probability of the second.

    RowIndex have an offset: that of the model's column of offsets, 0 where there is none.
    """

    def __init__(self, draws: StoredDraws, chains: Sequence[Draws]) -> None:
        super().__init__(draws, chains)
        self.own_work += PROBABILITY

    def level_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute the normal quantile of that probability, float64 [draw, row]."""
        f = self._sums_and_parts(coded, chosen)
        f += coded.by_role.get("offset", 0.0)
        return np.asarray(f / self.with_new_groups(np.ones_like(f), coded, chosen))

    def f_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute the probability of the second class in the chosen draws, float64 [draw, row]."""
        return np.asarray(ndtr(self.level_of(coded, chosen)))

    def fill(self, figures: IntervalFigures, coded: Coded, num_draws: int | None) -> int:
        """Compute the figures of the rows; return the number of draws per chain used."""
        chosen, used = self.draws.choose(num_draws)

        def evaluate(block: tuple[RowIndex, bool]) -> Callable[[], None]:
            """Evaluate the draws at a block of rows; return what then computes their figures."""
            rows, whole_steps = block
            part = coded.part(rows)
            if not whole_steps:
                f = draws_by_row(self.f(part, used))
                return partial(figures.fill_mixtures, rows, f, None, None)
            sums = self.ensemble.sums(self.with_columns(part).codes, chosen)
            for beside in self.parts:
                sums = beside.added(sums, part, chosen)
            return partial(figures.fill_probabilities, rows, sums, self.offset, self.step)

        known = None if self.knows_all else self.known
        plain = self.in_steps and "offset" not in coded.by_role
        blocks = by_blocks(coded, len(chosen), known, plain=plain)
        for _, fill in interrupt.ahead(evaluate, blocks):
            fill()
        return used

    @property
    def inverse_link(self) -> Callable[[Floats], Floats] | None:
        """Function from what the trees learn to the second class's probability; None beside offsets."""
        return None if self.draws.header.beside else ndtr

    def learnt_unit(self) -> str:
        """Say what the trees learn, in words."""
        second = self.draws.header.schema.target.levels[1]
        beside = ", offsets of rows left out" if self.draws.header.beside else ""
        return f"the normal quantile of the probability of {second!r} (probit){beside}"
