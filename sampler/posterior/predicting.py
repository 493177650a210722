"""Predictions of rows with intervals, from the draws of all chains."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler import interrupt
from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.row_flags import FEW_DRAWS, Flag, by_row
from sampler.data.scalars import counted
from sampler.families import FAMILIES
from sampler.posterior.core.intervals import Interval, IntervalFigures, IntervalKind, Quantile, Request
from sampler.posterior.core.row_blocks import MAX_CELLS
from sampler.posterior.laws.law import Law
from sampler.posterior.parts.part import LawPart
from sampler.posterior.results.prediction import Prediction
from sampler.storage.model_header import Header

MIDDLE = 0.6827  # of a normal law within a standard deviation
FAR_WEIGHT = 4.0  # times 1: noise has twice the sd, or half


def usual_interval(law: Law) -> IntervalKind:
    """Name the kind of interval that predictions have unless told otherwise."""
    return FAMILIES[law.draws.family].usual_interval


def predict(
    law: Law,
    X: Any,
    level: float | Sequence[float] | None = 0.9,
    interval: str | None = None,
    quantiles: float | Sequence[float] | None = None,
    num_draws: int | None = None,
    *,
    ignore_extra: bool = False,
) -> Prediction:
    """Predict rows with predictive or credible intervals; see `Posterior.predict`."""
    request = Request.check(level, interval or usual_interval(law), quantiles, law.classes)
    coded = X if isinstance(X, Coded) else law.draws.encode(X, ignore_extra=ignore_extra)
    figures, used, new = _figures(law, coded, request, num_draws)
    of_rows = figures.mean, figures.sd, figures.intervals, figures.quantiles
    return _prediction(law, coded, request, of_rows, used, new, figures.by_few)


def predict_by_row(
    law: Law, coded: Coded, quantiles: Floats, part: NDArray[np.intp], num_draws: int | None = None
) -> Prediction:
    """Predict rows of numbers with quantiles that differ by their part.

    `quantiles` are their probabilities, float64 [part, quantile], and `part` is that of each row. The
    quantiles of the result have those of the first part for a name, and each row's own values.
    """
    count = quantiles.shape[1]
    mean, sd, values = np.empty(coded.num_rows), np.empty(coded.num_rows), np.empty((count, coded.num_rows))
    used, new, few = law.draws.choose(num_draws)[1], 0, np.zeros(coded.num_rows, bool)
    order = np.argsort(part, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
        if not len(rows):
            continue
        request = Request((), tuple(quantiles[part[rows[0]]].tolist()), "predictive")
        figures, used, more = _figures(law, coded.part(rows), request, num_draws)
        mean[rows], sd[rows], few[rows] = figures.mean, figures.sd, figures.by_few
        values[:, rows] = [quantile.values for quantile in figures.quantiles]
        new += more
    named = [Quantile(float(q), each) for q, each in zip(quantiles[0], values, strict=True)]
    return _prediction(law, coded, Request((), (), "predictive"), (mean, sd, [], named), used, new, few)


def _figures(
    law: Law, coded: Coded, request: Request, num_draws: int | None
) -> tuple[IntervalFigures, int, int]:
    """Compute figures of rows; return with them the draws used per chain, and the rows of new groups."""
    several = law.classes is not None and len(law.classes) > 2
    shape = (coded.num_rows, len(law.classes or ())) if several else (coded.num_rows,)
    figures = IntervalFigures(shape, request)
    with np.errstate(over="ignore", invalid="ignore"):  # beyond the largest float figures are infinite
        used = law.fill(figures, coded, num_draws)
        new = _fill_new_groups(law, figures, coded, num_draws)
        _replace_moments(law, figures, coded, num_draws)
        return figures, used, new


def _prediction(
    law: Law,
    coded: Coded,
    request: Request,
    figures: tuple[Floats, Floats, list[Interval], list[Quantile]],
    used: int,
    new: int,
    few: NDArray[np.bool_],
) -> Prediction:
    flags, rows = by_row(coded.marks, law.schema.inputs), few.nonzero()[0].tolist()
    for row in rows:
        flags[row] = [*flags[row], Flag(law.schema.target.name, FEW_DRAWS)]
    notes = [*_group_note(law, new), *few_note(len(rows), "row"), *_weight_note(law.draws.header, request)]
    return Prediction(
        *figures,
        [*coded.warnings, *notes],
        used,
        request.kind,
        flags,
        law.classes,
        groups="".join(part.included.get(request.kind, "") for part in law.parts),
        labels=coded.labels,
    )


def draw_outcomes(
    law: Law,
    coded: Coded,
    chosen: NDArray[np.int64],
    weights: Floats | None = None,
    seed: int | Sequence[int] = 0,
) -> Floats:
    """Draw new outcomes of rows from chosen draws, float64 [draw, row]; see `Posterior.sample_predictive`."""
    y = np.empty((len(chosen), coded.num_rows))
    for rows, own in outcome_blocks(law, coded, chosen, weights, np.random.default_rng(seed)):
        y[:, rows] = own
    return y


def outcome_blocks(
    law: Law, coded: Coded, chosen: NDArray[np.int64], weights: Floats | None, rng: np.random.Generator
) -> Iterator[tuple[slice, Floats]]:
    """Draw new outcomes as `draw_outcomes`, block by block: yield rows, and theirs, float64 [draw, row]."""
    parts: list[LawPart] = []
    for part in law.parts:
        drawn, coded = part.with_drawn(coded, chosen, rng)
        parts.append(drawn)
    law = copy(law)
    law.parts = parts
    size = max(16, MAX_CELLS // len(chosen))
    for start in range(0, coded.num_rows, size):
        interrupt.look()
        rows = slice(start, min(start + size, coded.num_rows))
        own = None if weights is None else weights[rows]
        yield rows, law.sample_outcomes(coded.part(rows), own, chosen, rng)


def _fill_new_groups(law: Law, figures: IntervalFigures, coded: Coded, num_draws: int | None) -> int:
    """Compute `mean` and `sd` of rows of new groups as `Law.for_means` has them; return their number."""
    for_means = law.for_means
    if for_means is law:
        return 0
    new = np.flatnonzero(~law.known(coded))
    if len(new):
        again = IntervalFigures((len(new),), Request((), (), figures.request.kind))
        for_means.fill(again, coded.part(new), num_draws)
        figures.mean[new], figures.sd[new], figures.by_few[new] = again.mean, again.sd, again.by_few
    return len(new)


def _replace_moments(law: Law, figures: IntervalFigures, coded: Coded, num_draws: int | None) -> None:
    """Give the median, and half the middle 68%, where a few draws decide the mean or the sd of a row."""
    (rows,) = figures.by_few.nonzero()
    if len(rows):
        again = IntervalFigures((len(rows),), Request((MIDDLE,), (0.5,), figures.request.kind))
        law.fill(again, coded.part(rows), num_draws)
        ends, median = again.intervals[0], again.quantiles[0].values
        figures.mean[rows], figures.sd[rows] = median, (ends.upper - ends.lower) / 2


def few_note(
    count: int, noun: str, *, sd: str = ", sd half the distance of the 0.16 and 0.84 quantiles"
) -> list[str]:
    """Say how many figures stand for moments that a few draws decide; `sd` in words, if there is one."""
    if not count:
        return []
    return [
        f"of {counted(count, noun)} a few draws decide the mean{' or sd' if sd else ''}, which is not known: "
        f"mean is the median there{sd}; intervals count all draws"
    ]


def _group_note(law: Law, new: int) -> list[str]:
    """Say which mean rows of new groups have, where there is another than the average over draws."""
    if not new:
        return []
    rows = "row" if new == 1 else "rows"
    return [
        f"mean and sd of {new} {rows} of new groups are those with the groups' standard deviation at its "
        f"median: the model learns {law.learnt_unit()}, so its rarest draws would decide an average over "
        "all. Intervals and quantiles count all draws; quantile 0.5 is the median"
    ]


def _weight_note(header: Header, request: Request) -> list[str]:
    """Warn of predictive intervals, which are of weight 1, where training rows have far other weights."""
    weight = header.typical_weight
    if not request.predictive or weight is None or 1 / FAR_WEIGHT <= weight <= FAR_WEIGHT:
        return []
    return [
        "predictive intervals are of an outcome of weight 1: the standard deviation of its noise is "
        f"{math.sqrt(weight):.3g} times that of a training row of typical weight ({weight:.3g}); for "
        "outcomes like those fit again with all weights divided by this number"
    ]
