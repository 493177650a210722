"""Effects of a treatment over draws: averages of rows and of the population, by group and by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Bools, Floats
from sampler.data.encode import Coded
from sampler.data.table import RawColumn
from sampler.data.treatment.design import ROLE, TWO
from sampler.data.treatment.panel import PANEL
from sampler.errors import DataError, SettingsError
from sampler.posterior.assessment.diagnostics import evenly_spaced
from sampler.posterior.core.intervals import Request, equal_tailed
from sampler.posterior.explanations.contrasts import MAX_CELLS, Averages, By, groups_of
from sampler.posterior.explanations.effect_checks import (
    balance_of,
    balance_of_doses,
    overlap_of,
    overlap_warnings,
    sensitivity_of,
    unsupported_rows,
)
from sampler.posterior.explanations.effect_measures import Measure, as_ratios
from sampler.posterior.explanations.effect_tree import divide
from sampler.posterior.explanations.panels import columns_by, serial_warnings, widened_parts
from sampler.posterior.laws.law import Law
from sampler.posterior.parts.compared_treatments import Compared
from sampler.posterior.parts.effects import EffectDraws
from sampler.posterior.predicting import few_note
from sampler.posterior.results.effect_checks import Balance
from sampler.posterior.results.effect_estimates import (
    EffectEstimate,
    EffectFigure,
    EffectLeaf,
    EffectOfDose,
    EffectTree,
)
from sampler.posterior.results.treatment_effects import TreatmentEffects
from sampler.posterior.verdict.effects import MOST_ROWS, EffectsUse, judge_average
from sampler.storage.model_header import Header

OF = ("all", "treated", "untreated")
ALL = ""  # part of all rows, see `Averages`


@dataclass(frozen=True)
class EffectsRequest:
    """Request for effects: the rows that count, what groups them, the intervals' level, what is compared."""

    of: Literal["all", "treated", "untreated"]
    by: By | None
    level: float
    compared: Compared
    measure: Measure

    @classmethod
    def check(
        cls, law: Law, of: Any, by: By | None, level: float, arms: tuple[Any, Any], measure: tuple[Any, Any]
    ) -> EffectsRequest:
        """Check what is asked of a model, of two arms and by a measure until a time; raises SettingsError."""
        design = law.draws.header.effects
        if of not in OF:
            raise SettingsError(
                f"of must be {', '.join(OF[:-1])} or {OF[-1]}, not {of!r}", field="of", code="not_accepted"
            )
        if of != "all" and design is not None and design.dose is not None:
            raise SettingsError(
                f"of: every row has a dose, so that none are {of}: leave it out",
                field="of",
                code="not_applicable",
            )
        compared = Compared.of(design, *arms, law.draws.header.panel)
        if compared.lags:
            if of == "untreated":
                detail = "of untreated: a lag is of rows that have adopted: leave it out, or name two arms"
                raise SettingsError(detail, field="of", code="not_applicable")
            of, by = "treated", "lag" if by is None else by
        return cls(of, by, Request.check_level(level), compared, Measure.of(law, compared, *measure))


def treatment_effects(
    law: Law,
    coded: Coded,
    request: EffectsRequest,
    chosen: NDArray[np.int64],
    beside: Mapping[str, RawColumn],
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
    beside
        Columns of the rows, by which averages are asked for, that the model doesn't have.

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
    header, chains, effects = law.draws.header, law.draws.num_chains, law.effects
    assert effects is not None, "the model has a treatment"
    compared, measure = request.compared, request.measure
    rows, labels, warnings = _counted(coded, request), coded.labels, list(coded.warnings)
    sent = coded
    if len(rows) < coded.num_rows:
        labels = None if labels is None else labels[rows]
        coded = coded.part(rows)
    known = coded.by_role.get(ROLE)
    treated, others = np.zeros((2, coded.num_rows), bool)
    if known is not None and compared.dose is None:
        treated, others = compared.are_first(known), known == compared.pair[1]
    unsupported: Bools | None = np.zeros(coded.num_rows, bool)
    parts = {ALL: np.ones(coded.num_rows, bool)}
    if known is not None:
        unsupported = unsupported_rows(law, coded, known, compared, chosen)
        parts |= {} if unsupported is None else {"supported": ~unsupported}
        if request.of == "all":
            parts |= {"treated": treated, "untreated": others}
    groups = (
        {}
        if request.by is None
        else groups_of(header, sent, request.by, {**columns_by(header, sent), **beside})
    )
    groups = {name: own[rows] for name, own in groups.items()}
    positive = np.empty(coded.num_rows)

    def values(some: slice) -> Floats:
        effect = measure.effect_of(law, coded.part(some), chosen, compared)
        positive[some] = np.mean(effect > 0, axis=0)
        return effect

    averages = Averages(
        parts | {f"group {name}": own for name, own in groups.items()},
        every=True,
        chains=chains,
        bounded=law.classes is not None,
    )
    mean, lower, upper = averages.fill(values, coded.num_rows, request.level)
    spread = averages.spread()
    if header.panel is not None and header.panel.widening:
        some = [name for name, own in averages.parts.items() if own.any()]
        averages.widen(widened_parts(header.panel, some, request.by))
    in_arm = None if known is None or compared.dose else treated
    found = {
        name: _estimate(averages, name, request.level, in_arm)
        for name, own in averages.parts.items()
        if own.any()
    }
    of_groups = {name: f"group {name}" for name in groups if f"group {name}" in found}
    of_arms = effects.columns.arms(coded.codes)
    propensity = None if of_arms is None else of_arms[0 if compared.dose else int(compared.pair[0])]
    overlap = None
    if known is not None:
        overlap = overlap_of(
            effects, compared, (treated, others), unsupported, of_arms, found.get("supported")
        )
        warnings += overlap_warnings(overlap, compared)
    warnings += few_note(averages.by_few, "figure", sd="")
    average, adds = found[ALL], law.adds_effect if measure.name is None else measure.name == "ratio"
    judged = evenly_spaced(coded.num_rows, MOST_ROWS)
    of_rows = measure.effect_of(law, coded.part(judged), chosen, compared).T
    followed = measure.of_arms(compared)
    answer = TreatmentEffects(
        difference=_in_words(law, header.roles[ROLE], request),
        arm=compared.names[0],
        against=compared.names[1],
        arms={}
        if len(header.arms) == len(TWO) or compared.lags
        else _of_each_arm(law, coded, request, chosen),
        dose=_dose(
            compared, law.adds_effect and effects.design.kind == "bcf", averages.draws(ALL), request.level
        ),
        holds=what_must_hold(
            header.schema.target.name,
            str(header.settings.get("assignment", "observed")) if header.panel is None else PANEL,
            compared.dose is not None,
            header.roles[ROLE] if "event" in header.roles else None,
        ),
        of=request.of,
        average=average,
        treated=found.get("treated"),
        untreated=found.get("untreated"),
        groups={name: found[part] for name, part in of_groups.items()},
        larger=_larger(averages, of_groups),
        ratio=_ratio(law, coded, averages.draws(ALL), request, chosen),
        spread=_figure(spread, request.level),
        tree=_tree(law, coded, values, mean, spread, request.level, in_arm),
        overlap=overlap,
        balance=_balance(header, effects, sent, request),
        sensitivity=sensitivity_of(average, None if compared.by_unit or not adds else effects.design.sd),
        mean=mean,
        lower=lower,
        upper=upper,
        positive=positive,
        is_treated=treated,
        unsupported=unsupported,
        propensity=propensity,
        level=request.level,
        warnings=warnings + measure.warnings(law, followed) + serial_warnings(header.panel),
        use=EffectsUse.of(averages.by_chain(ALL)[None], of_rows.reshape(len(of_rows), chains, -1)),
        labels=labels,
        measure=measure.name,
        until=measure.until,
        curves=measure.curves(law, coded, chosen, compared, (request.of, request.level)),
        followed=followed or None,
    )
    return as_ratios(answer) if measure.name == "ratio" else answer


def _ratio(
    law: Law, coded: Coded, effect: Floats, request: EffectsRequest, chosen: NDArray[np.int64]
) -> EffectFigure | None:
    """Divide the average figure in one arm by that in the other, per draw; None of numbers and ratios."""
    measure = request.measure
    if measure.until is None and not law.counts and law.classes is None:
        return None
    total, width = np.zeros(len(chosen)), max(16, MAX_CELLS // len(chosen))
    against = coded.with_role(ROLE, request.compared.pair[1])
    for start in range(0, coded.num_rows, width):
        total += measure.in_arm(law, against.part(slice(start, start + width)), chosen).sum(axis=1)
    total = np.maximum(total, np.finfo(float).tiny)
    return _figure(1.0 + effect / request.compared.scale * coded.num_rows / total, request.level)


def _dose(compared: Compared, linear: bool, average: Floats, level: float) -> EffectOfDose | None:
    """Say what range the doses had, and what a standard deviation of them does on average; None of arms."""
    if compared.dose is None:
        return None
    by_sd = _figure(average * (compared.dose.sd / compared.length), level)
    lowest, *_, highest = compared.dose.points
    return EffectOfDose(compared.by_unit, lowest, highest, compared.dose.sd, by_sd, linear)


def _of_each_arm(
    law: Law, coded: Coded, request: EffectsRequest, chosen: NDArray[np.int64]
) -> dict[str, EffectEstimate]:
    """Average the effect of each arm beside the one it is compared with, over the rows that count."""
    against, found = request.compared.pair[1], {}
    for arm, name in enumerate(law.draws.header.arms):
        if arm != against:

            def values(some: slice, pair: Compared = Compared((arm, against))) -> Floats:  # noqa: B008
                return request.measure.effect_of(law, coded.part(some), chosen, pair)

            averages = Averages(
                {ALL: np.ones(coded.num_rows, bool)},
                every=True,
                chains=law.draws.num_chains,
                bounded=law.classes is not None,
            )
            averages.fill(values, coded.num_rows, request.level)
            known = coded.by_role.get(ROLE)
            found[name] = _estimate(averages, ALL, request.level, None if known is None else known == arm)
    return found


def _balance(header: Header, effects: EffectDraws, coded: Coded, request: EffectsRequest) -> list[Balance]:
    """Compare features between the rows of two arms, weighted by the probability of each row's own.

    Where only rows of one arm count, the other is weighted to be like them. Of a dose features are correlated
    with it, and with its distance from what was expected.
    """
    known = coded.by_role.get(ROLE)
    if known is None:
        return []
    of_arms, pair = effects.columns.arms(coded.codes), request.compared.pair
    if effects.design.dose is not None:
        return balance_of_doses(header, coded, known, None if of_arms is None else of_arms[0])
    first = request.compared.are_first(known)
    rows = np.flatnonzero(first | (known == pair[1]))
    own, toward = None, 1.0
    if of_arms is not None:
        own = of_arms[known[rows].astype(np.int64), rows]
        toward = 1.0 if request.of == "all" else of_arms[int(pair[request.of == "untreated"]), rows]
    return balance_of(header, coded.part(rows), first[rows], own, toward)


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
    in_arm: Bools | None,
) -> EffectTree:
    """Divide the rows by their mean effect, and average over the parts."""
    leaves = divide(law.draws.header, coded.codes, mean)
    parts = {ALL: np.ones(coded.num_rows, bool)}
    for number, leaf in enumerate(leaves):
        parts[str(number)] = np.zeros(coded.num_rows, bool)
        parts[str(number)][leaf.rows] = True
    averages = Averages(parts, every=True, chains=law.draws.num_chains, bounded=law.classes is not None)
    averages.fill(values, coded.num_rows, level)
    of_leaves = [averages.draws(str(number)) for number in range(len(leaves))]
    between = np.zeros_like(spread)
    for leaf, own in zip(leaves, of_leaves, strict=True):
        between += len(leaf.rows) / coded.num_rows * (own - averages.draws(ALL)) ** 2
    varies = np.maximum(spread**2, np.finfo(float).tiny)
    explained = np.where(spread > 0, np.minimum(between / varies, 1.0), 0.0)
    return EffectTree(
        [
            EffectLeaf(leaf.in_words, _estimate(averages, str(k), level, in_arm))
            for k, leaf in enumerate(leaves)
        ],
        _figure(explained, level),
        float(np.mean(of_leaves[-1] > of_leaves[0])) if len(leaves) > 1 else 0.5,
    )


def what_must_hold(target: str, assignment: str, dose: bool, censored_by: str | None = None) -> str:
    """Say what must be true for differences between the arms, or doses, to be effects of the treatment.

    Of times with events, which may be censored, the treatment's name is `censored_by`.
    """
    if censored_by is not None:
        return (
            f"{what_must_hold(target, assignment, dose)} Censoring must tell nothing of {target} beyond the "
            f"features and {censored_by}."
        )
    if assignment == PANEL:
        return (
            f"These are effects only if {target} of rows with equal features would have changed alike in "
            "every cohort without the adoption (parallel trends), nothing changed before it in expectation "
            "of it, no feature is a consequence of it, and that of one unit doesn't change "
            f"{target} of another: no data can show that."
        )
    if assignment == "random":
        return (
            f"These are effects if the treatment was left to chance, and that of one row doesn't change "
            f"{target} of another."
        )
    reason, alike = "being treated", "were treated and not treated"
    if dose:
        reason, alike = "the dose", "had different doses"
    return (
        f"These are effects only if the features tell of every reason for {reason} that also matters to "
        f"{target}, none of them is a consequence of the treatment, rows with equal features {alike}, "
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
        compared = request.compared
        own = treated == compared.pair[1] if of == "untreated" else compared.are_first(treated)
        rows = np.flatnonzero(own)
    if not len(rows):
        raise DataError(f"none of the rows are {of}" if coded.num_rows else "there are no rows")
    return rows


def _estimate(averages: Averages, name: str, level: float, in_arm: Bools | None) -> EffectEstimate:
    own, of_population = averages.estimate(name, level), averages.population(level, name)
    draws = averages.by_chain(name)
    use, mcse = judge_average(draws)
    return EffectEstimate(
        mean=float(own.mean),
        lower=float(own.lower),
        upper=float(own.upper),
        population_lower=float(of_population.lower),
        population_upper=float(of_population.upper),
        positive=float(np.mean(draws > 0)),
        rows=own.rows,
        use=use,
        mcse=mcse,
        treated=None if in_arm is None else int(in_arm[averages.parts[name]].sum()),
    )


def _in_words(law: Law, treatment: str, request: EffectsRequest) -> str:
    """Say what is subtracted from what, or divided by it."""
    target, measure, compared = law.schema.target.name, request.measure, request.compared
    figure = f"probability of {law.classes[1]}" if law.classes is not None else target
    unit = "" if law.unit is None or measure.name in ("survival", "ratio") else f", in {law.unit}"
    words = compared.in_words(measure.in_words(figure), treatment)
    if measure.name == "ratio":
        words = words.replace(", minus ", ", divided by ").replace(" per unit", ", a factor per unit")
    return f"{words}{unit}"
