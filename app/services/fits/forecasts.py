"""Plans of forecasters: their series and settings, checked before a fit is accepted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from app.services.errors import ConflictError, Fault, InvalidRequestError, UnusableDataError
from app.services.fits.request_checks import refusing
from app.services.fits.requests import NOT_CALIBRATED, FitRequest
from app.store.tables import Dataset
from sampler import Settings
from sampler.host.data import MOST_CELLS, read, read_column
from sampler.host.fits import Cost, chain_seconds
from sampler.host.fits import estimate_memory as estimate
from sampler.host.forecasts import (
    FORECAST_DEFAULTS,
    FORECAST_SETTINGS,
    Combination,
    check_combination,
    history_of,
    learns,
    parts_of,
    plan_forecaster,
    planned_members,
    read_asked,
    settings_of_member,
)
from sampler.host.settings import NewRows

FITS = 2  # of a member: to all rows, and to those before the rehearsals
REHEARSED = 4e-3  # seconds of a member, a step and a series' rehearsals
MOST_REHEARSED = 400
PATHS = 16 * 1_000  # bytes of a step of a rehearsal or forecast


class AskForecastError(ConflictError):
    """The model is a forecaster, which answers other questions."""

    slug, title = "ask-forecast", "The model forecasts"


def refuse_forecaster(
    settings: Mapping[str, Any],
    what: str = "it answers no questions about rows",
    path: str = "/models/{model_id}/forecast",
) -> None:
    """Raise AskForecastError for a model with such settings if it is a forecaster."""
    if settings.get("time"):
        raise AskForecastError(
            f"The model forecasts later steps of series, and {what}: ask forecast (POST {path})."
        )


@dataclass(frozen=True)
class PlannedForecast:
    """Settings and size of a fit of a forecaster.

    Attributes
    ----------
    settings
        Settings of a member's fit.
    spec
        All settings as the model will show them.
    units
        Members, each of which is a unit of work.
    columns
        Coded columns of a member.
    series, steps
        Size of the history.
    found
        What was recognised in it, in words.

    """

    settings: Settings
    spec: dict[str, Any]
    units: int
    columns: int
    series: int
    steps: int
    found: str

    @property
    def iterations(self) -> int:
        """The iterations of a unit."""
        return FITS * self.settings.num_chains * self.settings.iterations

    def cost(self, rows: int, slots: int) -> Cost:
        """Estimate memory of a worker process and duration of the fit, with `slots` units at once."""
        of_one = estimate(self.spec, rows, self.columns)
        member = FITS * self.settings.num_chains * chain_seconds(self.spec, rows, self.columns)
        starts = min(10 * self.series, MOST_REHEARSED)
        finish = 0.5 + REHEARSED * self.units * starts * self.spec["horizon"] / 10
        held = starts * self.spec["horizon"] * PATHS + 64 * self.series * self.steps
        seconds = -(-self.units // max(slots, 1)) * member + finish
        return Cost(of_one.bytes + held, seconds, finish)


def plan(
    dataset: Dataset, read_columns: Callable[[Sequence[str]], pa.Table], request: FitRequest
) -> PlannedForecast:
    """Check a request for a forecaster, and the rows; raises as `app.services.fits.creation.plan`."""
    names = [column["name"] for column in dataset.columns]
    given = {**request.data, **request.settings, "prior": request.prior, **request.forecast}
    new_rows = None if NewRows.read(request.new_rows).are_like_these else request.new_rows
    beside = {
        "outcomes": 1 + len(request.others),
        "calibrate": request.calibrate,
        "holdout": request.holdout or None,
        "new_rows": new_rows,
        "subgroups": request.subgroups,
    }
    with refusing(request):
        asked = read_asked(request.forecast, names)
        check_combination(Combination(given | beside))
    assert asked is not None, "entries at their defaults are left out of requests"
    _refuse_beside(request)
    chosen = request.data.get("features")
    roles = [asked.time, *asked.series]
    features = [
        name
        for name in names
        if name not in (*roles, request.target) and (chosen is None or name in (*chosen, *asked.known))
    ]
    if request.target not in names:
        fault = Fault(request.target, None, "the dataset has no such column")
        raise UnusableDataError(errors=[fault])
    if dataset.num_rows * len([*roles, *features]) > MOST_CELLS:
        message = f"a forecaster is fitted to {MOST_CELLS:,} cells at most: choose features, or fewer series"
        raise InvalidRequestError(errors=[Fault("features", None, message, "out_of_range")])
    table = read_columns([*roles, *features, request.target])
    outcome = read_column(table.column(request.target), request.target)
    own = {name: value for name, value in request.settings.items() if value is not None and name != "family"}
    own = {name: own[name] for name in FORECAST_SETTINGS if name in own}
    family = request.settings.get("family") or "gaussian"
    family = "gaussian" if family == "auto" else family
    with refusing(request):
        resolved = Settings.resolve(
            **{**FORECAST_DEFAULTS, **own, "family": "gaussian", "noise": "constant", "transform": "none"}
        )
        plain = resolved.to_json()
        settings = {name: plain[name] for name in FORECAST_SETTINGS if name in plain}
        settings |= {"prior": request.prior} if request.prior else {}
        named = None if chosen is None else [*dict.fromkeys([*chosen, *asked.known])]
        arguments = {**settings, **asked.to_json(), "features": named, "family": family}
        history, settings = plan_forecaster(read(table.drop_columns([request.target])), outcome, arguments)
        columns = learns(history, settings)
    member = planned_members(history, settings)[0]
    of_member = {**plain, **settings_of_member(settings, member)}
    spec = of_member | settings | asked.to_json() | {"features": features, "columns": {}, "holdout": 0.0}
    spec |= {"num_series": len(history.keys), "prior": request.prior}
    units = max(len(planned_members(each, settings)) for each in parts_of(history))
    series, steps = history.y.shape
    return PlannedForecast(resolved, spec, units, columns, series, steps, history.in_words)


def planned_again(settings: Mapping[str, Any], header: bytes) -> tuple[PlannedForecast, int]:
    """Return the plan of a stored forecaster's fit with these settings, and its number of outcomes."""
    history, family = history_of(header), {"family": settings["family"]}
    own = {name: settings[name] for name in FORECAST_SETTINGS if settings.get(name) is not None} | family
    units = max(len(planned_members(each, own)) for each in parts_of(history))
    plain = {name: each for name, each in own.items() if name not in ("prior", "family")}
    resolved = Settings.resolve(**FORECAST_DEFAULTS | plain)
    series, steps = history.y.shape
    columns = learns(history, own)
    planned = PlannedForecast(resolved, dict(settings), units, columns, series, steps, history.in_words)
    return planned, int(np.count_nonzero(~np.isnan(history.y)))


def _refuse_beside(request: FitRequest) -> None:
    """Refuse what a forecaster has no use for."""
    if request.stop:
        message = "a forecaster's fits have no stop rules: leave stop out"
        raise InvalidRequestError(errors=[Fault("stop", None, message, "not_applicable")])
    if request.calibrate not in (NOT_CALIBRATED, "folds"):
        message = "forecasts are calibrated by rehearsals: leave calibrate out"
        raise InvalidRequestError(errors=[Fault("calibrate", None, message, "not_applicable")])
