"""Intercepts and slopes of groups beside the trees."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field
from typing_extensions import TypedDict

from app.services.explanations.guard import ExplainedModel, Question
from app.services.views import DrawsPerChain


class GroupView(TypedDict):
    """A group and its intercept."""

    group: str
    rows: Annotated[int, Field(description="Number of training rows of the group.")]
    mean: float
    sd: float
    lower: float
    upper: float


class GroupSlopeView(TypedDict):
    """A group and its slope."""

    group: str
    mean: float
    sd: float
    lower: float
    upper: float


class CorrelationView(TypedDict):
    """Correlation over groups of slopes with intercepts."""

    mean: float
    lower: float
    upper: float


class GroupDeviationView(TypedDict):
    """Standard deviation of the intercepts, or slopes, of all groups, new ones included."""

    mean: float
    sd: float
    lower: float
    upper: float
    rhat: Annotated[float | None, Field(description="Rank-normalised split R-hat; null with too few draws.")]
    ess_bulk: float | None
    ess_tail: float | None


class SlopesView(TypedDict):
    """Slopes of one feature by group, beside what all groups share."""

    feature: str
    standard_deviation: GroupDeviationView
    correlation: CorrelationView
    groups: list[GroupSlopeView]


class GroupingView(TypedDict):
    """Intercepts, and slopes, of the groups of one column."""

    column: str
    scale: Annotated[str, Field(description="What intercepts are in units of.")]
    level: Annotated[float, Field(description="The level of the intervals.")]
    standard_deviation: GroupDeviationView
    share: Annotated[float, Field(description="Share of the variance beside f between these groups.")]
    groups: list[GroupView]
    slopes: Annotated[
        list[SlopesView],
        Field(
            description="Of each feature whose slope differs by group; intercepts are at these features' "
            "means."
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class GroupsView:
    """Intercepts and slopes of groups beside the trees, by column of groups; empty without any."""

    model_id: str
    draws: DrawsPerChain
    level: float
    columns: list[GroupingView]


class GroupsQuery(Question):
    """A question about groups."""

    view: ClassVar = GroupsView

    level: float = Field(default=0.9, gt=0, lt=1, description="The level of the intervals.")

    def answer(self, model: ExplainedModel) -> GroupsView:
        """Return the intercepts of the groups with their intervals."""
        draws, columns = model.posterior.num_draws, list[Any]()
        columns += [each.to_json() for each in model.posterior.groups(self.level)]
        return GroupsView(model_id=model.head.id, draws=draws, level=self.level, columns=columns)
