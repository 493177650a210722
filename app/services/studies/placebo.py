"""Studies "placebo": effects of a treatment that did nothing, which should be none."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from app.services.errors import ConflictError, Fault, InvalidRequestError
from app.services.fits.costs import check_memory, check_seconds
from app.services.request_bodies import Share, StrictBody
from app.services.studies.plan import StudyPlan, TrainingData
from app.services.views import of_document
from app.store.tables import Json
from sampler.host.fits import chain_seconds, prepare_seconds
from sampler.host.posteriors import EffectEstimate

ESTIMATE_BYTES = 200  # upper bound of the stored bytes of an average
MOST_ESTIMATES = 10
EARLIER = 2  # periods


class PlaceboBody(StrictBody):
    """A fit to treatments that did nothing: an average effect other than none is a sign of another cause."""

    kind: Literal["placebo"] = Field(
        description="placebo: the model's fit again to treatments drawn by chance, each as probable as the "
        "row's own; of a panel to the rows before the adoption, as if units had adopted some periods earlier."
    )
    seed: int = Field(default=0, ge=0, le=2**31 - 1, description="Seed of treatments drawn by chance.")
    periods_earlier: int | None = Field(
        default=None, ge=1, le=1000, description="Of a panel, by how many periods earlier; default 2."
    )
    level: Share = Field(default=0.9, description="The probability an interval holds.")


@dataclass(frozen=True, kw_only=True)
class PlaceboView:
    """Effects of a placebo: on average, and of a panel at each lag since the earlier adoption."""

    level: float
    difference: Annotated[str, Field(description="What is compared, in words.")]
    average: EffectEstimate
    groups: Annotated[dict[str, EffectEstimate], Field(description="Of a panel by lag; else empty.")]
    warnings: list[str]


def plan(request: PlaceboBody, data: TrainingData, _slots: int) -> StudyPlan:
    """Check a request and plan its fit.

    Raises
    ------
    ConflictError
        The model has no treatment.
    InvalidRequestError
        Periods are of panels alone, or the fit is too large.
    """
    settings, panel = data.settings, data.settings.get("adoption") is not None
    if not panel and settings.get("treatment") is None:
        raise ConflictError("The model has no treatment, whose placebo could be fitted.")
    if request.periods_earlier is not None and not panel:
        message = "periods_earlier is of panels, with adoptions; other placebos are drawn by chance"
        raise InvalidRequestError(errors=[Fault("periods_earlier", None, message, "not_accepted")])
    rows, columns, chains = data.num_rows, data.coded_columns, int(settings["num_chains"])
    check_memory(settings, rows, columns)
    seconds = prepare_seconds(settings, rows, columns) + chains * chain_seconds(settings, rows, columns)
    check_seconds(seconds, "study", "Ask it of a model of fewer rows, draws or trees.")
    wanted = request.model_dump(exclude={"kind"})
    if panel and wanted["periods_earlier"] is None:
        wanted["periods_earlier"] = EARLIER
    return StudyPlan("placebo", wanted, [chains], seconds, MOST_ESTIMATES * ESTIMATE_BYTES)


def result(request: Json, statistics: Sequence[Json]) -> PlaceboView:
    """Return what the unit found."""
    (found,) = statistics
    return of_document(PlaceboView, found | {"level": request["level"]})
