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
from sampler.posterior.results.answer import Answer, RowAnswer, plot
from sampler.posterior.results.columns import ends_of
from sampler.posterior.verdict.effects import EffectsUse, OfCredible

LAG = re.compile(r"\d+\+?")  # name of one


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


@dataclass(frozen=True, repr=False)
class EffectsTable(Answer):
    """Part of an answer about effects, a line each: a data frame by `to_pandas`, or text for a paper."""

    named: dict[str, list[Any]]

    def columns(self) -> dict[str, Any]:
        """Arrange it by name."""
        return self.named

    def _lines(self) -> list[list[str]]:
        """Return the heads and the cells of each line as text: figures with three digits."""
        cells = zip(*self.named.values(), strict=True)
        heads = [name.replace("_", " ") for name in self.named]
        return [heads, *([_cell(value) for value in line] for line in cells)]

    def _places(self, words: str, figures: str) -> list[str]:
        """Return how each column is set: as words or as figures."""
        return [
            words if any(isinstance(each, str) for each in own) else figures for own in self.named.values()
        ]

    def to_markdown(self) -> str:
        """Write it as a table of Markdown."""
        heads, *lines = ([cell.replace("|", "\\|") for cell in line] for line in self._lines())
        rule = self._places("---", "---:")
        return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *lines))

    def to_latex(self) -> str:
        """Write it as a tabular of LaTeX with the rules of booktabs."""
        heads, *lines = (" & ".join(map(_escaped, line)) + r" \\" for line in self._lines())
        places = "".join(self._places("l", "r"))
        top, end = rf"\begin{{tabular}}{{{places}}}" + "\n\\toprule", "\\bottomrule\n\\end{tabular}"
        return "\n".join([top, heads, r"\midrule", *lines, end])


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return "not yet" if value == "not_yet" else value
    return "" if value is None else str(value) if isinstance(value, int) else number_to_text(value, 3)


LATEX = {each: f"\\{each}" for each in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\u2212": "$-$",
    "\u202f": r"\,",
}  # fmt: skip


def _escaped(text: str) -> str:
    """Escape what is special to LaTeX."""
    return "".join(LATEX.get(each, each) for each in text)


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
