"""Placebo treatments: the same fit to treatments that did nothing, whose effects should be none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sampler.array_types import Codes, Floats
from sampler.data.treatment.design import ROLE
from sampler.errors import SettingsError
from sampler.posterior.parts.effects import EffectColumns
from sampler.posterior.posterior import Posterior
from sampler.posterior.refusals import check
from sampler.preparation.propensity import with_propensities
from sampler.prepared_fit import reference_rows
from sampler.running import run


def placebo_fit(posterior: Posterior, seed: int = 0, *, progress: bool = False) -> Posterior:
    """Fit a posterior's model again to treatments drawn by chance, as probable for each row as its own.

    Parameters
    ----------
    posterior
        A posterior with a treatment, and with the rows of its fit.
    seed
        Seed of the treatments.
    progress
        Whether to show a progress bar.

    Returns
    -------
    Posterior
        The fit to the placebo.

    Raises
    ------
    SettingsError
        For a posterior without a treatment, and for one that was loaded: its file has no rows.

    """
    problem = None if posterior.origin is None else posterior.origin.problem
    check("placebo", posterior.law)
    if problem is None or "treatment" not in problem.parts:
        raise SettingsError(
            "a loaded posterior has no training rows: fit it again", field=None, code="unavailable"
        )
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
    return run(replace(problem, training=shuffled, parts=parts), progress=progress)


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
