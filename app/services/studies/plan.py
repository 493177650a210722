"""Data that a study of any kind is planned from, and its plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.store.tables import Json

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
