"""Tables of units in several periods that adopt a treatment, with known effects."""

from typing import Any

import numpy as np

NOISE = 0.5


def panel(
    seed: int, kind: str = "level", units: int = 60, periods: int = 8, effect: float = 1.0
) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Return a table with the columns year, x, unit and first, outcomes, and effects [row], by chance.

    A third of the units adopts at 4, another at 6, the others never; untreated outcomes rise by .3 a period.
    "level": those that adopt first are higher by 1; "trend": they have higher x, with which trends rise;
    "serial": errors have the correlation .6 from one period to the next. The effect is
    1 + .4 min(lag, 3) + .5 [x > 0], times `effect`.
    """
    rng = np.random.default_rng(seed)
    x, third = rng.normal(size=units), np.arange(units) % 3
    if kind == "trend":
        third[np.argsort(-(x + 0.7 * rng.normal(size=units)))] = np.arange(units) * 3 // units
    first = np.array([4.0, 6.0, np.nan])[third]
    level = rng.normal(size=units) + (third == 0)
    noise = rng.normal(size=(units, periods))
    if kind == "serial":
        for period in range(1, periods):
            noise[:, period] = 0.6 * noise[:, period - 1] + 0.8 * noise[:, period]
    year = np.arange(1, periods + 1)
    lag = year - first[:, None]
    adds = 1 + 0.4 * np.minimum(lag, 3) + 0.5 * (x > 0)[:, None]
    adds = effect * np.where(lag >= 0, adds, 0.0)
    trend = 0.3 * x[:, None] * (kind == "trend") + 0.3
    y = level[:, None] + trend * year + adds + NOISE * noise
    table = {
        "year": np.tile(year, units).astype(float),
        "x": np.repeat(x, periods),
        "unit": [f"u{k}" for k in np.repeat(np.arange(units), periods)],
        "first": np.repeat(first, periods),
    }
    return table, y.reshape(-1), adds.reshape(-1)
