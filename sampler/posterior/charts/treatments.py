"""Charts of how far to trust the effects of a treatment: balance, propensities, and hidden causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.errors import SettingsError
from sampler.posterior.charts.rankings import height_of
from sampler.posterior.charts.style import (
    DASHED,
    DOTTED,
    MOST_FEATURES,
    ChartStyle,
    chart,
    label_axes,
    legend_above,
    name_lines,
    short,
)
from sampler.posterior.results.effect_checks import Balance, Sensitivity
from sampler.posterior.results.effect_estimates import EffectEstimate

if TYPE_CHECKING:
    from sampler.posterior.results.treatment_effects import TreatmentEffects

BALANCED = 0.1  # a difference in standard deviations that papers call small
BINS = np.linspace(0.0, 1.0, 41)


@chart
def balance(style: ChartStyle, features: Sequence[Balance], dose: bool) -> Any:
    """Draw how far apart each feature is in the arms, as it is and weighted, the farthest on top."""
    shown = features[:MOST_FEATURES][::-1]
    ax, at = style.axes(height_of(len(shown)) + 0.3), np.arange(len(shown))
    for place in (0.0, BALANCED):
        ax.axvline(place, color=style.colours.soft, lw=0.9, ls=DOTTED if place else "-")
    before = [abs(each.before) for each in shown]
    ax.plot(
        before, at, ls="none", marker="o", ms=5, mfc="none", color=style.colours.soft, label="as they are"
    )
    after = [(abs(each.after), place) for place, each in enumerate(shown) if each.after is not None]
    if after:
        label = "what is left of the dose" if dose else "weighted"
        ax.plot(*zip(*after, strict=True), ls="none", marker="D", ms=5, mew=0, color=style.colours.accent,
                label=label)  # fmt: skip
    name_lines(ax, [short(each.feature, 22 if style.narrow else 34) for each in shown], style)
    ax.set_xlim(left=0)
    label_axes(
        ax, "correlation with the dose" if dose else "difference between the arms, in standard deviations"
    )
    legend_above(ax, ncols=2)
    return ax


@chart
def event_study(
    style: ChartStyle, lags: Mapping[str, EffectEstimate], leads: Mapping[str, EffectEstimate], label: str
) -> Any:
    """Draw the average effect at each lag since the adoption, and at leads before it, with intervals.

    `leads` are of as many periods before the adoption, the first of them by the name "0".
    """
    ax, last = style.axes(3.0), len(leads)
    named = [*((int(name.rstrip("+")) - last, f"{int(name) - last}", each) for name, each in leads.items())]
    named += [(int(name.rstrip("+")), name, each) for name, each in lags.items()]
    at, names, shown = zip(*named, strict=True)
    colours = [style.colours.soft if place < 0 else style.colours.accent for place in at]
    ax.axhline(0, color=style.colours.soft, lw=0.9, ls=DOTTED)
    if leads:
        ax.axvline(-0.5, color=style.colours.soft, lw=0.9, ls=DASHED)
    ax.vlines(at, [each.lower for each in shown], [each.upper for each in shown], colors=colours, lw=5,
              alpha=0.28)  # fmt: skip
    ax.scatter(at, [each.mean for each in shown], c=colours, s=25, lw=0, zorder=3)
    ax.set_xticks(at, names)
    label_axes(ax, "periods since the adoption", label)
    return ax


@chart
def propensities(style: ChartStyle, answer: TreatmentEffects) -> Any:
    """Draw the fitted probability of being treated: rows that were above the axis, the others below."""
    if answer.propensity is None or answer.dose is not None:
        raise SettingsError(
            "no probability of being treated was fitted to draw by arm: see plot_balance()",
            field=None,
            code="not_applicable",
        )
    ax, arms = style.axes(2.8), (answer.is_treated, ~answer.is_treated)
    labels = ("treated", "not treated") if not answer.arms else (answer.arm, "other arms")
    for own, sign, colour, label in zip(
        arms, (1, -1), (style.colours.accent, style.colours.fair), labels, strict=True
    ):
        counts = np.histogram(answer.propensity[own], BINS)[0]
        ax.bar(
            BINS[:-1], sign * counts, np.diff(BINS), align="edge", color=colour, alpha=0.8, label=short(label)
        )
    ax.axhline(0, color=style.colours.soft, lw=0.9)
    ax.set_xlim(0, 1)
    label_axes(ax, "fitted probability of being treated", "rows")
    ax.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    legend_above(ax, ncols=2)
    return ax


@chart
def sensitivity(style: ChartStyle, of: Sensitivity, neutral: float = 0.0) -> Any:
    """Draw the average with its interval by the shift of a hidden cause, and where it is none."""
    ax, (shift, mean, lower, upper) = style.axes(3.0), np.array(of.curve).T
    ax.fill_between(shift, lower, upper, color=style.colours.accent, alpha=0.2, lw=0)
    ax.plot(shift, mean, color=style.colours.accent, lw=1.4)
    ax.axhline(neutral, color=style.colours.soft, lw=0.9, ls=DOTTED)
    if of.shift != neutral:
        ax.axvline(of.shift, color=style.colours.fair, lw=1.1, ls=DASHED)
    label_axes(
        ax,
        f"{'factor of times' if neutral else 'shift of the outcome'} by a hidden common cause",
        "average effect",
    )
    return ax
