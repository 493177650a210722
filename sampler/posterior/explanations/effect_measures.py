"""Measures of effects on times with events: restricted means, survival, ratios, and curves of the arms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.scalars import number_to_text
from sampler.data.transform import Transform
from sampler.data.treatment.design import ROLE
from sampler.data.treatment.follow_up import FollowUp
from sampler.data.treatment.support import SUPPORT, Support
from sampler.errors import SettingsError
from sampler.posterior.assessment.diagnostics import evenly_spaced
from sampler.posterior.core.intervals import equal_tailed
from sampler.posterior.explanations.contrasts import MAX_CELLS
from sampler.posterior.explanations.survival_curves import restricted_mean
from sampler.posterior.laws.law import Law
from sampler.posterior.parts.compared_treatments import Compared
from sampler.posterior.results.effect_checks import ArmCurve, EffectCurves, Followed
from sampler.posterior.results.effect_estimates import EffectEstimate, EffectFigure
from sampler.posterior.results.treatment_effects import TreatmentEffects

MeasureName = Literal["restricted_mean", "survival", "ratio"]
NAMES: tuple[MeasureName, ...] = get_args(MeasureName)
FEW_FOLLOWED, FEW_EVENTS = 0.05, 10  # of an arm: share of its rows until then, and events: worth a word
TIMES = 30  # of curves
CURVE_CELLS, FEWEST_DRAWS = 1 << 18, 100  # draws times rows of curves, but not fewer draws


@dataclass(frozen=True)
class Measure:
    """The figure of an outcome's law that is compared: the mean, or of times with events another.

    Attributes
    ----------
    name
        The measure; None for the mean of the outcome.
    until
        The time up to which means are, or that is survived; None of others.
    followed
        How long the rows of the fit were followed; None of models without events.

    """

    name: MeasureName | None = None
    until: float | None = None
    followed: FollowUp | None = None

    @classmethod
    def of(cls, law: Law, compared: Compared, name: Any = None, until: Any = None) -> Measure:
        """Check what is asked of a model, and choose what isn't; raises SettingsError."""
        header = law.draws.header
        if "event" not in header.roles:
            for field, value in (("measure", name), ("until", until)):
                if value is not None:
                    detail = f"{field} is for times with events, which this model is not of: leave it out"
                    raise SettingsError(detail, field=field, code="not_applicable")
            return cls()
        name = NAMES[0] if name is None else name
        if name not in NAMES:
            detail = f"measure must be {', '.join(NAMES[:-1])} or {NAMES[-1]}, not {name!r}"
            raise SettingsError(detail, field="measure", code="not_accepted")
        support: Support | None = header.parts.get(SUPPORT)
        followed = None if support is None else support.followed
        if name == "ratio":
            if not law.transform:
                detail = (
                    "measure ratio is of models of the logarithms of times, and this one has transform none: "
                    "ask for restricted_mean or survival"
                )
                raise SettingsError(detail, field="measure", code="not_applicable")
            if until is not None:
                detail = "until: a ratio of times is of all quantiles: leave it out"
                raise SettingsError(detail, field="until", code="not_applicable")
            return cls(name, None, followed)
        if followed is None:
            detail = (
                "the model kept no times of its rows, until which effects could be asked for: ask for ratio"
            )
            raise SettingsError(detail, field="measure", code="not_applicable")
        return cls(name, _checked_until(until, followed, _places(compared)), followed)

    def effect_of(self, law: Law, coded: Coded, chosen: NDArray[np.int64], compared: Compared) -> Floats:
        """Compute what treatment adds to the figure in the chosen draws, float64 [draw, row].

        Of a ratio it is the logarithm.
        """
        if self.name is None:
            return law.effect_of(coded, chosen, compared)
        if self.name == "ratio":
            return law.shift_of(coded, chosen, compared)
        first, second = (self.in_arm(law, coded.with_role(ROLE, arm), chosen) for arm in compared.pair)
        return np.asarray(compared.scale * (first - second))

    def in_arm(self, law: Law, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute the figure of rows in their arms in the chosen draws, float64 [draw, row]."""
        if self.name is None:
            return law.mean_of(coded, chosen)
        return self.figure(law.f_of(coded, chosen), law.noise_of(coded, chosen), law.transform)

    def figure(self, f: Floats, sd: Floats, transform: Transform) -> Floats:
        """Compute the figure of times that are Normal(f, sd^2), or whose logarithms are."""
        assert self.until is not None
        if self.name == "restricted_mean":
            return restricted_mean(f, sd, self.until, transform)
        return survival(f, sd, self.until, transform)

    def in_words(self, target: str) -> str:
        """Name the figure of the outcome of that name."""
        if self.name is None:
            return target
        until = "" if self.until is None else number_to_text(self.until, 6)
        named = {"restricted_mean": f"mean of {target} up to {until}", "ratio": f"quantiles of {target}"}
        return named.get(self.name, f"probability of {target} of more than {until}")

    def of_arms(self, compared: Compared) -> dict[str, Followed]:
        """Say how the rows of the fit were followed in the arms compared; of a dose, all of them."""
        if self.followed is None:
            return {}
        names = compared.names if compared.dose is None else ("all",)
        return {
            name: Followed(
                rows=self.followed.rows[arm],
                events=self.followed.events[arm],
                last=float(self.followed.times[arm, -1]),
                at_risk=None if self.until is None else self.followed.at_risk(arm, self.until),
            )
            for name, arm in zip(names, _places(compared), strict=True)
        }

    def warnings(self, law: Law, followed: dict[str, Followed]) -> list[str]:
        """Warn where little was seen of an arm, and of times that are taken as they are."""
        few = [
            name
            for name, each in followed.items()
            if each.at_risk is not None and each.at_risk < FEW_FOLLOWED
        ]
        rare = [name for name, each in followed.items() if each.events < FEW_EVENTS]
        raw = self.name is not None and not law.transform
        return [
            *(
                f"{followed[name].at_risk:.0%} of the rows of arm {name} were followed until then: the "
                "effect rests on the shape of the model's noise; ask until an earlier time"
                for name in few
            ),
            *(f"the events of arm {name} are {followed[name].events} only" for name in rare),
            *(
                ["times are modelled as they are (transform=none): fit their logarithms instead"]
                if raw
                else []
            ),
        ]

    def curves(
        self,
        law: Law,
        coded: Coded,
        chosen: NDArray[np.int64],
        compared: Compared,
        request: tuple[str, float],
    ) -> EffectCurves | None:
        """Average the rows' survival curves in either arm; `request` is which rows count, and the level."""
        if self.name is None or self.followed is None:
            return None
        places = _places(compared)
        of, level = request
        times = np.linspace(0.0, float(self.followed.times[places, -1].min()), TIMES + 1)[1:]
        draws = chosen[evenly_spaced(len(chosen), max(CURVE_CELLS // coded.num_rows, FEWEST_DRAWS))]
        totals = np.zeros((2, len(draws), TIMES))
        width = max(16, MAX_CELLS // len(draws))
        for start in range(0, coded.num_rows, width):
            part = coded.part(slice(start, start + width))
            for total, arm in zip(totals, compared.pair, strict=True):
                own = part.with_role(ROLE, arm)
                f, sd = law.f_of(own, draws), law.noise_of(own, draws)
                for k, time in enumerate(times.tolist()):
                    total[:, k] += survival(f, sd, time, law.transform).sum(axis=1)
        totals /= coded.num_rows
        known = of == "all" and compared.dose is None
        seen = [self.followed.curve(arm, times) if known else None for arm in places]
        both = [_curve(total, level, own) for total, own in zip(totals, seen * (2 // len(seen)), strict=True)]
        apart = [
            float(np.max(np.abs(total.mean(axis=0) - own)))
            for total, own in zip(totals, seen, strict=False)
            if own is not None
        ]
        difference = _curve(totals[0] - totals[1], level, None)
        return EffectCurves(times.tolist(), both[0], both[1], difference, max(apart, default=None))


def survival(f: Floats, sd: Floats, time: float, transform: Transform) -> Floats:
    """Compute the probability of more than a time, where times or their logarithms are Normal(f, sd^2)."""
    return np.asarray(ndtr((f - (math.log(time) if transform else time)) / sd))


def as_ratios(answer: TreatmentEffects) -> TreatmentEffects:
    """Return effects on logarithms of times as ratios of times; the probability is that of more than 1."""

    def estimate(each: EffectEstimate | None) -> Any:
        if each is None:
            return None
        ends = ("mean", "lower", "upper", "population_lower", "population_upper")
        own: dict[str, Any] = {name: math.exp(getattr(each, name)) for name in ends}
        return replace(each, **own, mcse=None if each.mcse is None else each.mcse * own["mean"])

    def figure(each: EffectFigure) -> EffectFigure:
        return EffectFigure(*(math.exp(end) for end in vars(each).values()))

    leaves = [replace(leaf, average=estimate(leaf.average)) for leaf in answer.tree.leaves]
    overlap, dose, hidden = answer.overlap, answer.dose, answer.sensitivity
    curve: Any = [tuple(map(math.exp, point)) for point in hidden.curve]
    changed: dict[str, Any] = {
        name: estimate(getattr(answer, name)) for name in ("average", "treated", "untreated")
    }
    changed |= {name: np.exp(getattr(answer, name)) for name in ("mean", "lower", "upper")}
    changed |= {
        name: {key: estimate(each) for key, each in getattr(answer, name).items()}
        for name in ("groups", "arms")
    }
    return replace(
        answer,
        **changed,
        spread=figure(answer.spread),
        tree=replace(answer.tree, leaves=leaves),
        overlap=None if overlap is None else replace(overlap, supported=estimate(overlap.supported)),
        dose=None if dose is None else replace(dose, by_sd=figure(dose.by_sd)),
        sensitivity=replace(hidden, shift=math.exp(hidden.shift), curve=curve),
    )


def _checked_until(until: Any, followed: FollowUp, arms: list[int]) -> float:
    """Check until when effects are asked for, or choose it; raises SettingsError."""
    if until is None:
        return followed.default(arms)
    last = float(followed.times[arms, -1].min())
    try:
        time = float(until)
    except (TypeError, ValueError):
        time = math.nan
    if not 0 < time <= last * (1 + 1e-6):  # to nine digits, as the model keeps it
        detail = (
            f"until must be a time above 0 and at most {number_to_text(last, 6)}, until which rows of each "
            f"arm compared were followed, not {until!r}: nothing was seen beyond"
        )
        raise SettingsError(detail, field="until", code="out_of_range")
    return time


def _places(compared: Compared) -> list[int]:
    """Return the places of the arms compared; of a dose all rows are one."""
    return [0] if compared.dose is not None else [int(arm) for arm in compared.pair]


def _curve(draws: Floats, level: float, seen: Floats | None) -> ArmCurve:
    lower, upper = equal_tailed(draws, level)
    return ArmCurve(
        draws.mean(axis=0).tolist(), lower.tolist(), upper.tolist(), None if seen is None else seen.tolist()
    )
