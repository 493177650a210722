"""Trust in effects: overlap, balance and hidden causes (docs/maths.md#treatments)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sampler.data.binning import MISSING
from sampler.data.treatment.design import ROLE
from sampler.posterior.explanations.contrasts import MAX_CELLS
from sampler.posterior.results.treatment_effects import Balance, EffectEstimate, Sensitivity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.posterior.laws.law import Law
    from sampler.storage.model_header import Header

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

EDGE = 0.05  # propensities nearer to 0 or 1 are extreme
POINTS, BEYOND = 21, 1.5  # of the curve, as far as so many times the shift, or the average
FEW = 0.05  # share of rows without comparable ones that is worth a sentence


def unsupported_rows(
    law: Law, coded: Coded, treated: Floats, arms: tuple[int, int], chosen: NDArray[np.int64]
) -> Bools:
    """Mark rows without comparable rows in one of the arms compared, bool [row].

    A row's counterfactual is extrapolated where its posterior sd is above the largest one of what rows of its
    own arm have seen, and a standard deviation of these (Hill and Su 2013).
    """
    present = [int(arm) for arm in np.unique(treated)]
    sds = {arm: np.empty(coded.num_rows) for arm in {*arms, *present}}
    width = max(16, MAX_CELLS // len(chosen))
    for start in range(0, coded.num_rows, width):
        part = coded.part(slice(start, start + width))
        for arm, sd in sds.items():
            sd[start : start + width] = law.f_of(part.with_role(ROLE, arm), chosen).std(axis=0)
    far = np.zeros(coded.num_rows, bool)
    for arm in present:
        own = treated == arm
        most = sds[arm][own].max() + sds[arm][own].std()
        far[own] = np.any([sds[other][own] > most for other in arms if other != arm], axis=0)
    return far


def balance_of(header: Header, coded: Coded, treated: Bools, own: Floats | None) -> list[Balance]:
    """Compare each feature between two arms, before and after weighting; the farthest apart first.

    `own` is each row's probability of the arm that it is in, float64 [row].
    """
    if treated.all() or not treated.any():
        return []
    weights = None if own is None else 1.0 / np.clip(own, 1e-3, 1.0)
    found: dict[int, list[tuple[float, float]]] = {}
    for (place, _), codes in zip(header.schema.coded, coded.codes, strict=True):
        seen = codes != MISSING
        ranks, arm = codes[seen].astype(float), treated[seen]
        if arm.all() or not arm.any() or ranks.std() == 0:
            continue
        found.setdefault(place, []).append(
            (
                _apart(ranks, arm, np.ones(len(ranks))),
                0.0 if weights is None else _apart(ranks, arm, weights[seen]),
            )
        )
    rows = [
        Balance(
            header.schema.columns[place].name,
            max((before for before, _ in pairs), key=abs),
            None if weights is None else max((after for _, after in pairs), key=abs),
        )
        for place, pairs in found.items()
    ]
    return sorted(rows, key=lambda each: -abs(each.before))


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
