"""Named columns of answers, in the order of CSV and Arrow answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sampler.posterior.core.intervals import Interval


def percent(share: float) -> str:
    """Format a share as the per cent in a column's name, exactly: 0.9 is "90", 0.975 "97.5"."""
    return format((Decimal(repr(share)) * 100).normalize(), "f")


def by_class(named: Mapping[str, Any], classes: Sequence[str] | None) -> dict[str, Any]:
    """Split columns [row, class] by class: ``mean_setosa``, ``lower_90_setosa``, ``set_90_setosa``."""
    if classes is None:
        return dict(named)
    separate: dict[str, Any] = {}
    for name, values in named.items():
        if isinstance(values, np.ndarray) and values.ndim == 2:
            separate |= {f"{name}_{label}": values[:, k] for k, label in enumerate(classes)}
        else:
            separate[name] = values
    return separate


def without_infinity(values: NDArray[Any]) -> NDArray[Any]:
    """Return figures with NaN for infinite ends of calibrated intervals, which are empty cells in tables."""
    return np.where(np.isinf(values), np.nan, values) if values.dtype == np.float64 else values


def ends_of(intervals: Sequence[Interval]) -> dict[str, Any]:
    """Name the ends of intervals as columns: ``lower_90``, ``upper_90`` and so on."""
    return {
        f"{end}_{percent(interval.level)}": getattr(interval, end)
        for interval in intervals
        for end in ("lower", "upper")
    }
