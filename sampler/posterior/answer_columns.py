"""A prediction as named columns, in the order of CSV and Arrow answers."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.row_flags import as_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sampler.data.row_flags import Flag
    from sampler.posterior.prediction import Prediction
    from sampler.posterior.row_diagnostics import Errors

    Floats = NDArray[np.float64]


def percent(share: float) -> str:
    """Format a share as the per cent in a column's name, exactly: 0.9 is "90", 0.975 "97.5"."""
    return format((Decimal(repr(share)) * 100).normalize(), "f")


def columns(
    prediction: Prediction,
    *,
    only_mean: bool = False,
    errors: Errors | None = None,
    rhat: Floats | None = None,
    samples: Floats | None = None,
    flags: Sequence[Sequence[Flag]] | None = None,
) -> dict[str, Any]:
    """Arrange a prediction as columns by name.

    Parameters
    ----------
    prediction
        The prediction; its intervals become ``lower_90``, ``upper_90`` and so on, its quantiles
        ``quantile_5``, its prediction sets ``set_90``.
    only_mean
        Leave out ``sd``.
    errors
        Monte Carlo errors: ``mcse_mean``, ``mcse_lower_90`` and so on.
    rhat
        float64 [row], column ``rhat``.
    samples
        float64 [row, draw], columns ``draw_1``, ``draw_2`` and so on.
    flags
        Unusual cells of each row, column ``flags``, as text.

    Returns
    -------
    dict
        float64 [row] or [row, class] by name; sets are bool [row, class], ``flags`` is a list of text.

    """
    named: dict[str, Any] = {"mean": prediction.mean}
    if not only_mean:
        named["sd"] = prediction.sd
    named |= _bounds("", prediction)
    named |= {f"set_{percent(each.level)}": each.members for each in prediction.sets}
    if errors is not None:
        named |= {"mcse_mean": errors.mean, **_bounds("mcse_", errors)}
    if rhat is not None:
        named["rhat"] = rhat
    if samples is not None:
        named |= {f"draw_{k + 1}": samples[..., k] for k in range(samples.shape[-1])}
    if flags is not None:
        named["flags"] = [as_text(row) for row in flags]
    return named


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


def are_finite(prediction: Prediction) -> bool:
    """Tell whether all figures are finite; a target near the largest float64 may overflow.

    Ends of calibrated intervals may be infinite.
    """
    bounds = [] if prediction.interval == "calibrated" else [*_bounds("", prediction).values()]
    return all(bool(np.isfinite(values).all()) for values in (prediction.mean, prediction.sd, *bounds))


def _bounds(prefix: str, estimates: Prediction | Errors) -> dict[str, Floats]:
    bounds = {}
    for level, lower, upper in estimates.intervals:
        bounds[f"{prefix}lower_{percent(level)}"] = lower
        bounds[f"{prefix}upper_{percent(level)}"] = upper
    return bounds | {f"{prefix}quantile_{percent(q)}": values for q, values in estimates.quantiles}
