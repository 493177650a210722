"""Models that can be explained: finished ones, their posterior and classes."""

from app.services.errors import NotFinishedError
from app.services.predictions.predict_rows import Predictor
from app.store.models import ModelHead
from app.store.tables import SUCCEEDED, Model
from sampler import Posterior

TOO_LARGE = "The result exceeds the largest float: rescale the target."


def finished(predictor: Predictor, owner: str, model: str) -> tuple[ModelHead, Posterior]:
    """Return the succeeded model with this id, or the newest with this name, and its posterior.

    Raises
    ------
    NotFoundError, NotFinishedError
        The model doesn't exist, or has not finished.
    """
    head, posterior, _ = predictor.lookup(owner, model)
    check_succeeded(head)
    return head, posterior


def check_succeeded(model: Model | ModelHead) -> None:
    """Raise NotFinishedError for a model that is being fitted or extended, even if it has draws."""
    if model.state != SUCCEEDED:
        raise NotFinishedError(f"Model {model.id} is {model.state}: ask again when it has succeeded.")


def classes_of(posterior: Posterior) -> list[str] | None:
    """Return the classes of a model, or None for a numeric target; of two, figures are P(second)."""
    return None if posterior.classes is None else list(posterior.classes)
