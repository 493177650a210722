"""Charts that compare predictions with known outcomes, with matplotlib (optional)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.posterior.charts.figure import ACCENT, SOFT, label_axes, short

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DASHED: Any = (0, (4, 3))


def draw_roc(
    counts: Sequence[Mapping[str, float]], auc: Mapping[str, float] | None, name: str, ax: Any
) -> Any:
    """Draw the ROC curve of two classes, of which `name` is the second.

    `counts` are ``confusion_by_threshold`` of `class_scores`, `auc` is the area under the curve with its
    interval, for the legend.
    """
    hit, false_alarm, missed, passed = (
        np.array([entry[kind] for entry in counts], np.float64)
        for kind in ("true_positives", "false_positives", "false_negatives", "true_negatives")
    )
    with np.errstate(invalid="ignore"):  # without rows of one of the classes
        others, found = false_alarm / (false_alarm + passed), hit / (hit + missed)
    label = "" if auc is None else f"area {auc['value']:.3f} ({auc['lower']:.3f} to {auc['upper']:.3f})"
    ax.plot([0, 1], [0, 1], color=SOFT, lw=0.9, ls=DASHED)
    ax.plot([1, *others, 0], [1, *found, 0], color=ACCENT, lw=1.6, label=label)
    label_axes(ax, f"share of the others taken for {short(name)}", f"share of {short(name)} found")
    if label:
        ax.legend(frameon=False, loc="lower right")
    return ax
