"""Answers of a forecaster: forecasts by series and step, totals over steps, and rehearsals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.special import ndtri

from sampler.array_types import Axes, Floats, Longs
from sampler.data.scalars import counted
from sampler.errors import SettingsError, suggestion
from sampler.forecasts.calibration import (
    ALL,
    PROBABILITIES,
    STEPS,
    TOTALS,
    Calibration,
    nearest_level,
)
from sampler.forecasts.history import History
from sampler.posterior.results.answer import Answer
from sampler.posterior.results.columns import without_infinity

CALIBRATED, PREDICTIVE = "calibrated", "predictive"
TENTHS = np.arange(1, 10) / 10


def factor_of(calibration: Calibration, kind: str, level: float, interval: str) -> float:
    """Return by how much intervals of a kind are widened; 1 for predictive ones."""
    return calibration.factor(kind, level) if interval == CALIBRATED else 1.0


def interval_of(paths: Floats, level: float, factor: float, *, counts: bool) -> tuple[Floats, Floats, Floats]:
    """Return the median of paths, and the ends of an interval, by what is behind the first axis."""
    probabilities = (0.5, (1 - level) / 2, (1 + level) / 2)
    middle, lower, upper = np.quantile(paths, probabilities, axis=0)
    half = 0.5 * counts
    if counts:
        middle = np.round(middle)
    lower = middle - factor * (middle - lower + half) + half
    upper = middle + factor * (upper - middle + half) - half
    if counts:
        lower, upper = np.maximum(np.floor(lower), 0.0), np.maximum(np.ceil(upper), 0.0)
    return middle, lower, upper


BySet = Annotated[Floats, Axes("set")]


@dataclass(frozen=True, repr=False, eq=False)
class Forecast(Answer):
    """Forecasts of the next steps of series; as a table (`to_pandas`) a line for each series and step.

    Attributes
    ----------
    series
        The columns of series, a value for each series.
    time
        Times of the steps of each series, as the column has them.
    paths
        Outcomes of successive steps, float64 [path, series, step]: anything is a function of these.
    median, lower, upper
        float64 [series, step].
    flags
        What is unusual about each series: "stale", "ends_early", "new".
    level, interval
        Probability of the intervals; "calibrated" by rehearsals, or "predictive" as paths have them.
    claim
        What is known of how often the intervals hold, in words.
    warnings
        Sentences about series that are left out, or unusual.
    target, time_name
        Names of the outcome and of the column of times.
    static
        Columns that don't change within a series, a value for each.
    behind
        How many steps before the newest time each series ends.
    calibration, claim_of
        The rehearsals, and when they were.

    """

    series: dict[str, list[Any]]
    time: list[list[Any]]
    paths: Floats
    median: Floats
    lower: Floats
    upper: Floats
    flags: list[list[str]]
    level: float
    interval: str
    claim: str
    warnings: list[str]
    target: str
    time_name: str
    static: Mapping[str, Sequence[Any]]
    behind: Sequence[int]
    calibration: Calibration
    claim_of: Mapping[str, Any]

    def columns(self) -> dict[str, Any]:
        """Arrange it by name: columns of series, time, step, median, lower, upper, flags; NaN for no end."""
        count, horizon = self.median.shape
        named = {
            name: [each for each in values for _ in range(horizon)] for name, values in self.series.items()
        }
        return named | {
            self.time_name: [each for times in self.time for each in times],
            "step": np.tile(np.arange(1, horizon + 1), count),
            "median": self.median.reshape(-1),
            "lower": without_infinity(self.lower.reshape(-1)),
            "upper": without_infinity(self.upper.reshape(-1)),
            "flags": [", ".join(each) for each in self.flags for _ in range(horizon)],
        }

    def some_paths(self, number: int) -> Floats:
        """Return so many paths, of all members alike: they are in the order of these."""
        number = min(number, len(self.paths))
        return np.asarray(self.paths[np.linspace(0, len(self.paths) - 1, number).round().astype(int)])

    def total(
        self,
        steps: int | tuple[int, int] | None = None,
        by: str | Sequence[str] | None = None,
        interval: str | None = None,
        level: float | None = None,
    ) -> ForecastTotals:
        """Sum outcomes over steps, and over the series of sets, path by path.

        Parameters
        ----------
        steps
            First and last step, such as a lead time ``(1, 6)``, or the last; None for all. They count from
            the newest end of the series of a set.
        by
            Columns whose equal values make a set: of series, or others that don't change within one; None
            makes one set of all series.
        interval
            "calibrated", widened by what totals were in rehearsals, or "predictive"; None as here.
        level
            Probability of the intervals; None as here.

        Returns
        -------
        ForecastTotals
            Sums with intervals of their own: those of steps must not be added up.

        Raises
        ------
        SettingsError
            For steps that are not forecast, and columns that aren't known of series.

        """
        interval = self.interval if interval is None else interval_named(interval, self.calibration)
        level = check_level(self.level if level is None else level)
        names = [by] if isinstance(by, str) else list(by or [])
        known = {**self.static, **self.series}
        for name in names:
            if name not in known:
                raise SettingsError(
                    f"by names {name!r}, which isn't known of series{suggestion(name, known)}; "
                    f"there are {', '.join(known) or 'none'}",
                    field="by",
                    code="unknown",
                )
        sets: dict[tuple[Any, ...], list[int]] = {}
        for row in range(len(self.behind)):
            sets.setdefault(tuple(known[name][row] for name in names), []).append(row)
        ends = [[self.behind[row] for row in rows] for rows in sets.values()]
        apart = max(max(each) - min(each) for each in ends)
        horizon = self.median.shape[1]
        asked: Any = (1, max(horizon - apart, 1)) if steps is None else steps
        asked = (1, asked) if np.ndim(asked) == 0 else asked
        whole = len(asked) == 2 and all(isinstance(each, int | np.integer) for each in asked)
        if not whole or not 1 <= asked[0] <= asked[1] <= horizon:
            raise SettingsError(
                f"steps must be from 1 to {horizon}, the horizon: a last step, or a first and a last, not "
                f"{steps!r}",
                field="steps",
                code="out_of_range",
            )
        first, last = int(asked[0]), int(asked[1])
        claims = [TOTALS if len(rows) == 1 else ALL for rows in sets.values()]
        factors = {kind: factor_of(self.calibration, kind, level, interval) for kind in {*claims}}
        counts = self.calibration.counts
        figures = [
            interval_of(self._together(rows, first, last).sum(axis=1), level, factors[kind], counts=counts)
            for rows, kind in zip(sets.values(), claims, strict=True)
        ]
        median, lower, upper = np.array(figures).T
        return ForecastTotals(
            {name: [key[j] for key in sets] for j, name in enumerate(names)},
            [len(rows) for rows in sets.values()],
            (first, last),
            median,
            lower,
            upper,
            level,
            interval,
            self._claim(max(claims, key=claims.count), level, interval, last if first == 1 else None),
            self.target,
        )

    def lead_times(self) -> list[ForecastTotals]:
        """Return the totals of all series over each lead time: the first step, the first two, and so on.

        Each is what `total` gives of it; those beyond a series that ends early are left out.
        """
        apart = max(self.behind) - min(self.behind)
        last = self.median.shape[1] - apart
        if last < 1:
            return []
        rows = range(len(self.behind))
        kind = TOTALS if len(rows) == 1 else ALL
        sums = np.cumsum(self._together(rows, 1, last), axis=1)
        factor = factor_of(self.calibration, kind, self.level, self.interval)
        median, lower, upper = interval_of(sums, self.level, factor, counts=self.calibration.counts)
        return [
            ForecastTotals(
                {},
                [len(rows)],
                (1, lead),
                median[lead - 1 : lead],
                lower[lead - 1 : lead],
                upper[lead - 1 : lead],
                self.level,
                self.interval,
                self._claim(kind, self.level, self.interval, lead),
                self.target,
            )
            for lead in range(1, last + 1)
        ]

    def _claim(self, kind: str, level: float, interval: str, lead: int | None) -> str:
        if interval != CALIBRATED:
            return "Intervals are those of the paths."
        return self.calibration.claim(kind, level, **self.claim_of, lead=lead)

    def _together(self, rows: Sequence[int], first: int, last: int) -> Floats:
        """Sum paths of series at the same times, [path, step]: steps count from the newest end of theirs."""
        ahead = [self.behind[row] - min(self.behind[each] for each in rows) for row in rows]
        if (most := self.median.shape[1] - max(ahead)) < last:
            row = rows[int(np.argmax(ahead))]
            name = ", ".join(f"{column} {values[row]}" for column, values in self.series.items())
            raise SettingsError(
                f"{name} ends {counted(max(ahead), 'step')} before others, so step {last} of these is beyond "
                f"its horizon: {f'steps up to {most}, or ' if most > 0 else ''}forecast without it (series=)",
                field="steps",
                code="out_of_range",
            )
        each = (self.paths[:, row, first - 1 + by : last + by] for row, by in zip(rows, ahead, strict=True))
        return np.asarray(sum(each))

    def __str__(self) -> str:
        count, horizon = self.median.shape
        of = f"{self.target}: {count} series, {counted(horizon, 'step')}"
        return f"{of}, {self.level:.0%} intervals\n{self.claim}"


@dataclass(frozen=True, repr=False, eq=False)
class ForecastTotals(Answer):
    """Totals over steps and sets of series, with intervals of their own.

    Attributes
    ----------
    level, interval
        As of `Forecast`.
    target
        Name of the outcome.

    """

    sets: Annotated[dict[str, list[Any]], "The value of each set, by column."]
    count: Annotated[list[int], "Series of each set."]
    steps: Annotated[tuple[int, int], "First and last step."]
    median: BySet
    lower: BySet
    upper: BySet
    level: float
    interval: str
    claim: Annotated[str, "What is known of how often such intervals hold."]
    target: str

    def columns(self) -> dict[str, Any]:
        """Arrange it by name with a line for each set: its values, series, median, lower, upper."""
        ends = {"median": self.median, "lower": self.lower, "upper": self.upper}
        return self.sets | {"number_of_series": self.count} | ends

    def lines(self) -> dict[str, Any]:
        """Arrange it as `columns`, with the steps: a part of a table of several totals."""
        first, last = (np.full(len(self.count), step) for step in self.steps)
        return {"first_step": first, "last_step": last} | self.columns()

    def __str__(self) -> str:
        first, last = self.steps
        return (
            f"total of {self.target} over steps {first} to {last}, {self.level:.0%} intervals\n{self.claim}"
        )


@dataclass(frozen=True, repr=False, eq=False)
class Rehearsals(Answer):
    """Rehearsals: what was forecast and what came; as a table a line for each origin and step.

    Attributes
    ----------
    origin
        Time of the last step that was seen, by line.
    step
        Step ahead, by line.
    number
        Outcomes that came, by line.
    inside, loss, naive_loss
        Share inside the interval, and the mean quantile loss (.1 to .9) of the forecast and of the last
        season's outcomes, by line.
    level
        Probability of the interval: that which was rehearsed nearest to what is asked.
    series
        Number of series that were rehearsed.

    """

    origin: list[Any]
    step: Longs
    number: Longs
    inside: Floats
    loss: Floats
    naive_loss: Floats
    level: float
    series: int

    @classmethod
    def of(cls, calibration: Calibration, history: History, level: float) -> Rehearsals:
        """Summarise the rehearsals of a calibration."""
        y = calibration.steps.y
        level = nearest_level(level)
        inside = calibration.inside(STEPS, level)
        tenths = np.interp(TENTHS, PROBABILITIES, np.arange(len(PROBABILITIES))).round().astype(int)
        loss = quantile_loss(y, calibration.steps.quantiles[tenths])
        season = (history.asked.season or history.step.seasons)[0]
        spread = calibration.naive_sd[:, :, None] * np.sqrt(1 + np.arange(calibration.horizon) // season)
        naive = quantile_loss(y, calibration.naive + spread * ndtri(TENTHS)[:, None, None, None])
        number = (~np.isnan(y)).sum(axis=1)

        def by_line(each: Floats) -> Floats:
            total = np.where(np.isnan(each), 0.0, each).sum(axis=1)
            return np.asarray(
                total / np.where((~np.isnan(each)).sum(axis=1) > 0, (~np.isnan(each)).sum(axis=1), np.nan)
            )

        horizon = calibration.horizon
        return cls(
            [history.step.text(each) for each in calibration.origins for _ in range(horizon)],
            np.tile(np.arange(1, horizon + 1), len(calibration.origins)),
            number.reshape(-1),
            by_line(inside).reshape(-1),
            by_line(loss).reshape(-1),
            by_line(naive).reshape(-1),
            level,
            len(calibration.keys),
        )

    def columns(self) -> dict[str, Any]:
        """Arrange it by name: origin, step, number, inside, loss, naive_loss."""
        return {
            name: getattr(self, name) for name in ("origin", "step", "number", "inside", "loss", "naive_loss")
        }

    def __str__(self) -> str:
        if not len(self.step):
            return "no rehearsals"
        share = float(np.nansum(self.inside * self.number) / self.number.sum())
        rel = float(np.nansum(self.loss * self.number) / np.nansum(self.naive_loss * self.number))
        return (
            f"{len({*self.origin})} rehearsals: {share:.0%} of {int(self.number.sum())} outcomes were inside "
            f"{self.level:.0%} intervals; loss {rel:.2f} of that of the last season's outcomes"
        )


def quantile_loss(y: Floats, quantiles: Floats) -> Floats:
    """Return the mean loss of the quantiles .1 to .9 on the first axis, of the shape of y."""
    levels = TENTHS.reshape(-1, *[1] * y.ndim)
    apart = y - quantiles
    return np.asarray(np.mean(2 * np.maximum(levels * apart, (levels - 1) * apart), axis=0))


def interval_named(interval: str | None, calibration: Calibration) -> str:
    """Return the kind of interval; None is calibrated where there were rehearsals; raise SettingsError."""
    if interval is None:
        return CALIBRATED if calibration else PREDICTIVE
    if interval not in (CALIBRATED, PREDICTIVE):
        message = f"interval must be {CALIBRATED} or {PREDICTIVE}, not {interval!r}"
        raise SettingsError(message, field="interval", code="not_accepted")
    if interval == CALIBRATED and not calibration:
        raise SettingsError(
            "no rehearsal was made, so there are no calibrated intervals: interval='predictive', or fit to a "
            "longer history",
            field="interval",
            code="unavailable",
        )
    return interval


def check_level(level: Any) -> float:
    """Return the probability of an interval; raise SettingsError for none."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level <= 0.99:
        raise SettingsError(
            f"level must be a number above 0 and up to 0.99, not {level!r}",
            field="level",
            code="out_of_range",
        )
    return float(level)
