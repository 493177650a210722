"""Model files and cards over HTTP: GET /models/{id}/file and /card, and POST /models with a file."""

from collections.abc import AsyncIterator
from tempfile import SpooledTemporaryFile
from typing import Annotated, Any, BinaryIO, Literal, cast

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.datastructures import UploadFile
from starlette.routing import Match
from starlette.types import Scope

from app.services import model_files, views
from app.services.access.idempotency import StoredResponse, once
from app.services.access.keys import READ, TRAIN
from app.services.explanations import model_cards
from app.services.model_files import MAX_BYTES, MEDIA_TYPE
from app.web.dependencies import Owner, TheEngine, TheGate, ThePredictor, TheTransactions
from app.web.errors import responses
from app.web.idempotency import IdempotencyKey, of_file, render
from app.web.negotiation import content_type
from app.web.scopes import GuardedRoute, in_thread, needs
from app.web.uploads import IN_MEMORY_BYTES


class _ModelFile(GuardedRoute):
    """Route for POST /models with the content type of a model file."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match only requests with a model file."""
        if scope["type"] == "http" and content_type(scope) != MEDIA_TYPE:
            return Match.NONE, {}
        return super().matches(scope)


router = APIRouter(prefix="/models", tags=["models"], route_class=GuardedRoute)
files = APIRouter(prefix="/models", tags=["models"], route_class=_ModelFile)
BINARY: dict[str, Any] = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
FILE: dict[int | str, dict[str, Any]] = {200: {"description": "The model file.", "content": BINARY}}

CardForm = Literal["html", "markdown"]
CARD_TYPES: dict[CardForm, str] = {"html": "text/html", "markdown": "text/markdown"}
# A card has inline styles; it can't run scripts or load anything.
CARD_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
}


async def _spooled(request: Request) -> AsyncIterator[BinaryIO]:
    """Spool the body to disk, so that few bodies are in memory at once."""
    with SpooledTemporaryFile(IN_MEMORY_BYTES) as file:
        upload = UploadFile(cast("BinaryIO", file))
        async for chunk in request.stream():
            await upload.write(chunk)  # in a thread once it is on disk
        await upload.seek(0)
        yield upload.file


# Registered before the JSON route, so that it is tried first. Documented with the JSON route.
@files.post("", status_code=201, include_in_schema=False)
@needs(TRAIN, body=MAX_BYTES)
async def accept(
    request: Request,
    body: Annotated[BinaryIO, Depends(_spooled)],
    engine: TheEngine,
    transactions: TheTransactions,
    owner: Owner,
    name: Annotated[str | None, Query()] = None,
    key: IdempotencyKey = None,
) -> Response:
    """Import a model file as a finished model."""

    def work() -> Response:
        idempotent = of_file(request, owner, key, body)

        def make() -> StoredResponse:
            imported = model_files.read(body, name)
            with transactions() as session:
                model = model_files.add(session, owner, imported)
                view = views.to_json(model)
                answer = StoredResponse(201, {"Location": f"/models/{model.id}"}, view)
                idempotent.remember(session, answer)
            return answer

        return render(once(engine, idempotent, make))

    # Few at once, since the file is held in memory; read in another process, so predictions keep their cores.
    async with request.app.state.model_files.place():
        return await in_thread(work)


@router.get("/{model_id}/file", response_class=Response, responses={**responses(409), **FILE})
@needs(READ)
async def get_model_file(model_id: str, engine: TheEngine, owner: Owner) -> Response:
    """Return the model file, as `posterior.save` writes and `bartserve.load` reads it.

    The header `Bartserve-Model-Id` has the model's id.
    """
    model, data = await in_thread(model_files.file_of, engine, owner, model_id)
    disposition = {"Content-Disposition": f'attachment; filename="{model}.bartserve"'}
    return Response(data, media_type=MEDIA_TYPE, headers=disposition | {"Bartserve-Model-Id": model})


@router.get(
    "/{model_id}/card",
    response_class=Response,
    responses={
        **responses(409),
        200: {
            "description": "The page.",
            "content": {kind: {"schema": {"type": "string"}} for kind in CARD_TYPES.values()},
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
    """Return one page about a model: data, settings, verdicts, scores, importance, effects and limits.

    The header `Bartserve-Model-Id` has the model's id.
    """

    def work() -> Response:
        described_id, card = model_cards.describe(predictor, owner, model_id)
        page = card.to_html() if form == "html" else card.to_markdown()
        return Response(
            page, media_type=CARD_TYPES[form], headers=CARD_HEADERS | {"Bartserve-Model-Id": described_id}
        )

    return await gate.run(work)
