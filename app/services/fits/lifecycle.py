"""Continuation of models that have ended: retry and extend."""

from sqlalchemy.orm import Session

from app.services import datasets
from app.services.access import audit, quotas
from app.services.errors import ConflictError, Fault, InvalidRequestError, NotFoundError
from app.services.fits import models
from app.services.fits.costs import check_memory, check_seconds, coded_columns, estimate
from app.services.fits.models import FittedModel
from app.store import models as model_store
from app.store.queue import restarts as store
from app.store.tables import CANCELLED, FAILED, SUCCEEDED, Model
from sampler import SettingsError
from sampler.methods import check_extends
from sampler.settings import LIMITS
from sampler.storage.model_header import with_counts

MAX_DRAWS = LIMITS["num_draws"][1]


def retry(session: Session, owner: str, model_id: str) -> FittedModel:
    """Continue a cancelled or failed model where its chains ended; return it.

    Raises
    ------
    NotFoundError
        The model doesn't exist.
    ConflictError
        It hasn't ended, or has succeeded.
    """
    model = _locked(session, owner, model_id)
    if model.state == SUCCEEDED:
        raise ConflictError("The model has succeeded: POST /models/{id}/extend draws more.")
    if model.state not in {CANCELLED, FAILED}:
        told = "is being cancelled: retry it afterwards" if model.cancel_requested else "is not finished"
        raise ConflictError(f"The model is {model.state} and {told}.")
    quotas.check_queued(session, owner)
    store.retry(session, model)
    audit.record(session, owner, "model.retried", model.id)
    return _seen(session, owner, model.id)


def extend(session: Session, owner: str, model_id: str, num_draws: int, *, slots: int = 0) -> FittedModel:
    """Draw `num_draws` more kept draws in every chain of a succeeded model; return it.

    `slots` chains run at once (0: there is no worker; one is assumed).

    Raises
    ------
    NotFoundError
        The model doesn't exist.
    ConflictError
        It hasn't succeeded, or has no stored chain states (it was imported).
    InvalidRequestError
        The total exceeds the maximum of draws, a worker's memory, or the longest duration of a fit.
    QuotaError
        The owner's quota of queued work or stored bytes is exhausted.
    """
    model = _locked(session, owner, model_id)
    if model.state in {CANCELLED, FAILED}:
        raise ConflictError(f"The model is {model.state}: POST /models/{{id}}/retry finishes it first.")
    if model.state != SUCCEEDED:
        raise ConflictError(f"The model is {model.state}: extend it when it has succeeded.")
    settings = model.settings
    try:
        check_extends(str(settings.get("method", "bart")))
    except SettingsError as error:
        raise ConflictError(str(error)) from None
    total = int(settings.get("num_draws", 0)) + num_draws
    if total > MAX_DRAWS:
        told = f"each chain would have {total} draws; the maximum is {MAX_DRAWS}"
        raise InvalidRequestError(errors=[Fault("num_draws", None, told)])
    chains = int(settings.get("num_chains", 0))
    header = model_store.header(session, model.id)
    if header is None or not chains or store.checkpoints(session, model.id) != chains:
        raise ConflictError("The model has no stored states of its chains: they can't be continued.")
    if model.dataset_id is not None:
        dataset = datasets.get(session, owner, model.dataset_id)
        columns = coded_columns(settings.get("columns") or {}, datasets.summaries_of(dataset))
        check_memory(settings | {"num_draws": total}, dataset.num_rows, columns)
        more = settings | {"num_draws": num_draws, "num_burnin": 0}
        check_seconds(estimate(more, dataset.num_rows, columns, slots=slots).seconds)
    quotas.check_queued(session, owner)
    quotas.check_stored(session, owner, quotas.expected_bytes(settings | {"num_draws": num_draws}))
    store.extend(session, model, num_draws, with_counts(header, num_draws=total, num_chains=chains))
    audit.record(session, owner, "model.extended", model.id)
    return _seen(session, owner, model.id)


def _locked(session: Session, owner: str, model_id: str) -> Model:
    model = store.locked(session, owner, models.get(session, owner, model_id).id)
    if model is None:
        raise NotFoundError("The model was deleted.")
    return model


def _seen(session: Session, owner: str, model_id: str) -> FittedModel:
    session.flush()
    session.expire_all()  # the updates bypassed the session's copies
    return models.view(session, owner, model_id)
