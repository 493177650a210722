"""The request for a fit: fields of `POST /models`, also filled by the dashboard's form."""

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic import create_model as make_model
from pydantic_core import PydanticCustomError

from app.services.fits.requests import NOT_CALIBRATED, FitRequest
from app.services.request_bodies import StrictBody
from sampler.host.settings import (
    ABOUT_NEW_ROWS,
    ABOUT_SUBGROUPS,
    ALL_SETTINGS,
    CALIBRATE,
    FORECAST,
    HOLDOUT,
    MAX_OUTCOMES,
    MISSING_TARGET,
    MOST_SUBGROUPS,
    PRIOR,
    ROLES,
    SETTINGS,
    STOP,
    Setting,
)
from sampler.host.settings import STOP_BY_DEFAULT as BY_DEFAULT


def _texts(noun: str) -> Any:
    """Return a type of texts by column, of which one fault is reported, where pydantic has one per entry."""

    def check(value: Any) -> Any:
        if isinstance(value, dict):
            strange = next((name for name, text in value.items() if not isinstance(text, str)), None)
            if strange is not None:
                raise ValueError(f"the {noun} of {strange[:100]} must be text")
        return value

    return Annotated[dict[str, str], Field(fail_fast=True), BeforeValidator(check)]


def _check_few(value: Any) -> Any:
    if isinstance(value, dict) and len(value) > 20:
        raise ValueError("at most 20 entries are accepted")
    return value


def _check_features(value: Any) -> Any:
    """Report one fault, where pydantic would report one per branch."""
    named = value.values() if isinstance(value, dict) else [value]
    if not all(
        each is None or (isinstance(each, list) and all(isinstance(k, str) for k in each)) for each in named
    ):
        raise ValueError("must be a list of columns, or such a list for each target")
    return value


_NAMES: Any = Annotated[list[str], Field(fail_fast=True)]
TYPES: dict[str, Any] = {
    "word": str,
    "whole": int,
    "number": float,
    "yes": bool,
    "moves": str | Annotated[dict[str, float], Field(fail_fast=True), BeforeValidator(_check_few)],
    "entries": Annotated[dict[str, float], Field(fail_fast=True), BeforeValidator(_check_few)],
    "column": str,
    "names": _NAMES,
    "features": Annotated[
        _NAMES | Annotated[dict[str, _NAMES | None], Field(fail_fast=True)], BeforeValidator(_check_features)
    ],
    "levels": Annotated[list[str | int | float], Field(fail_fast=True)],
    "kinds": _texts("kind"),
    "directions": _texts("direction"),
    "parts": Annotated[dict[str, Any], Field(fail_fast=True), BeforeValidator(_check_few)],
}


def _field(setting: Setting) -> Any:
    """Make the field of a setting with its documented range; the sampler validates it."""

    def extend(schema: dict[str, Any]) -> None:
        if setting.limits is not None:
            schema["anyOf"][0] |= dict(zip(("minimum", "maximum"), setting.limits, strict=True))

    kind = TYPES[setting.kind]
    if setting.kind == "yes" and setting.choices:
        known = (True, False, *setting.choices)

        def check(value: Any) -> Any:
            """Report one fault, where pydantic would report one per branch."""
            if not isinstance(value, bool | str) or value not in known:
                words = " or ".join(map(repr, setting.choices))
                raise PydanticCustomError("not_accepted", f"Input should be true, false or {words}")
            return value

        kind = Annotated[kind | Literal[setting.choices], BeforeValidator(check)]
    return kind | None, Field(None, description=setting.about, json_schema_extra=extend)


def _of_forecast(name: str) -> Any:
    """Make the field of an entry of `FORECAST`, of which one value or a list of several may be given."""
    kind, field = _field(FORECAST[name])
    if FORECAST[name].kind == "names" or name == "season":
        one = str if FORECAST[name].kind == "names" else int
        several = Annotated[list[one], Field(max_length=20, fail_fast=True)]  # type: ignore[valid-type]
        kind = one | several | None
    return kind, field


def _validated(setting: Setting) -> Any:
    """Make the field of a setting that is validated here."""
    kind = TYPES[setting.kind]
    if setting.choices:
        kind = Literal[setting.choices]
    elif setting.limits is not None:
        names = ("ge" if setting.ends[0] == "[" else "gt", "le" if setting.ends[1] == "]" else "lt")
        bounds = zip(names, setting.limits, strict=True)
        limits: dict[str, Any] = {name: end for name, end in bounds if end != math.inf}
        kind = Annotated[kind, Field(**limits)]
    return kind | None, Field(None, description=setting.about)


if TYPE_CHECKING:
    _StopRules = StrictBody
else:
    _StopRules = make_model(
        "_StopRules", __base__=StrictBody, **{name: _validated(rule) for name, rule in STOP.items()}
    )


class StopRequest(_StopRules):
    """Stop rules of a fit: it ends when all of them are met, or at its limit of time or draws.

    They are checked first when every chain has `num_draws` kept draws, then at half as many more, and so on:
    at numbers that depend only on the request. So the same request gives the same bytes, except with
    `max_seconds`, which depends on the speed of the machine.
    """


class _DataRequest(StrictBody):
    """The dataset of a fit and the column to predict."""

    dataset_id: str
    target: str | Annotated[list[str], Field(min_length=2, max_length=MAX_OUTCOMES)] = Field(
        description="The column to predict: numbers, or classes depending on `family`. Or names of several, "
        "whose errors may have correlations (`POST /models/{model_id}/joint`): numbers, and with family "
        "auto one of two classes after them. The first must be known in every row, and is what other answers "
        "are about unless they ask for an `outcome`."
    )


class _OtherRequest(BaseModel):
    prior: dict[str, Any] | None = Field(
        None,
        description=f"Hyperparameters or absolute constants, by name: {', '.join(PRIOR)}. k_df (and k_scale) "
        "give k = k_scale x chi(k_df); sparse: true gives a Dirichlet prior on the columns' shares (DART).",
    )
    stop: StopRequest | None = Field(None, description=f"Sample until these rules hold. {BY_DEFAULT}")
    new_rows: str | Annotated[dict[str, Any], BeforeValidator(_check_few)] | None = Field(
        None, description=ABOUT_NEW_ROWS
    )
    subgroups: Annotated[list[str | dict[str, Any]], Field(max_length=MOST_SUBGROUPS)] | None = Field(
        None, description=ABOUT_SUBGROUPS
    )


if TYPE_CHECKING:

    class _SettingsRequest(_OtherRequest, _DataRequest):
        holdout: float | None
        calibrate: str | None
        missing_target: str | None
else:
    _SettingsRequest = make_model(
        "_SettingsRequest",
        __base__=(_OtherRequest, _DataRequest),
        **{name: _field(role) for name, role in ROLES.items()},
        **{name: _of_forecast(name) for name in FORECAST},
        **{name: _field(setting) for name, setting in SETTINGS.items() if setting.requested},
        holdout=_validated(HOLDOUT),
        calibrate=_validated(CALIBRATE),
        missing_target=_validated(MISSING_TARGET),
    )

if TYPE_CHECKING:

    class _Candidate(StrictBody):
        prior: dict[str, Any] | None
else:
    _Candidate = make_model(
        "_Candidate",
        __base__=StrictBody,
        **{
            name: _field(setting)
            for name, setting in SETTINGS.items()
            if setting.requested and name not in ("family", "method", "seed")
        },
        prior=(dict[str, Any] | None, Field(None, description="Entries of the prior, by name.")),
    )


class CandidateSettings(_Candidate):
    """Settings in which a candidate of a tuning differs from the others, named as in POST /models."""

    def given(self) -> dict[str, Any]:
        """Return those that are given."""
        return self.model_dump(exclude_none=True)


LAST = (
    "prior",
    "stop",
    "holdout",
    "calibrate",
    "new_rows",
    "subgroups",
    "missing_target",
    "seed",
    "name",
)  # documented after the others


def _order(schema: dict[str, Any]) -> None:
    """Document what a model is before how it is drawn."""
    documented = schema["properties"]
    documented |= {name: documented.pop(name) for name in LAST}


class ModelRequest(_SettingsRequest):
    """A request for a fit. Everything except the dataset and the target has a default."""

    model_config = ConfigDict(json_schema_extra=_order)

    name: str | None = Field(None, description="A name that can replace the model's id everywhere.")

    @property
    def targets(self) -> list[str]:
        """The columns to predict."""
        return [self.target] if isinstance(self.target, str) else self.target

    def fit_request(self) -> FitRequest:
        """Convert to the service's request."""
        settings = {name: value for name in ALL_SETTINGS if (value := getattr(self, name, None)) is not None}
        return FitRequest(
            dataset_id=self.dataset_id,
            target=self.targets[0],
            others=tuple(self.targets[1:]),
            name=self.name,
            data={name: settings[name] for name in ROLES if name in settings},
            forecast={
                name: value
                for name, entry in FORECAST.items()
                if (value := getattr(self, name, None)) not in (None, [], entry.default)
            },
            settings={name: settings[name] for name in SETTINGS if name in settings},
            prior=self.prior,
            stop=None if self.stop is None else self.stop.model_dump(),
            holdout=self.holdout or 0.0,
            calibrate=self.calibrate or NOT_CALIBRATED,
            new_rows=self.new_rows,
            subgroups=self.subgroups,
            leave_out_missing=self.missing_target == "leave_out",
        )
