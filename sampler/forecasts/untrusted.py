"""Checks of forecasters' files from untrusted sources (`sampler.posterior.untrusted`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sampler.data.schema import name_fault
from sampler.errors import DataError, PackedError, SettingsError
from sampler.forecasts.fitting import PASSED
from sampler.forecasts.forecaster import Forecaster
from sampler.posterior.untrusted import MISFITS, check_plain, read_contents
from sampler.settings import Settings
from sampler.storage.forecast_file import read_forecaster

TRIED = 3  # series that are forecast
LARGEST_SEASON = 10_000


def read_untrusted(data: bytes) -> tuple[Forecaster, Settings]:
    """Decode the file of a forecaster, check its names, numbers and members, and let it forecast.

    Like `read_contents`, in a process with limited memory. Returns the members' settings too.

    Raises
    ------
    PackedError
        For anything that isn't one, and for files that are damaged or contradictory.

    """
    try:
        return _read(data)
    except (SettingsError, DataError, *MISFITS) as error:
        raise PackedError(f"the file of the forecaster can't be used: {error}") from None


def _read(data: bytes) -> tuple[Forecaster, Settings]:
    header, _, models = read_forecaster(data)
    check_plain([header])
    for model in models:
        read_contents(model)
    forecaster = Forecaster.from_bytes(data)
    history = forecaster.history
    names = [history.target, history.asked.time, *history.asked.series, *history.known, *history.static]
    endless = any(np.isinf(each).any() for each in (history.y, *history.known.values()))
    if endless or any(map(name_fault, names)):
        raise ValueError("a name or number in it is none")
    given = {name: header["settings"][name] for name in PASSED if name in header["settings"]}
    given.pop("prior", None)
    settings = Settings.resolve(**given, family="gaussian", noise="constant", transform="none")
    _ask(forecaster)
    return forecaster, settings


def _ask(forecaster: Forecaster) -> None:
    """Ask a forecaster all that it answers, of few series."""
    history = forecaster.history
    able, _, _ = forecaster.choose(None, None)
    series = [list(history.keys[each]) for each in able[:TRIED]]
    plan: Any = None
    if history.asked.known:
        plan = forecaster.plan_template(series)
        for name in history.asked.known:
            value = (history.levels.get(name) or (0.0,))[0]
            plan[name] = [value] * len(plan[history.asked.time])
    answer = forecaster.forecast(plan, series=series)
    answer.total(by=history.asked.series)  # of each, since they may end apart
    if not np.isfinite(answer.median).all() or any(
        each.member.season > LARGEST_SEASON for each in forecaster.fitted
    ):
        raise ValueError("its forecasts are out of range")
    forecaster.rehearsals()
    forecaster.described()
