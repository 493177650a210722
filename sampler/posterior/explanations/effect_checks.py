"""Trust in effects: overlap, balance and hidden causes (docs/maths.md#treatments)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Bools, Floats
from sampler.data.binning import MISSING
from sampler.data.encode import Coded
from sampler.data.row_flags import OUTSIDE_RANGE, UNSEEN_LEVEL
from sampler.data.treatment.design import ROLE
from sampler.data.treatment.follow_up import FollowUp
from sampler.data.treatment.support import SUPPORT, Support
from sampler.posterior.explanations.contrasts import MAX_CELLS
from sampler.posterior.laws.law import Law
from sampler.posterior.parts.compared_treatments import Compared
from sampler.posterior.parts.effects import EffectDraws
from sampler.posterior.results.effect_checks import Balance, Overlap, Sensitivity
from sampler.posterior.results.effect_estimates import EffectEstimate
from sampler.storage.model_header import Header

EDGE = 0.05  # propensities nearer to 0 or 1 are extreme
OVERFITS = 0.15  # of the propensity's area under its ROC curve, at its own rows and at others
POINTS, BEYOND = 21, 1.5  # of the curve, as far as so many times the shift, or the average
FEW, EXTREME = 0.05, 0.1  # shares of rows without comparable ones, with extreme propensities: worth a word
TOLD = 0.95  # area under the ROC curve, at other rows, from which arms are told apart
UNKNOWN = (
    "which rows have no comparable ones (unsupported) isn't known: the model was made before the rows of the "
    "fit were kept for that; more draws (extend), or a new fit, keep them"
)


def support_of(law: Law, coded: Coded) -> Support:
    """Measure how certain f is at the rows of the fit in their own arms, and where these are.

    `coded` has the rows of the fit with their treatments, and of times with events how far they are known.
    """
    treated, chosen = coded.by_role[ROLE], law.alike(None)
    sds = _sds(law, coded, None, chosen)
    codes = coded.codes[: len(law.draws.header.grid.cuts)]
    places = range(len(law.draws.header.arms)) or [None]
    rows = [np.ones(coded.num_rows, bool) if place is None else treated == place for place in places]
    return Support(
        # equal files on machines whose sums differ in the last digit
        tuple(float(f"{sds[own].max() + sds[own].std():.9g}") for own in rows),
        np.array([codes[:, own].min(axis=1) for own in rows]),
        np.array([codes[:, own].max(axis=1, where=codes[:, own] != MISSING, initial=0) for own in rows]),
        _followed(law, coded, rows) if "event" in law.draws.header.roles else None,
    )


def _followed(law: Law, coded: Coded, arms: list[Bools]) -> FollowUp | None:
    """Sum up the times of the rows of each arm, weighted by the inverse of the probability of the arm."""
    if coded.limits is None:
        return None
    shares = law.effects.columns.arms(coded.codes) if law.effects and len(arms) > 1 else None
    weights = np.ones((len(arms), coded.num_rows)) if shares is None else 1 / np.clip(shares, 1e-3, 1.0)
    return FollowUp.of(coded.limits[0], coded.limits[0] == coded.limits[1], arms, [*weights])


def unsupported_rows(
    law: Law, coded: Coded, treated: Floats, compared: Compared, chosen: NDArray[np.int64]
) -> Bools | None:
    """Mark rows without comparable rows in one of the arms, or at one of the doses, compared, bool [row].

    A row's counterfactual is extrapolated where its posterior sd is above the largest one of what the rows of
    the fit in its own arm (of a dose all rows) have seen, and a standard deviation of these (Hill and Su
    2013); or where the row is far from all of them, or beyond all values that the fit has seen. None for
    models that kept no such limits.
    """
    header = law.draws.header
    support: Support | None = header.parts.get(SUPPORT)
    if support is None:
        return None
    codes = coded.codes[: len(header.grid.cuts)]
    far = _beyond_training(coded, header)
    if compared.dose is not None:
        far |= support.beyond(codes, 0, header.schema)
        return np.asarray(
            np.any([far, *(_sds(law, coded, d, chosen) > support.most[0] for d in compared.pair)], axis=0)
        )
    most = np.array(support.most)[treated.astype(np.int64)]
    for arm in compared.pair[1:] if compared.lags else compared.pair:  # a lag is the row's own
        far |= support.beyond(codes, int(arm), header.schema)
        far |= (treated != arm) & (_sds(law, coded, arm, chosen) > most)
    return far


def _beyond_training(coded: Coded, header: Header) -> Bools:
    """Mark rows with a number beyond those of the fit, or a level that it hasn't seen, in a feature."""
    if not coded.marks.size:
        return np.zeros(coded.num_rows, bool)
    names = {column.name for column in header.schema.columns}
    own = [place for place, column in enumerate(header.schema.inputs) if column.name in names]
    return np.asarray(np.isin(coded.marks[own], (OUTSIDE_RANGE, UNSEEN_LEVEL)).any(axis=0))


def _sds(law: Law, coded: Coded, arm: float | None, chosen: NDArray[np.int64]) -> Floats:
    """Compute the posterior sd of f at rows [row] in an arm, or at a dose; None: at their own."""
    sds, width = np.empty(coded.num_rows), max(16, MAX_CELLS // len(chosen))
    for start in range(0, coded.num_rows, width):
        part = coded.part(slice(start, start + width))
        here = part if arm is None else part.with_role(ROLE, arm)
        sds[start : start + width] = law.f_of(here, chosen).std(axis=0)
    return sds


def overlap_of(
    effects: EffectDraws,
    compared: Compared,
    arms: tuple[Bools, Bools],
    unsupported: Bools | None,
    propensities: Floats | None,
    supported: EffectEstimate | None,
) -> Overlap:
    """Sum up which rows are `unsupported` [row], in either of the arms [row], and how well it is fitted.

    `propensities` are the rows' of each arm [arm, row]; `supported` is the average over the other rows.
    """
    shares: list[float | None] = [None, None]
    if unsupported is not None:
        shares = [float(unsupported[arm].mean()) if arm.any() else None for arm in arms]
    outside = None
    if propensities is not None and compared.dose is None:
        outside = float(np.mean(np.any(propensities[[*map(int, compared.pair)]] < EDGE, axis=0)))
    share = None if unsupported is None else float(unsupported.mean())
    overlap = Overlap(shares[0], shares[1], outside, supported, share)
    known = effects.design.area_of(compared.pair)
    if known is None:
        return overlap
    if compared.dose is not None:
        return replace(overlap, explained=known[0], explained_other_half=known[1])
    return replace(overlap, auc=known[0], auc_other_half=known[1])


def overlap_warnings(overlap: Overlap, compared: Compared) -> list[str]:
    """Warn of rows without comparable ones, and of a propensity that follows chance."""
    warnings = []
    if overlap.unsupported is None:
        warnings.append(UNKNOWN)
    elif overlap.unsupported > FEW:
        place = "in the other arm" if compared.dose is None else "at these doses"
        warnings.append(
            f"{overlap.unsupported:.0%} of these rows have no comparable rows {place} (unsupported): "
            "their effects rest on the model's extrapolation"
        )
    if (overlap.outside or 0.0) > EXTREME:
        warnings.append(
            f"{overlap.outside:.0%} of these rows have a fitted probability of being treated below "
            f"{EDGE:.0%} or above {1 - EDGE:.0%} (overlap.outside): hardly any row of the other arm is like "
            "them, and their effects rest on the model. An average without such rows (overlap.supported), or "
            "over the treated rows alone (of=treated), rests on less, but answers another question"
        )
    own, other = overlap.auc, overlap.auc_other_half
    if other is not None and other > TOLD:
        warnings.append(
            f"the features tell the arms apart: the area under the ROC curve is {other:.2f} at rows that the "
            "propensity was not fitted to (overlap.auc_other_half). Effects on treated rows (of=treated) "
            "need untreated rows like them alone"
        )
    if own is not None and other is not None and own - other > OVERFITS:
        warnings.append(
            "the fitted probability of being treated follows chance: its area under the ROC curve is "
            f"{own:.2f} at the rows of the fit and {other:.2f} at others (propensity_overfits): "
            "if chance drew the treatment, fit with assignment=random; else compare with effects=plain"
        )
    return warnings


def balance_of(
    header: Header, coded: Coded, treated: Bools, own: Floats | None, toward: Floats | float = 1.0
) -> list[Balance]:
    """Compare each feature between two arms, before and after weighting; the farthest apart first.

    `own` is each row's probability of the arm that it is in, float64 [row], `toward` that of the arm which
    the other is weighted to be like; 1 where both are to be like all rows.
    """
    weights = None if own is None else toward / np.clip(own, 1e-3, 1.0)

    def distance(ranks: Floats, seen: Bools) -> tuple[float, float] | None:
        arm = treated[seen]
        if arm.all() or not arm.any():
            return None
        after = 0.0 if weights is None else _apart(ranks, arm, weights[seen])
        return _apart(ranks, arm, np.ones(len(ranks))), after

    return _by_feature(header, coded, distance, both=own is not None)


def balance_of_doses(header: Header, coded: Coded, doses: Floats, expected: Floats | None) -> list[Balance]:
    """Correlate each feature's ranks with the dose, and with what is left of it; the largest first.

    `expected` is what each row's dose was expected to be, float64 [row].
    """

    def distance(ranks: Floats, seen: Bools) -> tuple[float, float] | None:
        left = 0.0 if expected is None else _correlation(ranks, (doses - expected)[seen])
        return _correlation(ranks, doses[seen]), left

    return _by_feature(header, coded, distance, both=expected is not None)


def _by_feature(
    header: Header, coded: Coded, distance: Callable[..., tuple[float, float] | None], *, both: bool
) -> list[Balance]:
    """Measure the distance of each feature by its codes, before and after; the largest of its levels."""
    found: dict[int, list[tuple[float, float]]] = {}
    for (place, _), codes in zip(header.schema.coded, coded.codes, strict=True):
        seen = codes != MISSING
        ranks = codes[seen].astype(float)
        if len(ranks) and ranks.std() > 0 and (pair := distance(ranks, seen)) is not None:
            found.setdefault(place, []).append(pair)
    rows = [
        Balance(
            header.schema.columns[place].name,
            max((before for before, _ in pairs), key=abs),
            max((after for _, after in pairs), key=abs) if both else None,
        )
        for place, pairs in found.items()
    ]
    return sorted(rows, key=lambda each: -abs(each.before))


def _correlation(ranks: Floats, doses: Floats) -> float:
    spread = float(ranks.std() * doses.std())
    return float(np.mean((ranks - ranks.mean()) * (doses - doses.mean()))) / spread if spread else 0.0


def sensitivity_of(average: EffectEstimate, sd: float | None) -> Sensitivity:
    """Find the shift of a hidden cause at which an average's interval reaches 0; `sd` is the outcome's."""
    shift = average.lower if average.lower > 0 else average.upper if average.upper < 0 else 0.0
    far = BEYOND * max(abs(shift), abs(average.mean)) * (1 if average.mean >= 0 else -1)
    curve = [
        (float(c), average.mean - c, average.lower - c, average.upper - c)
        for c in np.linspace(0.0, far, POINTS).tolist()
    ]
    return Sensitivity(shift, None if sd is None else abs(shift) / sd, curve)


def _apart(ranks: Floats, treated: Bools, weights: Floats) -> float:
    """Return the difference of weighted means between the arms, in standard deviations within these."""
    means = [np.average(ranks[arm], weights=weights[arm]) for arm in (treated, ~treated)]
    pooled = np.sqrt(0.5 * (ranks[treated].var() + ranks[~treated].var()))
    return float((means[0] - means[1]) / (pooled or ranks.std()))
