"""Model cards over HTTP: one page about a model, as HTML or Markdown."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from app.services.access.keys import READ
from app.services.predictions import model_cards
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.scopes import needs

router = APIRouter(prefix="/models", tags=["explanations"], route_class=StrictRoute)
CardForm = Literal["html", "markdown"]
TYPES: dict[CardForm, str] = {"html": "text/html", "markdown": "text/markdown"}
# The page has inline styles; it can't run scripts or load anything.
HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}


@router.get(
    "/{model_id}/card",
    response_class=Response,
    responses={
        **responses(409),
        200: {
            "description": "The page.",
            "content": {kind: {"schema": {"type": "string"}} for kind in TYPES.values()},
        },
    },
)
@needs(READ)
async def get_model_card(
    model_id: str,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    form: Annotated[
        CardForm, Query(alias="format", description="html, which has pictures and prints, or markdown.")
    ] = "html",
) -> Response:
    """Return one page about a model: data, settings, verdicts, scores, importance, effects and limits."""

    def work() -> str:
        card = model_cards.describe(predictor, owner, model_id)
        return card.to_html() if form == "html" else card.to_markdown()

    return Response(await gate.run(work), media_type=TYPES[form], headers=HEADERS)
