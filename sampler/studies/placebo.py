"""Placebo treatments: the same fit to treatments that did nothing, whose effects should be none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sampler.data.treatment.design import ROLE
from sampler.errors import SettingsError
from sampler.posterior.parts.effects import EffectColumns
from sampler.prepared_fit import reference_rows
from sampler.running import run

if TYPE_CHECKING:
    from sampler.posterior.posterior import Posterior


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
    if posterior.header.effects is None:
        raise SettingsError(
            "this model has no treatment, whose placebo could be fitted", field=None, code="not_applicable"
        )
    if problem is None or problem.effects is None:
        raise SettingsError(
            "a loaded posterior has no training rows: fit it again", field=None, code="unavailable"
        )
    training, design = problem.training, problem.effects
    codes = training.codes[: len(problem.grid.cuts)]
    columns = EffectColumns(design, len(codes))
    probable, own = columns.arms(codes), training.by_role[ROLE]
    if probable is None:
        shares = np.bincount(own.astype(np.int64), minlength=len(design.arms)) / len(own)
        probable = np.tile(shares[:, None], len(own))
    drawn = np.random.default_rng(seed).uniform(size=len(own))
    below = np.cumsum(probable[:0:-1], axis=0)  # of the last arms: the last one has the smallest draws
    treated = np.sum(drawn < below, axis=0).astype(np.float64)
    shuffled = replace(
        training, codes=columns.add(codes, treated), by_role={**training.by_role, ROLE: treated}
    )
    rows = treated[reference_rows(len(treated))].astype(np.uint8)
    return run(replace(problem, training=shuffled, effects=replace(design, treated=rows)), progress=progress)
