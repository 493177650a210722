"""Models over HTTP: creating, viewing, cancelling and deleting them."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from sqlalchemy.orm import Session

from app.services import health
from app.services.access.idempotency import StoredResponse
from app.services.access.keys import READ, TRAIN
from app.services.fits import creation, models
from app.services.fits.creation import EstimateView
from app.services.fits.fit_request import ModelRequest
from app.services.fits.models import ModelPage, ModelView
from app.services.model_files import MEDIA_TYPE
from app.web.dependencies import (
    Deleting,
    Owner,
    Reading,
    TheEngine,
    ThePredictor,
    TheSettings,
    Writing,
)
from app.web.errors import responses
from app.web.idempotency import IdempotentChange
from app.web.json_body import StrictRoute
from app.web.paging import Cursor, Limit
from app.web.scopes import needs


class _Json(StrictRoute):
    instead = f", or a model file as {MEDIA_TYPE}"


router = APIRouter(prefix="/models", tags=["models"], route_class=_Json)
# A body of that type is taken by `app.api.model_files`.
FILE_TOO: dict[str, Any] = {
    "requestBody": {"content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}},
    "parameters": [
        {
            "name": "name",
            "in": "query",
            "required": False,
            "schema": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "description": "The name of the model in a model file.",
        }
    ],
}


@dataclass(frozen=True)
class Acceptance(IdempotentChange):
    """An accepted fit: its response is stored for repeated requests, workers are woken."""

    def of(self, session: Session, model: ModelView) -> StoredResponse:
        """Make the 202 response with the URL of a new or continued model, in the session of the change."""
        return self.queued(session, model, "/models", units=len(model.progress.chains))


TheAcceptance = Annotated[Acceptance, Depends()]


@router.post(
    "",
    status_code=202,
    response_model=ModelView,
    responses={
        **responses(409, 413, 415),
        201: {"model": ModelView, "description": "The finished model, for a model file."},
    },
    openapi_extra=FILE_TOO,
)
@needs(TRAIN)
def create_model(
    body: ModelRequest,
    settings: TheSettings,
    owner: Owner,
    acceptance: TheAcceptance,
) -> Response:
    """Fit a model in the background. 202 means that the fit is durably accepted; `Location` is its URL.

    All checks happen now: 422 names the field, or the column and row of the data.

    A model file (written by `posterior.save`, up to 128 MiB) becomes a finished model at once: 201. Its
    verdict is computed again.
    """

    def make() -> StoredResponse:
        engine = acceptance.engine
        plan = creation.plan(engine, owner, body.fit_request(), slots=health.slots_now(engine, settings))
        with acceptance.transactions() as session:
            return acceptance.of(session, creation.accept(session, owner, plan))

    return acceptance.once(make)


@router.post("/estimate", responses=responses(413, 415))
@needs(TRAIN)
def estimate_model(
    body: ModelRequest, engine: TheEngine, session: Reading, settings: TheSettings, owner: Owner
) -> EstimateView:
    """Estimate the memory and duration of a fit, and resolve its settings; nothing is started.

    The body and the checks are those of `POST /models`, except that a fit which needs too much memory or time
    is not refused: `fits` is false.
    """
    return creation.estimated(engine, owner, body.fit_request(), health.slots(session, settings))


@router.get("", responses=responses())
@needs(READ)
def list_models(session: Reading, owner: Owner, limit: Limit = 50, cursor: Cursor = None) -> ModelPage:
    """List your models, newest first."""
    return models.list_page(session, owner, limit, cursor)


@router.get("/{model_id}", responses=responses(409))
@needs(READ)
def get_model(model_id: str, session: Reading, owner: Owner) -> ModelView:
    """Return a model with its progress."""
    return models.view(session, owner, model_id)


@router.post("/{model_id}/cancel", responses=responses(409))
@needs(TRAIN)
def cancel_model(model_id: str, session: Writing, owner: Owner) -> ModelView:
    """Cancel a queued or running model at its next slice; its draws are kept."""
    return models.cancel(session, owner, model_id)


@router.delete("/{model_id}", status_code=204, responses=responses(409))
@needs(TRAIN)
def delete_model(
    model_id: str, session: Deleting, predictor: ThePredictor, owner: Owner, response: Response
) -> None:
    """Delete a model with its draws; a running one stops. 409 for a name that several models share."""
    deleted_id = models.delete(session, owner, model_id)
    predictor.cache.drop(deleted_id)
    response.headers["Bartserve-Model-Id"] = deleted_id
