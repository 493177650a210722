"""Effects of a treatment: on average, in groups and for each row, for whom, and how far to trust them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from sampler.array_types import BoolsByRow, ByRow
from sampler.data.scalars import cells_to_text, number_to_text
from sampler.data.treatment.panel import ADOPTED
from sampler.errors import SettingsError
from sampler.posterior.core.intervals import Interval
from sampler.posterior.results.answer import RowAnswer, plot
from sampler.posterior.results.columns import ends_of
from sampler.posterior.results.effect_checks import Balance, EffectCurves, Followed, Overlap, Sensitivity
from sampler.posterior.results.effect_estimates import EffectEstimate, EffectFigure, EffectOfDose, EffectTree
from sampler.posterior.results.effects_table import EffectsTable
from sampler.posterior.verdict.effects import EffectsUse

LAG = re.compile(r"\d+\+?")  # name of one


@dataclass(frozen=True, repr=False)
class TreatmentEffects(RowAnswer):
    """Effects of a treatment, with what must hold for them to be effects.

    Attributes
    ----------
    of
        Rows that count: "all", "treated" or "untreated".
    labels
        Labels of the rows (an index of pandas), which `to_pandas` keeps; None for rows without.

    """

    card = "cards:effects_card"

    difference: Annotated[str, "In words, what is subtracted from what."]
    arm: Annotated[str, "The arm, or dose, whose effect this is; 1 where there are two."]
    against: Annotated[str, "The arm or dose it is compared with; 0 where there are two."]
    arms: Annotated[
        dict[str, EffectEstimate], "Of several arms, each beside `against`, over the rows that count."
    ]
    dose: Annotated[
        EffectOfDose | None, "Of a dose, the effect of a standard deviation of it, and its range."
    ]
    holds: Annotated[str, "What must be true for the figures to be effects."]
    of: Literal["all", "treated", "untreated"]
    average: Annotated[EffectEstimate, "Over the rows that count."]
    treated: Annotated[EffectEstimate | None, "Over those of them that were treated."]
    untreated: Annotated[EffectEstimate | None, "Over those that were not."]
    groups: Annotated[dict[str, EffectEstimate], "Over the rows of each level or quarter of `by`."]
    larger: Annotated[
        dict[str, dict[str, float]],
        "Probability that the average of a group is above that of another, by names.",
    ]
    ratio: Annotated[
        EffectFigure | None,
        "Of counts, two classes and figures of times, the average in one arm divided by that in the other.",
    ]
    spread: Annotated[EffectFigure, "Standard deviation of the effect from row to row."]
    tree: Annotated[EffectTree, "For whom effects are larger."]
    overlap: Annotated[Overlap | None, "Whether rows have comparable rows in the other arm."]
    balance: Annotated[
        list[Balance],
        "How far apart features are in the arms, or how they correlate with the dose; the largest first.",
    ]
    sensitivity: Sensitivity
    mean: Annotated[ByRow, "Effect on each row."]
    lower: ByRow
    upper: ByRow
    positive: Annotated[ByRow, "Probability that a row's effect is above 0."]
    is_treated: BoolsByRow
    unsupported: Annotated[
        BoolsByRow | None, "Whether a row has no comparable rows in the other arm; null where unknown."
    ]
    propensity: Annotated[
        ByRow | None,
        "Fitted probability of being treated, or expected dose; null where none was fitted.",
    ]
    level: float
    warnings: list[str]
    use: Annotated[
        EffectsUse, "What can be used: the average and, by up to 200 of these rows, single rows' effects."
    ]
    labels: Any = field(default=None, repr=False, compare=False)
    measure: Annotated[
        Literal["restricted_mean", "survival", "ratio"] | None,
        "Of times with events, what is compared; null of other outcomes.",
    ] = None
    until: Annotated[float | None, "The time up to which, or beyond which, it is."] = None
    curves: Annotated[EffectCurves | None, "Of times with events, curves of both arms."] = None
    followed: Annotated[
        dict[str, Followed] | None,
        "Of times with events, how long the rows of the fit were followed, by arm.",
    ] = None

    @property
    def neutral(self) -> Annotated[float, "The effect that is none: 1 of a ratio, else 0."]:
        """The figure of an effect that is none."""
        return 1.0 if self.measure == "ratio" else 0.0

    def named_estimates(self) -> dict[str, EffectEstimate]:
        """Name the averages: of all rows that count, of those in the arms, of groups, of other arms."""
        named = {"average": self.average, "treated": self.treated, "untreated": self.untreated}
        found = {name: each for name, each in named.items() if each is not None}
        others = {name: each for name, each in self.arms.items() if name != self.arm}
        named_so = {f"{name} against {self.against}": each for name, each in others.items()}
        return {**found, **self.groups, **named_so}

    @property
    def hidden(self) -> Annotated[str, "How strong a hidden common cause would have to be, in words."]:
        """A sentence on how strong a hidden common cause would have to be."""
        shift, sds, none = self.sensitivity.shift, self.sensitivity.in_sds, f"{self.neutral:g}"
        if shift == self.neutral:
            return f"The average's interval holds {none}, whatever causes are hidden."
        its = "standard deviations of their logarithm" if self.neutral else "of its standard deviations"
        in_sds = "" if sds is None else f" ({number_to_text(sds, 2)} {its})"
        rows = "treated rows"
        if self.dose is not None:
            rows = "rows with a dose higher by one" if self.dose.by_unit else "rows with the first dose"
        shifted = {
            None: "shifts the outcome", "ratio": "multiplies the times",
            "restricted_mean": "shifts the restricted mean", "survival": "shifts the probability",
        }[self.measure]  # fmt: skip
        return (
            f"A hidden common cause that {shifted} of {rows} by {number_to_text(shift, 3)}"
            f"{in_sds} would explain the effect away: the average's interval reaches {none} there."
        )

    @property
    def of_dose(self) -> Annotated[list[str], "Sentences on the effect of a dose."]:
        """Sentences on a dose: its effect by a standard deviation, and whether it is a straight line."""
        if self.dose is None:
            return []
        mean, lower, upper = (number_to_text(each, 3) for each in vars(self.dose.by_sd).values())
        of_sd = f"A standard deviation of the dose ({number_to_text(self.dose.sd, 3)})"
        does = "multiplies times by" if self.measure == "ratio" else "adds"
        said = f"{of_sd} {does} {mean} on average ({lower} to {upper})"
        line = ", and each unit as much, whatever the dose, by this model" if self.dose.linear else ""
        return [f"{said}{line}."]

    @property
    def of_times(self) -> Annotated[list[str], "Sentences on how long rows were followed."]:
        """A sentence on how long the rows of the fit were followed in each arm; none without events."""
        if not self.followed:
            return []
        at_risk = (
            "" if self.until is None else f", {{at_risk:.0%}} followed until {number_to_text(self.until, 6)}"
        )
        words = "{name}: {events:,} events in {rows:,} rows" + at_risk
        return [
            "; ".join(words.format(name=name, **vars(each)) for name, each in self.followed.items()) + "."
        ]

    @property
    def notes(self) -> list[str]:
        """Sentences that go with the figures: what can be used, what must hold, and warnings."""
        least = [name for name, each in self.named_estimates().items() if each.use == "not_yet"]
        doubted = f" Not yet usable: {', '.join(least)}." if least and least != ["average"] else ""
        return [
            f"{self.use.text}{doubted}",
            *self.of_dose,
            *self.of_times,
            self.holds,
            self.hidden,
            *self.warnings,
        ]

    def __str__(self) -> str:
        averages = self.named_estimates()
        width = max(map(len, averages)) + 2
        lines = [self.difference, f"{'':{width}}{'rows':>8}{'mean':>12}{'lower':>12}{'upper':>12}"]
        lines += [
            f"{name:{width}}{each.rows:8}{cells_to_text([each.mean, each.lower, each.upper], 12)}"
            for name, each in averages.items()
        ]
        if self.ratio is not None:
            ends = cells_to_text([self.ratio.mean, self.ratio.lower, self.ratio.upper], 12)
            lines.append(f"{'ratio':{width}}{'':8}{ends}")
        return "\n".join([*lines, *self.notes])

    def columns(self) -> dict[str, Any]:
        """Arrange it by name [row]: ``effect``, ``lower_90``, ``upper_90``, ``positive`` and so on."""
        named = {"effect": self.mean} | ends_of([Interval(self.level, self.lower, self.upper)])
        named |= {"positive": self.positive} | ({} if self.dose else {"treated": self.is_treated})
        named |= {} if self.unsupported is None else {"unsupported": self.unsupported}
        return named | ({} if self.propensity is None else {"propensity": self.propensity})

    def table(self, part: str = "averages") -> EffectsTable:
        """Arrange a part of the answer as a table for a paper.

        Parameters
        ----------
        part
            "averages" of rows, arms and groups; "balance", features between the arms; "overlap", its figures;
            "sensitivity", the average by the shift of a hidden cause.

        Returns
        -------
        EffectsTable
            The table. Averages have the columns ``group``, ``rows``, ``treated`` (not of a dose),
            ``estimate``, the ends, ``probability`` of being above 0 and ``usable``.

        Raises
        ------
        SettingsError
            For another part.

        """
        if part == "balance":
            return EffectsTable(
                _lines_of(self.balance, {name: name for name in ("feature", "before", "after")})
            )
        if part == "overlap":
            known = {} if self.overlap is None else vars(self.overlap)
            figures = {name: getattr(each, "mean", each) for name, each in known.items() if each is not None}
            return EffectsTable({"figure": [*figures], "value": [*figures.values()]})
        if part == "sensitivity":
            columns = zip(*self.sensitivity.curve, strict=True)
            return EffectsTable(
                dict(zip(("shift", "estimate", "lower", "upper"), map(list, columns), strict=True))
            )
        if part != "averages":
            raise SettingsError(
                f"part must be averages, balance, overlap or sensitivity, not {part!r}",
                field="part",
                code="not_accepted",
            )
        ends = ("lower", "upper", "population_lower", "population_upper")
        sources = {"rows": "rows"} | ({} if self.dose else {"treated": "treated"}) | {"estimate": "mean"}
        sources |= {**dict(zip(ends, ends, strict=True)), "probability": "positive", "usable": "use"}
        estimates = self.named_estimates()
        return EffectsTable({"group": [*estimates]} | _lines_of(estimates.values(), sources))

    def plot(self, ax: Any = None) -> Any:
        """Draw the averages, those of the arms and of groups, with matplotlib; return the axes."""
        label = f"{self.difference}; {100 * self.level:g}% intervals"
        return plot("rankings:treatment_effects", ax, self.named_estimates(), label, self.neutral)

    @property
    def by_lag(self) -> bool:
        """Whether its groups are lags since the adoption in a panel."""
        return self.arm == ADOPTED and bool(self.groups) and all(map(LAG.fullmatch, self.groups))

    def plot_event_study(self, leads: TreatmentEffects | None = None, ax: Any = None) -> Any:
        """Draw the average effect at each lag of a panel with matplotlib; return the axes.

        Parameters
        ----------
        leads
            An answer of `Posterior.placebo`, whose lags are drawn before the adoption.
        ax
            Axes to draw on.

        Raises
        ------
        SettingsError
            For an answer that is not by lag.

        """
        if not self.by_lag or not (leads is None or leads.by_lag):
            detail = "an event study is of effects by lag in a panel: see plot"
            raise SettingsError(detail, field=None, code="not_applicable")
        label = f"effect; {100 * self.level:g}% intervals"
        before = {} if leads is None else leads.groups
        return plot("treatments:event_study", ax, self.groups, before, label)

    def plot_curves(self, ax: Any = None) -> Any:
        """Draw the survival curves of both arms of times with events, with their bands; return the axes."""
        if self.curves is None:
            raise SettingsError(
                "curves are of times with events: see plot", field=None, code="not_applicable"
            )
        return plot("one_row:curves_of_arms", ax, self.curves, (self.arm, self.against))

    def plot_rows(self, ax: Any = None) -> Any:
        """Draw the rows' effects in order, with their intervals, with matplotlib; return the axes."""
        return plot("rankings:row_effects", ax, self.mean, self.lower, self.upper, self.neutral)

    def plot_balance(self, ax: Any = None) -> Any:
        """Draw how far apart features are before and after weighting (a love plot); return the axes."""
        return plot("treatments:balance", ax, self.balance, self.dose is not None)

    def plot_propensity(self, ax: Any = None) -> Any:
        """Draw the fitted probability of being treated by arm, with matplotlib; return the axes."""
        return plot("treatments:propensities", ax, self)

    def plot_sensitivity(self, ax: Any = None) -> Any:
        """Draw the average with its interval by the shift of a hidden cause; return the axes."""
        return plot("treatments:sensitivity", ax, self.sensitivity, self.neutral)


def _lines_of(each_of: Iterable[Any], sources: Mapping[str, str]) -> dict[str, list[Any]]:
    """Return columns by name of the attributes of some objects."""
    lines = [*each_of]
    return {name: [getattr(line, source) for line in lines] for name, source in sources.items()}
