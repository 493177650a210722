"""Figures of the page of effects and of its charts: computed once, by as many draws as are affordable."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from app.services.errors import Fault, InvalidRequestError, ServiceError, TooLargeError, UnusableDataError
from app.services.explanations.accumulated_effects import AccumulationBody, ExplainedAccumulation
from app.services.explanations.effects import EffectsBody, ExplainedEffects
from app.services.explanations.guard import explain, finished
from app.services.explanations.partial_dependence import DependenceBody, ExplainedDependence
from app.services.explanations.shap_values import ExplainedRows, SwarmOfRows
from app.services.predictions.posterior_cache import Cache
from app.services.predictions.predict_rows import Predictor

SMALL = 64  # bytes of a number or a short text
KEPT_BYTES = 16 * 1024 * 1024
FEWEST_DRAWS = 10  # of a chain, of which figures are still shown
T = TypeVar("T")


@dataclass(frozen=True)
class Figures:
    """Computed figures with their size."""

    value: Any
    nbytes: int


class Effects:
    """Effects by model and features; a page and its charts share them."""

    def __init__(self) -> None:
        self._kept: Cache[Figures] = Cache(KEPT_BYTES)

    def dependence(
        self, predictor: Predictor, owner: str, model_id: str, version: str, features: Sequence[str]
    ) -> ExplainedDependence:
        """Compute the partial dependence on one to three features; raises as the service."""
        if not features:
            raise InvalidRequestError(errors=[Fault("features", None, "name one to three features")])

        def of(draws: int | None) -> ExplainedDependence:
            question = DependenceBody(features=list(features), draws=draws)
            return explain(predictor, owner, model_id, question)

        key = ("dependence", owner, model_id, version, predictor.outcome or "", *features)
        return self._once(key, lambda: _of_affordable_draws(predictor, owner, model_id, of))

    def accumulated(
        self, predictor: Predictor, owner: str, model_id: str, version: str, feature: str
    ) -> ExplainedAccumulation:
        """Compute the accumulated effects of a feature; raises as the service."""

        def of(draws: int | None) -> ExplainedAccumulation:
            return explain(predictor, owner, model_id, AccumulationBody(feature=feature, draws=draws))

        key = ("accumulated", owner, model_id, version, predictor.outcome or "", feature)
        return self._once(key, lambda: _of_affordable_draws(predictor, owner, model_id, of))

    def treatment(
        self, predictor: Predictor, owner: str, model_id: str, version: str, asked: EffectsBody
    ) -> ExplainedEffects:
        """Compute the effects of a model's treatment; raises as the service."""
        figure = (asked.measure or "", str(asked.until or ""))
        key = ("treatment", owner, model_id, version, str(asked.by or ""), *_ends(asked), *figure)
        return self._once(key, lambda: explain(predictor, owner, model_id, asked))

    def effect_along(
        self, predictor: Predictor, owner: str, model_id: str, version: str, asked: EffectsBody
    ) -> ExplainedDependence:
        """Compute the effect of the model's treatment along a feature; raises as the service."""
        feature, arm, against = str(asked.by or ""), asked.arm, asked.against

        def of(draws: int | None) -> ExplainedDependence:
            question = DependenceBody(features=[feature], draws=draws, of="effect", arm=arm, against=against)
            return explain(predictor, owner, model_id, question)

        key = ("effect-along", owner, model_id, version, feature, *_ends(asked))
        return self._once(key, lambda: _of_affordable_draws(predictor, owner, model_id, of))

    def reasons(self, predictor: Predictor, owner: str, model_id: str, version: str) -> ExplainedRows:
        """Compute the SHAP values of training rows; raises as the service."""
        key = ("reasons", owner, model_id, version, predictor.outcome or "")
        return self._once(key, lambda: explain(predictor, owner, model_id, SwarmOfRows()))

    def _once(self, key: Sequence[str], compute: Callable[[], T]) -> T:
        """Compute figures unless they are kept; nothing is for a key without the version of the draws."""
        version, name = key[3], "\n".join(key)
        kept = self._kept.peek(name) if version else None
        if kept is None:
            # Not by `get`: of two that ask for the same, one may leave, which ends its computation.
            value = compute()
            kept = Figures(value, _nbytes(value))
            if version:
                self._kept.get(name, lambda: kept)
        result: T = kept.value
        return result


def asked_effects(by: str, arm: str, against: str, measure: str, until: str) -> EffectsBody:
    """Read what a page asks about effects, empty for what it doesn't; raises InvalidRequestError."""
    texts: dict[str, Any] = {"by": by, "arm": arm, "against": against, "measure": measure, "until": until}
    with suppress(ValueError):
        texts["until"] = float(until)
    try:
        return EffectsBody(**{name: value for name, value in texts.items() if value != ""})
    except ValidationError as error:
        faults = [Fault(str(each["loc"][0]), None, each["msg"]) for each in error.errors()]
        raise InvalidRequestError(errors=faults) from None


def _ends(asked: EffectsBody) -> tuple[str, str]:
    """Name the arms or doses compared as a key does."""
    arm, against = ("" if each is None else str(each) for each in (asked.arm, asked.against))
    return arm, against


def _nbytes(value: Any) -> int:
    """Return about how much memory an answer takes."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_dataclass(value) and not isinstance(value, type):
        value = vars(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return SMALL + sum(map(_nbytes, parts))


def if_any(compute: Callable[[], T]) -> T | None:
    """Return figures; None of a model or a feature that has none, and where they are too much work."""
    try:
        return compute()
    except (InvalidRequestError, TooLargeError, UnusableDataError):
        return None


def _of_affordable_draws(
    predictor: Predictor, owner: str, model_id: str, compute: Callable[[int | None], T]
) -> T:
    """Compute by all draws; where that is refused as too much work, by half of them, a quarter and so on."""
    _, posterior = finished(predictor, owner, model_id)
    draws, most = None, posterior.num_draws
    while True:
        try:
            return compute(draws)
        except (InvalidRequestError, TooLargeError) as error:
            most //= 2
            if most < FEWEST_DRAWS or not _is_too_much(error):
                raise
            draws = most


def _is_too_much(error: ServiceError) -> bool:
    return isinstance(error, TooLargeError) or any(fault.code == "too_large" for fault in error.errors)
