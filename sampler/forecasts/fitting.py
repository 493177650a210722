"""Fitting of a forecaster: its members by the ordinary road, then again before the rehearsals."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.bart.chain import OUT_OF_GRID
from sampler.data.scalars import counted
from sampler.data.table import RawColumn, Table
from sampler.definitions.forecast import FORECAST, Forecasting
from sampler.errors import DataError, DataWarning, SamplerError, SettingsError, suggestion
from sampler.families import FAMILIES
from sampler.forecasts.calibration import Calibration, rehearse
from sampler.forecasts.history import History, SeriesKey
from sampler.forecasts.members import NUGGET, Member, members_of
from sampler.forecasts.paths import MOST_COMMON, Fitted
from sampler.forecasts.wide import read_asked
from sampler.posterior.posterior import Posterior
from sampler.preparation import prepare
from sampler.running import extend, run
from sampler.settings import Settings

ZERO_INFLATED = "zero-inflated-negative-binomial"
DEFAULTS = {"num_trees": 50, "num_chains": 2, "num_draws": 85, "num_burnin": 250, "thin": 4, "linear": True}
PASSED = (*DEFAULTS, "seed", "prior", "moves", "start", "particles", "prior_only")
LEAST_ROWS = 30  # of a series alone
COMMON_SERIES, COMMON_STEPS = 50, 60  # by which the noise in common is judged


def plan_forecaster(
    table: Table, outcome: RawColumn, arguments: Mapping[str, Any]
) -> tuple[History, dict[str, Any]]:
    """Read the history of a fit and resolve its settings; raises as a fit of a forecaster."""
    asked = read_asked({name: arguments.get(name) for name in FORECAST}, table.names)
    if asked is None:
        raise SettingsError("time is needed: name the column of times", field="time", code="not_accepted")
    features = _features(table.names, outcome.name, asked, arguments.get("features"))
    history = History.read(table, outcome, asked, features)
    _check_length(history)
    chosen = {name: each for name in PASSED if (each := arguments.get(name)) is not None}
    moves = Settings.resolve(
        **{name: chosen[name] for name in ("moves", "particles") if name in chosen}
    ).moves
    return history, {**DEFAULTS, **chosen, "moves": dict(moves), "family": arguments["family"]}


def fit_members(
    history: History,
    settings: Mapping[str, Any],
    executor: Executor | None = None,
    num_threads: int | None = None,
) -> list[Fitted]:
    """Fit the members of a history; raise DataError where none can be learnt."""
    fitted = [
        fit_member(history, settings, number, executor=executor, num_threads=num_threads)
        for number in range(len(planned_members(history, settings)))
    ]
    return learnt(fitted)


def learnt(fitted: Iterable[Fitted | None]) -> list[Fitted]:
    """Return the members that could be fitted; raise DataError without any."""
    able = [each for each in fitted if each is not None]
    if not able:
        raise DataError(
            "there are too few steps, or outcomes are all equal: nothing can be learnt for forecasts"
        )
    return able


def planned_members(history: History, settings: Mapping[str, Any]) -> list[Member]:
    """List the members of a history, of which some may have too few rows; of a family of counts one."""
    members = members_of(history)
    if members and _of_counts(settings):
        return [Member("none", "counts", members[0].lags, members[0].season)]
    return members


def fit_member(history: History, settings: Mapping[str, Any], number: int, **running: Any) -> Fitted | None:
    """Fit one of the planned members, run as `sampler.running.run` is told; None where it can't be learnt."""
    member = planned_members(history, settings)[number]
    if (rows := _rows(history, settings, number)) is None:
        return None
    columns, z = rows
    kinds = dict.fromkeys({*member.columns(history.target)} & columns.keys(), "number")
    own = settings_of_member(settings, member) | {"seed": int(settings["seed"]) + number}
    try:
        posterior = run(prepare(columns, z, **{**settings, **own}, columns=kinds), **running)
    except SamplerError as error:
        if str(error) != OUT_OF_GRID:
            raise
        warnings.warn(f"the member {member.name} is left out: {error}", DataWarning, stacklevel=2)
        return None
    return _fitted(member, posterior, history)


def _rows(history: History, settings: Mapping[str, Any], number: int) -> tuple[dict[str, Any], Floats] | None:
    """Return the columns and outcomes of a planned member's fit; None where there are too few."""
    member = planned_members(history, settings)[number]
    training = _training(member, history, member.scales(history))
    if training is None or member.scale == "counts":
        return training
    columns, z = training
    return columns, z + NUGGET * np.random.default_rng([int(settings["seed"]), number]).normal(size=len(z))


def _fitted(member: Member, posterior: Posterior, history: History) -> Fitted:
    scales = member.scales(history)
    fitted = Fitted(member, posterior, _by_series(history, scales), 0.0)
    if len(history.keys) > 1 and member.scale != "counts":
        return replace(fitted, common=_common(fitted, history, scales))
    return fitted


def extend_members(
    history: History,
    fitted: Sequence[Fitted],
    calibration: Calibration,
    settings: Mapping[str, Any],
    num_draws: int,
    num_threads: int | None,
) -> tuple[list[Fitted], Calibration]:
    """Continue the chains of members, and rehearse with as many draws; raises as `Forecaster.extend`."""
    history = history_of_fit(history, fitted, calibration)
    extended = [extend_member(history, settings, each, num_draws, num_threads=num_threads) for each in fitted]
    longer = {**settings, "num_draws": extended[0].posterior.num_draws}
    fit = partial(fit_members, settings=longer, num_threads=num_threads)
    return extended, rehearse(history, fit, longer["seed"], num_threads)


def history_of_fit(history: History, fitted: Sequence[Fitted], calibration: Calibration) -> History:
    """Return a history without what was observed since the fit: the last rehearsal ended with it."""
    if not calibration:
        return history
    newest = calibration.origins[-1] - history.start + history.asked.horizon
    known = [at for at, key in enumerate(history.keys) if key in fitted[0].scales]
    return history.of_series(np.array(known)).until(newest)


def extend_member(
    history: History, settings: Mapping[str, Any], fitted: Fitted, num_draws: int, **running: Any
) -> Fitted:
    """Continue the chains of a member, given the history of its fit.

    `running` are `num_threads` and `report` of `sampler.running.extend`. Raises SettingsError and DataError
    as `Forecaster.extend`.
    """
    posterior, planned = fitted.posterior, planned_members(history, settings)
    rows = _rows(history, settings, planned.index(fitted.member)) if fitted.member in planned else None
    if posterior.origin is None:
        message = "this forecaster has no states of its chains: fit again with more draws"
        raise SettingsError(message, field=None, code="unavailable")
    try:
        if rows is None:
            raise DataError("a member has no rows")  # noqa: TRY301
        extended = extend(posterior, posterior.origin, num_draws, (*rows, None), **running)
    except DataError as error:
        raise DataError(
            f"the chains of the member {fitted.member.name} can't continue, since steps before the end of "
            "the fit were observed after it: fit again with more num_draws"
        ) from error
    return _fitted(fitted.member, extended, history)


def learns(history: History, settings: Mapping[str, Any]) -> int:
    """Return the number of columns of the first member that has rows enough; raise DataError for none."""
    for member in planned_members(history, settings):
        if (training := _training(member, history, member.scales(history))) is not None:
            return len(training[0]) + member.season
    learnt([])
    raise AssertionError


def _training(member: Member, history: History, scales: Floats) -> tuple[dict[str, Any], Floats] | None:
    """Return the columns and outcomes that a member is fitted to; None where there are too few."""
    columns, z = member.training(history, scales)
    return (
        None
        if len(z) < 2 * member.lags or not columns or (member.scale == "counts" and np.ptp(z) == 0)
        else (columns, z)
    )


def settings_of_member(settings: Mapping[str, Any], member: Member) -> dict[str, Any]:
    """Return the settings of a member's fit that are no choice."""
    own: dict[str, Any] = {"family": "gaussian", "noise": "constant", "transform": "none"}
    if member.scale == "counts":
        own = {"family": settings["family"] if _of_counts(settings) else ZERO_INFLATED, "linear": None}
    return own | {"recalibrate": "off"}


def stored_member(
    history: History, settings: Mapping[str, Any], number: int, model: bytes, common: float
) -> Fitted:
    """Make a member that was fitted to a history again of its model file."""
    member = planned_members(history, settings)[number]
    scales = _by_series(history, member.scales(history))
    return Fitted(member, Posterior.from_bytes(model), scales, common)


def _of_counts(settings: Mapping[str, Any]) -> bool:
    family = str(settings["family"])
    return family in FAMILIES and FAMILIES[family].target == "counts"


def _by_series(history: History, scales: Floats) -> dict[SeriesKey, float]:
    return dict(zip(history.keys, scales.tolist(), strict=True))


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


def _features(columns: Sequence[str], target: str, asked: Forecasting, given: Any) -> list[str]:
    """List the columns beside those of time and series, and the outcome."""
    names = [name for name in columns if name not in (asked.time, *asked.series, target)]
    if given is None:
        return names
    for name in given:
        if name not in names:
            which = f"none of {', '.join(names) or 'them'}{suggestion(name, names)}"
            if name in (asked.time, *asked.series, target):
                which = "no feature: the time, the series and the outcome tell rows apart by themselves"
            message = f"features names {name!r}, which is {which}"
            raise SettingsError(message, field="features", code="unknown")
    return [name for name in names if name in {*given, *asked.known}]


def _check_length(history: History) -> None:
    """Raise where no rehearsal could be made; see `fit_forecaster`."""
    lengths = (~np.isnan(history.y)).sum(axis=1)
    if not lengths.any():
        raise DataError.at(history.target, None, "no row has an outcome: add the rows of the past")
    if len(lengths) == 1 and lengths[0] < LEAST_ROWS:
        raise DataError(
            f"one series of {counted(int(lengths[0]), 'step')} is too short for a forecast, which needs "
            f"{LEAST_ROWS}: add earlier rows, or rows of other series (series=)"
        )
    if not (members := members_of(history)):
        raise SettingsError(
            "no series has two seasons and eight steps more, which differences of seasons need: leave "
            "difference out, or give season",
            field="difference",
            code="not_applicable",
        )
    typical = int(np.median(lengths))
    most = (typical - members[0].lags) // 4
    horizon = history.asked.horizon
    if most < 1:
        raise DataError(f"series have {counted(typical, 'step')}, too few for a forecast: add earlier rows")
    if horizon > most:
        raise SettingsError(
            f"a horizon of {horizon} is more than a quarter of the {typical} steps of a typical series, so "
            f"no rehearsal could judge it: horizon={most} or less, or add earlier rows",
            field="horizon",
            code="out_of_range",
        )
