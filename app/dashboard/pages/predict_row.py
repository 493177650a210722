"""Prediction of one row: its form, the intervals, the reasons and, of times, the survival curve."""

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from app.dashboard import render, snippets
from app.dashboard.pages.models import Frame, framed_as
from app.dashboard.studio import prepare_to_draw, row_values
from app.services.access.keys import PREDICT
from app.services.errors import (
    InvalidRequestError,
    NotFinishedError,
    ServiceError,
    TooLargeError,
)
from app.services.explanations.guard import explain
from app.services.explanations.joint import JointBody
from app.services.explanations.shap_values import ShapBody, left_out_of
from app.services.explanations.survival import SurvivalBody
from app.services.predictions.options import PredictionOptions
from app.services.predictions.predict_rows import Predictor, has_row_diagnostics, usual_interval
from app.services.predictions.row_form import row_form
from app.services.predictions.rows import SentRows
from app.web.dependencies import OutcomePredictor, Owner, TheGate
from app.web.middleware.concurrency import GateOf
from app.web.scopes import GuardedRoute, needs

router = APIRouter(
    prefix="/ui/models",
    include_in_schema=False,
    route_class=GuardedRoute,
    dependencies=[Depends(prepare_to_draw)],
)
LEVELS = [0.5, 0.9]
MOST_REASONS = 20  # features in the table of reasons


@router.get("/{model_id}/predict")
@needs(PREDICT)
async def predict(
    request: Request,
    predictor: OutcomePredictor,
    gate: TheGate,
    owner: Owner,
    model_id: str,
    frame: Annotated[Frame, framed_as("predict")],
) -> Response:
    """Show forms for a row and for a file; with values in the query, also the prediction of the row."""
    model_id = frame["model"].id
    return await predict_page(request, predictor, gate, owner, model_id, frame)


async def predict_page(
    request: Request,
    predictor: Predictor,
    gate: GateOf,
    owner: str,
    model_id: str,
    frame: Frame,
    *,
    of_file: Any = None,
    file_snippets: list[snippets.Snippet] | None = None,
) -> Response:
    """Render the page of predictions; `of_file` is the preview of a file, or why there is none."""
    submitted = "f0" in request.query_params
    values = await gate.run(
        lambda: _predicted(predictor, owner, model_id, frame, request, submitted=submitted)
    )
    error = of_file if isinstance(of_file, ServiceError) else values["error"]
    body = {"rows": [values["row"]], "level": list(LEVELS), "interval": values["interval"]}
    of_row = snippets.call(
        "predict", model_id, [values["row"]], level=list(LEVELS), interval=values["interval"]
    )
    path = f"/models/{model_id}/predict"
    row_snippets = snippets.ask(request, path, of_row, method="POST", body=body) if values["row"] else []
    return render.render(
        request.scope,
        "model_predict.html",
        status=200 if error is None else error.status,
        **frame,
        **values,
        of_file=None if isinstance(of_file, ServiceError) else of_file,
        file_error=of_file if isinstance(of_file, ServiceError) else None,
        query=urlencode([(name, value) for name, value in request.query_params.items() if name[:1] == "f"]),
        snippets=file_snippets or row_snippets,
    )


def _predicted(
    predictor: Predictor, owner: str, model_id: str, frame: Frame, request: Request, *, submitted: bool
) -> dict[str, Any]:
    model, dataset = frame["model"], frame["dataset"]
    interval = usual_interval(model.settings)
    nothing: dict[str, Any] = {
        "columns": [],
        "given": [],
        "sign": ".",
        "own_csv": "",
        "row": None,
        "answer": None,
        "error": None,
        "wrong": {},
        "interval": interval,
        "reasons": None,
        "survival": None,
        "calibrated": None,
        "joint": None,
    }
    if not model.draws:
        return nothing
    profiles = {}
    if dataset is not None and dataset.profiles:
        profiles = dict(zip((c["name"] for c in dataset.columns), dataset.profiles, strict=True))
    form = row_form(predictor, owner, model_id, profiles)
    columns = form.columns
    usual = [form.text_of(column.typical) for column in columns]
    cells = row_values(request, len(columns)) if submitted else usual
    values = nothing | {"columns": columns, "given": cells, "sign": form.sign, "own_csv": form.own_csv}
    try:
        values["row"] = form.row_of(columns, cells)
        if submitted:
            enough = has_row_diagnostics(model.draws)
            asked = {
                "answer": PredictionOptions(level=LEVELS, interval=interval, mcse=enough, rhat=enough),
                "credible": PredictionOptions(level=LEVELS, interval="credible"),
            }
            if model.calibration is not None:
                asked["calibrated"] = PredictionOptions(interval="calibrated")
            sent = SentRows([values["row"]])
            for name, options in asked.items():
                values[name] = predictor.predict(owner, model_id, options, sent).to_json()
            if "outcomes" in model.settings and model.state == "succeeded":
                asked_jointly = JointBody(rows=[values["row"]])
                values["joint"] = explain(predictor, owner, model_id, asked_jointly).shown()
            values["reasons"] = _reasons(predictor, owner, model_id, values["row"])
            if any(model.settings.get(role) for role in ("event", "lower", "upper")):
                values["survival"] = _survival(predictor, owner, model_id, values["row"])
    except ServiceError as error:
        if error.status != 422:
            raise
        values["error"] = error
        values["wrong"] = {fault.column: fault.detail for fault in error.errors}
    return values


@dataclass(frozen=True)
class FeatureEffect:
    """Effect of a feature on a prediction, and its bar: left end, width and mark, of a scale of 120."""

    name: str
    value: Any
    mean: float
    lower: float
    upper: float
    bar: tuple[float, float, float]


@dataclass(frozen=True)
class Reasons:
    """SHAP values of one row in terms of the outcome, the largest first.

    `kind` is how they lead from the base to the row: as factors or as differences. `typical`: these two are
    what averages of what the trees learn stand for, not averages of the outcome. `zero` is where no effect is
    on the bars' scale, on which factors have their logarithms.
    """

    kind: str
    typical: bool
    left_out: str  # of what the trees learn, in words
    base: float
    f: float
    warnings: list[str]
    reasons: list[FeatureEffect]
    zero: float


def _survival(predictor: Predictor, owner: str, model_id: str, row: dict[str, Any]) -> Any:
    """Return the survival curve of a row; None while the model is fitted, and where it is too much work."""
    try:
        return explain(predictor, owner, model_id, SurvivalBody(rows=[row])).shown()
    except (NotFinishedError, TooLargeError):
        return None


def _reasons(predictor: Predictor, owner: str, model_id: str, row: dict[str, Any]) -> Reasons | None:
    """Explain the prediction of a row; None while the model is fitted, and where it has no such values."""
    try:
        found = explain(predictor, owner, model_id, ShapBody(rows=[row])).answer
    except (InvalidRequestError, NotFinishedError, TooLargeError):
        return None
    of = found.of_outcome
    if of is None and found.classes is not None:  # of no probability
        return None
    ends = [0.0, *found.lower[0].tolist(), *found.upper[0].tolist()]
    start: float = min(ends)
    width: float = (max(ends) - start) or 1.0

    def place(value: float) -> float:
        return 120 * (value - start) / width

    told = of or found
    names = [found.names[j] for j in np.argsort(-np.abs(found.values[0]), kind="stable")[:MOST_REASONS]]
    reasons = []
    for name in names:
        j = found.names.index(name)
        mean, low, high = (float(each[0, j]) for each in (found.values, found.lower, found.upper))
        bar = place(low), place(high) - place(low), place(mean)
        figures = [float(each[0, j]) for each in (told.values, told.lower, told.upper)]
        reasons.append(FeatureEffect(name, row[name], figures[0], figures[1], figures[2], bar))
    return Reasons(
        "differences" if of is None else of.kind,
        of is not None,
        left_out_of(found.scale),
        float(found.base_values) if of is None else of.base,
        float(found.f[0] if of is None else of.outcome[0]),
        found.warnings,
        reasons,
        place(0.0),
    )
