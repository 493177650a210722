"""Effects of a treatment over draws: averages of rows and of the population, by group and by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.treatment.design import ROLE
from sampler.errors import DataError, SettingsError, unknown_feature
from sampler.posterior.core.intervals import Request, equal_tailed
from sampler.posterior.explanations.contrasts import Averages, groups_by
from sampler.posterior.results.treatment_effects import EffectEstimate, EffectSpread, TreatmentEffects

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.posterior.laws.law import Law

    Floats = NDArray[np.float64]

OF = ("all", "treated", "untreated")
ALL = ""  # part of all rows, see `Averages`


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
    rows = _counted(coded, request.of)
    warnings, labels = coded.warnings, coded.labels
    if len(rows) < coded.num_rows:
        labels = None if labels is None else labels[rows]
        coded = coded.part(rows)
    treated = coded.by_role.get(ROLE)
    parts = {ALL: np.ones(coded.num_rows, bool)}
    if treated is not None and request.of == "all":
        parts |= {"treated": treated == 1, "untreated": treated == 0}
    names = [column.name for column in header.schema.columns]
    groups: dict[str, NDArray[np.bool_]] = {}
    if request.by is not None:
        if request.by not in names:
            raise unknown_feature("by", request.by, names)
        groups = groups_by(header, coded.codes, names.index(request.by))
    averages = Averages(parts | {f"group {name}": own for name, own in groups.items()}, every=True)
    positive = np.empty(coded.num_rows)

    def values(some: slice) -> Floats:
        effect = law.effect_of(coded.part(some), chosen)
        positive[some] = np.mean(effect > 0, axis=0)
        return effect

    mean, lower, upper = averages.fill(values, coded.num_rows, request.level)
    spread = averages.spread()
    estimates = {
        name: _estimate(averages, name, request.level) for name, own in averages.parts.items() if own.any()
    }
    assert law.effects is not None, "effects were computed"
    fitted = law.effects.design.cuts is not None
    return TreatmentEffects(
        difference=_in_words(law, header.roles[ROLE]),
        holds=what_must_hold(header.schema.target.name, str(header.settings.get("assignment", "observed"))),
        of=request.of,
        average=estimates[ALL],
        treated=estimates.get("treated"),
        untreated=estimates.get("untreated"),
        groups={name: estimates[f"group {name}"] for name in groups if f"group {name}" in estimates},
        spread=EffectSpread(float(spread.mean()), *map(float, equal_tailed(spread, request.level))),
        mean=mean,
        lower=lower,
        upper=upper,
        positive=positive,
        is_treated=np.zeros(coded.num_rows, bool) if treated is None else treated == 1,
        propensity=law.effects.columns.propensity(coded.codes) if fitted else None,
        level=request.level,
        warnings=list(warnings),
        labels=labels,
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
