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
    from sampler.posterior.posterior import Prediction
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
        ``quantile_5``.
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
        float64 [row] or [row, class] by name; ``flags`` is a list of text.

    """
    found: dict[str, Any] = {"mean": prediction.mean}
    if not only_mean:
        found["sd"] = prediction.sd
    found |= _bounds("", prediction)
    if errors is not None:
        found |= {"mcse_mean": errors.mean, **_bounds("mcse_", errors)}
    if rhat is not None:
        found["rhat"] = rhat
    if samples is not None:
        found |= {f"draw_{k + 1}": samples[..., k] for k in range(samples.shape[-1])}
    if flags is not None:
        found["flags"] = [as_text(row) for row in flags]
    return found


def by_class(named: Mapping[str, Any], classes: Sequence[str] | None) -> dict[str, Any]:
    """Split columns [row, class] of more than two classes by class: ``mean_setosa``, ``lower_90_setosa``."""
    if classes is None or len(classes) == 2:
        return dict(named)
    found: dict[str, Any] = {}
    for name, values in named.items():
        if isinstance(values, np.ndarray) and values.ndim == 2:
            found |= {f"{name}_{label}": values[:, k] for k, label in enumerate(classes)}
        else:
            found[name] = values
    return found


def are_finite(prediction: Prediction) -> bool:
    """Tell whether all figures are finite; a target near the largest float64 may overflow."""
    bounds = [*_bounds("", prediction).values()]
    return all(bool(np.isfinite(values).all()) for values in (prediction.mean, prediction.sd, *bounds))


def _bounds(prefix: str, given: Prediction | Errors) -> dict[str, Floats]:
    found = {}
    for level, lower, upper in given.intervals:
        found[f"{prefix}lower_{percent(level)}"] = lower
        found[f"{prefix}upper_{percent(level)}"] = upper
    return found | {f"{prefix}quantile_{percent(q)}": values for q, values in given.quantiles}
