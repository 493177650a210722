"""Totals over more series than memory has paths of: those of a set are sampled in parts, in its order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.forecasts.answers import Forecast, ForecastTotals
from sampler.forecasts.forecaster import Forecaster, ReadPlan

PART = 4_000  # series times steps of which there are paths at once


@dataclass
class _Paths:
    """Paths [path, series, step] of some series, sampled in parts when they are looked at in order."""

    forecaster: Forecaster
    plan: ReadPlan | None
    of: Sequence[Any]
    options: tuple[float, str | None, Any]
    report: Callable[[], None] | None
    _first: int = 0
    _part: Floats | None = field(default=None, repr=False)

    def __getitem__(self, at: tuple[slice, int, slice]) -> Floats:
        every, series, steps = at
        if self._part is None or not self._first <= series < self._first + self._part.shape[1]:
            if self.report is not None:
                self.report()
            self._first, size = series, max(1, PART // self.forecaster.horizon)
            some, (level, interval, present) = self.of[series : series + size], self.options
            self._part = self.forecaster.forecast(
                self.plan, level, interval, some, present, num_threads=1
            ).paths
        return self._part[every, series - self._first, steps]


def totals_in_parts(
    forecaster: Forecaster,
    asked: Sequence[tuple[int | tuple[int, int] | None, Sequence[str]]],
    plan: ReadPlan | None = None,
    level: float = 0.9,
    interval: str | None = None,
    series: Sequence[Any] | None = None,
    at: Any = None,
    report: Callable[[], None] | None = None,
    *,
    is_check: bool = False,
) -> Iterator[ForecastTotals]:
    """Sum over steps and sets of series; each answer has the bits of `Forecast.total` of all at once.

    Parameters
    ----------
    forecaster
        The forecaster.
    asked
        Steps and columns that make sets, as `Forecast.total` takes them.
    plan, level, interval, series, at
        As of `Forecaster.forecast`.
    report
        Called before each part; what it raises ends the answer.
    is_check
        Sample nothing, to see what is refused and which sets there are.

    Raises
    ------
    DataError, SettingsError
        As `Forecaster.forecast` and `Forecast.total`.

    """
    history = forecaster.history
    level, interval, claim = forecaster.checked(level, interval)
    chosen = forecaster.choose(series, at)[0].tolist()
    named = {**history.static, **history.columns_of(range(len(history.keys)))}
    nothing = np.empty((len(chosen), forecaster.horizon))
    for steps, by in asked:
        sets: dict[Any, list[int]] = {}
        for number in chosen:
            sets.setdefault(tuple(named[name][number] for name in by if name in named), []).append(number)
        order = [number for each in sets.values() for number in each]
        keys = [list(history.keys[number]) for number in order]
        paths: Any = _Paths(forecaster, plan, keys, (level, interval, at), report)
        yield Forecast(
            history.columns_of(order),
            [],
            np.broadcast_to(0.0, (1, *nothing.shape)) if is_check else paths,
            *(nothing, nothing, nothing),
            [],
            *(level, interval, claim),
            [],
            history.target,
            history.asked.time,
            {name: [values[each] for each in order] for name, values in history.static.items()},
            (history.last.max() - history.last[order]).tolist(),
            forecaster.calibration,
            forecaster.claim_of,
        ).total(steps, by)
