"""Estimates of effects: averages, figures with intervals, leaves of the tree that says for whom."""

from __future__ import annotations

from dataclasses import dataclass

from sampler.posterior.verdict.effects import OfCredible


@dataclass(frozen=True)
class EffectEstimate:
    """Average effect over some rows.

    Attributes
    ----------
    mean
        Posterior mean, in units of the outcome.
    lower, upper
        Ends of the interval for these rows, which it takes as given.
    population_lower, population_upper
        Ends of the interval for the population that they are a sample of (Bayesian bootstrap).
    positive
        Posterior probability that the average over these rows is above 0.
    rows
        Number of rows averaged over.
    use
        Whether its chains agree: "usable", "roughly" or "not_yet".
    mcse
        Monte Carlo standard error of the mean; None of too few draws.
    treated
        Number of these rows that were treated; None of a dose, and where treatments are unknown.

    """

    mean: float
    lower: float
    upper: float
    population_lower: float
    population_upper: float
    positive: float
    rows: int
    use: OfCredible
    mcse: float | None
    treated: int | None = None


@dataclass(frozen=True)
class EffectFigure:
    """A figure of the posterior with its interval."""

    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class EffectLeaf:
    """Rows of a leaf of the tree that says for whom effects are larger, and their average effect.

    Attributes
    ----------
    where
        Conditions that its rows meet, in words.
    average
        Average effect over them.

    """

    where: str
    average: EffectEstimate


@dataclass(frozen=True)
class EffectTree:
    """For whom effects are larger: a small tree fitted to the rows' posterior mean effects.

    The posterior chose the tree: its averages need no correction for many comparisons, but another fit may
    divide the rows in another way.

    Attributes
    ----------
    leaves
        Leaves, the smallest effect first; one where no division explains anything.
    explained
        Share of the effects' variance from row to row that it explains, over draws.
    larger
        Posterior probability that the average of the last leaf is above that of the first.

    """

    leaves: list[EffectLeaf]
    explained: EffectFigure
    larger: float


@dataclass(frozen=True)
class EffectOfDose:
    """Effect of a dose beside that of a standard deviation of it.

    Attributes
    ----------
    by_unit
        Whether effects are those of a unit of the dose; else they are those of `arm` beside `against`.
    lowest, highest
        Range of the doses of the fit: effects are asked for within it.
    sd
        Standard deviation of the doses of the fit.
    by_sd
        Average effect of a standard deviation, in proportion to what was asked.
    linear
        Whether the effect is in proportion to the dose by the model.

    """

    by_unit: bool
    lowest: float
    highest: float
    sd: float
    by_sd: EffectFigure
    linear: bool
