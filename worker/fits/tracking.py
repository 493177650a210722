"""A run in MLflow for each fit that has succeeded: its settings, scores, verdict and card."""

import logging
import os
from importlib.util import find_spec
from typing import Any

from app.settings import Settings
from app.store import draws, models
from app.store.engine import session_scope
from app.store.tables import SUCCEEDED, Json, Model
from sampler.host.posteriors import posterior_of, stored_card
from worker.context import Context

log = logging.getLogger(__name__)

EXPERIMENT = "bartserve/{owner}"
# Short patience, and nothing told to the makers of MLflow, unless the operator says otherwise.
CALM = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
LONGEST_VALUE = 500  # characters of a parameter
MOST_VALUES = 100  # parameters of a request


def announce(settings: Settings) -> None:
    """Say at a worker's start whether fits will be logged to a tracking server, or what that lacks."""
    if not settings.mlflow_tracking_uri:
        return
    if find_spec("mlflow") is None:
        log.error(
            "BARTSERVE_MLFLOW_TRACKING_URI is set, but this worker lacks mlflow-skinny, so no fit will be "
            'logged: install "bartserve[mlflow]" where workers run, or leave the setting out.'
        )
    else:
        log.info("Fits that succeed will be logged to the tracking server of MLflow.")


def log_fit(context: Context, model_id: str) -> None:
    """Log a fit that has succeeded to the tracking server, if one is set; a failure is a line in our log."""
    uri = context.settings.mlflow_tracking_uri
    if not uri:
        return
    try:
        _log(context, model_id, uri)
    except Exception as error:  # noqa: BLE001  the fit has succeeded, whatever a server far away says
        log.warning("Model %s couldn't be logged to MLflow: %s", model_id, " ".join(str(error).split()))


def _log(context: Context, model_id: str, uri: str) -> None:
    with session_scope(context.engine, read_only=True) as session:
        model = session.get(Model, model_id)
        if model is None or model.state != SUCCEEDED:
            return  # its stop rules want more draws
        if model.settings.get("time"):
            return  # a forecaster, whose members aren't one posterior
        header = models.header(session, model_id)
        by_row = models.held_out(session, model_id)
        blocks = draws.read(session, model_id)
        drawn = [each.statistics or {} for each in models.chains(session, [model_id])[model_id]]
    assert header is not None, "a model that has succeeded has its header"
    posterior = posterior_of(header, blocks, [each for each in drawn if each])
    facts = {"Name": model.name or model_id, "Id": model_id}
    card = stored_card(posterior, model.holdout, by_row, facts)
    for name, value in CALM.items():
        os.environ.setdefault(name, value)
    from mlflow.entities import Metric, Param, RunTag  # noqa: PLC0415  an extra, and seconds to import
    from mlflow.tracking import MlflowClient  # noqa: PLC0415

    client = MlflowClient(uri)
    name = EXPERIMENT.format(owner=model.owner)
    experiment = client.get_experiment_by_name(name)
    number = client.create_experiment(name) if experiment is None else experiment.experiment_id
    run = client.create_run(number, run_name=model.name or model_id).info.run_id
    at = int(model.created_at.timestamp() * 1000)
    tags = {
        "model_id": model_id,
        "verdict": model.verdict,
        "target": model.target,
    }
    client.log_batch(
        run,
        metrics=[Metric(each, value, at, 0) for each, value in scores_of(model.holdout).items()],
        params=[Param(each, value) for each, value in settings_of(model.settings).items()],
        tags=[RunTag(f"bartserve.{each}", str(value)) for each, value in tags.items()],
    )
    client.log_text(run, card.to_html(), "card.html")
    client.set_terminated(run)


def settings_of(settings: Json) -> dict[str, str]:
    """Return the settings of a fit as parameters: text, shortened."""
    told = {name: str(value)[:LONGEST_VALUE] for name, value in settings.items() if value is not None}
    return dict([*told.items()][:MOST_VALUES])


def scores_of(holdout: Json | None) -> dict[str, float]:
    """Return the scores on held-out rows as metrics: numbers by name, and the shares inside intervals."""
    held: dict[str, Any] = holdout or {}
    plain = {name: float(value) for name, value in held.items() if isinstance(value, (int, float))}
    shares = {f"coverage_{each['level'] * 100:.0f}": each["coverage"] for each in held.get("coverage") or ()}
    return plain | {name: float(value) for name, value in shares.items() if value is not None}
