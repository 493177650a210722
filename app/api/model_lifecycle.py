"""Continuation of models that have ended, over HTTP: retry and extend."""

from fastapi import APIRouter, BackgroundTasks, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.models import LOOK_AGAIN, ModelView, accepted
from app.services import health
from app.services.access.idempotency import StoredResponse, once
from app.services.access.keys import TRAIN
from app.services.fits import lifecycle
from app.web.dependencies import Owner, TheBell, TheEngine, TheSettings, TheTransactions, Writing
from app.web.errors import responses
from app.web.idempotency import TheIdempotentRequest, render
from app.web.json_body import StrictRoute
from app.web.scopes import needs

router = APIRouter(prefix="/models", tags=["models"], route_class=StrictRoute)


@router.post("/{model_id}/retry", status_code=202, responses=responses(409))
@needs(TRAIN)
def retry_model(
    model_id: str, session: Writing, bell: TheBell, owner: Owner, response: Response, after: BackgroundTasks
) -> ModelView:
    """Continue a cancelled or failed model where its chains ended.

    The draws equal those of an uninterrupted fit, bit for bit.
    """
    model = lifecycle.retry(session, owner, model_id)
    response.headers["Location"] = f"/models/{model.id}"
    response.headers["Retry-After"] = LOOK_AGAIN
    after.add_task(bell.ring, len(model.progress.chains))
    return ModelView.model_validate(model)


class ExtendRequest(BaseModel):
    """A request for more draws."""

    model_config = ConfigDict(extra="forbid", strict=True)

    num_draws: int = Field(ge=1, le=lifecycle.MAX_DRAWS, description="Additional kept draws per chain.")


@router.post("/{model_id}/extend", status_code=202, response_model=ModelView, responses=responses(409, 415))
@needs(TRAIN)
def extend_model(
    model_id: str,
    body: ExtendRequest,
    engine: TheEngine,
    transactions: TheTransactions,
    bell: TheBell,
    settings: TheSettings,
    owner: Owner,
    asked: TheIdempotentRequest,
    after: BackgroundTasks,
) -> Response:
    """Continue the chains of a succeeded model for more draws, followed by a new verdict and new scores.

    The model keeps answering meanwhile: a request that pins `draws` gets the same answer as before, others
    use all present draws. Until the model has succeeded again, its verdict and scores are those of the
    earlier draws.
    """

    def make() -> StoredResponse:
        with transactions() as session:
            model = lifecycle.extend(
                session, owner, model_id, body.num_draws, slots=health.slots(session, settings)
            )
            answer = accepted(model)
            asked.remember(session, answer)
        after.add_task(bell.ring, len(model.progress.chains))
        return answer

    return render(once(engine, asked, make))
