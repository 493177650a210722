"""Page "What if": how a model's predictions differ between two settings of its features."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from app.dashboard import render, snippets
from app.dashboard.pages.models import Frame, framed_as
from app.services.access.keys import PREDICT
from app.services.errors import Fault, InvalidRequestError, ServiceError
from app.services.explanations.contrasts import ContrastBody, ExplainedContrast
from app.services.explanations.guard import explain
from app.services.explanations.importance import ImportanceQuery
from app.services.predictions.predict_rows import Predictor
from app.services.predictions.row_form import FormColumn, RowForm, row_form
from app.web.dependencies import OutcomePredictor, Owner, TheGate
from app.web.scopes import GuardedRoute, needs

router = APIRouter(prefix="/ui/models", include_in_schema=False, route_class=GuardedRoute)
MOST_FEATURES = 3  # set at once in the form
Profiles = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class SetFeature:
    """A feature that the form sets, with the two values as typed; `column` is None for no feature."""

    column: FormColumn | None
    first: str
    second: str


@dataclass(frozen=True)
class AverageRow:
    """A line of the table: an average over rows, of a class where there are several, with its bar."""

    name: str
    label: str | None
    rows: int
    mean: float
    lower: float
    upper: float
    bar: tuple[float, float, float, float]  # on a scale of 120 units: left end, width, mark, zero


@router.get("/{model_id}/what-if")
@needs(PREDICT, of_kept_rows=True)
async def what_if(
    request: Request,
    predictor: OutcomePredictor,
    gate: TheGate,
    owner: Owner,
    model_id: str,
    frame: Annotated[Frame, framed_as("what-if")],
    feature: Annotated[list[str] | None, Query(max_length=MOST_FEATURES)] = None,
    of: Annotated[list[str] | None, Query(max_length=MOST_FEATURES)] = None,
    first: Annotated[list[str] | None, Query(max_length=MOST_FEATURES)] = None,
    second: Annotated[list[str] | None, Query(max_length=MOST_FEATURES)] = None,
    by: str = "",
) -> Response:
    """Show a form of two settings, and the contrast of the predictions with them.

    `of` names the features that the values were typed for; another feature gets values of its own.
    """
    model_id = frame["model"].id
    nothing: Frame = {
        "form": None,
        "names": [],
        "chosen": [],
        "difference": None,
        "averages": [],
        "error": None,
        "by": by,
    }
    shown = nothing | {"form": None}
    if frame["model"].state == "succeeded":
        lines = list(zip(*(_padded(each) for each in (feature, of, first, second)), strict=True))
        shown |= await gate.run(lambda: _contrast(predictor, owner, model_id, frame, lines, by))
    values = [{each.column.name: _value(shown["form"], each, end) for each in shown["chosen"] if each.column}
              for end in ("first", "second")]  # fmt: skip
    named = {"by": by} if by else {}
    return render.render(
        request.scope,
        "model_what_if.html",
        status=200 if shown["error"] is None else shown["error"].status,
        **frame,
        **shown,
        snippets=snippets.ask(
            request,
            f"/models/{model_id}/contrast",
            snippets.call("contrast", model_id, *values, **named),
            method="POST",
            body={"first": values[0], "second": values[1], **named},
        ),
    )


def _padded(values: Sequence[str] | None) -> list[str]:
    return [*(values or ()), *[""] * MOST_FEATURES][:MOST_FEATURES]


def _contrast(
    predictor: Predictor,
    owner: str,
    model_id: str,
    frame: Frame,
    lines: Sequence[tuple[str, ...]],
    by: str,
) -> Frame:
    """Compute the requested contrast; without a request, that of the most important feature."""
    ranked = explain(predictor, owner, model_id, ImportanceQuery()).shown()
    names = [each.name for each in (ranked.permutation or ranked).features]
    dataset = frame["dataset"]
    profiles: Profiles = {}
    if dataset is not None and dataset.profiles:
        profiles = dict(zip((c["name"] for c in dataset.columns), dataset.profiles, strict=True))
    form = row_form(predictor, owner, model_id, profiles)
    columns = {each.name: each for each in form.columns}
    named = [name for name, *_ in lines if name]
    if not named:
        lines = [(names[0], "", "", ""), *lines[1:]]
    chosen = [
        _set_feature(form, columns[name], name == of, (first, second), profiles.get(name) or {})
        for place, (name, of, first, second) in enumerate(lines)
        if name in names and name not in [earlier for earlier, *_ in lines[:place]]
    ]
    shown: Frame = {
        "form": form,
        "names": names,
        "chosen": [*chosen, *[SetFeature(None, "", "")] * (len(chosen) < MOST_FEATURES)],
    }
    try:
        faults = [Fault("feature", None, f"the model has no {name!r}") for name in named if name not in names]
        faults += [Fault(name, None, "it is set twice") for name in names if named.count(name) > 1]
        if faults:
            raise InvalidRequestError(errors=faults)
        first, second = (_row(form, chosen, end) for end in ("first", "second"))
        wanted = ContrastBody(first=first, second=second, by=by or None)
        difference = explain(predictor, owner, model_id, wanted)
    except ServiceError as error:
        if error.status not in (413, 422):
            raise
        return shown | {"error": error}
    return shown | {"difference": difference.shown(), "averages": _averages(difference)}


def _set_feature(
    form: RowForm, column: FormColumn, mine: bool, settings: tuple[str, str], profile: Mapping[str, Any]
) -> SetFeature:
    """Take the values typed for this column, or usual ones: its quartiles, or its two commonest levels."""
    if mine:
        return SetFeature(column, *settings)
    quartiles = profile.get("quantiles") or {}
    ends: list[Any] = [quartiles.get("0.75", column.max), quartiles.get("0.25", column.min)]
    if ends[0] == ends[1]:
        ends = [column.max, column.min]
    if column.kind == "boolean":
        ends = [True, False]
    elif column.kind == "category":
        commonest = [entry["value"] for entry in profile.get("top", ()) if entry["value"] in column.levels]
        ends = [*dict.fromkeys([*commonest, *column.levels]), None, None][:2]
    return SetFeature(column, *(form.text_of(end) for end in ends))


def _row(form: RowForm, chosen: Sequence[SetFeature], end: str) -> dict[str, Any]:
    columns = [each.column for each in chosen if each.column]
    return form.row_of(columns, [getattr(each, end) for each in chosen if each.column])


def _value(form: RowForm | None, chosen: SetFeature, end: str) -> Any:
    """Return a value as JSON, or the text where it isn't one."""
    try:
        return getattr(chosen, end) if form is None else next(iter(_row(form, [chosen], end).values()))
    except ServiceError:
        return getattr(chosen, end)


def _averages(explained: ExplainedContrast) -> list[AverageRow]:
    """List the averages, each class where there are several, with bars on one scale."""
    contrast = explained.answer
    named: dict[str, Any] = {
        "These rows": contrast.average,
        "The population they are a sample of": contrast.population,
        "Rows that have the first setting already": contrast.treated,
        **contrast.groups,
    }
    flat: list[tuple[str, str | None, int, float, float, float]] = []
    for name, each in named.items():
        if each is None:
            continue
        labels: list[str | None] = list(contrast.classes or []) if np.ndim(each.mean) else [None]
        figures = zip(*(np.atleast_1d(part) for part in (each.mean, each.lower, each.upper)), strict=True)
        flat += [(name, label, each.rows, *ends) for label, ends in zip(labels, figures, strict=True)]
    low = min(0.0, *(lower for *_, lower, _ in flat))
    width = (max(0.0, *(upper for *_, upper in flat)) - low) or 1.0

    def place(value: float) -> float:
        return 120 * (value - low) / width

    return [
        AverageRow(
            name, label, rows, mean, lower, upper,
            (place(lower), place(upper) - place(lower), place(mean), place(0.0)),
        )
        for name, label, rows, mean, lower, upper in flat
    ]  # fmt: skip
