"""Intercepts of groups beside the trees."""

from dataclasses import dataclass

from app.services.explanations.finished_models import finished
from app.services.predictions.predict_rows import Predictor, understood
from app.store.tables import Json


@dataclass(frozen=True)
class InterceptTables:
    """Intercepts of a model's groups, as `Posterior.groups` returns them, by column."""

    model_id: str
    draws: int
    level: float
    columns: list[Json]


def groups(predictor: Predictor, owner: str, model: str, level: float) -> InterceptTables:
    """Return the intercepts of a model's groups with their intervals; raises as `finished`."""
    head, posterior = finished(predictor, owner, model)
    with understood():
        columns = [effects.to_json() for effects in posterior.groups(level)]
    return InterceptTables(head.id, posterior.num_draws, level, columns)
