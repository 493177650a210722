"""Rows and small fits of series, for tests of forecasts."""

import numpy as np

from sampler.definitions.forecast import Forecasting
from sampler.forecasts.history import History
from sampler.forecasts.steps import NUMBER, Step

SHORT = {"num_trees": 10, "num_chains": 1, "num_burnin": 20, "num_draws": 25, "thin": 1, "progress": False}


def shops(count: int = 3, weeks: int = 48, seed: int = 0) -> tuple[dict, np.ndarray]:
    """Simulate months of shops with promotions: columns, and sales above 0."""
    rng = np.random.default_rng(seed)
    names = [f"s{number}" for number in range(count) for _ in range(weeks)]
    month = np.tile(np.arange(weeks), count)
    promo = rng.uniform(size=count * weeks) < 0.2
    level = np.repeat(rng.uniform(2, 4, count), weeks) + 0.3 * np.sin(2 * np.pi * month / 12) + 0.5 * promo
    times = (np.datetime64("2019-01") + month).astype("datetime64[M]")
    table = {
        "month": [str(each) for each in times],
        "shop": names,
        "promo": promo,
        "region": ["north" if name in ("s0", "s1") else "south" for name in names],
    }
    return table, np.exp(level + 0.1 * rng.normal(size=count * weeks))


def rows_of(table: dict, which) -> dict:
    """Select rows of a table."""
    return {name: [values[row] for row in np.flatnonzero(which)] for name, values in table.items()}


def history_of(*series, horizon: int = 3, season: tuple[int, ...] = ()) -> History:
    """Make a history of series of numbers at the steps 0, 1, .."""
    asked = Forecasting("t", horizon, ("s",) if len(series) > 1 else (), season=season)
    keys = tuple((str(number),) for number in range(len(series))) if len(series) > 1 else ((),)
    step = Step("number", 1, 0, NUMBER)
    return History(asked, "y", step, keys, (False,) * (len(series) > 1), 0, np.array(series), {}, {}, {})
