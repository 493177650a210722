"""Figures and verdict of a model's outcomes: by week, altogether, and beside the held-out rows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services.fits import models
from app.services.outcomes.reports import has_classes, judged
from app.services.outcomes.weekly import PolicyView, policy_of
from app.services.views import SHOWN, filled, schema_of
from app.store.engine import session_scope
from app.store.outcomes import watches
from app.store.tables import Json, Model, OutcomeWatch
from sampler.host.assessment import (
    CENTRAL,
    BrokenBound,
    OutcomeSums,
    WatchVerdict,
    monday_of,
    total_of,
    week_of,
)
from sampler.host.assessment import OUTCOME_LEVELS as LEVELS
from sampler.host.assessment import WATCH_ALPHA as ALPHA

Figure = Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class OutcomeFiguresView:
    """Figures of some outcomes; `lower` and `upper` are the range that chance allows 95% of such figures."""

    rows: int
    coverage: Annotated[
        list[Figure],
        Field(description="The share `observed` inside the intervals (or prediction sets) of each `level`."),
    ]
    pit_mean: Annotated[
        Figure, Field(description="The mean probability integral transform; a half is right.")
    ]
    log_score: Annotated[
        Figure,
        Field(
            description="The mean log score; its range is around that of the held-out rows, else of "
            "all outcomes."
        ),
    ]
    rmse: Annotated[float | None, Field(description="Null for classes, and where all outcomes are censored.")]
    brier: Annotated[float | None, Field(description="Of classes.")]


@dataclass(frozen=True, kw_only=True)
class OutcomesOfWeekView:
    """Figures of the outcomes of a week."""

    week: Annotated[date, Field(description="Its Monday, in UTC.")]
    era: Annotated[int, Field(description="The number of calibrations before them.")]
    figures: OutcomeFiguresView


@dataclass(frozen=True, kw_only=True)
class OutcomesOfStepView:
    """Outcomes that were forecast so many steps ahead."""

    step: Annotated[int, Field(description="How far ahead, from 1.")]
    rows: int
    coverage: list[Figure]


BrokenBoundView: Any = schema_of(
    BrokenBound,
    "BrokenBoundView",
    "code since observed rows limit",
    "A bound that the outcomes break.",
    since=Annotated[date, Field(description="The week from which on it is most clearly broken.")],
)


@dataclass(frozen=True, kw_only=True)
class OutcomesView:
    """Figures and verdict of a model's outcomes."""

    model_id: str
    target: str
    intervals: Annotated[
        Literal["predictive", "calibrated", "sets"],
        Field(description="Intervals that are checked: calibrated ones where the model has them."),
    ]
    rows: Annotated[int, Field(description="All outcomes; the verdict rests on those of the present era.")]
    verdict: Annotated[
        WatchVerdict,
        Field(
            description="no_longer_hold is an alarm: fewer than 85% of outcomes inside 90% "
            "intervals, fewer than 40% inside 50% ones, or more than 60% on one side of "
            "the median (less where few rows calibrated the intervals), beyond chance "
            "however often one looks."
        ),
    ]
    text: str
    since: Annotated[date | None, Field(description="The week since which the intervals no longer hold.")]
    alerted_at: Annotated[datetime | None, Field(description="When the present alarm began.")]
    updated_at: datetime | None
    false_alarms: Annotated[
        float,
        Field(
            description="Probability, at most, that a model is ever alarmed about wrongly, over all "
            "its eras, if outcomes, or the groups or weeks that count once, are independent."
        ),
    ]
    reasons: Annotated[list[BrokenBound], SHOWN]
    era: int
    total: Annotated[OutcomeFiguresView | None, Field(description="All outcomes of the present era.")]
    histogram: Annotated[
        list[Figure], Field(description="Shares of outcomes in tenths of the PIT, in this era.")
    ]
    held_out: Annotated[dict[str, Any] | None, Field(description="The same figures of the held-out rows.")]
    weeks: list[OutcomesOfWeekView]
    by_step: Annotated[
        list[OutcomesOfStepView],
        Field(
            description="Of a forecaster, by how far ahead outcomes of this era were forecast: each has one "
            "line at most in every step. Elsewhere an outcome counts once, at the farthest."
        ),
    ]
    policy: PolicyView


def of_model(session: Session, owner: str, name: str) -> OutcomesView:
    """Return what a model's outcomes say; raises NotFoundError."""
    model = models.get(session, owner, name)
    of_classes = has_classes(model)
    begun = watches.get(session, model.id)
    report = judged(session, model, begun)
    eras = {
        era: {week: OutcomeSums.from_json(sums) for week, sums in weeks.items()}
        for era, weeks in watches.weeks(session, model.id).items()
    }
    era = 0 if begun is None else begun.era
    total = total_of(eras.get(era, {}))
    every = total_of({e: total_of(weeks) for e, weeks in eras.items()})
    expected = _expected_log_score(model, every)
    return OutcomesView(
        model_id=model.id,
        target=model.target,
        intervals=_intervals(model, of_classes=of_classes),
        rows=every.rows,
        verdict=report.verdict,
        text=report.text,
        since=None if report.since is None else monday_of(report.since),
        alerted_at=None if begun is None else begun.alerted_at,
        updated_at=None if begun is None else begun.updated_at,
        false_alarms=ALPHA,
        reasons=[filled(BrokenBoundView, each, since=monday_of(each.since)) for each in report.reasons],
        era=era,
        total=_figures(total, expected, every, of_classes=of_classes) if total.rows else None,
        histogram=[*total.histogram()] if total.rows else [],
        held_out=_held_out(model),
        weeks=[
            OutcomesOfWeekView(
                week=monday_of(week),
                era=number,
                figures=_figures(sums, expected, every, of_classes=of_classes),
            )
            for week, number, sums in sorted(
                ((week, number, sums) for number, weeks in eras.items() for week, sums in weeks.items()),
                key=lambda each: each[:2],
            )
            if sums.rows
        ],
        by_step=[
            OutcomesOfStepView(step=step, rows=sums.rows, coverage=[sums.coverage(level) for level in LEVELS])
            for step, sums in enumerate(total.by_step(), start=1)
            if sums.rows
        ],
        policy=policy_of(session, model, begun),
    )


def of_model_by(engine: Engine, owner: str, name: str) -> OutcomesView:
    """Return `of_model` in a transaction of its own."""
    with session_scope(engine, read_only=True) as session:
        return of_model(session, owner, name)


def _intervals(model: Model, *, of_classes: bool) -> Literal["predictive", "calibrated", "sets"]:
    if model.calibration is not None or model.settings.get("time"):
        return "calibrated"
    return "sets" if of_classes else "predictive"


def _figures(
    sums: OutcomeSums, expected: float, every: OutcomeSums, *, of_classes: bool
) -> OutcomeFiguresView:
    error = sums.mean_error()
    reach = CENTRAL * every.log_score_sd() / math.sqrt(sums.rows)
    log_score = {"observed": sums.mean_log_score(), "lower": expected - reach, "upper": expected + reach}
    return OutcomeFiguresView(
        rows=sums.rows,
        coverage=[sums.coverage(level) for level in LEVELS],
        pit_mean=sums.pit_mean(),
        log_score=log_score,
        rmse=None if of_classes or error is None else math.sqrt(error),
        brier=error if of_classes else None,
    )


def _expected_log_score(model: Model, every: OutcomeSums) -> float:
    """Return the held-out rows' mean log score; without any, that of all outcomes."""
    held = model.holdout or {}
    if held.get("log_score") is not None:
        return float(held["log_score"])
    if held.get("log_loss") is not None:
        return -float(held["log_loss"])
    return every.mean_log_score() if every.rows else 0.0


def _held_out(model: Model) -> Json | None:
    held: dict[str, Any] = model.holdout or {}
    if not held:
        return None
    log_score = held.get("log_score")
    if log_score is None and held.get("log_loss") is not None:
        log_score = -held["log_loss"]
    coverage = [
        {name: each.get(name) for name in ("level", "coverage")}
        for each in held.get("coverage") or []
        if each["level"] in LEVELS
    ]
    facts = {name: held.get(name) for name in ("rows", "rmse", "brier")}
    return {**facts, "log_score": log_score, "coverage": coverage}


def week_since(session: Session, model: Model, begun: OutcomeWatch | None, since: date | None) -> int | None:
    """Return the week of a date; for None that since which the watch alarms, None where it doesn't."""
    if since is not None:
        return week_of(datetime(since.year, since.month, since.day, tzinfo=UTC))
    return judged(session, model, begun).since
