"""Effects of a treatment over draws: averages of rows and of the population, by group and by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.treatment.design import ROLE
from sampler.errors import DataError, SettingsError, unknown_feature
from sampler.posterior.core.intervals import Request, equal_tailed
from sampler.posterior.explanations.contrasts import Averages, groups_by
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

    Floats = NDArray[np.float64]

OF = ("all", "treated", "untreated")
ALL = ""  # part of all rows, see `Averages`
OVERFITS = 0.15  # of the propensity's area under its ROC curve, at its own rows and at others


@dataclass(frozen=True)
class EffectsRequest:
    """Request for effects: the rows that count, a feature that groups them, the level of the intervals."""

    of: str
    by: str | None
    level: float

    @classmethod
    def check(cls, of: Any, by: str | None, level: float) -> EffectsRequest:
        """Check what is asked; see `Posterior.effects`. Raises SettingsError."""
        if of not in OF:
            raise SettingsError(
                f"of must be {', '.join(OF[:-1])} or {OF[-1]}, not {of!r}", field="of", code="not_accepted"
            )
        return cls(of, by, Request.check_level(level))


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
    rows, labels, warnings = _counted(coded, request.of), coded.labels, list(coded.warnings)
    if len(rows) < coded.num_rows:
        labels = None if labels is None else labels[rows]
        coded = coded.part(rows)
    known = coded.by_role.get(ROLE)
    treated = np.zeros(coded.num_rows, bool) if known is None else known == 1
    unsupported = np.zeros(coded.num_rows, bool)
    parts = {ALL: np.ones(coded.num_rows, bool)}
    if known is not None:
        law.effect_of(coded.part(slice(0, 1)), chosen[:1])  # raises for a model without a treatment
        unsupported = unsupported_rows(law, coded, treated, chosen)
        parts["supported"] = ~unsupported
        if request.of == "all":
            parts |= {"treated": treated, "untreated": ~treated}
    groups = {} if request.by is None else groups_by(header, coded.codes, names.index(request.by))
    positive = np.empty(coded.num_rows)

    def values(some: slice) -> Floats:
        effect = law.effect_of(coded.part(some), chosen)
        positive[some] = np.mean(effect > 0, axis=0)
        return effect

    averages = Averages(parts | {f"group {name}": own for name, own in groups.items()}, every=True)
    mean, lower, upper = averages.fill(values, coded.num_rows, request.level)
    spread = averages.spread()
    found = {
        name: _estimate(averages, name, request.level) for name, own in averages.parts.items() if own.any()
    }
    of_groups = {name: f"group {name}" for name in groups if f"group {name}" in found}
    propensity = _propensity(law, coded)
    overlap = None if known is None else _overlap(treated, unsupported, propensity, found.get("supported"))
    if overlap is not None and unsupported.mean() > FEW:
        warnings.append(
            f"{unsupported.mean():.0%} of these rows have no comparable rows in the other arm (unsupported): "
            "their effects rest on the model's extrapolation"
        )
    areas = None if law.effects is None else law.effects.design.auc
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
        difference=_in_words(law, header.roles[ROLE]),
        holds=what_must_hold(header.schema.target.name, str(header.settings.get("assignment", "observed"))),
        of=request.of,
        average=average,
        treated=found.get("treated"),
        untreated=found.get("untreated"),
        groups={name: found[part] for name, part in of_groups.items()},
        larger=_larger(averages, of_groups),
        spread=_figure(spread, request.level),
        tree=_tree(law, coded, values, mean, spread, request.level),
        overlap=overlap,
        balance=balance_of(header, coded, treated, propensity),
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


def _propensity(law: Law, coded: Coded) -> Floats | None:
    """Return the fitted probability of being treated, float64 [row]; None where none was fitted."""
    if law.effects is None or law.effects.design.cuts is None:
        return None
    return law.effects.columns.propensity(coded.codes)


def _outcome_sd(law: Law) -> float | None:
    """Return the sd of the outcome of the fit; None of a transformed one, and of classes."""
    return law.effects.design.sd if law.effects is not None and law.adds_effect else None


def _overlap(
    treated: NDArray[np.bool_],
    unsupported: NDArray[np.bool_],
    propensity: Floats | None,
    supported: EffectEstimate | None,
) -> Overlap:
    shares = [float(unsupported[arm].mean()) if arm.any() else None for arm in (treated, ~treated)]
    outside = None if propensity is None else float(np.mean(abs(propensity - 0.5) > 0.5 - EDGE))
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


def _counted(coded: Coded, of: str) -> NDArray[np.int64]:
    """Return the places of the rows that count; raise DataError where there are none."""
    treated = coded.by_role.get(ROLE)
    if of != "all" and treated is None:
        raise DataError(f"these rows don't tell which of them were treated: of {of} needs that column")
    if of == "all" or treated is None:
        rows = np.arange(coded.num_rows)
    else:
        rows = np.flatnonzero(treated == (of == "treated"))
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


def _in_words(law: Law, treatment: str) -> str:
    """Say what effects subtract from what."""
    target = law.schema.target.name
    figure = f"probability of {law.classes[1]}" if law.classes is not None else target
    unit = "" if law.unit is None else f", in {law.unit}"
    return f"{figure} where {treatment} = 1, minus {figure} where {treatment} = 0{unit}"
