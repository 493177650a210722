"""Checks of effects: overlap, balance, what is left out, follow-up, and curves of both arms."""

from __future__ import annotations

from dataclasses import dataclass

from sampler.posterior.results.effect_estimates import EffectEstimate


@dataclass(frozen=True)
class Overlap:
    """Whether rows have comparable rows in the other arm, by the posterior sd rule of Hill and Su (2013).

    Attributes
    ----------
    treated, untreated
        Share of the rows of either arm without any; None where the arm has no rows.
    outside
        Share of all rows whose fitted propensity is below .05 or above .95; None without one, and of a dose.
    supported
        Average over the other rows, another question than the average over all; None without such rows.
    unsupported
        Share of all rows without any, of a dose without any at one of the doses compared; None in models made
        before they kept what rows of the fit say of that, as then are the shares and average above.
    auc, auc_other_half
        Area under the ROC curve of the fitted propensity at the rows of the fit, and of fits to one half of
        them at the other: far apart, it follows chance. None without one, and of a dose.
    explained, explained_other_half
        The same of a dose, by the squared correlation with what was expected; None without one, and of arms.

    """

    treated: float | None
    untreated: float | None
    outside: float | None
    supported: EffectEstimate | None
    unsupported: float | None
    auc: float | None = None
    auc_other_half: float | None = None
    explained: float | None = None
    explained_other_half: float | None = None


@dataclass(frozen=True)
class Balance:
    """Distance of a feature between the two arms, or its correlation with the dose.

    Attributes
    ----------
    feature
        Its name.
    before, after
        Difference of its mean rank between the arms, in standard deviations (of a category the largest of its
        levels), before and after weighting each row by the inverse of the probability of its arm; of a dose
        the correlation of its ranks with it, and with its distance from the expected dose. `after` is None
        without a propensity.

    """

    feature: str
    before: float
    after: float | None


@dataclass(frozen=True)
class Sensitivity:
    """Strength that a hidden common cause would have to have.

    It is one by which rows that were treated would have had higher outcomes, treated or not, by `shift`:
    then every effect is smaller by as much. Of a dose outcomes would differ so between rows with the two
    doses compared, or for each unit between them, whatever the dose.

    Attributes
    ----------
    shift
        The shift at which the average's interval reaches 0, in units of the outcome; 0 where it holds 0.
    in_sds
        The shift in standard deviations of the outcome; None where that is not known.
    curve
        Shifts with the average and its interval, from no hidden cause to beyond that shift.

    """

    shift: float
    in_sds: float | None
    curve: list[tuple[float, float, float, float]]


@dataclass(frozen=True)
class ArmCurve:
    """Probabilities of more than each time, averaged over rows; or the difference of two such curves.

    Attributes
    ----------
    survival
        Their posterior means, at the times of the curves.
    lower, upper
        Ends of their intervals.
    kaplan_meier
        Kaplan and Meier's curve of the arm's rows of the fit, each weighted by the inverse of the arm's
        probability; None of a difference, a dose, and where the rows of one arm count.

    """

    survival: list[float]
    lower: list[float]
    upper: list[float]
    kaplan_meier: list[float] | None


@dataclass(frozen=True)
class EffectCurves:
    """Survival curves of the same rows in either of two arms, or at two doses.

    Attributes
    ----------
    times
        Times, as far as rows of both were followed.
    arm, against
        The curves.
    difference
        The first less the second.
    farthest
        Largest distance of a curve from Kaplan and Meier's; None without these.

    """

    times: list[float]
    arm: ArmCurve
    against: ArmCurve
    difference: ArmCurve
    farthest: float | None


@dataclass(frozen=True)
class Followed:
    """Times until which the rows of the fit in an arm were followed.

    Attributes
    ----------
    rows, events
        Number of rows, and of those whose event was seen.
    last
        The last time.
    at_risk
        Share of the rows that were followed until the time that is asked for, to one in a hundred; None of
        a ratio.

    """

    rows: int
    events: int
    last: float
    at_risk: float | None
