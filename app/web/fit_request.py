"""The request for a fit: fields of `POST /models`, also filled by the dashboard's form."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic import create_model as make_model

from app.services.fits.creation import FitRequest
from sampler.settings import SETTINGS, Setting


def _check_texts(given: Any) -> Any:
    """Report one fault, where pydantic would report one per entry."""
    if isinstance(given, dict):
        strange = next((name for name, kind in given.items() if not isinstance(kind, str)), None)
        if strange is not None:
            raise ValueError(f"the kind of {strange[:100]} must be text")
    return given


def _check_few(given: Any) -> Any:
    if isinstance(given, dict) and len(given) > 20:
        raise ValueError("at most 20 entries are accepted")
    return given


class StopRequest(BaseModel):
    """Stop rules of a fit: it ends when all of them are met, or at its limit of time or draws.

    They are checked first when every chain has `num_draws` kept draws, then at half as many more, and so on:
    at numbers that depend only on the request. So the same request gives the same bytes, except with
    `max_seconds`, which depends on the speed of the machine.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    verdict: Literal["converged", "approximate"] | None = Field(
        None, description="This verdict or a better one."
    )
    max_rhat: Annotated[float, Field(gt=1, le=10)] | None = Field(
        None, description="Largest R-hat of f at 95% of the reference rows, and of sigma."
    )
    min_ess: Annotated[float, Field(gt=0, le=1e9)] | None = Field(
        None, description="Smallest bulk and tail ESS of f at 95% of the reference rows, and of sigma."
    )
    max_seconds: Annotated[float, Field(gt=0, le=31_536_000)] | None = Field(
        None,
        description="Seconds since a worker first claimed the fit. Then chains end where they are; the model "
        "consists of the draws that all of them have, and chains without draws are dropped.",
    )
    max_draws: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Most kept draws per chain; 16 times num_draws by default."
    )


class _DataRequest(BaseModel):
    """The dataset of a fit, and the roles of its columns."""

    model_config = ConfigDict(extra="forbid", strict=True)

    dataset_id: str
    target: str = Field(description="The column to predict: numbers, or classes depending on `family`.")
    features: Annotated[list[str], Field(fail_fast=True)] | None = Field(
        None, description="Columns to use as features; null: all usable ones."
    )
    columns: Annotated[dict[str, str], BeforeValidator(_check_texts)] | None = Field(
        None, description="Kinds that override the inferred ones: number, boolean, category, date."
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
    """Make the field of a setting with its documented range; the sampler validates it."""

    def extend(schema: dict[str, Any]) -> None:
        if setting.limits is not None:
            schema["anyOf"][0] |= dict(zip(("minimum", "maximum"), setting.limits, strict=True))

    return TYPES[setting.kind] | None, Field(None, description=setting.about, json_schema_extra=extend)


def _seed_last(schema: dict[str, Any]) -> None:
    """Move seed and name to the end of the documented properties."""
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
    """A request for a fit. Everything except the dataset and the target has a default."""

    model_config = ConfigDict(json_schema_extra=_seed_last)

    prior: dict[str, Any] | None = Field(
        None,
        description="k, alpha, beta, nu, q, sigma_estimate, or absolute constants; k_df (and k_scale) for "
        "k = k_scale x chi(k_df); sparse: true for a Dirichlet prior on the columns' shares (DART), with "
        "sparse_a, sparse_b, sparse_rho or sparse_theta.",
    )
    stop: StopRequest | None = Field(None, description="Sample until these rules hold.")
    holdout: Annotated[float, Field(ge=0, le=0.9)] | None = Field(
        None, description="The fraction of rows held out from fitting and used for scores."
    )
    name: str | None = Field(None, description="A name that can replace the model's id everywhere.")

    def fit_request(self) -> FitRequest:
        """Convert to the service's request."""
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
