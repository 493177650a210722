"""The model that a name means: promotion of one by hand, and the way back."""

from sqlalchemy.orm import Session

from app.services.access import audit
from app.services.errors import ConflictError
from app.services.fits import models
from app.store import models as store
from app.store.tables import Model


def promote(session: Session, owner: str, model_id: str) -> models.ModelView:
    """Let a model's name mean it from now on, whatever was decided before.

    Raises
    ------
    NotFoundError
        The model doesn't exist.
    ConflictError
        It has no name, or hasn't succeeded.
    """
    model = models.get(session, owner, model_id)
    newest = store.answering(session, owner, _named(model), withheld=True)
    if model.id != model_id and newest:
        raise ConflictError(
            f"The name means {model.id} already: promote another, such as {newest[0]}, by its id."
        )
    if model.verdict is None:
        raise ConflictError("The model hasn't succeeded: its name can't mean it yet.")
    store.promote(session, model)
    audit.record(session, owner, "model.promoted", model.id)
    return models.view(session, owner, model.id)


def roll_back(session: Session, owner: str, model_id: str) -> models.ModelView:
    """Let a name mean the model before the present one again, and return that.

    Parameters
    ----------
    model_id
        The name, or the id of the model that it means now.

    Raises
    ------
    NotFoundError
        There is no such model.
    ConflictError
        The model has no name or isn't the one that the name means, or there is none before it.
    """
    model = models.get(session, owner, model_id)
    name = _named(model)
    present = models.get(session, owner, name)
    if present.id != model.id:
        raise ConflictError(f"The name means {present.id}, not this model: roll back by the name.")
    back = store.roll_back(session, owner, name)
    if back is None:
        raise ConflictError("No earlier model of this name has succeeded: there is nothing to go back to.")
    audit.record(session, owner, "model.rolled_back", back[0].id)
    return models.view(session, owner, back[1].id)


def can_roll_back(session: Session, owner: str, model: models.ModelView) -> bool:
    """Tell whether a model's name means it, and meant another before."""
    found = [] if model.name is None else store.answering(session, owner, model.name)
    return len(found) > 1 and found[0] == model.id


def _named(model: Model) -> str:
    if model.name is None:
        raise ConflictError("The model has no name: it answers by its id.")
    return model.name
