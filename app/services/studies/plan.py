"""Kinds of studies: the data that each is planned from, its plan, and what is made of its units."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.store.tables import Json

StudyKind = Literal["selection", "tuning", "calibration", "placebo", "inclusion_by_trees"]
OF_COSTS = ("weights", "classes", "outcomes")  # that estimates of a fit's cost take beside its settings


@dataclass(frozen=True)
class TrainingData:
    """Size of a model's data, and its settings."""

    num_rows: int
    num_features: int
    coded_columns: int
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class StudyPlan:
    """A valid request with everything resolved: the fits of each unit, estimated seconds, bytes to store."""

    kind: str
    request: Json
    fits: list[int]
    seconds: float
    num_bytes: int


@dataclass(frozen=True)
class KindOfStudy:
    """A kind of studies: the plan of a request, and the result of all units' statistics, if it has one."""

    plan: Callable[[Any, TrainingData, int], StudyPlan]
    result: Callable[[Json, Sequence[Json]], Any] | None = None
