"""Page "Treatment": what the treatment of a model does, for whom, and how far to trust it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from app.dashboard import render, snippets
from app.dashboard.effects import asked_effects
from app.dashboard.pages.models import Frame, framed_as
from app.dashboard.pages.studies import newest_of
from app.dashboard.studio import TheEffects, prepare_to_draw
from app.services.access.keys import PREDICT
from app.services.errors import ServiceError
from app.services.explanations.effects import ExplainedEffects, names_for_groups
from app.services.explanations.guard import finished
from app.services.studies.stored import StudyView
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.scopes import GuardedRoute, needs
from sampler.host.data import OF_LEVELS

router = APIRouter(
    prefix="/ui/models",
    include_in_schema=False,
    route_class=GuardedRoute,
    dependencies=[Depends(prepare_to_draw)],
)


_Typed = Annotated[str, Query(max_length=1000)]


@dataclass(frozen=True)
class ShownEffects:
    """Effects of a model's treatment as a page and its report show them, by what was asked."""

    frame: Frame
    gate: TheGate
    find: Callable[[], tuple[ExplainedEffects, dict[str, Any]]]
    named: dict[str, str]
    placebo: StudyView | None

    async def page(self, request: Request, template: str) -> Response:
        """Compute the effects and render a page of them, or of why there are none."""
        shown: dict[str, Any] = {"effects": None, "averages": {}, "error": None, "names": [], "ordered": []}
        shown["chosen"] = self.named.get("by", "")
        if self.frame["model"].state == "succeeded":
            try:
                found, choices = await self.gate.run(self.find)
            except ServiceError as error:
                if error.status not in (413, 422):
                    raise
                shown["error"] = error
            else:
                averages = found.answer.named_estimates()
                shown |= {"effects": found.shown(), "averages": averages, **choices}
                shown["by_lag"] = found.answer.by_lag
        named = {**({"by": shown["chosen"]} if shown["chosen"] else {}), **self.named}
        model_id = self.frame["model"].id
        return render.render(
            request.scope,
            template,
            status=200 if shown["error"] is None else shown["error"].status,
            **self.frame,
            **shown,
            placebo=self.placebo,
            query=urlencode(named),
            height=round(100 * (0.9 + 0.27 * max(len(shown["averages"]), 1))),
            snippets=snippets.ask(
                request,
                f"/models/{model_id}/effects",
                snippets.call("effects", model_id, **named),
                method="POST",
                body=named,
            ),
        )


def shown_effects(
    predictor: ThePredictor,
    gate: TheGate,
    known: TheEffects,
    owner: Owner,
    model_id: str,
    frame: Annotated[Frame, framed_as("treatment")],
    placebo: Annotated[StudyView | None, newest_of("placebo")],
    by: _Typed = "",
    arm: _Typed = "",
    against: _Typed = "",
    measure: _Typed = "",
    until: _Typed = "",
) -> ShownEffects:
    """Return a dependency: the effects of the model in the path, by a feature and between two arms."""
    model_id, version = frame["model"].id, frame["drawn"]

    def find() -> tuple[ExplainedEffects, dict[str, Any]]:
        posterior = finished(predictor, owner, model_id)[1]
        features, beside = names_for_groups(posterior)
        # Averages by level say all of a category; rows that are set to a level would have other figures.
        ordered = [
            column.name
            for column in posterior.schema.columns
            if column.name in features and column.kind not in OF_LEVELS
        ]
        chosen = by or next(iter(features + beside), "")
        body = asked_effects(chosen, arm, against, measure, until)
        found = known.treatment(predictor, owner, model_id, version, body)
        every = [column.name for column in posterior.schema.columns]
        choices = {"names": features + beside, "ordered": ordered, "chosen": chosen, "features": every}
        return found, choices | {"asked_until": until}

    asked = {"by": by, "arm": arm, "against": against, "measure": measure, "until": until}
    return ShownEffects(frame, gate, find, {name: value for name, value in asked.items() if value}, placebo)


@router.get("/{model_id}/treatment")
@needs(PREDICT, of_kept_rows=True)
async def treatment(request: Request, shown: Annotated[ShownEffects, Depends(shown_effects)]) -> Response:
    """Show the effects of a model's treatment: on average, by a feature, and for each row."""
    return await shown.page(request, "model_treatment.html")


@router.get("/{model_id}/treatment/report")
@needs(PREDICT, of_kept_rows=True)
async def report(request: Request, shown: Annotated[ShownEffects, Depends(shown_effects)]) -> Response:
    """Show a report to print: the question, the design, estimates, checks and what must hold."""
    return await shown.page(request, "model_report.html")
