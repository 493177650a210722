"""Sums over sets of rows by draw, exact where their law is known, else simulated (docs/maths.md#totals).

What draws say of single rows is rounded to whole steps, whose sums are exact in float64: figures don't depend
on the order of rows, nor on the blocks in which they are evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from sampler import interrupt
from sampler.array_types import Floats, Longs
from sampler.data.encode import Coded
from sampler.posterior.core.intervals import FINER, decided_by_few
from sampler.posterior.core.progress import track
from sampler.posterior.core.row_blocks import MAX_CELLS, ROWS
from sampler.posterior.explanations.row_sets import AggregateRequest, RowSets
from sampler.posterior.kernels.mixture import mixture_quantiles
from sampler.posterior.laws.count_law import CountLaw
from sampler.posterior.laws.law import Law
from sampler.posterior.predicting import draw_outcomes, outcome_blocks
from sampler.posterior.weighting.quantiles import of_sorted

OUTCOMES = 16_000  # simulated where no law of sums is known: an end is exact to .02 of the standard deviation
SIMULATED = 1 << 23  # numbers in memory at once: 64 MB for each of a few arrays
BITS = 26  # of steps of what has no grid of its own; sums of 2^53 steps are exact
PLACES = 1 << 30  # steps from the middle of a set's totals, where these are rounded for the mixture


def needs_outcomes(law: Law, request: AggregateRequest, *, weighted: bool) -> bool:
    """Tell whether outcomes are simulated: no law of their sums is known, or a quantile is asked."""
    if request.of == "quantile" or not request.predictive:
        return request.predictive
    plain = not weighted and request.compare is None
    return law.exact_sums is None or (law.exact_sums == "poisson" and not plain)


def _sum_by(values: Floats, key: Longs, count: int) -> Floats:
    """Sum values by key, float64 [key]; a sum depends on its values alone, not on their order."""
    order = np.lexsort((values, key))
    keys, starts = np.unique(key[order], return_index=True)
    total = np.zeros(count)
    if len(keys):
        total[keys] = np.add.reduceat(values[order], starts)
    return total


def new_levels(own: NDArray[np.int32]) -> tuple[Longs, Longs]:
    """Find rows of new groups, and number their groups, one for each row without a group."""
    new = np.flatnonzero(own < 0)
    level = own[new].astype(np.int64)
    lone = level == -1
    level[lone] = np.iinfo(np.int32).min - np.flatnonzero(lone) - 1
    return new, level


@dataclass(frozen=True)
class _Part:
    """Some adjacent sets. A cell is a set, or each of its two sides where these are compared.

    `place`, `cell` and `factor` are of the rows `rows` (positions among all), of which `seen` are known;
    `share` [cell] is by what a cell's sum counts in the figure, negative where subtracted; `scale` [set] is
    the power of two at its largest factor, `known` [set] what known outcomes and the offset add to it.
    """

    rows: Longs
    place: Longs
    cell: Longs
    factor: Floats
    seen: NDArray[np.bool_]
    y: Floats
    share: Floats
    scale: Floats
    known: Floats

    @property
    def unseen(self) -> Longs:
        return np.flatnonzero(~self.seen)


class SetSums:
    """Sums over sets of rows, by draw, and figures of these."""

    def __init__(
        self,
        law: Law,
        coded: Coded,
        sets: RowSets,
        request: AggregateRequest,
        tails: Floats | None = None,
        num_draws: int | None = None,
        outcomes: int = OUTCOMES,
    ) -> None:
        self.law, self.coded, self.sets, self.request = law, coded, sets, request
        self.chosen = law.alike(num_draws)
        self.repeats = math.ceil(outcomes / len(self.chosen))
        self.simulated = needs_outcomes(law, request, weighted=bool(np.any(sets.factor != 1.0)))
        self.by_few = np.zeros(sets.count, bool)  # sets whose mean a few draws decide: their median is given
        self.sides = 1 if request.compare is None else 2
        self.tails = np.zeros(0) if tails is None else tails
        self.ends = np.where(self.tails < 0, 1 + self.tails, self.tails)

    @cached_property
    def grid(self) -> tuple[float, float]:
        """Offset and unit of the steps to which means of rows are rounded."""
        if self.law.mean_grid is not None:
            offset, step = self.law.mean_grid
            return offset, step / FINER
        size = float(np.mean(np.abs(self.law.for_means.mean_of(self.law.draws.reference, self.chosen))))
        return 0.0, _power(size)

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield the first set of each block whose draws are in memory at once, and that of the next."""
        count, classes = self.sets.count, len(self.law.classes or ())
        size = max(1, 2 * MAX_CELLS // (len(self.chosen) * self.sides * max(1, classes)))
        for start in track(range(0, count, size), "aggregate"):
            yield start, min(start + size, count)

    def below(self, start: int, stop: int, y: Floats, shares: Floats, before: Callable[[], None]) -> Floats:
        """Compute the probability of less than y, and a share of that of y, for totals of some sets [set]."""
        part, count = self._part(start, stop), stop - start
        before()
        if self.simulated:
            scores = np.empty(count)
            for a, b in self._runs(part, count):
                before()
                drawn = self._drawn(part, a, b)[:, :, 0]
                less, equal = (each.mean(axis=0) for each in (drawn < y[a:b], drawn == y[a:b]))
                scores[a:b] = less + shares[a:b] * equal
            return scores
        steps, step = self._steps(part, count)
        if self.law.exact_sums == "poisson":
            rates = np.ascontiguousarray(steps[:, :, 0].T * step[:, None])
            return CountLaw(rates, None, None).below(y, shares)
        centre = part.known + steps[:, :, 0] * step
        return np.asarray(ndtr((y - centre) / np.sqrt(self._variance(part, count))).mean(axis=0))

    def figures(self, start: int, stop: int) -> Floats:
        """Compute mean (or median, `by_few`), lower and upper ends of some sets, float64 [3, set, figure]."""
        part, count = self._part(start, stop), stop - start
        if self.request.of == "quantile":
            return self._simulated(part, count)[:3]
        steps, step = self._steps(part, count)  # [draw, set, figure], [set]
        of_sets = steps.reshape(len(steps), -1).T  # [set and figure, draw]
        width = steps.shape[2]
        known, steps_of = (np.repeat(each, width) for each in (part.known, step))
        figures = np.empty((3, len(of_sets)))
        figures[0] = known + steps_of * of_sets.mean(axis=1)
        median = known + steps_of * np.median(of_sets, axis=1)
        unknown = np.bincount(part.place[part.unseen], minlength=count) > 0
        if self.request.population:
            bootstrapped = self._bootstrapped(part, count, width)
            figures[1:] = of_sorted(np.sort(bootstrapped.reshape(len(steps), -1).T, axis=1), self.tails)
        elif not self.request.predictive or not unknown.any():
            figures[1:] = known + steps_of * of_sorted(np.sort(of_sets, axis=1), self.tails)
        elif self.simulated:
            *figures[1:], median = self._simulated(part, count)[1:].reshape(3, -1)
        elif self.law.exact_sums == "normal":
            variance = self._variance(part, count)
            for b in range(count):
                figures[1:, b] = known[b] + _mixture(of_sets[b], float(step[b]), variance[:, b], self.tails)
        else:
            rates = np.ascontiguousarray(of_sets * self.grid[1])
            ends = CountLaw(rates, None, None).quantiles(self.ends)
            figures[1:] = known + part.share * ends
        away = (of_sets - of_sets.mean(axis=1, keepdims=True)) * steps_of[:, None]
        with np.errstate(over="ignore"):  # a moment beyond the largest float is none
            few = decided_by_few(away**2 + ((figures[2] - figures[1])[:, None] / 2) ** 2)
        figures[0] = np.where(few, median, figures[0])
        self.by_few[start:stop] = few.reshape(count, width).any(axis=1)
        return figures.reshape(3, count, width)

    def _part(self, start: int, stop: int) -> _Part:
        sets = self.sets
        rows = slice(*np.searchsorted(sets.place, [start, stop]))
        place, factor, y = sets.place[rows] - start, sets.factor[rows], sets.observed[rows]
        cell = place * self.sides + sets.subtracted[rows]
        count, seen = (stop - start) * self.sides, ~np.isnan(y)
        share = np.ones(count)
        if self.request.of == "mean":
            share /= _sum_by(factor, cell, count)
        share[1::2] *= 1 if self.sides == 1 else -1
        offset = self.grid[0] if self.request.of != "quantile" else 0.0
        sums = _sum_by(np.where(seen, y, offset) * factor, cell, count)
        known = (share * sums).reshape(-1, self.sides).sum(axis=1)
        most = np.maximum.reduceat(factor, np.searchsorted(place, np.arange(stop - start)))
        scale = 2.0 ** np.floor(np.log2(most))
        return _Part(sets.rows[rows], place, cell, factor, seen, y, share, scale, known)

    def _steps(self, part: _Part, count: int) -> tuple[Floats, Floats]:
        """Sum what is expected over the sets, in steps [draw, set, figure]; return also the step of each."""
        offset, unit = self.grid
        law, chosen = self.law.for_means, self.chosen

        def steps(rows: Coded) -> Floats:
            mean = law.mean_of(rows, chosen)
            if self.request.predictive and self.law.recalibration is not None:
                mean = mean + self.law.added_to_mean(rows, chosen)
            mean = mean if mean.ndim == 3 else mean[:, :, None]
            return (mean - offset) / unit

        total, share = self._sum(steps, part, 1, count), part.share
        step = unit * part.scale
        if self.sides == 1:
            return total, step * share
        total = total * share[:, None]
        return total[:, ::2] + total[:, 1::2], step

    def _sum(self, steps: Callable[[Coded], Floats], part: _Part, power: int, count: int) -> Floats:
        """Sum steps of rows [draw, row, figure] by cell, each times its factor to a power."""
        rows, cell = part.rows[part.unseen], part.cell[part.unseen]
        factor = (part.factor / part.scale[part.place])[part.unseen] ** power
        size = min(ROWS, max(16, MAX_CELLS // len(self.chosen)))

        def evaluate(start: int) -> Floats:
            own = slice(start, start + size)
            whole = steps(self.coded.part(rows[own]))
            whole *= factor[own, None]
            np.rint(whole, out=whole)
            return np.add.reduceat(whole, np.flatnonzero(np.diff(cell[own], prepend=-1)), axis=1)

        total: Floats | None = None
        for start, sums in interrupt.ahead(evaluate, range(0, len(rows), size)):
            if total is None:
                total = np.zeros((len(self.chosen), count * self.sides, sums.shape[2]))
            total[:, np.unique(cell[start : start + size])] += sums
        return np.zeros((len(self.chosen), count * self.sides, 1)) if total is None else total

    def _bootstrapped(self, part: _Part, count: int, width: int) -> Floats:
        """Draw means of the populations that the rows of sets are samples of, float64 [draw, set, figure].

        In each draw the rows of a set have Dirichlet(1, .., 1) weights (Rubin 1981, the Bayesian bootstrap),
        times their factors; equal requests have equal weights.
        """
        law, chosen, cells = self.law.for_means, self.chosen, count * self.sides
        rng = np.random.default_rng([0, int(part.rows[0])])
        total = np.zeros((len(chosen), cells, width))
        whole = np.zeros((len(chosen), cells, 1))
        size = min(ROWS, max(16, MAX_CELLS // (len(chosen) * width)))
        for start in range(0, len(part.rows), size):
            interrupt.look()
            own = slice(start, start + size)
            mean = law.mean_of(self.coded.part(part.rows[own]), chosen).reshape(len(chosen), -1, width)
            mean = np.where(part.seen[own, None], part.y[own, None], mean)
            weight = rng.standard_exponential(mean.shape[:2])[:, :, None] * part.factor[own, None]
            cell, first = part.cell[own], np.flatnonzero(np.diff(part.cell[own], prepend=-1))
            total[:, cell[first]] += np.add.reduceat(mean * weight, first, axis=1)
            whole[:, cell[first]] += np.add.reduceat(weight, first, axis=1)
        of_cells = total / whole
        return of_cells if self.sides == 1 else of_cells[:, ::2] - of_cells[:, 1::2]

    def _variance(self, part: _Part, count: int) -> Floats:
        """Compute the variance of each set's figure in each draw, float64 [draw, set], given f."""
        law, chosen = self.law, self.chosen
        assert law.sigma is not None
        alike = law.sigma[law.draws.places(chosen)] ** 2
        own = part.share[part.cell] * part.factor
        unseen = part.unseen
        variance = alike[:, None] * _sum_by(own[unseen] ** 2, part.place[unseen], count)
        if law.noise_by_row:
            unit = _power(float(alike.mean()))

            def beyond(rows: Coded) -> Floats:
                return np.asarray(
                    (law.own_noise_of(rows, chosen)[:, :, None] ** 2 - alike[:, None, None]) / unit
                )

            more = self._sum(beyond, part, 2, count)[:, :, 0] * (part.share**2 * unit)
            variance += more.reshape(len(chosen), count, -1).sum(axis=2) * part.scale**2
        if law.intercepts is None:
            return variance
        rows = self.coded.part(part.rows[unseen])
        assert rows.groups is not None
        for k, places in enumerate(rows.groups):
            new, level = new_levels(places)
            keys, key = np.unique(np.stack([part.place[unseen][new], level]), axis=1, return_inverse=True)
            key = key.reshape(-1)
            sums = [
                _sum_by(own[unseen][new] * term, key, keys.shape[1])
                for term in law.intercepts.terms_of(rows, new)
            ]
            squares = np.array([[_sum_by(one * two, keys[0], count) for one in sums] for two in sums])
            variance += np.einsum("dij,ijb->db", law.intercepts.covariance(k, chosen), squares)
        return variance

    def _simulated(self, part: _Part, count: int) -> Floats:
        """Compute mean, ends and median of simulated figures, float64 [4, set, figure]."""
        known = part.known[:, None] if self.request.of != "quantile" else 0.0
        parts = []
        for start, stop in self._runs(part, count):
            drawn = self._drawn(part, start, stop)
            ends = np.quantile(drawn, [*self.ends, 0.5], axis=0, method="inverted_cdf")
            parts.append(np.stack([drawn.mean(axis=0), *ends]))
        return known + np.concatenate(parts, axis=1)

    def _runs(self, part: _Part, count: int) -> Iterator[tuple[int, int]]:
        """Part the sets into runs whose simulated figures (of quantiles: outcomes) are in memory at once."""
        sizes = np.full(count, max(1, len(self.law.classes or ())))
        if self.request.of == "quantile":
            sizes = np.bincount(part.place, minlength=count)
        ends, start = np.cumsum(sizes), 0
        while start < count:
            most = (ends[start - 1] if start else 0) + SIMULATED // (self.repeats * len(self.chosen))
            stop = max(start + 1, int(np.searchsorted(ends, most, side="right")))
            yield start, stop
            start = stop

    def _drawn(self, part: _Part, start: int, stop: int) -> Floats:
        """Simulate figures of some sets, without known outcomes in totals, float64 [outcome, set, figure]."""
        rows = slice(*np.searchsorted(part.place, [start, stop]))
        if self.request.of == "quantile":
            return self._drawn_quantiles(part, rows, part.place[rows] - start)[:, :, None]
        own = np.arange(rows.start, rows.stop)[~part.seen[rows]]
        coded, place = self.coded.part(part.rows[own]), part.place[own] - start
        share, several = part.share[part.cell[own]] * part.factor[own], len(self.law.classes or ()) > 2
        drawn = []
        for repeat in range(self.repeats):
            total = np.zeros((len(self.chosen), stop - start, len(self.law.classes or ()) if several else 1))
            rng = np.random.default_rng([0, repeat])
            for block, y in outcome_blocks(self.law, coded, self.chosen, None, rng):
                first = np.flatnonzero(np.diff(place[block], prepend=-1))
                for k in range(total.shape[2]):
                    counted = ((y == k) if several else y) * share[block]
                    total[:, place[block][first], k] += np.add.reduceat(counted, first, axis=1)
            drawn.append(total)
        return np.concatenate(drawn)

    def _drawn_quantiles(self, part: _Part, rows: slice, place: Longs) -> Floats:
        """Simulate quantiles of the outcomes of sets that are these rows, float64 [outcome, set]."""
        coded, seen, factor = self.coded.part(part.rows[rows]), part.seen[rows], part.factor[rows]
        cells = np.split(np.arange(len(place)), np.flatnonzero(np.diff(part.cell[rows])) + 1)
        drawn: list[Floats] = []
        waiting: list[Floats] = []
        size = max(1, MAX_CELLS // len(place))
        for repeat, start in product(range(self.repeats), range(0, len(self.chosen), size)):
            interrupt.look()
            some = self.chosen[start : start + size]
            y = draw_outcomes(self.law, coded, some, None, [0, repeat, start])
            y[:, seen] = part.y[rows][seen]
            waiting.append(y)
            is_last = repeat == self.repeats - 1 and start + size >= len(self.chosen)
            if is_last or sum(map(len, waiting)) * len(place) >= SIMULATED:
                outcomes, waiting = np.concatenate(waiting), []
                of_cells = np.stack([self._quantile(outcomes[:, own], factor[own]) for own in cells], axis=1)
                drawn.append(of_cells if self.sides == 1 else of_cells[:, ::2] - of_cells[:, 1::2])
        return np.concatenate(drawn)

    def _quantile(self, y: Floats, factor: Floats) -> Floats:
        """Find in each draw the smallest outcome at which the rows' share reaches q, float64 [draw]."""
        assert self.request.q is not None
        order = np.argsort(y, axis=1)
        share = np.cumsum(factor[order], axis=1)
        place = np.argmax(share >= self.request.q * share[:, -1:] * (1 - 1e-12), axis=1)
        at = np.take_along_axis(order, place[:, None], axis=1)
        return np.asarray(np.take_along_axis(y, at, axis=1)[:, 0])


def _power(size: float) -> float:
    """Return the power of two that is a small part of numbers of about this size."""
    return 2.0 ** (math.floor(math.log2(size)) - BITS) if 0 < size < math.inf else 2.0**-BITS


def _mixture(steps: Floats, step: float, variance: Floats, tails: Floats) -> Floats:
    """Compute quantiles of the mixture over draws of normal laws about steps [draw]."""
    sd = np.sqrt(np.maximum(variance, 0.0))
    if not np.all(sd > 0):  # outcomes that are all known
        return np.asarray(step * of_sorted(np.sort(steps)[None], tails)[:, 0])
    middle, coarse = 0.0, 1.0
    if np.abs(steps).max() >= PLACES or np.any(steps != np.rint(steps)):
        middle = float(steps.mean())
        most = float(np.abs(steps - middle).max())
        coarse = most / PLACES if most > 0 else 1.0
    whole = np.rint((steps - middle) / coarse).astype(np.int32)[None]
    quantiles = np.empty((1, len(tails)))
    mixture_quantiles(whole, step * coarse, sd, tails, ndtri(np.abs(tails)), quantiles)
    return np.asarray(step * middle + quantiles[0])
