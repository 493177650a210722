"""Stored forecasters: what their file has, and checks of one that comes from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.definitions.forecast import DIFFERENCES, MOST_STEPS, Forecasting
from sampler.errors import PackedError, SamplerError
from sampler.forecasts.adapted import table_of_rehearsals
from sampler.forecasts.calibration import Calibration
from sampler.forecasts.history import History, SeriesKey
from sampler.forecasts.members import LAGS_OF_DAYS, SCALES, Member
from sampler.forecasts.paths import MOST_COMMON, Fitted
from sampler.forecasts.steps import UNITS, Step
from sampler.posterior.posterior import Posterior
from sampler.storage.conformal_table import ConformalTable
from sampler.storage.forecast_file import read_forecaster, write_forecaster

MOST_INDEX = 1 << 40  # number of a step


def encode(
    history: History,
    fitted: Sequence[Fitted],
    calibration: Calibration,
    settings: Mapping[str, Any],
    adapted: ConformalTable | None = None,
) -> bytes:
    """Encode the parts of a forecaster but for its models as a file; equal ones give equal bytes."""
    header = {
        "asked": history.asked.to_json(),
        "target": history.target,
        "step": history.step.to_json(),
        "keys": history.keys,
        "numeric": history.numeric,
        "start": history.start,
        "levels": dict(history.levels),
        "static": dict(history.static),
        "known": [*history.known],
        "fitted_keys": [*fitted[0].scales],
        "members": [vars(each.member) | {"common": each.common} for each in fitted],
        "origins": calibration.origins,
        "rehearsed": calibration.keys,
        "counts": calibration.counts,
        "settings": dict(settings),
    }
    scales = {f"scales {n}": np.array([*each.scales.values()]) for n, each in enumerate(fitted)}
    known = {f"known {name}": values for name, values in history.known.items()}
    arrays = {"y": history.y} | known | scales | calibration.arrays()
    return write_forecaster(*_adapted(header, arrays, adapted), [])


def with_adapted(data: bytes, table: ConformalTable) -> bytes:
    """Return what `encode` gave with intervals that follow outcomes; raise PackedError as `decode`."""
    header, arrays, _ = read_forecaster(data)
    return write_forecaster(*_adapted(header, arrays, table), [])


def intervals_of(data: bytes, draws: int) -> ConformalTable | None:
    """Return the table of what `encode` gave, or of its rehearsals; None without any of these."""
    header, arrays, _ = read_forecaster(data)
    if "adapted" in header:
        return _table(header, arrays)
    keys = [tuple(key) for key in header["rehearsed"]]
    calibration = Calibration.of_arrays(header["origins"], keys, counts=bool(header["counts"]), arrays=arrays)
    return table_of_rehearsals(calibration, draws)


def history_of(data: bytes) -> History:
    """Return the history of what `encode` gave."""
    header, arrays, _ = read_forecaster(data)
    return _history(header, arrays)


def _adapted(
    header: Mapping[str, Any], arrays: Mapping[str, Floats], table: ConformalTable | None
) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Add a table; without one nothing changes."""
    if table is None:
        return dict(header), dict(arrays)
    return {**header, "adapted": table.to_json()}, {**arrays, "adapted": table.scores}


def _table(header: Mapping[str, Any], arrays: Mapping[str, Floats]) -> ConformalTable:
    """Read a table; raise an error that `decode` takes for unreadable."""
    table = ConformalTable.from_json(header["adapted"], arrays["adapted"], of_classes=False)
    _must(table.scores.ndim == 1 and table.rows > 0 and table.tails is not None, "it has another calibration")
    return table


def decode(
    data: bytes,
) -> tuple[History, list[Fitted], Calibration, dict[str, Any], ConformalTable | None]:
    """Decode the parts of a forecaster; raise PackedError for anything that isn't one."""
    header, arrays, models = read_forecaster(data)
    try:
        history = _history(header, arrays)
        fitted = _members(header, arrays, models, history)
        rehearsed = _keys(header["rehearsed"], history)
        origins = [_whole(each, -MOST_INDEX, MOST_INDEX) for each in header["origins"]]
        counts = bool(header["counts"])
        calibration = Calibration.of_arrays(origins, rehearsed, counts=counts, arrays=arrays)
        for each in (*origins, history.start, history.start + history.y.shape[1] + 3 * history.asked.horizon):
            history.step.text(each)
        settings = dict(header["settings"])
        _whole(settings["seed"], 0, 1 << 64)
        adapted = _table(header, arrays) if "adapted" in header else None
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        OverflowError,
        SamplerError,
    ) as error:
        raise PackedError(f"the file of the forecaster can't be read: {error}") from error
    return history, fitted, calibration, settings, adapted


def _history(header: Mapping[str, Any], arrays: Mapping[str, Floats]) -> History:
    """Read the history; raise an error that `decode` takes for unreadable."""
    asked = Forecasting.read(header["asked"])
    _must(asked is not None, "it has no column of times")
    assert asked is not None
    step = Step(**header["step"])
    _must(step.unit in UNITS and math.isfinite(step.origin) and 0 < step.size < math.inf, "it has no step")
    _must(step.unit in ("day", "number") or step.size == int(step.size), "it has no step")
    numeric = tuple(bool(each) for each in header["numeric"])
    start = _whole(header["start"], -MOST_INDEX, MOST_INDEX)
    known = {name: arrays[f"known {name}"] for name in asked.known}
    levels = {
        name: tuple(map(str, header["levels"][name])) for name in asked.known if name in header["levels"]
    }
    static = {str(name): tuple(map(_plain, values)) for name, values in header["static"].items()}
    history = History(
        asked, str(header["target"]), step, (), numeric, start, arrays["y"], known, levels, static
    )
    keys = _keys(header["keys"], history)
    shape = history.y.shape
    _must(len(shape) == 2 and min(shape) > 0 and len({*keys}) == len(keys) == shape[0], "it has no series")
    _must(len(numeric) == len(asked.series), "its series have other names")
    _must(all(each.shape == shape for each in known.values()), "its known columns have other shapes")
    _must(all(len(each) == len(keys) for each in static.values()), "its columns have other lengths")
    for name, names in levels.items():
        codes = known[name][~np.isnan(known[name])]
        _must(bool(np.all((codes >= 0) & (codes < len(names)) & (codes % 1 == 0))), "it has other levels")
    _must(not np.isinf(history.y).any(), "its outcomes are infinite")
    return History(asked, history.target, step, tuple(keys), numeric, start, history.y, known, levels, static)


def _members(
    header: Mapping[str, Any], arrays: Mapping[str, Floats], models: Sequence[bytes], history: History
) -> list[Fitted]:
    """Read the members; raise an error that `decode` takes for unreadable."""
    keys = _keys(header["fitted_keys"], history)
    fitted = []
    for number, (values, model) in enumerate(zip(header["members"], models, strict=True)):
        common = float(values["common"])
        member = Member(**{name: each for name, each in values.items() if name != "common"})
        _must(member.difference in DIFFERENCES and member.scale in SCALES, "it has another kind of member")
        _whole(member.lags, 1, LAGS_OF_DAYS)
        _whole(member.season, 1, MOST_STEPS)
        scales = arrays[f"scales {number}"]
        _must(
            bool(np.all(np.isfinite(scales) & (scales > 0))) and 0 <= common <= MOST_COMMON,
            "its scales are none",
        )
        posterior = Posterior.from_bytes(model)
        first = np.zeros(1, np.int64)
        columns = member.fixed(history, dict(history.known), first, first + history.start)
        names = {column.name for column in posterior.schema.columns}
        _must(names <= {*columns, *member.columns(history.target)}, "a member has other columns")
        fitted.append(Fitted(member, posterior, dict(zip(keys, scales.tolist(), strict=True)), common))
    draws = {(each.posterior.num_chains, each.posterior.num_draws) for each in fitted}
    _must(len(draws) == 1, "its members have other numbers of draws")
    return fitted


def _keys(given: Any, history: History) -> list[SeriesKey]:
    keys = [tuple(map(str, key)) for key in given]
    _must(all(len(key) == len(history.asked.series) for key in keys), "its series have other names")
    return keys


def _plain(value: Any) -> Any:
    _must(value is None or isinstance(value, str | int | float), "a column has other values")
    return value


def _whole(value: Any, low: int, high: int) -> int:
    _must(type(value) is int and low <= value <= high, "a number is out of range")
    return int(value)


def _must(holds: bool, why: str) -> None:
    if not holds:
        raise ValueError(why)
