"""Settings of forecasts: time, series, the horizon, and what is known ahead (docs/forecasts.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sampler.definitions.setting import FormField, Setting
from sampler.errors import SettingsError, suggestion

AUTO = "auto"
STEPS = ("hour", "day", "business day", "week", "month", "quarter", "year")
DIFFERENCES = ("last", "season", "none")
GAPS = ("missing", "zero")
MOST_STEPS = 1_000
SECTION = "Forecast"
ANSWERED = frozenset({"step", "median", "lower", "upper", "flags"})  # columns of a forecast


def _choice(label: str, default: str, choices: tuple[tuple[str, str], ...]) -> FormField:
    return FormField(label, SECTION, default, choices=choices)


FORECAST: dict[str, Setting] = {
    "time": Setting(
        "column",
        "forecast",
        "A column of times in equal steps: dates, numbers, or periods such as 2014 Q1, 1987 Jan and "
        "2024-W05. With it the fit is of a forecaster, which needs a horizon.",
        form=FormField(
            "Time",
            SECTION,
            "None",
            "A column of dates, periods or numbers in equal steps: later steps are forecast.",
        ),
    ),
    "series": Setting(
        "names",
        "forecast",
        "Columns that tell the series of a row: shop, or shop and product; none where there is one series. "
        "All series share one model.",
        form=FormField("Series", SECTION, "One series", "Columns that tell a row's series: shop, product."),
    ),
    "horizon": Setting(
        "whole",
        "forecast",
        "How many steps ahead are forecast, and judged in rehearsals.",
        limits=(1, MOST_STEPS),
        form=FormField("Horizon", SECTION, "none: no forecast", "How many steps ahead are forecast."),
    ),
    "known": Setting(
        "names",
        "forecast",
        "Features whose later values are known ahead, such as promotions and holidays: a plan with them is "
        "needed for a forecast.",
        form=FormField(
            "Known ahead", SECTION, "None", "Features with a plan for later steps: promotions, holidays."
        ),
    ),
    "step": Setting(
        "word",
        "forecast",
        "The step between times; auto finds it.",
        default=AUTO,
        choices=(AUTO, *STEPS),
        form=_choice("Step", "auto: by the times", tuple((each, each) for each in STEPS)),
    ),
    "season": Setting(
        "whole",
        "forecast",
        "Number of steps after which a season returns, or a list of two; 1 for none. By default by the "
        "step: 24 of hours, 7 of days, 5 of business days, 52 of weeks, 12 of months, 4 of quarters, none "
        "of years.",
        default=AUTO,
        limits=(1, MOST_STEPS),
        form=FormField("Season", SECTION, "auto: by the step", "Steps until a season returns; 1 for none."),
    ),
    "difference": Setting(
        "word",
        "forecast",
        "What models learn: last, the difference to the value before; season, to that a season ago; none, "
        "the value itself; auto, models of all of them, of which each has a share of the paths.",
        default=AUTO,
        choices=(AUTO, *DIFFERENCES),
        form=_choice(
            "Difference",
            "auto: all of them",
            (("last", "to the value before"), ("season", "to that a season ago"), ("none", "none")),
        ),
    ),
    "gaps": Setting(
        "word",
        "forecast",
        "What a step without a row is: missing, not known; zero, nothing was sold. auto takes it for "
        "missing, and asks where whole numbers lack more than a fifth of the steps.",
        default=AUTO,
        choices=(AUTO, *GAPS),
        form=_choice("Steps without a row", "auto: missing", (("missing", "missing"), ("zero", "zero"))),
    ),
}


@dataclass(frozen=True)
class Forecasting:
    """Settings of a forecaster; the attributes are the entries of `FORECAST`."""

    time: str
    horizon: int
    series: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    step: str = AUTO
    season: tuple[int, ...] = field(default=())
    difference: str = AUTO
    gaps: str = AUTO

    @classmethod
    def read(cls, given: Mapping[str, Any], columns: Collection[str] | None = None) -> Self | None:
        """Read the entries of `FORECAST` that are given; `columns` are those that they may name.

        Returns
        -------
        Forecasting or None
            None where none is given.

        Raises
        ------
        SettingsError
            For values that are not accepted, and entries without a time or horizon.

        """
        given = {name: given[name] for name in FORECAST if given.get(name) not in (None, [], ())}
        given = {name: each for name, each in given.items() if each != FORECAST[name].default}
        if not given:
            return None
        if absent := [name for name in ("time", "horizon") if name not in given]:
            other = next(name for name in given)
            why = "everything is judged at it" if absent[0] == "horizon" else f"{other} is of forecasts"
            raise SettingsError(
                f"{absent[0]} is needed, since {why}: "
                + (
                    "give the number of steps ahead" if absent[0] == "horizon" else "name the column of times"
                ),
                field=absent[0],
                code="contradiction",
            )
        read = cls(**{name: _checked(name, value) for name, value in given.items()})
        named = {"time": (read.time,), "series": read.series, "known": read.known}
        for name, each in [(name, each) for name, names in named.items() for each in names]:
            if columns is not None and each not in columns:
                message = f"{name} names {each!r}, which the table doesn't have{suggestion(each, columns)}"
                raise SettingsError(message, field=name, code="unknown")
        if columns is not None and (taken := {read.time, *read.series} & ANSWERED):
            name = min(taken)
            message = f"forecasts have a column {name!r} of their own: give that of the table another name"
            raise SettingsError(message, field="time" if name == read.time else "series", code="not_accepted")
        roles = [read.time, *read.series, *read.known]
        if doubled := next((each for each in roles if roles.count(each) > 1), None):
            raise SettingsError(
                f"{doubled!r} can be one of time, series and known, once", field="time", code="contradiction"
            )
        return read

    def to_json(self) -> dict[str, Any]:
        """Return the values that `read` reads, without those at their defaults."""
        values = {name: list(each) if isinstance(each, tuple) else each for name, each in vars(self).items()}
        return {name: each for name, each in values.items() if each not in ([], AUTO)}


def _checked(name: str, value: Any) -> Any:
    """Check the value of an entry; names and seasons become tuples."""
    several = tuple(value) if isinstance(value, list | tuple) else (value,)
    if FORECAST[name].kind == "names":
        if not all(isinstance(each, str) for each in several):
            message = f"{name} must be names of columns, not {value!r}"
            raise SettingsError(message, field=name, code="not_accepted")
        return several
    if name == "season":
        if len(several) > 2:
            raise SettingsError("season takes one or two numbers", field=name, code="out_of_range")
        return tuple(FORECAST[name].check(name, each) for each in several)
    return FORECAST[name].check(name, value)
