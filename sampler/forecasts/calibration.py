"""Calibration by rehearsals: forecasts of the newest part of a history from several origins, and what came.

Intervals are widened by the root of the factor by which they should have been wider there, and never made
narrower; what that promises is an estimate (docs/forecasts.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np

from sampler.array_types import Floats, Longs
from sampler.data.scalars import counted
from sampler.errors import DataError
from sampler.forecasts.history import History, SeriesKey
from sampler.forecasts.members import Member
from sampler.forecasts.paths import Fitted, Start, sample_paths

LEVELS = (
    0.2,
    0.4,
    0.5,
    0.6,
    0.8,
    0.9,
    0.95,
)  # at which factors are judged; between them they are interpolated
PROBABILITIES = np.array(sorted({0.5, *((1 - x) / 2 for x in LEVELS), *((1 + x) / 2 for x in LEVELS)}))
ORIGINS, FEWEST = 10, 3
NEWEST = 0.3  # of the steps, from which on origins are
ROWS = 400  # rehearsed starts at most: of many series some are rehearsed
FEW_PATHS = 6  # series, above which a third of the paths is enough
LARGEST = 10.0  # factor
FEW_WINDOWS = 5.0  # that don't overlap, below which a share of totals isn't told
PATHS = 1_000
STEPS, TOTALS, ALL = "steps", "totals", "all"


@dataclass(frozen=True)
class Judged:
    """Outcomes of rehearsals and what was forecast of them, [origin, series, step].

    Attributes
    ----------
    y
        Outcomes, float64, NaN where there was none.
    quantiles
        Their quantiles at `PROBABILITIES`, float64 [probability, origin, series, step].

    """

    y: Floats
    quantiles: Floats

    @classmethod
    def of(cls, y: Floats, paths: Floats) -> Self:
        """Judge paths [path, origin, series, step]."""
        return cls(y, np.quantile(paths, PROBABILITIES, axis=0))

    def ends(self, level: float) -> tuple[Floats, Floats, Floats]:
        """Return the median and the ends of intervals of a level of `LEVELS`."""
        at = [int(np.argmin(np.abs(PROBABILITIES - q))) for q in (0.5, (1 - level) / 2, (1 + level) / 2)]
        middle, lower, upper = self.quantiles[at]
        return middle, lower, upper

    def scores(self, level: float, half: float) -> Floats:
        """Compute how many times wider each interval should have been; NaN where no outcome came.

        `half` is half the distance of values: .5 of counts.
        """
        middle, lower, upper = self.ends(level)
        apart = np.where(self.y >= middle, upper - middle, middle - lower) + half
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.abs(self.y - middle) / apart
        return np.where(np.abs(self.y - middle) == 0, 0.0, score)


@dataclass(frozen=True)
class Calibration:
    """Rehearsals of a forecaster, by which its intervals are widened.

    Attributes
    ----------
    origins
        Number of the last step that each rehearsal saw.
    keys
        The series that were rehearsed.
    counts
        Whether outcomes are counts.
    steps, totals, together
        What came at each step, in sums over the first steps, and in these sums over all series.
    naive, naive_sd
        Outcomes a season before, [origin, series, step], and the standard deviation of such differences
        [origin, series].

    """

    origins: tuple[int, ...]
    keys: tuple[SeriesKey, ...]
    counts: bool
    steps: Judged
    totals: Judged
    together: Judged
    naive: Floats
    naive_sd: Floats

    @classmethod
    def none(cls) -> Self:
        """Return that of a forecaster without rehearsals."""
        empty = Judged(np.zeros((0, 0, 0)), np.zeros((len(PROBABILITIES), 0, 0, 0)))
        return cls((), (), False, empty, empty, empty, np.zeros((0, 0, 0)), np.zeros((0, 0)))

    def __bool__(self) -> bool:
        return bool(self.origins)

    @property
    def horizon(self) -> int:
        """Number of steps that were rehearsed."""
        return int(self.steps.y.shape[2])

    def judged(self, kind: str) -> Judged:
        """Return what is judged: "steps", "totals" of one series, or totals of "all"."""
        return {STEPS: self.steps, TOTALS: self.totals, ALL: self.together}[kind]

    def windows(self, kind: str, lead: int | None = None) -> float:
        """Return how many rehearsals those are worth that overlap and are of like series: R.

        Of sums over the first steps up to a lead time these overlap less; there are no more than rehearsals.
        """
        steps = lead or self.horizon
        length = float((self.origins[-1] + steps - self.origins[0]) / steps)
        if lead is not None:
            length = min(length, float(len(self.origins)))
        count = self.judged(kind).y.shape[1]
        return float(length * count / (1 + (count - 1) * self._resemblance(kind)))

    def _resemblance(self, kind: str) -> float:
        """Return the mean correlation of series' errors, in units of their intervals, from 0 up."""
        if (kind, None) not in self._known:
            self._known[kind, None] = self._judge_resemblance(kind)
        return self._known[kind, None]

    def _judge_resemblance(self, kind: str) -> float:
        judged = self.judged(kind)
        middle, lower, upper = judged.ends(0.9)
        error = (judged.y - middle) / np.maximum(upper - lower, 1e-300)
        error = np.clip(error, -LARGEST, LARGEST).transpose(1, 0, 2).reshape(judged.y.shape[1], -1)
        return resemblance_of(error)

    def factor(self, kind: str, level: float) -> float:
        """Return by how much intervals of a level are widened, from 1 up; 1 without rehearsals."""
        if not self:
            return 1.0
        return float(np.interp(level, LEVELS, [self._factor(kind, each) for each in LEVELS]))

    @cached_property
    def _known(self) -> dict[tuple[str, float | None], float]:
        """Return what was computed of a kind: factors by level, and under None the resemblance."""
        return {}

    def _factor(self, kind: str, level: float) -> float:
        if (kind, level) not in self._known:
            self._known[kind, level] = self._judge_factor(kind, level)
        return self._known[kind, level]

    def _judge_factor(self, kind: str, level: float) -> float:
        judged = self.judged(kind)
        scores = judged.scores(level, 0.5 * self.counts)
        scores = np.sort(scores[~np.isnan(scores)])
        if not len(scores):
            return 1.0
        rank = min(int(np.ceil((len(scores) + 1) * level - 1e-9)), len(scores))
        windows = self.windows(kind)
        share = 0.5 if judged.y.shape[1] == 1 else windows / (windows + 5)
        return float(np.clip(scores[rank - 1] ** share, 1.0, LARGEST))

    def inside(self, kind: str, level: float, lead: int | None = None) -> Floats:
        """Tell which outcomes were inside widened intervals, [origin, series, step], NaN where none came.

        With a lead time those of this step alone.
        """
        nearest = nearest_level(level)
        judged = self.judged(kind)
        if lead is not None:
            judged = Judged(judged.y[..., lead - 1 : lead], judged.quantiles[..., lead - 1 : lead])
        scores = judged.scores(nearest, 0.5 * self.counts)
        return np.where(np.isnan(scores), np.nan, scores <= self.factor(kind, nearest) + 1e-9)

    def claim(self, kind: str, level: float, first: Any, last: Any, of: str, lead: int | None = None) -> str:
        """Say what is known of calibrated intervals; `first` and `last` are origins, `of` names series.

        With a lead time it is said of sums over the first steps up to it alone, else of those of any number.
        """
        if not self:
            return "No rehearsal was made: nothing is known of how often intervals hold."
        number = len(self.origins)
        where = f"{counted(number, 'rehearsal')} (origins {first} to {last}{of})"
        totals = "totals of all series" if kind == ALL else "totals"
        over = "the first steps" if lead is None else f"{'the first ' * (lead > 1)}{counted(lead, 'step')}"
        if kind != STEPS and self.windows(kind, lead) < FEW_WINDOWS:
            which = totals if lead is None else f"{totals} over {over}"
            return f"Estimated in {where}, which overlap: too few to tell how many {which} intervals hold."
        nearest = nearest_level(level)
        inside = self.inside(kind, level, lead)
        shares = [float(np.nanmean(each)) for each in inside if not np.isnan(each).all()]
        if not shares:
            what = "outcome" if kind == STEPS else f"total over {over}"
            return f"Nothing is known of how often intervals hold: in {where} no {what} came without a gap."
        low, high, mean = (f"{each:.0%}" for each in (min(shares), max(shares), float(np.nanmean(inside))))
        said = (
            f"Estimated in {where}: {mean} of {np.count_nonzero(~np.isnan(inside))} "
            f"{'outcomes' if kind == STEPS else f'{totals} over {over}'} were inside {nearest:.0%} intervals"
        )
        if inside[0].size > 1:  # one alone is inside or not
            said += f", {f'by rehearsal from {low} to {high}' if low != high else 'in each rehearsal'}"
        if kind == STEPS and self.windows(TOTALS) >= FEW_WINDOWS:
            whole = self.inside(TOTALS, level)[:, :, -1]
            whole = whole[~np.isnan(whole)]
            if len(whole):
                said += f"; of {len(whole)} totals over {counted(self.horizon, 'step')} {int(whole.sum())}"
        return f"{said}. No guarantee goes with it."

    def arrays(self) -> dict[str, Floats]:
        """Return the arrays by name, as they are stored."""
        judged = {name: getattr(self, name) for name in ("steps", "totals", "together")}
        return {"naive": self.naive, "naive_sd": self.naive_sd} | {
            f"{name}.{each.name}": getattr(one, each.name)
            for name, one in judged.items()
            for each in fields(one)
        }

    @classmethod
    def of_arrays(
        cls, origins: Sequence[int], keys: Sequence[SeriesKey], *, counts: bool, arrays: Mapping[str, Floats]
    ) -> Self:
        """Make it of arrays by name; raise KeyError and ValueError for those that don't fit."""
        judged = {
            name: Judged(arrays[f"{name}.y"], arrays[f"{name}.quantiles"])
            for name in ("steps", "totals", "together")
        }
        shape = judged["steps"].y.shape
        shapes = {"steps": shape, "totals": shape, "together": (shape[0], min(1, shape[1]), shape[2])}
        fit = all(
            each.y.shape == shapes[name] and each.quantiles.shape == (len(PROBABILITIES), *shapes[name])
            for name, each in judged.items()
        )
        if not fit or shape[:2] != (len(origins), len(keys)) or arrays["naive"].shape != shape:
            raise ValueError("its rehearsals have other shapes")
        return cls(
            tuple(origins), tuple(keys), counts, **judged, naive=arrays["naive"], naive_sd=arrays["naive_sd"]
        )


def resemblance_of(errors: Floats) -> float:
    """Return the mean correlation of series' errors [series, window], from 0 up."""
    errors = errors[:, ~np.isnan(errors).any(axis=0)]
    if len(errors) < 2 or errors.shape[1] < 3:
        return 0.0
    apart = errors - errors.mean(axis=1, keepdims=True)
    sizes = np.sqrt((apart**2).sum(axis=1, keepdims=True))
    each = np.divide(apart, sizes, out=np.zeros_like(apart), where=sizes > 0)
    count = len(each)
    return float(np.clip(((each.sum(axis=0) ** 2).sum() - count) / (count * (count - 1)), 0.0, 1.0))


def nearest_level(level: float) -> float:
    """Return that of `LEVELS` nearest to a level."""
    return LEVELS[int(np.argmin(np.abs(np.array(LEVELS) - level)))]


def slots_of(members: Sequence[Member], history: History) -> list[list[int]]:
    """List for each series the members that its shares of the paths are of, by position.

    A member that isn't for a series is replaced by the nearest one that is. Raises DataError where none is.
    """
    suits = np.array([member.suits(history) for member in members])
    slots = []
    for series in range(len(history.keys)):
        able = [number for number in range(len(members)) if suits[number, series]]
        if not able:
            of = f"{history.series_in_words(history.keys[series])}: " if history.asked.series else ""
            raise DataError(
                f"{of}no member of the forecaster suits its outcomes: forecast the others, with series="
            )
        slots.append([
            min(able, key=lambda other: (
                other != number,
                members[other].difference != members[number].difference,
                members[other].scale != members[number].scale,
                members[other].difference != "last",
            ))
            for number in range(len(members))
        ])  # fmt: skip
    return slots


def thinning_of(fitted: Sequence[Fitted], part: int = 1) -> dict[str, int]:
    """Return which draws are used and how often each, for a thousand paths, or a part of these."""
    draws = len(fitted) * fitted[0].posterior.num_chains * fitted[0].posterior.num_draws
    return {"every": part * max(1, round(draws / PATHS)), "repeats": max(1, round(PATHS / draws))}


def origins_of(history: History) -> Longs:
    """Return the positions of the last steps that rehearsals see; none where the history is too short."""
    horizon = history.asked.horizon
    newest = int(np.max(history.last))
    typical = float(np.median(history.last - history.first)) + 1
    first = newest - max(int(np.ceil(NEWEST * typical)), horizon + FEWEST - 1)
    origins = np.unique(np.round(np.linspace(first, newest - horizon, ORIGINS)).astype(int))
    return origins if len(origins) >= FEWEST and first >= 1 else origins[:0]


def parts_of(history: History) -> list[History]:
    """Return what members are fitted to: the history, and what is before the rehearsals if there are any."""
    origins = origins_of(history)
    return [history, *([history.until(int(origins[0]))] if len(origins) else [])]


def rehearse(
    history: History, fit: Callable[[History], list[Fitted]], seed: int, num_threads: int | None
) -> Calibration:
    """Forecast the newest part of a history from several origins, by members fitted to what is before all.

    Returns one without rehearsals where the history is too short.
    """
    horizon = history.asked.horizon
    origins, (_, *earlier) = origins_of(history), parts_of(history)
    if not earlier:
        return Calibration.none()
    first, before = int(origins[0]), earlier[0]
    try:
        fitted = fit(before)
    except DataError:
        return Calibration.none()
    known = {*before.keys}
    able = [at for at, key in enumerate(history.keys) if key in known and history.last[at] > first]
    if not able:  # series that go on began after it
        return Calibration.none()
    chosen = np.array(able)[
        np.unique(np.linspace(0, len(able) - 1, max(1, ROWS // len(origins))).astype(int))
    ]
    members = [each.member for each in fitted]
    slots = []
    for origin in origins:
        by_series = slots_of(members, history.seen(int(origin)).of_series(chosen))
        slots += by_series
    start = Start(np.tile(chosen, len(origins)), np.repeat(origins, len(chosen)))
    many = len(chosen) > FEW_PATHS
    paths = sample_paths(
        slots, fitted, history, history.known, start, horizon, seed,
        **thinning_of(fitted, 3 if many else 1), num_threads=num_threads,
    )  # fmt: skip
    paths = paths.reshape(len(paths), len(origins), len(chosen), horizon)
    ahead = origins[:, None] + 1 + np.arange(horizon)
    y = history.y[chosen][:, ahead].transpose(1, 0, 2)
    sums, sampled = np.cumsum(y, axis=2), np.cumsum(paths, axis=3)
    season = (history.asked.season or history.step.seasons)[0]
    naive, sd = naive_of(history.y[chosen], origins, horizon, season)
    return Calibration(
        tuple((origins + history.start).tolist()),
        tuple(history.keys[at] for at in chosen),
        members[0].scale == "counts",
        Judged.of(y, paths),
        Judged.of(sums, sampled),
        Judged.of(sums.sum(axis=1, keepdims=True), sampled.sum(axis=2, keepdims=True)),
        naive,
        sd,
    )


def naive_of(y: Floats, origins: Longs, horizon: int, season: int) -> tuple[Floats, Floats]:
    """Return outcomes of the last season before each origin, and the sd of differences of seasons."""
    back = season * (1 + (np.arange(horizon)) // season)
    naive = np.stack([y[:, np.maximum(origin + 1 + np.arange(horizon) - back, 0)] for origin in origins])
    sds = []
    for origin in origins:
        apart = y[:, season : origin + 1] - y[:, : max(origin + 1 - season, 0)]
        known = ~np.isnan(apart)
        squares = np.where(known, apart, 0.0) ** 2
        sds.append(np.sqrt(squares.sum(axis=1) / np.maximum(known.sum(axis=1), 1)))
    return naive, np.array(sds)
