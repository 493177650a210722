"""Pages of sets of models, one for each group of rows: the list, and one set with its models."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from app.dashboard import render, snippets
from app.dashboard.forms.fields import SentForm
from app.services.access.keys import READ, TRAIN
from app.services.model_sets import stored
from app.services.views import State
from app.web.dependencies import Deleting, Owner, Reading, ThePredictor, Writing
from app.web.paging import Cursor
from app.web.scopes import GuardedRoute, needs

router = APIRouter(prefix="/ui/model-sets", include_in_schema=False, route_class=GuardedRoute)
ON_A_PAGE = 25
STATES: tuple[State, ...] = ("queued", "running", "succeeded", "failed", "cancelled")


@router.get("")
@needs(READ)
def list_sets(request: Request, session: Reading, owner: Owner, cursor: Cursor = None) -> Response:
    """Show your sets of models with their progress, newest first."""
    page = stored.list_page(session, owner, ON_A_PAGE, cursor)
    return render.render(
        request.scope,
        "model_sets.html",
        sets=page.items,
        next_cursor=page.next_cursor,
        snippets=snippets.ask(request, "/model-sets", "list(bart.model_sets())"),
    )


@router.get("/{set_id}")
@needs(READ)
def show(
    request: Request,
    session: Reading,
    owner: Owner,
    set_id: str,
    cursor: Cursor = None,
    q: Annotated[str, Query(max_length=200)] = "",
    state: State | None = None,
) -> Response:
    """Show a set: its progress and its models, all or those of a state or a part of the group's name."""
    found = stored.view(session, owner, set_id)
    page = stored.models_page(
        session, owner, set_id, ON_A_PAGE, cursor, search=q.strip() or None, state=state
    )
    asked = {name: value for name, value in {"q": q, "state": state}.items() if value}
    return render.render(
        request.scope,
        "model_set.html",
        model_set=found,
        models=page.items,
        next_cursor=page.next_cursor,
        q=q,
        state=state,
        states=STATES,
        asked=urlencode(asked),
        snippets=snippets.ask(request, f"/model-sets/{found.id}", snippets.call("model_set", found.id)),
    )


@router.post("/{set_id}/cancel")
@needs(TRAIN)
def cancel(_form: SentForm, session: Writing, owner: Owner, set_id: str) -> Response:
    """Cancel the models of a set that have not ended."""
    stored.cancel(session, owner, set_id)
    return render.see_other(f"/ui/model-sets/{set_id}")


@router.post("/{set_id}/delete")
@needs(TRAIN)
def delete(
    _form: SentForm, session: Deleting, predictor: ThePredictor, owner: Owner, set_id: str
) -> Response:
    """Delete a set with all of its models."""
    for model_id in stored.delete(session, owner, set_id):
        predictor.cache.drop(model_id)
    return render.see_other("/ui/model-sets")
