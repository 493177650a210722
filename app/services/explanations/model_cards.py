"""Model cards: one page that says what a stored model is, how good, and what it can't do."""

from app.services.explanations.guard import finished
from app.services.fits import models
from app.services.predictions import forecasts
from app.services.predictions.predict_rows import Predictor, translating_sampler_errors
from app.store import models as store
from app.store.engine import session_scope
from sampler.host.posteriors import ModelCard, stored_card


def describe(predictor: Predictor, owner: str, model: str) -> tuple[str, ModelCard]:
    """Return the id and the card of a succeeded model, with the scores on its held-out rows.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `app.services.explanations.guard.finished`.
    """
    if models.is_forecaster(predictor.engine, owner, model):
        model_id, stored = forecasts.load(predictor, owner, model)
        with session_scope(predictor.engine, read_only=True) as session:
            facts = _facts(models.view(session, owner, model_id))
        with translating_sampler_errors():
            return model_id, stored.forecaster.model_card(facts)
    head, posterior = finished(predictor, owner, model)
    with session_scope(predictor.engine, read_only=True) as session:
        fitted = models.view(session, owner, head.id)
        by_row = store.held_out(session, head.id)
    with translating_sampler_errors():
        return head.id, stored_card(posterior, fitted.holdout, by_row, _facts(fitted))


def _facts(fitted: models.ModelView) -> dict[str, str]:
    facts = {"Name": fitted.label, "Id": fitted.id}
    if fitted.dataset_id is not None:
        facts["Dataset"] = fitted.dataset_id
    if fitted.finished_at is not None:
        facts["Finished"] = f"{fitted.finished_at:%Y-%m-%d %H:%M} UTC"
    return facts
