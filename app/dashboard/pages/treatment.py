"""Page "Treatment": what the treatment of a model does, for whom, and how far to trust it."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from app.dashboard import render, snippets
from app.dashboard.pages.models import Frame, framed_as
from app.dashboard.studio import TheEffects, prepare_to_draw
from app.services.access.keys import PREDICT
from app.services.errors import ServiceError
from app.services.explanations.effects import EffectsBody, ExplainedEffects, names_for_groups
from app.services.explanations.guard import finished
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.scopes import GuardedRoute, needs
from sampler.host.data import OF_LEVELS

router = APIRouter(
    prefix="/ui/models",
    include_in_schema=False,
    route_class=GuardedRoute,
    dependencies=[Depends(prepare_to_draw)],
)


@router.get("/{model_id}/treatment")
@needs(PREDICT, of_kept_rows=True)
async def treatment(
    request: Request,
    predictor: ThePredictor,
    gate: TheGate,
    known: TheEffects,
    owner: Owner,
    model_id: str,
    frame: Annotated[Frame, framed_as("treatment")],
    by: Annotated[str, Query(max_length=1000)] = "",
    arm: Annotated[str, Query(max_length=1000)] = "",
    against: Annotated[str, Query(max_length=1000)] = "",
) -> Response:
    """Show the effects of a model's treatment: on average, by a feature, and for each row."""
    model_id, version = frame["model"].id, frame["drawn"]
    shown: dict[str, Any] = {
        "effects": None,
        "averages": {},
        "error": None,
        "names": [],
        "chosen": by,
        "ordered": [],
    }

    def find() -> ExplainedEffects:
        posterior = finished(predictor, owner, model_id)[1]
        features, beside = names_for_groups(posterior)
        shown["names"] = features + beside
        # Averages by level say all of a category; rows that are set to a level would have other figures.
        shown["ordered"] = [
            column.name
            for column in posterior.schema.columns
            if column.name in features and column.kind not in OF_LEVELS
        ]
        shown["chosen"] = by or next(iter(shown["names"]), "")
        body = EffectsBody(by=shown["chosen"] or None, arm=arm or None, against=against or None)
        return known.treatment(predictor, owner, model_id, version, body)

    if frame["model"].state == "succeeded":
        try:
            found = await gate.run(find)
        except ServiceError as error:
            if error.status not in (413, 422):
                raise
            shown["error"] = error
        else:
            shown |= {"effects": found.shown(), "averages": found.answer.named_estimates()}
    named = {
        name: value for name, value in (("by", shown["chosen"]), ("arm", arm), ("against", against)) if value
    }
    return render.render(
        request.scope,
        "model_treatment.html",
        status=200 if shown["error"] is None else shown["error"].status,
        **frame,
        **shown,
        height=round(100 * (0.9 + 0.27 * max(len(shown["averages"]), 1))),
        snippets=snippets.ask(
            request,
            f"/models/{model_id}/effects",
            snippets.call("effects", model_id, **named),
            method="POST",
            body=named,
        ),
    )
