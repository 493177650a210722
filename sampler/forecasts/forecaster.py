"""A forecaster: members that were fitted, the history of series, and what rehearsals showed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, NoReturn, Self

import numpy as np

from sampler.array_types import Floats, Longs
from sampler.data.rows import Rows, named_column
from sampler.data.scalars import as_text, counted
from sampler.data.table import read_column, read_rows
from sampler.errors import DataError, DataProblem, SettingsError
from sampler.forecasts.adapted import adapted_ends
from sampler.forecasts.agreement import ForecastSummary, summarise
from sampler.forecasts.answers import (
    CALIBRATED,
    Forecast,
    Rehearsals,
    check_level,
    factor_of,
    interval_named,
    interval_of,
)
from sampler.forecasts.calibration import STEPS, Calibration, rehearse, slots_of, thinning_of
from sampler.forecasts.fitting import extend_members, fit_members, plan_forecaster
from sampler.forecasts.history import ZERO, History, SeriesKey, read_panel
from sampler.forecasts.paths import Fitted, Start, sample_paths
from sampler.forecasts.steps import NUMBER, Times
from sampler.forecasts.stored import decode, encode
from sampler.posterior.results.card_document import ModelCard
from sampler.storage.conformal_table import ConformalTable
from sampler.storage.forecast_file import with_models
from sampler.storage.model_file import save_bytes

DONORS = 10  # series of a fit, from which on new ones are forecast
NAMED = 5  # series named in a message


@dataclass(frozen=True)
class ReadPlan:
    """A plan as a forecaster has read it: columns known ahead by name, float64 [series, step]."""

    values: Mapping[str, Floats]


class Forecaster:
    """Posteriors of the next step of series given those before, from which whole paths are drawn.

    Attributes
    ----------
    history
        Outcomes and known columns of all series; `observe` adds to it.
    fitted
        The members, each with its posterior.
    calibration
        What rehearsals showed.
    settings
        Settings of the members' fits.
    adapted
        Table by which intervals of steps follow reported outcomes; None where rehearsals widen them.

    """

    def __init__(
        self,
        history: History,
        fitted: Sequence[Fitted],
        calibration: Calibration,
        settings: Mapping[str, Any],
        adapted: ConformalTable | None = None,
    ) -> None:
        self.history = history
        self.fitted = list(fitted)
        self.calibration = calibration
        self.settings = dict(settings)
        self.adapted = adapted

    @property
    def horizon(self) -> int:
        """Number of steps that are forecast."""
        return self.history.asked.horizon

    @property
    def members(self) -> list[str]:
        """Names of what is learnt: difference and scale."""
        return [each.member.name for each in self.fitted]

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        arrays = [self.history.y, *self.history.known.values(), *self.calibration.arrays().values()]
        return sum(each.nbytes for each in arrays) + sum(each.posterior.nbytes for each in self.fitted)

    def forecast(
        self,
        plan: Any = None,
        level: float = 0.9,
        interval: str | None = None,
        series: Sequence[Any] | None = None,
        at: Any = None,
        num_threads: int | None = None,
    ) -> Forecast:
        """Forecast the next steps of series, each after its own newest outcome.

        Parameters
        ----------
        plan
            Rows with the columns known ahead for the steps to forecast, and their times and series
            (`plan_template`); None where nothing is known ahead.
        level
            Probability of the intervals.
        interval
            "calibrated" by rehearsals, or "predictive", as the paths have them; None takes the first there
            is.
        series
            Those to forecast: values of the column of series, tuples where there are several; None for all.
        at
            The present, a time as the column has them, by which series are stale; None is the newest time.
        num_threads
            Threads; None for one per core.

        Returns
        -------
        Forecast
            Median and interval by series and step, paths, and totals of these.

        Raises
        ------
        DataError
            For a plan without a step that is needed, and for series that can't be forecast.
        SettingsError
            For an invalid level or interval, and unknown series.

        """
        level, interval, claim = self.checked(level, interval)
        history = self.history
        chosen, flags, warnings = self.choose(series, at)
        start = Start(chosen, history.last[chosen])
        known = plan.values if isinstance(plan, ReadPlan) else self._known(plan, start)
        part = history.of_series(chosen)
        slots = slots_of([each.member for each in self.fitted], part)
        seed = int(self.settings["seed"])
        own = {name: values[chosen] for name, values in known.items()}
        within = Start(np.arange(len(chosen)), start.last)
        paths = sample_paths(
            slots, self.fitted, part, own, within, self.horizon, seed,
            **thinning_of(self.fitted), num_threads=num_threads,
        )  # fmt: skip
        counts, adapted = self.calibration.counts, self.adapted if interval == CALIBRATED else None
        factor = factor_of(self.calibration, STEPS, level, interval)
        median, lower, upper = (
            interval_of(paths, level, factor, counts=counts)
            if adapted is None
            else adapted_ends(paths, adapted, level, counts=counts)
        )
        ahead = history.start + start.last[:, None] + 1 + np.arange(self.horizon)
        return Forecast(
            history.columns_of(chosen.tolist()),
            [[history.step.text(int(each)) for each in own] for own in ahead],
            paths,
            median,
            lower,
            upper,
            flags,
            level,
            interval,
            claim,
            warnings,
            history.target,
            history.asked.time,
            {name: [values[each] for each in chosen.tolist()] for name, values in history.static.items()},
            (history.last.max() - start.last).tolist(),
            self.calibration,
            self.claim_of,
        )

    def checked(self, level: float, interval: str | None) -> tuple[float, str, str]:
        """Check the level and kind of intervals; return both, and the claim of intervals of steps."""
        level, interval = check_level(level), interval_named(interval, self.calibration)
        of_paths = self.calibration and interval != CALIBRATED
        return level, interval, "Intervals are those of the paths." if of_paths else self.claim(level)

    def read_plan(self, plan: Any, series: Sequence[Any] | None = None, at: Any = None) -> ReadPlan:
        """Read a plan once, for forecasts of some of these series each; raises as `forecast`."""
        chosen = self.choose(series, at)[0]
        return ReadPlan(self._known(plan, Start(chosen, self.history.last[chosen])))

    def plan_template(self, series: Sequence[Any] | None = None) -> dict[str, list[Any]]:
        """Return the columns of a plan with a row for each step to forecast, None where values are needed."""
        chosen, _, _ = self.choose(series, None)
        history, horizon = self.history, self.horizon
        last = history.start + history.last[chosen]
        rows = [each for each in range(len(chosen)) for _ in range(horizon)]
        named = {
            name: [values[row] for row in rows]
            for name, values in history.columns_of(chosen.tolist()).items()
        }
        times = [history.step.text(int(each) + 1 + h) for each in last for h in range(horizon)]
        return (
            named | {history.asked.time: times} | {name: [None] * len(rows) for name in history.asked.known}
        )

    def observe(self, newer: Any) -> Self:
        """Add newer rows to the history, from whose end forecasts then start; nothing is fitted.

        Rows that are there already are left as they are, so that rows may be sent twice; rows of new series
        are taken too. Returns the forecaster itself.

        Raises
        ------
        DataError
            For rows without a column of the fit, and for an outcome that is known to be another.

        """
        history = self.history
        table = read_rows(newer)
        features = [*history.known, *history.static]
        for name in (history.asked.time, *history.asked.series, history.target, *features):
            if name not in table.names:
                raise DataError.at(name, None, "the column is missing, which the fit had")
        outcome = table.column(history.target)
        rows = read_panel(table, outcome, history.asked, history.step, features, levels_of=history.levels)
        self.history = history.with_rows(rows)
        if history.asked.gaps == ZERO:
            self.history = self.history.with_zeros(rows)
        return self

    def rehearsals(self, level: float = 0.9) -> Rehearsals:
        """Return what rehearsals forecast and what came, by origin and step."""
        return Rehearsals.of(self.calibration, self.history, check_level(level))

    def described(self) -> dict[str, Any]:
        """Describe it by JSON values: its series and members, and what rehearsals showed."""
        history = self.history
        return {
            "series": len(history.keys),
            "step": history.step.in_words,
            "newest": history.step.text(history.start + int(history.last.max())),
            "horizon": self.horizon,
            "members": self.members,
            "rehearsals": len(self.calibration.origins),
            "claim": self.claim(),
        }

    def claim(self, level: float = 0.9, kind: str = STEPS) -> str:
        """Say what rehearsals, or reported outcomes, showed of how often intervals of steps hold.

        Of another `kind` it is said of totals over all steps of "totals" of one series, or of "all".
        """
        if self.adapted is not None and kind == STEPS:
            return self.adapted.at(level).text
        lead = None if kind == STEPS else self.horizon
        return self.calibration.claim(kind, check_level(level), **self.claim_of, lead=lead)

    def summary(self) -> ForecastSummary:
        """Return the verdict on the chains, by paths from the origins of rehearsals."""
        return summarise(self.history, self.fitted, self.calibration, int(self.settings["seed"]))

    def model_card(self, facts: Mapping[str, str] | None = None) -> ModelCard:
        """Describe the forecaster on one page: history, rehearsals, chains and limits.

        `facts` are further ones for the first section, by name; the card is a page of HTML and Markdown.
        """
        card: ModelCard = resolve_name("sampler.forecasts.card:forecaster_card")(self, facts or {})
        return card

    def predict(self, *_arguments: Any, **_options: Any) -> NoReturn:
        """Refuse: later steps are asked of `forecast`."""
        raise SettingsError("a forecaster answers by step: ask forecast", field=None, code="not_applicable")

    def extend(self, num_draws: int, num_threads: int | None = None) -> Forecaster:
        """Continue the chains of all members for more draws each, and return a new forecaster.

        It equals that of one longer fit, bit for bit, of the same rows: members go on from the states that
        the file keeps too, and are fitted again for the rehearsals. What was observed since remains.

        Parameters
        ----------
        num_draws
            Number of further draws per chain.
        num_threads
            Threads; None for one per core.

        Raises
        ------
        SettingsError
            When there are no states to continue from, or `num_draws` is out of range.
        DataError
            When steps before the end of the fit were observed after it, so that its rows are others.

        """
        fitted, calibration = extend_members(
            self.history, self.fitted, self.calibration, self.settings, num_draws, num_threads
        )
        settings = self.settings | {"num_draws": fitted[0].posterior.num_draws}
        return Forecaster(self.history, fitted, calibration, settings, self.adapted)

    @property
    def claim_of(self) -> dict[str, Any]:
        """When rehearsals were, and of which series: what `Calibration.claim` names."""
        if not self.calibration:
            return {"first": None, "last": None, "of": ""}
        step, origins = self.history.step, self.calibration.origins
        count, every = len(self.calibration.keys), len(self.fitted[0].scales)
        of = f", {count} of {every} series" if count < every else ""
        return {"first": step.text(origins[0]), "last": step.text(origins[-1]), "of": of}

    def choose(self, series: Sequence[Any] | None, at: Any) -> tuple[Longs, list[list[str]], list[str]]:
        """Choose series, and tell what is unusual about each; those that can't be forecast are left out."""
        history = self.history
        place = {key: number for number, key in enumerate(history.keys)}
        asked = [*range(len(history.keys))]
        if series is not None:
            asked = [place[key] for key in dict.fromkeys(self._named(series))]
        newest = int(history.last.max())
        if at is not None:
            newest = max(newest, self._present(at) - history.start)
        chosen, flags, left_out = [], [], []
        for number in asked:
            behind, new = (
                newest - int(history.last[number]),
                history.keys[number] not in self.fitted[0].scales,
            )
            if why := self._why_not(number, behind, new=new):
                left_out.append(f"{history.series_in_words(history.keys[number]) or 'the series'} {why}")
                continue
            chosen.append(number)
            tests = {"stale": behind > self.horizon, "ends_early": behind > 0, "new": new}
            flags.append([flag for flag, holds in tests.items() if holds])
        if left_out and (series is not None or not chosen):
            raise DataError([DataProblem(history.asked.time, None, each) for each in left_out])
        stale = sum("stale" in each for each in flags)
        said = [f"{len(left_out)} series left out: {'; '.join(left_out[:NAMED])}"] if left_out else []
        if stale:
            said.append(
                f"{stale} series end{'s' * (stale == 1)} more than a horizon before the newest time: "
                f"{'its forecast is' if stale == 1 else 'their forecasts are'} stale"
            )
        return np.array(chosen, np.int64), flags, said

    def _named(self, series: Sequence[Any]) -> list[SeriesKey]:
        """Read names of series, of which there must be one; raise SettingsError for others."""
        columns, known = self.history.asked.series, {*self.history.keys}
        each = [series] if isinstance(series, str) else [*series]
        named = [tuple(map(as_text, one if isinstance(one, list | tuple) else [one])) for one in each]
        if not named:
            message = "series names none: leave it out for all"
            raise SettingsError(message, field="series", code="not_accepted")
        for key in named:
            if len(key) != len(columns):
                of = f"a value for each of {', '.join(columns)}" if columns else "no value: leave series out"
                message = f"series names {', '.join(key)}; a series has {of}"
                raise SettingsError(message, field="series", code="not_accepted")
            if key not in known:
                message = f"series names {', '.join(key)}, which isn't known: observe its rows first"
                raise SettingsError(message, field="series", code="unknown")
        return named

    def _present(self, at: Any) -> int:
        """Return the number of the step of the present; raise SettingsError for what is no such time."""
        history = self.history
        like = f"at must be a time as {history.asked.time} has them, such as {history.step.text(0)!r}"
        try:
            times = Times.read(read_column([at], history.asked.time))
        except DataError:
            raise SettingsError(f"{like}, not {at!r}", field="at", code="not_accepted") from None
        if (times.form == NUMBER) != (history.step.form == NUMBER):
            raise SettingsError(f"{like}, not {at!r}", field="at", code="not_accepted")
        return int(history.step.index(times.values)[0][0])

    def _why_not(self, number: int, behind: int, *, new: bool) -> str:
        """Say why a series, so many steps behind the newest time, can't be forecast; "" if it can."""
        history, donors, least = self.history, len(self.fitted[0].scales), self.fitted[0].member.lags
        own = int((~np.isnan(history.y[number])).sum())
        if not own:
            return "has no outcome: observe some, or leave it out"
        if behind > 2 * self.horizon:
            ends = history.step.text(int(history.last[number]) + history.start)
            return f"ends at {ends}, more than two horizons ago: observe newer rows, or leave it out"
        if new and own < least:
            return f"is new and has {counted(own, 'outcome')}, and needs {least}: observe more of it"
        if new and donors < DONORS:
            return (
                f"is new, and {donors} series taught the forecaster, which needs {DONORS}: fit again with it"
            )
        return ""

    def _known(self, plan: Any, start: Start) -> dict[str, Floats]:
        """Return the columns known ahead up to the horizon; raise where the plan lacks some."""
        history, names = self.history, self.history.asked.known
        if not names:
            if plan is not None:
                message = "no column is known ahead, so there is no plan: fit with known=, or leave it out"
                raise SettingsError(message, field="plan", code="not_applicable")
            return {}
        if plan is None:
            raise SettingsError(
                f"{', '.join(names)} of the next {counted(self.horizon, 'step')} must be planned: give plan, "
                "rows with their series and times (plan_template has these)",
                field="plan",
                code="unavailable",
            )
        table = read_rows(plan)
        for name in (history.asked.time, *history.asked.series, *names):
            named_column(table, "plan", name)
        rows = read_panel(table, None, history.asked, history.step, names, levels_of=history.levels)
        series_of = {key: number for number, key in enumerate(history.keys)}
        width = int(start.last.max()) + 1 + self.horizon
        series = np.array([series_of.get(key, -1) for key in rows.keys], np.int64)
        at = rows.index - history.start
        use = (series >= 0) & (at < width) & (at > history.last[np.maximum(series, 0)])
        history.refuse_doubled(rows, np.where(use, series, -1 - np.arange(len(use))))
        known = {}
        for name, read in rows.known.items():
            whole = np.full((len(history.keys), max(width, history.y.shape[1])), np.nan)
            whole[:, : history.y.shape[1]] = history.known[name]
            values = read
            if name in rows.levels:
                place = {level: float(at) for at, level in enumerate(history.levels.get(name, ()))}
                if strange := [level for level in rows.levels[name] if level not in place]:
                    row = int(np.flatnonzero(read == rows.levels[name].index(strange[0]))[0])
                    levels = ", ".join([*place][:NAMED])
                    detail = f"the plan has {strange[0]!r}, which the history hasn't; it has {levels}"
                    raise DataError.at(name, row + 1, detail)
                codes = np.array([*(place[level] for level in rows.levels[name]), np.nan])
                values = codes[np.where(np.isnan(read), -1, read).astype(int)]
            whole[series[use], at[use]] = values[use]
            ahead = whole[start.series[:, None], start.last[:, None] + 1 + np.arange(self.horizon)]
            if (missing := np.argwhere(np.isnan(ahead))).size:
                row, h = missing[0].tolist()
                index = history.start + int(start.last[row]) + 1 + h
                where = history.named(history.keys, int(start.series[row]), index, history.asked.time)
                more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
                raise DataError.at(
                    name, None, f"the plan has no value for {where}{more}: add these rows to it"
                )
            known[name] = whole
        return known

    def to_bytes(self) -> bytes:
        """Encode the forecaster as a file; equal ones give equal bytes."""
        return with_models(self.header_bytes(), [each.posterior.to_bytes() for each in self.fitted])

    def header_bytes(self) -> bytes:
        """Encode all but the members' models, which observing leaves as they are."""
        return encode(self.history, self.fitted, self.calibration, self.settings, self.adapted)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode a forecaster; raise PackedError for anything that isn't one."""
        return cls(*decode(data))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically."""
        save_bytes(path, self.to_bytes())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the forecaster as its file."""
        return Forecaster.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        history = self.history
        return (
            f"<Forecaster of {history.target}: {len(history.keys)} series, steps of "
            f"{history.step.in_words}, horizon {self.horizon}, members {'; '.join(self.members)}>"
        )


def fit_forecaster(X: Any, y: Any, arguments: Mapping[str, Any]) -> Forecaster:
    """Fit a forecaster; the arguments are those of `fit`, which don't contradict each other.

    Raises
    ------
    DataError
        For rows that no forecast can be made from, located by series and time.
    SettingsError
        For settings that forecasts don't have, and a horizon that no rehearsal could judge.

    """
    rows = Rows.read(X, y, {}, arguments["target_name"])
    history, settings = plan_forecaster(rows.table, rows.outcome, arguments)
    running = {"executor": arguments["executor"], "num_threads": arguments["num_threads"]}
    fitted = fit_members(history, settings, **running)
    calibration = rehearse(
        history,
        lambda before: fit_members(before, settings, **running),
        settings["seed"],
        running["num_threads"],
    )
    return Forecaster(history, fitted, calibration, settings)
