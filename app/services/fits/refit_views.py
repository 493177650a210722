"""Views of refits: the comparison of challenger and champion, and the decision."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict


class LogScoresView(TypedDict):
    """Log scores of two models on held-out rows that neither was fitted to; null for too few."""

    rows: int
    units: NotRequired[
        Annotated[int, Field(description="Groups or weeks of these rows, where rows of one count once.")]
    ]
    champion: Annotated[float | None, Field(description="Of the model that answered before.")]
    challenger: Annotated[float | None, Field(description="Of this one.")]
    difference: Annotated[float | None, Field(description="Challenger less champion.")]
    lower: Annotated[float | None, Field(description="The difference's 95% interval.")]
    upper: float | None


class LossesView(TypedDict):
    """Quantile losses of two forecasters, in units of the sd of differences of seasons; null for too few."""

    origins: Annotated[int, Field(description="Steps from which both forecast.")]
    series: int
    outcomes: Annotated[int, Field(description="Forecasts of outcomes that neither had learnt.")]
    windows: Annotated[float, Field(description="Windows that these are worth, which don't overlap.")]
    champion: Annotated[float | None, Field(description="Of the model that answered before.")]
    challenger: Annotated[float | None, Field(description="Of this one.")]
    difference: Annotated[float | None, Field(description="Challenger less champion: above 0 is worse.")]
    lower: Annotated[float | None, Field(description="The difference's 95% interval.")]
    upper: float | None


class RefitView(TypedDict):
    """A refit of another model, and whether the name moved to it."""

    of: Annotated[str, Field(description="The model whose settings it has.")]
    promote: Literal["auto", "always", "never"]
    decision: NotRequired[
        Annotated[
            Literal["promoted", "refused", "kept"],
            Field(description="Made at its end. kept: as `never` asked, the name stays with the other."),
        ]
    ]
    champion: NotRequired[
        Annotated[str | None, Field(description="The model that answered under the name then.")]
    ]
    verdicts: NotRequired[Annotated[dict[str, str], Field(description="Of `champion` and `challenger`.")]]
    log_score: NotRequired[LogScoresView | None]
    loss: NotRequired[Annotated[LossesView | None, Field(description="In its place, of forecasters.")]]
    text: NotRequired[Annotated[str, Field(description="The decision and its reasons, in sentences.")]]
