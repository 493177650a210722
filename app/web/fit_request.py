"""The JSON body that asks for a fit; its fields follow from the definition of the settings."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic import create_model as make_model

from app.services.fits.creation import FitRequest
from sampler.settings import SETTINGS, Setting


def _check_texts(given: Any) -> Any:
    """One complaint, where pydantic has one for each entry."""
    if isinstance(given, dict):
        strange = next((name for name, kind in given.items() if not isinstance(kind, str)), None)
        if strange is not None:
            raise ValueError(f"the kind of {strange[:100]} must be text")
    return given


def _check_few(given: Any) -> Any:
    if isinstance(given, dict) and len(given) > 20:
        raise ValueError("there are fewer moves than that")
    return given


class StopRequest(BaseModel):
    """When a fit has drawn enough: when all of these hold, or its time or its draws are at an end.

    They are looked at first when every chain has kept `num_draws`, then at half as many more, and so on: at
    numbers that depend on the request alone. So the same request gives the same bytes, but for
    `max_seconds`, which depends on how fast the machine is.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    verdict: Literal["converged", "approximate"] | None = Field(None, description="That, or a better one.")
    max_rhat: Annotated[float, Field(gt=1, le=10)] | None = Field(
        None, description="Of f at 95% of the reference rows, and of sigma."
    )
    min_ess: Annotated[float, Field(gt=0, le=1e9)] | None = Field(
        None, description="Bulk and tail, of f at 95% of the reference rows, and of sigma."
    )
    max_seconds: Annotated[float, Field(gt=0, le=31_536_000)] | None = Field(
        None,
        description="Since a worker first took it up. Then chains end where they are; what all of them have "
        "is the model, and a chain without a draw is left out.",
    )
    max_draws: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Kept per chain; 16 times num_draws unless given."
    )


class _DataRequest(BaseModel):
    """The rows to learn from, and the roles of their columns."""

    model_config = ConfigDict(extra="forbid", strict=True)

    dataset_id: str
    target: str = Field(description="The column to predict: numbers, or classes where `family` says so.")
    features: Annotated[list[str], Field(fail_fast=True)] | None = Field(
        None, description="Columns to learn from; null: all that are usable."
    )
    columns: Annotated[dict[str, str], BeforeValidator(_check_texts)] | None = Field(
        None, description="Kinds to use instead of the inferred ones: number, boolean, category, date."
    )
    weights: str | None = Field(None, description="A column of positive precision weights.")


TYPES: dict[str, Any] = {
    "word": str,
    "whole": int,
    "yes": bool,
    "moves": str | Annotated[dict[str, float], BeforeValidator(_check_few)],
    "entries": Annotated[dict[str, float], BeforeValidator(_check_few)],
}


def _field(setting: Setting) -> Any:
    """The field of a setting, with its range documented; the sampler checks it, with a sentence."""

    def extend(schema: dict[str, Any]) -> None:
        if setting.limits is not None:
            schema["anyOf"][0] |= dict(zip(("minimum", "maximum"), setting.limits, strict=True))

    return TYPES[setting.kind] | None, Field(None, description=setting.about, json_schema_extra=extend)


def _seed_last(schema: dict[str, Any]) -> None:
    """Document the seed and the name after what a model is."""
    documented = schema["properties"]
    documented |= {name: documented.pop(name) for name in ("seed", "name")}


if TYPE_CHECKING:
    _SettingsRequest = _DataRequest
else:
    _SettingsRequest = make_model(
        "_SettingsRequest",
        __base__=_DataRequest,
        **{name: _field(setting) for name, setting in SETTINGS.items() if setting.requested},
    )


class ModelRequest(_SettingsRequest):
    """What to fit. Everything but the dataset and the target has a default."""

    model_config = ConfigDict(json_schema_extra=_seed_last)

    prior: dict[str, Any] | None = Field(
        None,
        description="k, alpha, beta, nu, q, sigma_estimate, or absolute constants; k_df (and k_scale) for "
        "k = k_scale x chi(k_df); sparse: true for a Dirichlet prior on the columns' shares (DART), with "
        "sparse_a, sparse_b, sparse_rho or sparse_theta.",
    )
    stop: StopRequest | None = Field(None, description="Sample until these rules hold.")
    holdout: Annotated[float, Field(ge=0, le=0.9)] | None = Field(
        None, description="The fraction of rows kept back and scored; the model never sees them."
    )
    name: str | None = Field(None, description="Stands for the model's id wherever one does.")

    def fit_request(self) -> FitRequest:
        """The same as the service wants it."""
        given = {name: value for name in SETTINGS if (value := getattr(self, name, None)) is not None}
        return FitRequest(
            dataset_id=self.dataset_id,
            target=self.target,
            features=self.features,
            columns=self.columns,
            weights=self.weights,
            holdout=self.holdout or 0.0,
            name=self.name,
            prior=self.prior,
            stop=None if self.stop is None else self.stop.model_dump(),
            settings=given,
        )
