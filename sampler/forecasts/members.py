"""Members of a forecaster: what each learns of series, from which rows, and its lags (docs/forecasts.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sampler.array_types import Bools, Floats, Longs
from sampler.forecasts.history import History

SCALES = ("identity", "log", "counts")
LAGS, LAGS_OF_DAYS = 4, 7
MOST_PHASES = 24  # of a season that is a category; others are two pairs of sines
FEW = 8  # values beyond two seasons that a series needs for differences of seasons
FULL_ROWS = 40  # from which on rows without all lags are left out
OWN_STEPS = 24.0  # differences of a series that its own scale should rest on
COUNTED = 21  # newest values of counts that are averaged, where there is no season
NUGGET = 1e-3  # of the scale: noise that is added, so that series without any can be drawn
YEARS = 730  # days of history from which on the month of a day counts


@dataclass(frozen=True)
class Member:
    """Model of a forecaster, by what it learns.

    Attributes
    ----------
    difference
        "last", "season" or "none".
    scale
        "identity", "log", or "counts", which are learnt as they are.
    lags, season
        Number of newest values, and of steps after which the season returns; 1 for none.

    """

    difference: str
    scale: str
    lags: int
    season: int

    @property
    def name(self) -> str:
        """Name of the member: "season, log"."""
        return "counts" if self.scale == "counts" else f"{self.difference}, {self.scale}"

    @property
    def back(self) -> int:
        """Number of steps back to the value that is subtracted; 1 where there is none."""
        return self.season if self.difference == "season" else 1

    @property
    def _window(self) -> int:
        if self.scale == "counts":
            return 3 * self.season if self.season > 1 else COUNTED
        return self.season if self.season > 1 else self.lags

    @property
    def _steps(self) -> list[int]:
        further = {self.season} if self.difference == "season" else {self.season, self.season + 1}
        steps = {*range(1, self.lags + 1), *(further if self.season > 1 else ())}
        return sorted(steps - ({1} if self.difference == "last" else set()))

    @property
    def reach(self) -> int:
        """Number of values before a step of which its lags are made."""
        most = max(*self._steps, self._window, self.back)
        return most + self.season if self.difference == "season" else most

    @property
    def least(self) -> int:
        """Number of values before a step without which it isn't learnt."""
        return self.season + self.lags if self.difference == "season" else self.lags

    def columns(self, target: str) -> list[str]:
        """Name the lags."""
        of = "change" if self.difference == "season" else "lag"
        names = [f"{target} {of} {step}" for step in self._steps] + [f"{target} mean"]
        return names + ([f"{target} share", f"{target} since"] if self.scale == "counts" else [])

    def features(self, past: Floats) -> Floats:
        """Compute the lags, float64 [.., lag], of the last `reach` values before a step, [.., value]."""
        at = [past[..., -step] for step in self._steps]
        mean = _mean(past[..., -self._window :])
        if self.difference == "season":
            m = self.season
            at = [one - past[..., -step - m] for one, step in zip(at, self._steps, strict=True)]
            mean = mean - _mean(past[..., -2 * m : -m])
        elif self.difference == "last":
            at, mean = [one - past[..., -1] for one in at], mean - past[..., -1]
        more = []
        if self.scale == "counts":
            sold = past[..., -self._window :] > 0
            since = np.where(sold.any(axis=-1), np.argmax(sold[..., ::-1], axis=-1), self._window)
            more = [sold.mean(axis=-1), since.astype(np.float64)]
        return np.stack([*at, mean, *more], axis=-1)

    def learnt(self, y: Floats) -> Floats:
        """Return g(y); NaN where there is none."""
        if self.scale != "log":
            return y
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(y > 0, np.log(y), np.nan)

    def outcome(self, g: Floats) -> Floats:
        """Return the outcomes of values that are learnt."""
        if self.scale != "log":
            return g
        with np.errstate(over="ignore"):
            return np.exp(g)

    def suits(self, history: History) -> Bools:
        """Tell for which series it is: the logarithm for positive outcomes, seasons for two and more."""
        known = ~np.isnan(history.y)
        suits = known.any(axis=1)
        if self.scale == "log":
            suits &= np.all(~known | (history.y > 0), axis=1)
        if self.difference == "season":
            suits &= known.sum(axis=1) >= 2 * self.season + FEW
        return np.asarray(suits)

    def scales(self, history: History, typical: float | None = None) -> Floats:
        """Return the typical size of differences of each series, float64 [series].

        Those of few values are drawn to the `typical` one, by default their median.
        """
        if self.scale == "counts":
            return np.ones(len(history.keys))
        g = self.learnt(history.y)
        sizes = np.full(len(g), np.nan)
        counts = np.zeros(len(g))
        for back in dict.fromkeys((self.season, 1)):
            apart = np.abs(g[:, back:] - g[:, :-back])
            number = (~np.isnan(apart)).sum(axis=1)
            mean = np.where(number > 0, np.nansum(apart, axis=1) / np.maximum(number, 1), np.nan)
            use = (np.isnan(sizes) | (counts < FEW)) & (number > counts) & (mean > 0)
            sizes, counts = np.where(use, mean, sizes), np.where(use, number, counts)
        if typical is None:
            known = sizes[~np.isnan(sizes)]
            typical = float(np.median(known)) if len(known) else 1.0
        own = np.where(np.isnan(sizes), 0.0, np.minimum(counts / OWN_STEPS, 1.0))
        logs = own * np.log(np.where(np.isnan(sizes), 1.0, sizes)) + (1 - own) * np.log(typical)
        return np.asarray(np.exp(logs) if len(g) > 1 or np.isnan(sizes).any() else sizes)

    def anchors(self, scaled: Floats) -> Floats:
        """Return what is subtracted at each step and the next, float64 [series, step + 1]: newest known."""
        if self.difference == "none":
            return np.zeros((len(scaled), scaled.shape[1] + self.back))
        filled = np.concatenate([np.full((len(scaled), self.back), np.nan), scaled], axis=1)
        for at in range(self.back, filled.shape[1]):
            now = filled[:, at]
            filled[:, at] = np.where(np.isnan(now), filled[:, at - self.back], now)
        return filled

    def fixed(
        self, history: History, known: dict[str, Floats], series: Longs, steps: Longs
    ) -> dict[str, Any]:
        """Return the columns that are no lags, of rows of series at numbers of steps.

        `known` are columns known ahead, float64 [series, step] from the start of the history on.
        """
        columns: dict[str, Any] = {}
        for place, length in enumerate(seasons_of(history, self.season)):
            if 1 < length <= MOST_PHASES:
                columns[f"season {place + 1}"] = np.array([f"{each:02}" for each in steps % length])
            elif length > 1:
                for pair in (1, 2):
                    angle = 2 * np.pi * pair * (steps % length) / length
                    columns[f"season {place + 1} sine {pair}"] = np.sin(angle)
                    columns[f"season {place + 1} cosine {pair}"] = np.cos(angle)
        distinct, inverse = np.unique(steps, return_inverse=True)
        months = [history.step.month_of(int(each)) for each in distinct]
        if None not in months:
            columns["month"] = np.array([f"{each:02}" for each in months])[inverse]
        for name, values in known.items():
            at = steps - history.start
            before = at - self.back
            now, then = (
                values[series, at],
                np.where(before >= 0, values[series, np.maximum(before, 0)], np.nan),
            )
            levels = history.levels.get(name)
            if levels is None:
                columns |= {name: now, f"{name} less before": now - then}
            else:
                named = np.array([*levels, None], object)
                columns |= {
                    each: named[np.where(np.isnan(at_), len(levels), at_).astype(int)].tolist()
                    for each, at_ in ((name, now), (f"{name} before", then))
                }
        for name, each in history.static.items():
            columns[name] = [each[row] for row in series.tolist()]
        return columns

    def training(self, history: History, scales: Floats) -> tuple[dict[str, Any], Floats]:
        """Return the columns and outcomes of the rows that it learns from; none without rows."""
        columns, z, *_ = self.training_rows(history, scales)
        short = (history.last.max() - history.first.min()) * history.step.size < YEARS
        if short and "month" not in {*history.known, *history.static}:
            columns.pop("month", None)
        varying = {name: values for name, values in columns.items() if _varies(values)}
        if not varying and len(z):  # steady growth: a column that tells nothing
            mean = f"{history.target} mean"
            varying = {mean: columns[mean] + NUGGET * np.random.default_rng(0).normal(size=len(z))}
        return varying, z

    def training_rows(self, history: History, scales: Floats) -> tuple[dict[str, Any], Floats, Longs, Longs]:
        """Return all columns and outcomes of the rows that it learns from, their series and positions."""
        suits = self.suits(history)
        scaled = self.learnt(history.y) / scales[:, None]
        padded = np.concatenate([np.full((len(scaled), self.reach), np.nan), scaled], axis=1)
        pasts = np.lib.stride_tricks.sliding_window_view(padded, self.reach, axis=1)[:, :-1]
        anchors = self.anchors(scaled)[:, : scaled.shape[1]]
        before = np.arange(scaled.shape[1]) - history.first[:, None]
        usable = suits[:, None] & ~np.isnan(scaled - anchors) & (before >= self.least)
        full = usable & (before >= self.reach)
        series, at = np.nonzero(full if full.sum() >= FULL_ROWS else usable)
        lags = self.features(pasts[series, at])
        columns: dict[str, Any] = dict(zip(self.columns(history.target), lags.T, strict=True))
        columns |= self.fixed(history, dict(history.known), series, at + history.start)
        return columns, (scaled - anchors)[series, at], series, at


def seasons_of(history: History, first: int) -> tuple[int, ...]:
    """Return all seasons: that of the differences, and one beside it."""
    given = history.asked.season or history.step.seasons
    return (first, *given[1:])


def members_of(history: History) -> list[Member]:
    """List what is learnt of a history: counts with many zeros by themselves, else up to six members."""
    season = (history.asked.season or history.step.seasons)[0]
    lags = LAGS_OF_DAYS if season == 7 else LAGS
    if history.are_counts and history.asked.difference == "auto":
        return [Member("none", "counts", lags, season)]
    differences: Sequence[str] = ("last", "season", "none")
    if history.asked.difference != "auto":
        differences = (history.asked.difference,)
    members = [Member(each, scale, lags, season) for each in differences for scale in ("identity", "log")]
    return [
        each for each in members if (each.difference != "season" or season > 1) and each.suits(history).any()
    ]


def _mean(values: Floats) -> Floats:
    """Return the mean of the known values, NaN where less than half are known."""
    known = ~np.isnan(values)
    number = known.sum(axis=-1)
    total = np.where(known, values, 0.0).sum(axis=-1)
    return np.asarray(np.where(2 * number >= values.shape[-1], total / np.maximum(number, 1), np.nan))


def _varies(values: Any) -> bool:
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        known = values[~np.isnan(values)]
        return len(known) > 0 and bool(known.min() < known.max() or len(known) < len(values))
    return len({*(values.tolist() if isinstance(values, np.ndarray) else values)}) > 1
