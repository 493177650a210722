"""Intercepts and slopes of groups beside the trees."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from app.services.explanations.guard import ExplainedModel, OutcomeQuestion
from app.services.views import lines_of, schema_of
from sampler.host.posteriors import Correlation, GroupDeviation, GroupEffects, GroupSlopes

schema_of(GroupDeviation, "GroupDeviationView", "mean sd lower upper rhat ess_bulk ess_tail")
schema_of(Correlation, "CorrelationView", "mean lower upper")
schema_of(
    GroupSlopes,
    "SlopesView",
    "feature standard_deviation correlation groups",
    groups=lines_of(
        GroupSlopes, "GroupSlopeView", "group=groups mean sd lower upper", "A group and its slope."
    ),
)
schema_of(
    GroupEffects,
    "GroupingView",
    "column scale level standard_deviation share groups slopes",
    groups=lines_of(
        GroupEffects, "GroupView", "group=groups rows mean sd lower upper", "A group and its intercept."
    ),
)


@dataclass(frozen=True)
class GroupsOfModel:
    """Intercepts and slopes of groups beside the trees, by column of groups; empty without any."""

    level: float
    columns: list[GroupEffects]


class GroupsQuery(OutcomeQuestion):
    """A question about groups."""

    view: ClassVar = schema_of(GroupsOfModel, "GroupsView", "outcome model_id draws level columns")

    level: float = Field(default=0.9, gt=0, lt=1, description="The level of the intervals.")

    def answer(self, model: ExplainedModel) -> GroupsOfModel:
        """Return the intercepts of the groups with their intervals."""
        return GroupsOfModel(self.level, model.posterior.groups(self.level))
