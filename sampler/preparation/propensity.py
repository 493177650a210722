"""Treatments of a fit: checks, their probability or expected dose, and the columns that trees have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Codes, Floats
from sampler.bart.prior import calibrate
from sampler.chains import needed_kernels, start_chain
from sampler.data.binning import Grid, cut_points
from sampler.data.data_warnings import dose_warnings, site_warnings
from sampler.data.table import Table
from sampler.data.treatment.design import DOSE, ROLE, TWO, EffectDesign, FittedPropensity
from sampler.data.treatment.dose import Dose
from sampler.data.treatment.reading import check_arms, check_overlap, check_propensity
from sampler.families import FAMILIES
from sampler.kernels.jit import warm
from sampler.posterior.assessment.class_scores import area_under_roc
from sampler.posterior.parts.effects import EffectColumns
from sampler.preparation.fit_plan import FitPlan
from sampler.preparation.part import PartDesign, PartRows
from sampler.prepared_fit import reference_rows
from sampler.prior import outcome_sd
from sampler.settings import Settings
from sampler.storage.draw_codec import pack
from sampler.storage.draws import concatenate
from sampler.training import EffectPrior, Training

# Of the fit of the treatment: its mean is all that is kept of it.
SHORT = {"num_trees": 50, "num_chains": 2, "num_burnin": 200, "num_draws": 50, "thin": 6}
SHORTER = SHORT | {"num_chains": 1, "num_burnin": 100, "num_draws": 25, "thin": 4}  # of fits to halves
NUMBERS = {"family": "gaussian", "noise": "constant", "transform": "none", "linear": False}
ROUGH = {"sigma_estimate": "naive"}  # reads no features, which may be of more rows
SD_OF = {"two": 0.5, "counts": 1.0}  # that stand for the outcome's sd, by the kind of outcomes


class TreatmentDesign(PartDesign):
    """Columns of a treatment for trees, its probability or expected dose, and the prior of its effect."""

    @classmethod
    def check(cls, planned: FitPlan, table: Table) -> None:
        """Check the propensity, and the arms of others than panels; raise SettingsError or DataError."""
        if planned.propensity is not None:
            check_propensity(planned.propensity, planned.choice.kinds, table, dose=planned.arms == DOSE)
        if planned.panel is None:
            outcome = planned.target.name, planned.outcome
            check_arms(planned.roles[ROLE], planned.by_role[ROLE], *outcome, planned.arms)

    @classmethod
    def facts(cls, rows: PartRows, planned: FitPlan) -> EffectDesign | None:
        """Decide how trees see the treatment; None without one.

        Raises DataError where a feature tells the arms apart, or the dose, without fail.
        """
        treated = rows.by_role.get(ROLE)
        if treated is None:
            return None
        design, codes = rows.design, rows.codes
        settings, schema, arms, propensity = rows.settings, rows.schema, planned.arms, planned.propensity
        dose = Dose.of(treated) if arms == DOSE else None
        check_overlap(planned.roles[ROLE], treated, schema, design, settings, dose=dose is not None)
        reference = treated[reference_rows(len(treated))]
        own = EffectDesign(settings.effects, reference, given=propensity, arms=arms, dose=dose)
        if propensity is not None and len(arms) <= len(TWO):
            place = [schema.columns[column].name for column, _ in schema.coded].index(propensity)
            count, total = np.bincount(codes[place]), np.bincount(codes[place], design[place])
            means = np.divide(total, count, out=np.full(len(count), design[place].mean()), where=count > 0)
            own = replace(own, known=(place, means))
        observed = settings.assignment == "observed" and planned.panel is None  # cohorts have intercepts
        if settings.effects != "plain" and observed and propensity is None:
            own = with_propensities(own, treated, codes, settings.seed)
        kind = FAMILIES[settings.family].target
        return replace(own, sd=effect_sd(rows.y, rows.weights, kind))

    @classmethod
    def codes(cls, facts: EffectDesign, rows: PartRows, codes: Codes) -> Codes:
        """Return the codes with the columns of the treatment."""
        return EffectColumns(facts, len(codes)).add(codes, rows.by_role[ROLE])

    @classmethod
    def training(cls, facts: EffectDesign, rows: PartRows) -> EffectPrior | None:
        """Return the prior of an effect that has forests of its own; None for others."""
        if facts.kind != "bcf":
            return None
        names = [rows.schema.columns[place].name for place, _ in rows.schema.coded]
        barred = tuple(k for k, name in enumerate(names) if name == facts.given)
        counts = FAMILIES[rows.settings.family].target == "counts"
        return EffectPrior.of(len(names), barred, facts.sd, facts.num_parts(counts=counts), facts.dose)

    @classmethod
    def estimates(cls, facts: EffectDesign, training: Any, rows: PartRows) -> dict[str, Any]:  # noqa: ARG003
        """Ask for a finer grid for the effect of a unit of a dose."""
        return {} if facts.dose is None else {"finer": 1.0 / facts.dose.share}

    @classmethod
    def warnings(cls, facts: EffectDesign, rows: PartRows, planned: FitPlan) -> list[str]:
        """Warn of few doses, and of sites."""
        of_rows = planned.roles[ROLE], rows.by_role[ROLE], rows.schema, rows.design
        doses = [] if facts.dose is None else dose_warnings(*of_rows)
        return [*doses, *site_warnings(*of_rows, rows.settings)]


def with_propensities(own: EffectDesign, treated: Floats, codes: Codes, seed: int) -> EffectDesign:
    """Fit the probability of each arm, or the expected dose, to rows with such codes [feature, row]."""
    fits = [treated] if own.dose else [(treated == arm).astype(np.float64) for arm in own.fitted_arms]
    return replace(own, propensities=tuple(fit_propensity(own, each, codes, seed) for each in fits))


def num_codes_of(grid: Grid, codes: Codes) -> NDArray[np.int64]:
    """Return the number of codes of each column, int64 [column], those of a treatment's too."""
    own = grid.num_codes
    return np.append(own, codes[len(own) :].max(axis=1, initial=0).astype(np.int64) + 1)


def effect_sd(y: Floats, weights: Floats | None, target: str) -> float:
    """Return the sd of what is learnt [n]: of normal quantiles for two classes, of logarithms for counts."""
    return SD_OF[target] if target in SD_OF else outcome_sd(y, weights)


def fit_propensity(own: EffectDesign, treated: Floats, codes: Codes, seed: int) -> FittedPropensity:
    """Fit the probability of being treated, or in an arm, or the expected dose, to all rows.

    It is that of the rows of the fit: one of rows left out leans against the treatment by construction, and
    leaves more bias than none at all (docs/maths.md#treatments).
    """
    fitted = _fitted(own, treated, codes, seed)
    propensity = _of_rows(own, fitted, codes)
    others = _crossed(own, treated, codes, seed)
    return replace(
        fitted,
        cuts=cut_points(propensity),
        auc=(_agreement(own, treated, propensity), _agreement(own, treated, others)),
    )


def _of_rows(own: EffectDesign, fitted: FittedPropensity, codes: Codes) -> Floats:
    columns = EffectColumns(replace(own, propensities=(fitted,)), len(codes))
    return np.asarray(columns.propensities(codes)[0])


def _crossed(own: EffectDesign, treated: Floats, codes: Codes, seed: int) -> Floats:
    """Return what is expected of the treatment by a fit to the other half of the rows, float64 [row]."""
    rng, half = np.random.default_rng(seed), np.zeros(len(treated), bool)
    parts = [treated == arm for arm in (0, 1)] if own.dose is None else [np.isfinite(treated)]
    for part in parts:  # both halves have rows of both arms
        half[rng.permutation(np.flatnonzero(part))[::2]] = True
    propensity = np.empty(len(treated))
    for rows in (half, ~half):
        fitted = _fitted(own, treated[rows], codes[:, rows], seed, SHORTER)
        propensity[~rows] = _of_rows(own, fitted, codes[:, ~rows])
    return propensity


def _agreement(own: EffectDesign, treated: Floats, propensity: Floats) -> float:
    """Return the area under the ROC curve, or of a dose the squared correlation."""
    if own.dose is not None:
        spread = float(propensity.std() * treated.std())
        return (
            float(np.mean((propensity - propensity.mean()) * (treated - treated.mean())) / (spread or 1)) ** 2
        )
    area = area_under_roc(treated == 1, propensity)
    return 0.5 if area is None else area["value"]


def _fitted(
    own: EffectDesign,
    treated: Floats,
    codes: Codes,
    seed: int,
    lengths: Mapping[str, int] = SHORT,
) -> FittedPropensity:
    """Return draws of the probability of being treated, or of the expected dose, without cut points."""
    family = {"family": "probit"} if own.dose is None else NUMBERS
    settings = Settings.resolve(seed=seed, **family, **lengths)
    constants = calibrate(treated, codes, None, settings, ROUGH if own.dose else None)  # reads no values
    num_codes = codes.max(axis=1, initial=0, where=codes < 255).astype(np.int64) + 1
    training = Training(codes, num_codes, treated, None, constants, settings)
    warm(needed_kernels(training))
    draws = []
    for number in range(settings.num_chains):
        chain = start_chain(training, number)
        while not chain.done:
            chain.run(chain.iterations - chain.iteration)
        taken = chain.take()
        assert taken is not None, "the chain keeps draws"
        draws.append(taken)
    return FittedPropensity(np.zeros(0), pack(concatenate(draws)), constants.offset, constants.step)
