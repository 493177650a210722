"""Models that can be explained: finished ones, their posterior and classes."""

from app.services.errors import NotFinishedError, TooLargeError
from app.services.predictions.predict_rows import Predictor
from app.store.models import ModelHead
from app.store.tables import SUCCEEDED, Model
from sampler import Posterior
from sampler.costs.explanations import MAX_WORK

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


def check_work(posterior: Posterior, num_rows: int, draws: int | None, each: float) -> None:
    """Raise TooLargeError for an explanation of too many rows by that many draws of all chains (None: all).

    `each` is the work by row and draw (`sampler.costs.explanations`).
    """
    whole = posterior.num_chains * posterior.num_draws
    draws = whole if draws is None else min(draws, whole)
    if num_rows * draws * each <= MAX_WORK:
        return
    most = int(MAX_WORK / (draws * each))
    fewer = f"send at most {most:,} of these rows, or ask" if most else "ask"
    raise TooLargeError(
        f"{num_rows:,} rows by {draws:,} draws are too much work for one request: {fewer} for fewer draws."
    )


def affordable_draws(posterior: Posterior, num_rows: int, each: float) -> int:
    """Return how many draws of all chains are not too much work, at least one; `each` as in `check_work`."""
    return max(1, min(posterior.num_chains * posterior.num_draws, int(MAX_WORK / (max(num_rows, 1) * each))))


def affordable_rows(draws: int, each: float) -> int:
    """Return how many rows are not too much work by that many draws of all chains, at least one."""
    return max(1, int(MAX_WORK / (draws * each)))


def classes_of(posterior: Posterior) -> list[str] | None:
    """Return the classes of a model, or None for a numeric target; of two, figures are P(second)."""
    return None if posterior.classes is None else list(posterior.classes)
