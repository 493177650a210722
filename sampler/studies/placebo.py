"""Placebo treatments: the same fit to treatments that did nothing, whose effects should be none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sampler.array_types import Codes, Floats
from sampler.data.groupings import Groupings
from sampler.data.table import RawColumn
from sampler.data.treatment.design import ROLE
from sampler.data.treatment.panel import PANEL, Panel
from sampler.errors import SettingsError
from sampler.posterior.charts.fit_progress import Report
from sampler.posterior.explanations.panels import ranks
from sampler.posterior.parts.effects import EffectColumns
from sampler.posterior.posterior import Posterior
from sampler.posterior.treated_posterior import rows_of_fit
from sampler.preparation.propensity import with_propensities
from sampler.prepared_fit import PreparedFit, reference_rows
from sampler.running import run
from sampler.storage.model_header import Header
from sampler.training import EffectPrior


def placebo_fit(
    problem: PreparedFit,
    seed: int = 0,
    periods_earlier: int | None = None,
    *,
    num_threads: int | None = None,
    report: Report | None = None,
) -> Posterior:
    """Fit a model again to treatments that did nothing.

    Parameters
    ----------
    problem
        The fit, which has a treatment.
    seed
        Seed of treatments drawn by chance, as probable for each row as its own.
    periods_earlier
        Of a panel, by how many periods earlier units adopted; 2 by default.
    num_threads, report
        As of `sampler.running.run`.

    Returns
    -------
    Posterior
        The fit to the placebo.

    Raises
    ------
    SettingsError
        For periods earlier of no panel, and numbers of them that leave no cohort.

    """
    if problem.parts.get(PANEL) is None and periods_earlier is None:
        moved = drawn_by_chance(problem, seed)
    else:
        moved = adopted_earlier(problem, 2 if periods_earlier is None else periods_earlier)
    return run(moved, num_threads=num_threads, report=report)


def drawn_by_chance(problem: PreparedFit, seed: int) -> PreparedFit:
    """Give rows treatments drawn by chance."""
    training, design = problem.training, problem.parts["treatment"]
    codes = training.codes[: len(problem.grid.cuts)]
    columns, own = EffectColumns(design, len(codes)), training.by_role[ROLE]
    drawn_by = design
    if columns.arms(codes) is None and training.settings.assignment == "observed":  # no part of the model
        drawn_by = with_propensities(design, own, codes, training.settings.seed)
    draw = drawn_arms if design.dose is None else drawn_doses
    treated = draw(EffectColumns(drawn_by, len(codes)), codes, own, np.random.default_rng(seed))
    shuffled = replace(
        training, codes=columns.add(codes, treated), by_role={**training.by_role, ROLE: treated}
    )
    design = replace(design, treated=treated[reference_rows(len(treated))])
    parts = {**problem.parts, "treatment": design}
    return replace(problem, training=shuffled, parts=parts)


def adopted_earlier(problem: PreparedFit, periods_earlier: int) -> PreparedFit:
    """Take the untreated rows of a panel alone, as if units had adopted some periods earlier.

    Cohorts without an untreated period then are left out, as are periods without an untreated row.

    Raises
    ------
    SettingsError
        For a fit to no panel, and for numbers of periods that leave no cohort.

    """
    panel: Panel | None = problem.parts.get(PANEL)
    whole = isinstance(periods_earlier, int) and not isinstance(periods_earlier, bool)
    if panel is None or not whole or periods_earlier < 1:
        detail = "of a panel" if panel is None else f"from 1 up, not {periods_earlier!r}"
        message = f"periods_earlier must be a number of periods {detail}"
        raise SettingsError(message, field="periods_earlier", code="not_accepted")
    training, header = problem.training, Header.from_bytes(problem.header())
    coded = rows_of_fit(training, header)
    assert coded.groups is not None, "cohorts and units are groups"
    cohorts = RawColumn(panel.adoption, "text", cells=[*header.schema.groups[0].levels])
    adopted = panel.rank(panel.read(cohorts), "left")[coded.groups[0]]
    rank = ranks(header, panel, coded)
    lags = rank - adopted + periods_earlier
    kept = (lags < periods_earlier) & (adopted > periods_earlier)
    kept &= np.isin(rank, rank[kept & (lags < 0)])
    if not np.any(lags[kept] >= 0):
        message = f"periods_earlier: no cohort has more than {periods_earlier} untreated periods"
        raise SettingsError(message, field="periods_earlier", code="out_of_range")
    rows = np.flatnonzero(kept)
    own, reference = panel.with_arms(lags[rows]), rows[reference_rows(len(rows))]
    design = replace(problem.parts["treatment"], arms=own.arms, treated=own.places(lags[reference]))
    prior, groups = training.part(EffectPrior), problem.parts["groups"]
    parts = {name: part.take(rows) for name, part in training.parts.items()}
    parts["treatment"] = EffectPrior.of(
        prior.features, prior.barred, design.sd, design.num_parts(counts=False)
    )
    some = replace(
        training,
        codes=np.ascontiguousarray(training.codes[:, rows]),
        y=training.y[rows],
        weights=None if training.weights is None else training.weights[rows],
        by_role={**training.by_role, ROLE: own.places(lags)},
        parts=parts,
    )
    some = replace(some, by_role={role: values[rows] for role, values in some.by_role.items()})
    index = coded.groups
    of_header = Groupings.of(
        header.schema.groups, index[:, rows], 1.0, reference_rows(len(rows)), groups.slopes
    )
    of_header = replace(of_header, scales=groups.scales)
    return replace(
        problem,
        training=some,
        reference_values=None if coded.values is None else coded.values[:, reference],
        reference_outcomes={},
        parts={**problem.parts, "treatment": design, PANEL: own, "groups": of_header},
    )


def drawn_arms(columns: EffectColumns, codes: Codes, own: Floats, rng: np.random.Generator) -> Floats:
    """Draw arms for rows [feature, row] that have arms `own`, by their places, float64 [row]."""
    probable = columns.arms(codes)
    if probable is None:
        shares = np.bincount(own.astype(np.int64), minlength=len(columns.design.arms)) / len(own)
        probable = np.tile(shares[:, None], len(own))
    drawn = rng.uniform(size=len(own))
    below = np.cumsum(probable[:0:-1], axis=0)  # of the last arms: the last one has the smallest draws
    return np.asarray(np.sum(drawn < below, axis=0), np.float64)


def drawn_doses(columns: EffectColumns, codes: Codes, own: Floats, rng: np.random.Generator) -> Floats:
    """Draw doses for rows: what is expected of each, and another row's distance from that, float64 [row]."""
    arms = columns.arms(codes)
    expected = np.zeros(len(own)) if arms is None else arms[0]
    return np.asarray(expected + rng.permutation(own - expected))
