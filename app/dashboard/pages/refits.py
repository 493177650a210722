"""Forms of a model's page about refits: which model a name means, and when it is fitted again."""

from contextlib import suppress

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.responses import Response

from app.dashboard import render
from app.dashboard.forms.fields import SentForm, text
from app.services.access.keys import TRAIN
from app.services.errors import InvalidRequestError, NotFoundError
from app.services.fits import champions, models
from app.services.outcomes import schedules
from app.services.outcomes.schedules import ScheduleBody
from app.web.dependencies import Owner, Writing
from app.web.errors import faults_of
from app.web.scopes import GuardedRoute, needs

router = APIRouter(prefix="/ui/models", include_in_schema=False, route_class=GuardedRoute)


@router.post("/{model_id}/promote")
@needs(TRAIN)
def promote(_form: SentForm, session: Writing, owner: Owner, model_id: str) -> Response:
    """Let the model's name mean it, then return to it."""
    model = champions.promote(session, owner, model_id)
    return render.see_other(f"/ui/models/{model.id}/improve#gate")


@router.post("/{model_id}/rollback")
@needs(TRAIN)
def roll_back(_form: SentForm, session: Writing, owner: Owner, model_id: str) -> Response:
    """Let the name mean the model before again, then show that."""
    model = champions.roll_back(session, owner, model_id)
    return render.see_other(f"/ui/models/{model.id}/improve#gate")


@router.post("/{model_id}/schedule")
@needs(TRAIN)
def schedule(form: SentForm, session: Writing, owner: Owner, model_id: str) -> Response:
    """Set or delete the schedule of the model's name, then return to it."""
    every, on_alarm = text(form, "every"), bool(form.get("on_alarm"))
    models.get(session, owner, model_id)
    if every is None and not on_alarm:
        with suppress(NotFoundError):
            schedules.delete(session, owner, model_id)
        return render.see_other(f"/ui/models/{model_id}/improve#habit")
    try:
        asked = ScheduleBody.model_validate(
            {"every": every, "on_alarm": on_alarm, "promote": text(form, "promote") or "auto"}
        )
    except ValidationError as error:
        raise InvalidRequestError(errors=faults_of(error.errors())) from None
    schedules.put(session, owner, model_id, asked)
    return render.see_other(f"/ui/models/{model_id}/improve#habit")
