"""Charts of figures side by side with matplotlib (optional): interactions and contrasts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.errors import SettingsError
from sampler.posterior.charts.figure import ACCENT, SOFT, chart, height_of, new_axes, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.posterior.results.contrasts import Contrast
    from sampler.posterior.results.interactions import Interactions

MOST_LINES = 20


@chart
def draw_interactions(pairs: Interactions, ax: Any = None) -> Any:
    """Draw the strength of each pair with its interval, the strongest on top."""
    names = [f"{a} : {b}" for a, b in pairs.pairs]
    ax = _draw_lines(names, pairs.strength, pairs.strength_lower, pairs.strength_upper, ax)
    ax.set_xlim(left=0)
    ax.set_xlabel(f"strength: sd over rows, of {pairs.scale}", parse_math=False)
    return ax


@chart
def draw_contrast(contrast: Contrast, ax: Any = None) -> Any:
    """Draw the averages of a contrast and those of its groups, with their intervals."""
    if np.ndim(contrast.average.mean):
        raise SettingsError(
            "charts of contrasts are for numbers and two classes: see `to_pandas()` for each class",
            field=None,
            code="not_applicable",
        )
    named = contrast.named_estimates()
    mean, lower, upper = np.array([each[:3] for each in named.values()], dtype=float).T
    ax = _draw_lines(list(named), mean, lower, upper, ax)
    ax.axvline(0, color=SOFT, lw=0.9, ls=":")
    ax.set_xlabel(f"{contrast.difference}; {100 * contrast.level:g}% intervals", parse_math=False)
    return ax


def _draw_lines(
    names: Sequence[str], mean: NDArray[Any], lower: NDArray[Any], upper: NDArray[Any], ax: Any
) -> Any:
    """Draw the first figures as dots on their intervals, from top to bottom."""
    shown = min(len(names), MOST_LINES)
    ax = new_axes(ax, height_of(shown))
    at = np.arange(shown)[::-1]
    ax.hlines(at, lower[:shown], upper[:shown], color=ACCENT, lw=5, alpha=0.28)
    ax.plot(mean[:shown], at, ls="none", marker="o", ms=5, mew=0, color=ACCENT)
    ax.set_yticks(at, [short(name) for name in names[:shown]], parse_math=False)
    ax.set_ylim(-0.7, shown - 0.3)
    return ax
