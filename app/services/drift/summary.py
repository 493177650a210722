"""Whether the rows that a model predicts for resemble its training rows, with the counts of each week."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy.orm import Session

from app.services.drift.counting import judged, parts_of
from app.services.drift.traffic import Traffic
from app.services.fits import models
from app.services.views import SHOWN, filled, schema_of
from app.store import drift as store
from app.store.engine import session_scope
from app.store.tables import Model
from sampler.host.assessment import DRIFT_WEEKS, DriftReason, DriftVerdict, monday_of
from sampler.host.assessment import WATCH_ALPHA as ALPHA

DriftReasonView: Any = schema_of(
    DriftReason,
    "DriftReasonView",
    "name role values since observed rows training limit",
    "Values that are more frequent than in the training rows.",
    since=Annotated[date, Field(description="The week from which on they most clearly are.")],
)


@dataclass(frozen=True, kw_only=True)
class DriftPartView:
    """A feature, or predictions, with rows by their values; cells are in the order of `cells`."""

    name: Annotated[str, Field(description="The feature, or the outcome that is predicted.")]
    role: Literal["feature", "prediction"]
    kind: str
    weeks_once: Annotated[int, Field(description="Number of weeks that count once for the verdict.")]
    cells: Annotated[list[str], Field(description="Values, the training rows' quantiles or levels.")]
    training: Annotated[list[int], Field(description="Number of training rows in each cell.")]
    weeks: Annotated[list[list[int]], Field(description="By week the number of rows in each cell.")]


@dataclass(frozen=True, kw_only=True)
class DriftView:
    """Verdict on the rows that a model predicted for, and their counts."""

    model_id: str
    verdict: DriftVerdict | Literal["not_watched"]
    text: str
    since: Annotated[
        date | None, Field(description="The week since which rows no longer resemble the training rows.")
    ]
    alerted_at: datetime | None
    false_alarms: Annotated[
        float,
        Field(description="Largest probability of a false alarm, however often one looks."),
    ]
    reasons: Annotated[list[DriftReason], SHOWN]
    weeks: Annotated[list[date], Field(description="The first days of the weeks shown.")]
    rows: Annotated[list[int], Field(description="Rows of each week that were predicted for.")]
    parts: list[DriftPartView]


def of_model(session: Session, owner: str, name: str, weeks: int = DRIFT_WEEKS) -> DriftView:
    """Return what is known of the rows that a model predicted for, with the counts of its last weeks.

    Raises NotFoundError.
    """
    model = models.get(session, owner, name)
    watch = store.get(session, model.id)
    if watch is None:
        return DriftView(
            model_id=model.id,
            verdict="not_watched",
            text=_unwatched(model),
            since=None,
            alerted_at=None,
            false_alarms=ALPHA,
            reasons=[],
            weeks=[],
            rows=[],
            parts=[],
        )
    report = judged(session, watch)
    counts = dict([*store.weeks(session, model.id).items()][-weeks:])
    parts = parts_of(watch)
    return DriftView(
        model_id=model.id,
        verdict=report.verdict,
        text=report.text,
        since=None if report.since is None else monday_of(report.since),
        alerted_at=watch.alerted_at,
        false_alarms=ALPHA,
        reasons=[filled(DriftReasonView, each, since=monday_of(each.since)) for each in report.reasons],
        weeks=[monday_of(week) for week in counts],
        rows=[sum(week[0]) for week in counts.values()],
        parts=[
            DriftPartView(
                name=part.name,
                role=part.role,
                kind=part.kind,
                weeks_once=part.span,
                cells=part.cells,
                training=part.training,
                weeks=[week[place] for week in counts.values()],
            )
            for place, part in enumerate(parts)
        ],
    )


def of_model_now(traffic: Traffic, owner: str, name: str, weeks: int) -> DriftView:
    """Return `of_model` with what this process predicted until now; others add theirs within seconds."""
    traffic.flush()
    with session_scope(traffic.engine, read_only=True) as session:
        return of_model(session, owner, name, weeks)


def _unwatched(model: Model) -> str:
    if model.set_id is not None:
        return "Rows that models of a set predict for are not counted."
    if model.dataset_id is None:
        return "The training rows of this model are not known here, so its rows are not compared with them."
    return "Rows are compared with the training rows once the model has succeeded, or been fitted again."
