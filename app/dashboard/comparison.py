"""Figures of models to compare them by, on held-out rows and of the fit."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from app.services.fits.models import ModelView


@dataclass(frozen=True)
class ModelFigures:
    """A model with its figures; None where there is none.

    Attributes
    ----------
    model
        The model.
    error, error_name
        Root mean squared error of held-out rows, or the log loss for classes.
    skill
        Share of the error of a linear model (of the class frequencies, for classes) that the model saves.
    coverage, off
        Share of the outcomes inside their 90% intervals, None for classes; and whether these are too narrow,
        too wide or uneven, empty where they are usable.
    rows
        Rows of the dataset.
    seconds
        From the first chain's start to the end.

    """

    model: ModelView
    error: float | None
    error_name: str
    skill: float | None
    coverage: float | None
    off: str
    rows: int | None
    seconds: float | None


# scores by which models are compared, their baselines, and their names
ERRORS = (
    ("rmse", "linear_rmse", "RMSE"),
    ("integrated_brier", "base_integrated_brier", "integrated Brier score"),
    ("rps", "base_rps", "ranked probability score"),
    ("log_loss", "base_log_loss", "log loss"),
)


def figures_of(model: ModelView) -> ModelFigures:
    """Return the figures of a model."""
    held = model.holdout or {}
    score, of_base, name = next((each for each in ERRORS if each[0] in held), ERRORS[-1])
    error, base = held.get(score), held.get(of_base)
    at_90 = next((entry for entry in held.get("coverage") or () if entry["level"] == 0.9), None)
    judged = held.get("intervals_verdict") or {}
    reasons = judged.get("reasons") or [{"code": "off"}]
    seconds = None
    if model.started_at is not None and model.finished_at is not None:
        seconds = (model.finished_at - model.started_at).total_seconds()
    return ModelFigures(
        model=model,
        error=error,
        error_name=name,
        skill=1 - error / base if error is not None and base else None,
        coverage=None if at_90 is None else at_90["coverage"],
        off=reasons[0]["code"].replace("_", " ") if judged.get("verdict") == "not_held" else "",
        rows=model.num_rows,
        seconds=seconds,
    )


VERDICTS = {"converged": 0, "approximate": 1, "not_converged": 2}
ORDERS: dict[str, Callable[[ModelFigures], Any]] = {
    "model": lambda row: row.model.label.casefold(),
    "target": lambda row: row.model.target.casefold(),
    "error": lambda row: row.error,
    "skill": lambda row: row.skill,
    "coverage": lambda row: row.coverage,
    "verdict": lambda row: VERDICTS.get(row.model.verdict or ""),
    "method": lambda row: row.model.settings.get("method"),
    "rows": lambda row: row.rows,
    "time": lambda row: row.seconds,
    "created": lambda row: row.model.created_at,
}
LARGEST_FIRST = {"skill", "coverage", "rows", "time", "created"}  # when a column is first chosen


def ordered(rows: Iterable[ModelFigures], by: str, *, reverse: bool) -> list[ModelFigures]:
    """Return the models by a column of `ORDERS`; those without its figure come last."""
    key = ORDERS[by]
    known: list[ModelFigures] = []
    unknown: list[ModelFigures] = []
    for row in rows:
        (unknown if key(row) is None else known).append(row)
    return sorted(known, key=key, reverse=reverse) + unknown


def matching(models: Iterable[ModelView], words: str) -> list[ModelView]:
    """Return the models in whose label, target, method, state or verdict all the words occur."""
    parts = words.casefold().split()
    return [model for model in models if all(word in _text(model) for word in parts)]


def _text(model: ModelView) -> str:
    method = str(model.settings.get("method", "bart"))
    verdict = (model.verdict or "").replace("_", " ")
    return f"{model.label} {model.id} {model.target} {method} {model.state} {verdict}".casefold()


def differing(models: Sequence[ModelView]) -> list[tuple[str, list[Any]]]:
    """Return the settings that differ between models, by name, with the value of each model."""
    names = dict.fromkeys(name for model in models for name in model.settings)
    values = {name: [model.settings.get(name) for model in models] for name in names}
    return [(name, each) for name, each in values.items() if any(value != each[0] for value in each)]
