"""Drift over HTTP: whether the rows that a model predicts for resemble its training rows."""

from typing import Annotated

from fastapi import APIRouter, Query

from app.services.access.keys import PREDICT, READ
from app.services.drift import summary
from app.services.drift.summary import DriftView
from app.web.dependencies import Owner, ThePredictor
from app.web.errors import responses
from app.web.scopes import GuardedRoute, needs
from sampler.host.assessment import DRIFT_WEEKS

router = APIRouter(prefix="/models", tags=["outcomes"], route_class=GuardedRoute)


@router.get("/{model_id}/drift", responses=responses())
@needs(READ, PREDICT)
def get_drift(
    model_id: str,
    predictor: ThePredictor,
    owner: Owner,
    weeks: Annotated[int, Query(ge=1, le=DRIFT_WEEKS, description="Last weeks that are shown.")] = 13,
) -> DriftView:
    """Compare the rows that a model predicted for, by week, with its training rows; no outcome is needed.

    Of each feature and of the predictions it has the number of rows by value, beyond the training rows'
    range, of unseen levels and missing. The verdict may be looked at as often as one likes.
    """
    return summary.of_model_now(predictor.traffic, owner, model_id, weeks)
