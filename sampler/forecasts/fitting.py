"""Fitting of a forecaster: its members by the ordinary road, then again before the rehearsals."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.data.rows import Rows
from sampler.definitions.forecast import FORECAST, Forecasting
from sampler.errors import DataError, SettingsError, suggestion
from sampler.families import FAMILIES
from sampler.forecasts.calibration import rehearse
from sampler.forecasts.forecaster import Forecaster
from sampler.forecasts.history import History
from sampler.forecasts.members import Member, members_of
from sampler.forecasts.paths import Fitted
from sampler.preparation import prepare
from sampler.running import run

ZERO_INFLATED = "zero-inflated-negative-binomial"
DEFAULTS = {"num_trees": 50, "num_chains": 2, "num_draws": 85, "num_burnin": 250, "thin": 4, "linear": True}
PASSED = (*DEFAULTS, "seed", "prior", "moves", "start", "particles", "prior_only")
LEAST_ROWS = 30  # of a series alone
COMMON_SERIES, COMMON_STEPS = 50, 60  # by which the noise in common is judged
MOST_COMMON = 0.95


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
    asked = Forecasting.read({name: arguments[name] for name in FORECAST}, rows.table.names)
    if asked is None:
        raise SettingsError("time is needed: name the column of times", field="time", code="not_accepted")
    features = _features(rows, asked, arguments["features"])
    history = History.read(rows.table, rows.outcome, asked, features)
    _check_length(history)
    chosen = {name: arguments[name] for name in PASSED if arguments[name] is not None}
    settings = {**DEFAULTS, **chosen, "family": arguments["family"]}
    running = {"executor": arguments["executor"], "num_threads": arguments["num_threads"]}
    fitted = fit_members(history, settings, **running)
    calibration = rehearse(
        history,
        lambda before: fit_members(before, settings, **running),
        settings["seed"],
        running["num_threads"],
    )
    return Forecaster(history, fitted, calibration, settings)


def fit_members(
    history: History,
    settings: Mapping[str, Any],
    executor: Executor | None = None,
    num_threads: int | None = None,
) -> list[Fitted]:
    """Fit the members of a history; raise DataError where none can be learnt."""
    members = members_of(history)
    family = str(settings["family"])
    is_of_counts = family in FAMILIES and FAMILIES[family].target == "counts"
    if is_of_counts:
        members = [Member("none", "counts", members[0].lags, members[0].season)] if members else []
    fitted = []
    for number, member in enumerate(members):
        scales = member.scales(history)
        columns, z = member.training(history, scales)
        if len(z) < 2 * member.lags or not columns or np.ptp(z) == 0:
            continue
        own: dict[str, Any] = {"family": "gaussian", "noise": "constant", "transform": "none"}
        if member.scale == "counts":
            own = {"family": family if is_of_counts else ZERO_INFLATED, "linear": None}
        own |= {"seed": int(settings["seed"]) + number, "recalibrate": "off"}
        kinds = dict.fromkeys({*member.columns(history.target)} & columns.keys(), "number")
        problem = prepare(columns, z, **{**settings, **own}, columns=kinds)
        posterior = run(problem, num_threads=num_threads, executor=executor)
        named = dict(zip(history.keys, scales.tolist(), strict=True))
        fitted.append(Fitted(member, posterior, named, 0.0))
        if len(history.keys) > 1 and member.scale != "counts":
            fitted[-1] = Fitted(member, posterior, named, _common(fitted[-1], history, scales))
    if not fitted:
        raise DataError(
            "there are too few steps, or outcomes are all equal: nothing can be learnt for forecasts"
        )
    return fitted


def _common(fitted: Fitted, history: History, scales: Floats) -> float:
    """Estimate the mean correlation of series' noise at a time, from 0 up, by newest residuals."""
    chosen = np.unique(np.linspace(0, len(history.keys) - 1, COMMON_SERIES).astype(int))
    part = history.of_series(chosen)
    columns, z, series, at = fitted.member.training_rows(part, scales[chosen])
    newest = np.flatnonzero(at >= at.max(initial=0) - COMMON_STEPS) if len(at) else at
    if len(newest) < 2:
        return 0.0
    names = [column.name for column in fitted.posterior.schema.columns]
    table = {name: [columns[name][row] for row in newest.tolist()] for name in names}
    mean = fitted.posterior.predict(table, level=None).mean
    residuals = np.full((len(chosen), int(at.max()) + 1), np.nan)
    residuals[series[newest], at[newest]] = z[newest] - mean
    known = ~np.isnan(residuals)
    with np.errstate(invalid="ignore", divide="ignore"):
        each = np.where(known, residuals, 0.0)
        each = np.nan_to_num(
            each / np.sqrt((each**2).sum(axis=1, keepdims=True) / known.sum(axis=1, keepdims=True))
        )
    number = known.sum(axis=0)
    pairs = float((number * (number - 1)).sum())
    products = float((each.sum(axis=0) ** 2 - (each**2).sum(axis=0)).sum())
    return float(np.clip(products / pairs, 0.0, MOST_COMMON)) if pairs else 0.0


def _features(rows: Rows, asked: Forecasting, given: Any) -> list[str]:
    """List the columns beside those of time and series, and the outcome."""
    names = [name for name in rows.table.names if name not in (asked.time, *asked.series, rows.outcome.name)]
    if given is None:
        return names
    for name in given:
        if name not in names:
            message = f"features names {name!r}, which is none of {', '.join(names)}{suggestion(name, names)}"
            raise SettingsError(message, field="features", code="unknown")
    return [name for name in names if name in {*given, *asked.known}]


def _check_length(history: History) -> None:
    """Raise where no rehearsal could be made; see `fit_forecaster`."""
    lengths = (~np.isnan(history.y)).sum(axis=1)
    if len(lengths) == 1 and lengths[0] < LEAST_ROWS:
        raise DataError(
            f"one series of {lengths[0]} steps is too short for a forecast, which needs {LEAST_ROWS}: add "
            "earlier rows, or rows of other series (series=)"
        )
    typical, needed = int(np.median(lengths)), members_of(history)[0].lags
    most = (typical - needed) // 4
    horizon = history.asked.horizon
    if most < 1:
        raise DataError(f"series have {typical} steps, too few for a forecast: add earlier rows")
    if horizon > most:
        raise SettingsError(
            f"a horizon of {horizon} is more than a quarter of the {typical} steps of a typical series, so "
            f"no rehearsal could judge it: horizon={most} or less, or add earlier rows",
            field="horizon",
            code="out_of_range",
        )
