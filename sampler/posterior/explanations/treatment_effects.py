"""Effects of a treatment over draws: averages of rows and of the population, by group and by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.treatment.design import ROLE, TWO
from sampler.errors import DataError, SettingsError, unknown_feature
from sampler.posterior.core.intervals import Request, equal_tailed
from sampler.posterior.explanations.contrasts import MAX_CELLS, Averages, groups_by
from sampler.posterior.explanations.effect_checks import (
    EDGE,
    FEW,
    balance_of,
    sensitivity_of,
    unsupported_rows,
)
from sampler.posterior.explanations.effect_tree import divide
from sampler.posterior.results.treatment_effects import (
    EffectEstimate,
    EffectFigure,
    EffectLeaf,
    EffectTree,
    Overlap,
    TreatmentEffects,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.posterior.laws.law import Law
    from sampler.posterior.results.treatment_effects import Balance

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

OF = ("all", "treated", "untreated")
ALL = ""  # part of all rows, see `Averages`
OVERFITS = 0.15  # of the propensity's area under its ROC curve, at its own rows and at others


@dataclass(frozen=True)
class EffectsRequest:
    """Request for effects: the rows that count, what groups them, the intervals' level, the arms compared."""

    of: str
    by: str | None
    level: float
    arms: tuple[int, int]

    @classmethod
    def check(
        cls, of: Any, by: str | None, level: float, names: tuple[str, ...], arm: Any, against: Any
    ) -> EffectsRequest:
        """Check what is asked of a model with arms of such names; raises SettingsError."""
        if of not in OF:
            raise SettingsError(
                f"of must be {', '.join(OF[:-1])} or {OF[-1]}, not {of!r}", field="of", code="not_accepted"
            )
        return cls(of, by, Request.check_level(level), pair_of(names, arm, against))


def pair_of(names: tuple[str, ...], arm: Any, against: Any) -> tuple[int, int]:
    """Return the places of two arms, by default the second beside the first; raises SettingsError."""
    for field, name in (("arm", arm), ("against", against)):
        if name is not None and name not in names:
            known = f"one of {', '.join(names)}" if names else "of a model with a treatment"
            detail = f"{field} must be {known}, not {name!r}"
            raise SettingsError(detail, field=field, code="not_accepted")
    other = 0 if against is None else names.index(against)
    own = int(other == 0) if arm is None else names.index(arm)
    if own == other:
        raise SettingsError("arm and against must be two arms", field="arm", code="contradiction")
    return own, other


def treatment_effects(
    law: Law, coded: Coded, request: EffectsRequest, chosen: NDArray[np.int64]
) -> TreatmentEffects:
    """Compute effects with intervals over draws; see `Posterior.effects`.

    Parameters
    ----------
    law
        Law of the model, that of means.
    coded
        The rows, with their treatments unless all count.
    request
        What is asked.
    chosen
        Draws of all chains, by their numbers.

    Returns
    -------
    TreatmentEffects
        Effects on average, by group and by row.

    Raises
    ------
    DataError
        For rows without treatments where only those of an arm count, and for no rows.
    SettingsError
        For a model without a treatment, and a column that has no groups.

    """
    header = law.draws.header
    names = [column.name for column in header.schema.columns]
    if request.by is not None and request.by not in names:
        raise unknown_feature("by", request.by, names)
    arms, names_of_arms = request.arms, header.arms or TWO
    first, against = (names_of_arms[arm] for arm in arms)
    rows, labels, warnings = _counted(coded, request), coded.labels, list(coded.warnings)
    if len(rows) < coded.num_rows:
        labels = None if labels is None else labels[rows]
        coded = coded.part(rows)
    known = coded.by_role.get(ROLE)
    treated, others = (
        np.zeros(coded.num_rows, bool) if known is None else known == arm for arm in request.arms
    )
    unsupported = np.zeros(coded.num_rows, bool)
    parts = {ALL: np.ones(coded.num_rows, bool)}
    if known is not None:
        law.effect_of(coded.part(slice(0, 1)), chosen[:1])  # raises for a model without a treatment
        unsupported = unsupported_rows(law, coded, known, arms, chosen)
        parts["supported"] = ~unsupported
        if request.of == "all":
            parts |= {"treated": treated, "untreated": others}
    groups = {} if request.by is None else groups_by(header, coded.codes, names.index(request.by))
    positive = np.empty(coded.num_rows)

    def values(some: slice) -> Floats:
        effect = law.effect_of(coded.part(some), chosen, arms)
        positive[some] = np.mean(effect > 0, axis=0)
        return effect

    averages = Averages(parts | {f"group {name}": own for name, own in groups.items()}, every=True)
    mean, lower, upper = averages.fill(values, coded.num_rows, request.level)
    spread = averages.spread()
    found = {
        name: _estimate(averages, name, request.level) for name, own in averages.parts.items() if own.any()
    }
    of_groups = {name: f"group {name}" for name in groups if f"group {name}" in found}
    of_arms = None if law.effects is None else law.effects.columns.arms(coded.codes)
    propensity = None if of_arms is None else of_arms[arms[0]]
    overlap = None
    if known is not None:
        own = None if of_arms is None else of_arms[[*arms]]
        overlap = _overlap((treated, others), unsupported, own, found.get("supported"))
    if overlap is not None and unsupported.mean() > FEW:
        warnings.append(
            f"{unsupported.mean():.0%} of these rows have no comparable rows in the other arm (unsupported): "
            "their effects rest on the model's extrapolation"
        )
    areas = None if law.effects is None else law.effects.design.area_of(arms)
    if areas is not None and overlap is not None:
        overlap = replace(overlap, auc=areas[0], auc_other_half=areas[1])
        if areas[0] - areas[1] > OVERFITS:
            warnings.append(
                "the fitted probability of being treated follows chance: its area under the ROC curve is "
                f"{areas[0]:.2f} at the rows of the fit and {areas[1]:.2f} at others (propensity_overfits): "
                "if chance drew the treatment, fit with assignment=random; else compare with effects=plain"
            )
    average = found[ALL]
    return TreatmentEffects(
        difference=_in_words(law, header.roles[ROLE], (first, against)),
        arm=first,
        against=against,
        arms={} if len(names_of_arms) == len(TWO) else _of_each_arm(law, coded, request, chosen),
        holds=what_must_hold(header.schema.target.name, str(header.settings.get("assignment", "observed"))),
        of=request.of,
        average=average,
        treated=found.get("treated"),
        untreated=found.get("untreated"),
        groups={name: found[part] for name, part in of_groups.items()},
        larger=_larger(averages, of_groups),
        ratio=_ratio(law, coded, averages.draws(ALL), request, chosen),
        spread=_figure(spread, request.level),
        tree=_tree(law, coded, values, mean, spread, request.level),
        overlap=overlap,
        balance=_balance(law, coded, treated, others, of_arms),
        sensitivity=sensitivity_of(average, _outcome_sd(law)),
        mean=mean,
        lower=lower,
        upper=upper,
        positive=positive,
        is_treated=treated,
        unsupported=unsupported,
        propensity=propensity,
        level=request.level,
        warnings=warnings,
        labels=labels,
    )


def _ratio(
    law: Law, coded: Coded, effect: Floats, request: EffectsRequest, chosen: NDArray[np.int64]
) -> EffectFigure | None:
    """Divide the average outcome in one arm by that in the other, per draw; None of numbers."""
    if not law.counts and law.classes is None:
        return None
    total, width = np.zeros(len(chosen)), max(16, MAX_CELLS // len(chosen))
    against = coded.with_role(ROLE, request.arms[1])
    for start in range(0, coded.num_rows, width):
        total += law.mean_of(against.part(slice(start, start + width)), chosen).sum(axis=1)
    return _figure(1.0 + effect * coded.num_rows / total, request.level)


def _of_each_arm(
    law: Law, coded: Coded, request: EffectsRequest, chosen: NDArray[np.int64]
) -> dict[str, EffectEstimate]:
    """Average the effect of each arm beside the one it is compared with, over the rows that count."""
    against, found = request.arms[1], {}
    for arm, name in enumerate(law.draws.header.arms):
        if arm != against:

            def values(some: slice, pair: tuple[int, int] = (arm, against)) -> Floats:
                return law.effect_of(coded.part(some), chosen, pair)

            averages = Averages({ALL: np.ones(coded.num_rows, bool)}, every=True)
            averages.fill(values, coded.num_rows, request.level)
            found[name] = _estimate(averages, ALL, request.level)
    return found


def _balance(law: Law, coded: Coded, treated: Bools, others: Bools, of_arms: Floats | None) -> list[Balance]:
    """Compare features between the rows of two arms, weighted by the probability of each row's own."""
    rows = np.flatnonzero(treated | others)
    own = None
    if of_arms is not None:
        own = of_arms[coded.by_role[ROLE][rows].astype(np.int64), rows] if ROLE in coded.by_role else None
    return balance_of(law.draws.header, coded.part(rows), treated[rows], own)


def _outcome_sd(law: Law) -> float | None:
    """Return the sd of the outcome of the fit; None of a transformed one, and of classes."""
    return law.effects.design.sd if law.effects is not None and law.adds_effect else None


def _overlap(
    arms: tuple[Bools, Bools], unsupported: Bools, own: Floats | None, supported: EffectEstimate | None
) -> Overlap:
    shares = [float(unsupported[arm].mean()) if arm.any() else None for arm in arms]
    outside = None if own is None else float(np.mean(np.any(own < EDGE, axis=0)))
    return Overlap(shares[0], shares[1], outside, supported)


def _larger(averages: Averages, parts: dict[str, str]) -> dict[str, dict[str, float]]:
    """Return the probability that the average of a part is above that of another, by name."""
    draws = {name: averages.draws(part) for name, part in parts.items()}
    return {
        name: {other: float(np.mean(own > against)) for other, against in draws.items() if other != name}
        for name, own in draws.items()
    }


def _figure(draws: Floats, level: float) -> EffectFigure:
    return EffectFigure(float(draws.mean()), *map(float, equal_tailed(draws, level)))


def _tree(
    law: Law,
    coded: Coded,
    values: Callable[[slice], Floats],
    mean: Floats,
    spread: Floats,
    level: float,
) -> EffectTree:
    """Divide the rows by their mean effect, and average over the parts."""
    leaves = divide(law.draws.header, coded.codes, mean)
    parts = {ALL: np.ones(coded.num_rows, bool)}
    for number, leaf in enumerate(leaves):
        parts[str(number)] = np.zeros(coded.num_rows, bool)
        parts[str(number)][leaf.rows] = True
    averages = Averages(parts, every=True)
    averages.fill(values, coded.num_rows, level)
    of_leaves = [averages.draws(str(number)) for number in range(len(leaves))]
    between = np.zeros_like(spread)
    for leaf, own in zip(leaves, of_leaves, strict=True):
        between += len(leaf.rows) / coded.num_rows * (own - averages.draws(ALL)) ** 2
    varies = np.maximum(spread**2, np.finfo(float).tiny)
    explained = np.where(spread > 0, np.minimum(between / varies, 1.0), 0.0)
    return EffectTree(
        [EffectLeaf(leaf.in_words, _estimate(averages, str(k), level)) for k, leaf in enumerate(leaves)],
        _figure(explained, level),
        float(np.mean(of_leaves[-1] > of_leaves[0])) if len(leaves) > 1 else 0.5,
    )


def what_must_hold(target: str, assignment: str) -> str:
    """Say what must be true for differences between the arms to be effects of the treatment."""
    if assignment == "random":
        return (
            f"These are effects if the treatment was left to chance, and that of one row doesn't change "
            f"{target} of another."
        )
    return (
        f"These are effects only if the features tell of every reason for being treated that also matters to "
        f"{target}, none of them is a consequence of the treatment, rows alike were treated and not treated, "
        f"and the treatment of one row doesn't change {target} of another: no data can show that."
    )


def _counted(coded: Coded, request: EffectsRequest) -> NDArray[np.int64]:
    """Return the places of the rows that count; raise DataError where there are none."""
    of, treated = request.of, coded.by_role.get(ROLE)
    if of != "all" and treated is None:
        raise DataError(f"these rows don't tell which of them were treated: of {of} needs that column")
    if of == "all" or treated is None:
        rows = np.arange(coded.num_rows)
    else:
        rows = np.flatnonzero(treated == request.arms[of == "untreated"])
    if not len(rows):
        raise DataError(f"none of the rows are {of}" if coded.num_rows else "there are no rows")
    return rows


def _estimate(averages: Averages, name: str, level: float) -> EffectEstimate:
    own, of_population = averages.estimate(name, level), averages.population(level, name)
    return EffectEstimate(
        mean=float(own.mean),
        lower=float(own.lower),
        upper=float(own.upper),
        population_lower=float(of_population.lower),
        population_upper=float(of_population.upper),
        positive=float(np.mean(averages.draws(name) > 0)),
        rows=own.rows,
    )


def _in_words(law: Law, treatment: str, arms: tuple[str, str]) -> str:
    """Say what effects subtract from what."""
    target = law.schema.target.name
    figure = f"probability of {law.classes[1]}" if law.classes is not None else target
    unit = "" if law.unit is None else f", in {law.unit}"
    first, against = arms
    return f"{figure} where {treatment} = {first}, minus {figure} where {treatment} = {against}{unit}"
