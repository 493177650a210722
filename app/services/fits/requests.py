"""Requests for fits, and that for a fit with the settings of another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine

from app.services.errors import ConflictError, Fault, InvalidRequestError
from app.services.fits import models
from app.store.engine import session_scope
from sampler import SettingsError
from sampler.host.data import counted
from sampler.host.settings import (
    COLUMN_ROLES,
    FORECAST,
    ROLES,
    SETTINGS,
    VALUES_OF_OLD_MODELS,
    read_subgroup,
)

NOT_CALIBRATED = "none"
LENGTHS = ("num_chains", "num_burnin", "num_draws", "thin", "seed")  # of a fit, which no tuning chooses


@dataclass(frozen=True)
class FitRequest:
    """A request for a fit (`POST /models`); None means the default."""

    dataset_id: str
    target: str
    others: Sequence[str] = ()  # further outcomes, whose errors may be correlated with those of the target
    name: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)  # entries of `sampler.definitions.data.ROLES`
    forecast: Mapping[str, Any] = field(default_factory=dict)  # entries of `FORECAST`; none: no forecaster
    settings: Mapping[str, Any] = field(default_factory=dict)  # settings of the model and its chains
    prior: Mapping[str, Any] | None = None
    stop: Mapping[str, Any] | None = None
    holdout: float = 0.0
    calibrate: str = NOT_CALIBRATED
    new_rows: Any = None  # how new rows will differ, as `NewRows.read` reads it
    subgroups: Any = None  # in which calibrated intervals hold, as `Subgroups.read` reads them
    leave_out_missing: bool = False  # rows without a target
    refit: Mapping[str, Any] | None = None  # of which model, and whether the name moves to it
    warnings: Sequence[str] = ()  # of the new model, beside those of its settings and data

    @property
    def roles(self) -> dict[str, str]:
        """Columns by role, such as weights, but for the features and the columns of groups."""
        return {role: self.data[role] for role in COLUMN_ROLES if self.data.get(role)}

    @property
    def reserved(self) -> list[str]:
        """Columns that are no features, the target first."""
        beside = [*self.roles.values(), *(self.data.get("groups") or ())]
        adoption = self.data.get("adoption")
        return [self.target, *self.others, *beside, *([] if adoption is None else [adoption])]

    @property
    def of_forecast(self) -> list[str]:
        """Columns of times and series, and those known ahead; none without a forecast."""
        given = [self.forecast.get(name, ()) for name in ("time", "series", "known")]
        return [name for each in given for name in ([each] if isinstance(each, str) else each)]


def subgroups_in(text: str) -> list[Any]:
    """Read subgroups typed one a line, as the command line takes them; raises InvalidRequestError."""
    try:
        return [read_subgroup(line) for line in text.splitlines() if line.strip()]
    except SettingsError as error:
        raise InvalidRequestError(errors=[Fault.of_setting(error)]) from None


def request_like(
    engine: Engine,
    owner: str,
    model_id: str,
    *,
    holdout: float | None = 0.0,
    name: str | None = None,
    tuned: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    dataset_id: str | None = None,
    promote: str | None = None,
) -> FitRequest:
    """Return the request for a fit with the settings of another model, except its holdout and its name.

    It is calibrated like the other, by held-out rows only if there are any; without a `holdout` (None) it has
    that of the other. `tuned`, settings that a tuning
    chose, replace all but the lengths of chains, the seed and the holdout; `changes` replace single settings
    and keep the holdout. `dataset_id` names a newer dataset; `promote` makes it a refit with a gate
    (`worker.fits.promotion`).

    Raises
    ------
    NotFoundError
        The model doesn't exist.
    ConflictError
        It was imported, so it has no dataset.
    InvalidRequestError
        It is to be promoted by its scores, and no row is held out.
    """
    with session_scope(engine, read_only=True) as session:
        model = models.get(session, owner, model_id)
    if model.dataset_id is None:
        raise ConflictError("The model was imported: it has no dataset to fit it to again.")
    settings = model.settings
    stop = settings.get("stop")
    draws = {} if stop is None else {"num_draws": stop["first_look"]}
    if holdout is None:
        holdout = float(settings.get("holdout") or 0.0)
    known = VALUES_OF_OLD_MODELS | {
        name: settings[name] for name, s in SETTINGS.items() if s.requested and name in settings
    }
    own = {"family": "auto"} if "families" in settings else {}  # each outcome has its own
    known |= own
    prior = settings.get("prior")
    if tuned is not None:
        holdout = settings.get("holdout") or 0.0
        known = {name: known.get(name) for name in LENGTHS} | dict(tuned) | own
        prior = known.pop("prior", None)
    if changes is not None:
        holdout = settings.get("holdout") or 0.0
        known |= changes
    if promote == "auto" and not holdout and not settings.get("time"):
        detail = "promote=auto compares held-out rows, and this model has none: give a fraction"
        raise InvalidRequestError(errors=[Fault("holdout", None, detail)])
    calibrate = _calibration_of(settings, holdout)
    return FitRequest(
        dataset_id=model.dataset_id if dataset_id is None else dataset_id,
        target=model.target,
        others=tuple(settings.get("outcomes", ())[1:]),
        name=model.name if name is None else name,
        data={role: settings[role] for role in ROLES if settings.get(role) is not None},
        forecast={name: settings[name] for name in FORECAST if name in settings},
        settings={name: value for name, value in (known | draws).items() if value is not None},
        prior=prior,
        stop=stop and {rule: value for rule, value in stop.items() if rule != "first_look"},
        holdout=holdout,
        calibrate=calibrate,
        new_rows=settings.get("new_rows"),
        subgroups=None if calibrate == NOT_CALIBRATED else settings.get("subgroups"),
        leave_out_missing=settings.get("missing_target") == "leave_out",
        refit=None if promote is None else {"of": model.id, "promote": promote},
        warnings=() if holdout else _not_made_to_hold(model.holdout, known),
    )


def _not_made_to_hold(scores: Mapping[str, Any] | None, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Warn that a fit to all rows loses what held-out rows did for the intervals of the model before."""
    rows = ((scores or {}).get("recalibration") or {}).get("rows")
    if not rows or settings.get("recalibrate", "auto") != "auto":
        return ()
    return (
        f"intervals are not made to hold: those of the model before were, by "
        f"{counted(rows, 'held-out row')}, and this fit holds out none; a fit with a holdout makes them hold",
    )


def _calibration_of(settings: Mapping[str, Any], holdout: float) -> str:
    rows = str(settings.get("calibrate", NOT_CALIBRATED))
    return NOT_CALIBRATED if rows == "holdout" and not holdout else rows
