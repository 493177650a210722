"""Draws of a posterior over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.services.access.keys import READ
from app.services.explanations import diagnostics
from app.services.predictions.answers import to_arrow
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.negotiation import ARROW
from app.web.scopes import needs

router = APIRouter(prefix="/models", tags=["explanations"], route_class=StrictRoute)


@router.get(
    "/{model_id}/draws",
    response_class=Response,
    responses={
        **responses(409, 413),
        200: {
            "description": "An Arrow stream with the columns chain, draw, sigma and, on request, f (a list).",
            "content": {ARROW: {"schema": {"type": "string", "format": "binary"}}},
        },
    },
)
@needs(READ)
async def get_draws(
    model_id: str,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    f: Annotated[
        bool, Query(description="Also return the regression function at up to 200 training rows.")
    ] = False,
    draws: Annotated[
        int | None, Query(ge=1, description="Number of draws per chain, from the first; default: all.")
    ] = None,
) -> Response:
    """Return the posterior draws, one row each, chain by chain.

    For ArviZ: `table = pyarrow.ipc.open_stream(body).read_all()`, then `arviz_base.from_dict({"posterior":
    {"sigma": table["sigma"].to_numpy().reshape(chains, draws)}})`, and likewise `f`, flattened, as
    `reshape(chains, draws, -1)`. The schema's metadata (`bartserve`) gives the numbers.
    """

    def work() -> Response:
        table = diagnostics.export(predictor, owner, model_id, f=f, draws=draws)
        return Response(to_arrow(table), media_type=ARROW)

    return await gate.run(work)
