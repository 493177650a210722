"""Totals, means and quantiles of sets of rows, from their joint law over draws (docs/maths.md#totals)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats, Longs
from sampler.data.encode import Coded
from sampler.errors import SettingsError
from sampler.posterior.assessment.conformal import FARTHEST
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.core.intervals import CALIBRATED, Request
from sampler.posterior.explanations.row_sets import AggregateRequest, RowSets
from sampler.posterior.explanations.set_sums import SetSums, new_levels
from sampler.posterior.laws.law import Law
from sampler.posterior.predicting import few_note
from sampler.posterior.results.aggregates import Aggregate
from sampler.storage.calibration_size import USUAL_LEVEL, kept_rows
from sampler.storage.conformal_table import MAX_TOTALS

OUTCOMES_OF_SCORES = 2_000  # where a total is scored: exact to .01 of probability
NOUNS = {"sum": "total", "mean": "mean"}


def aggregate(
    law: Law, coded: Coded, sets: RowSets, request: AggregateRequest, num_draws: int | None = None
) -> Aggregate:
    """Compute a figure of sets of rows with intervals; see `Posterior.aggregate`.

    Parameters
    ----------
    law
        Law of the model.
    coded
        All rows, encoded.
    sets
        How they belong to sets, and what is known of them.
    request
        What is asked.
    num_draws
        Use the first `num_draws` draws of each chain; None uses all.

    Returns
    -------
    Aggregate
        The figure of each set.

    Raises
    ------
    SettingsError
        For calibrated intervals where the model has none of such figures.

    """
    claim, infinite, tails = None, (False, False), Request((request.level,), (), "predictive").tails
    if request.interval == CALIBRATED:
        ends, claim = _calibrated(law, sets, request, num_draws)
        infinite = ends[0] <= FARTHEST, ends[1] >= 1 - FARTHEST
        finite = tuple(np.clip(ends, FARTHEST, 1 - FARTHEST).tolist())
        tails = Request((), finite, "predictive").tails
    sums = SetSums(law, coded, sets, request, tails, num_draws)
    several = law.classes if law.classes is not None and len(law.classes) > 2 else None
    figures = np.empty((3, sets.count, 1 if several is None else len(several)))
    for start, stop in sums.blocks():
        figures[:, start:stop] = sums.figures(start, stop)
    for figure, is_infinite, beyond in zip(figures[1:], infinite, (-np.inf, np.inf), strict=True):
        if is_infinite:
            figure[:] = beyond
    mean, lower, upper = figures if several is not None else figures[:, :, 0]
    seen = ~np.isnan(sets.observed)
    return Aggregate(
        figure=_in_words(law, request),
        sets=sets.names,
        mean=mean,
        lower=lower,
        upper=upper,
        rows=np.bincount(sets.place, minlength=sets.count),
        observed_rows=np.bincount(sets.place[seen], minlength=sets.count),
        new_groups=_new_groups(coded, sets),
        level=request.level,
        interval=request.interval,
        warnings=[*coded.warnings, *sets.warnings, *few_note(int(sums.by_few.sum()), "figure", sd="")],
        classes=several,
        claim=claim,
    )


def total_scores(
    law: Law, rows: LabelledRows, unit: NDArray[np.int32], before: Callable[[], None] = lambda: None
) -> Floats | None:
    """Score the totals of groups that the posterior was not fitted to, in their order, float64 [group].

    A score is the probability of totals below that of a group's outcomes, in the rows' joint law (where
    totals are equal to it, a share of these, by chance). `unit` is the group of each row, int32 [row]; of
    more than 2,000 as many are scored, evenly spaced. `before` is called before groups. None where outcomes
    have no total whose law is known: classes, and rows with weights or limits.
    """
    if law.classes is not None or rows.weights is not None or rows.coded.limits is not None:
        return None
    groups = np.unique(unit)
    scored = np.flatnonzero(np.isin(unit, groups[kept_rows(len(groups), MAX_TOTALS)]))
    sets = RowSets.of_groups(unit, scored)
    request = AggregateRequest((), "sum", None, USUAL_LEVEL, "predictive", None)
    sums = SetSums(law, rows.coded, sets, request, outcomes=OUTCOMES_OF_SCORES)
    y = np.bincount(sets.place, rows.y[sets.rows]).astype(np.float64)
    shares = np.random.default_rng(0).uniform(size=sets.count)
    below = [sums.below(a, b, y[a:b], shares[a:b], before) for a, b in sums.blocks()]
    return np.clip(np.concatenate(below), 0.0, 1.0)


def _calibrated(
    law: Law, sets: RowSets, request: AggregateRequest, num_draws: int | None
) -> tuple[tuple[float, float], str]:
    """Return the probabilities of the ends of calibrated intervals, and their claim; raise SettingsError."""
    table = law.draws.header.calibration
    if table is None or not len(table.totals):
        raise SettingsError(
            "the model has no calibrated totals: fit it with calibrate and new_rows that are of other groups",
            field="interval",
            code="unavailable",
        )
    whole = (
        request.by == (table.new_rows.groups,)
        and request.compare is None
        and num_draws in (None, table.draws)
    )
    if not whole or np.any(sets.factor != 1.0) or not np.all(np.isnan(sets.observed)):
        raise SettingsError(
            f"calibrated totals are of all rows of a value of {table.new_rows.groups}, by all draws: take "
            f'by="{table.new_rows.groups}", without weights, observed and compare',
            field="interval",
            code="not_applicable",
        )
    return table.of_totals(request.level)


def _in_words(law: Law, request: AggregateRequest) -> str:
    target, classes = law.schema.target.name, law.classes
    figure = f"{request.q:g} quantile" if request.q is not None else NOUNS[request.of]
    if classes is not None:
        figure = "number" if request.of == "sum" else "share"
        target = f"rows of {classes[1]!r}" if len(classes) == 2 else "rows of each class"
    words = (
        f"{figure} of {target} that will be observed"
        if request.predictive
        else f"expected {figure} of {target}"
    ) + " over the population that the rows are a sample of" * request.population
    if request.compare is None:
        return words
    name, (first, second) = request.compare
    return f"{words}, {name} = {first} less {name} = {second}"


def _new_groups(coded: Coded, sets: RowSets) -> Longs:
    """Count the groups of each set that the model has not seen."""
    counts = np.zeros(sets.count, np.int64)
    if coded.groups is None:
        return counts
    for own in coded.groups:
        new, level = new_levels(own[sets.rows])
        pairs = np.unique(np.stack([sets.place[new], level]), axis=1)
        counts += np.bincount(pairs[0], minlength=sets.count)
    return counts
