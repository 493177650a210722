"""Figures and verdict of a model's outcomes: by week, altogether, and beside the held-out rows."""

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services.fits import models
from app.services.outcomes.reports import has_classes, judged
from app.store.engine import session_scope
from app.store.outcomes import watches
from app.store.tables import Json, Model, OutcomeWatch
from sampler.posterior.assessment.outcome_scores import LEVELS
from sampler.posterior.assessment.outcome_sums import CENTRAL, OutcomeSums, monday_of, week_of
from sampler.posterior.assessment.outcome_watch import ALPHA, total_of


@dataclass(frozen=True)
class OutcomeFigures:
    """Figures of some outcomes; ranges are those that chance allows 95% of such figures."""

    rows: int
    coverage: list[dict[str, float]]  # by level: observed, lower, upper
    pit_mean: dict[str, float]  # observed, lower, upper
    log_score: dict[str, float]  # observed, lower, upper
    rmse: float | None
    brier: float | None


@dataclass(frozen=True)
class OutcomesOfWeek:
    """Figures of the outcomes of one week, which belong to an era."""

    week: date  # its Monday
    era: int
    figures: OutcomeFigures


@dataclass(frozen=True)
class BrokenBoundOfWatch:
    """A bound that outcomes break, since when, and by how much."""

    code: str
    since: date
    observed: float
    rows: int
    limit: float


@dataclass(frozen=True)
class OutcomeSummary:
    """Figures and verdict of a model's outcomes.

    `total` and `histogram` are of the present era, which begins with each calibration; `rows` are all.
    """

    model_id: str
    target: str
    intervals: str
    rows: int
    verdict: str
    text: str
    since: date | None
    alerted_at: datetime | None
    updated_at: datetime | None
    false_alarms: float
    reasons: list[BrokenBoundOfWatch]
    era: int
    total: OutcomeFigures | None
    histogram: list[dict[str, float]]
    held_out: Json | None
    weeks: list[OutcomesOfWeek]


def of_model(session: Session, owner: str, name: str) -> OutcomeSummary:
    """Return what a model's outcomes say; raises NotFoundError."""
    model = models.get(session, owner, name, succeeded=True)
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
    return OutcomeSummary(
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
        reasons=[
            BrokenBoundOfWatch(each.code, monday_of(each.since), each.observed, each.rows, each.limit)
            for each in report.reasons
        ],
        era=era,
        total=_figures(total, expected, every, of_classes=of_classes) if total.rows else None,
        histogram=total.histogram() if total.rows else [],
        held_out=_held_out(model),
        weeks=[
            OutcomesOfWeek(monday_of(week), number, _figures(sums, expected, every, of_classes=of_classes))
            for week, number, sums in sorted(
                ((week, number, sums) for number, weeks in eras.items() for week, sums in weeks.items()),
                key=lambda each: each[:2],
            )
            if sums.rows
        ],
    )


def of_model_by(engine: Engine, owner: str, name: str) -> OutcomeSummary:
    """Return `of_model` in a transaction of its own."""
    with session_scope(engine, read_only=True) as session:
        return of_model(session, owner, name)


def _intervals(model: Model, *, of_classes: bool) -> str:
    if model.calibration is not None:
        return "calibrated"
    return "sets" if of_classes else "predictive"


def _figures(sums: OutcomeSums, expected: float, every: OutcomeSums, *, of_classes: bool) -> OutcomeFigures:
    error = sums.mean_error()
    reach = CENTRAL * every.log_score_sd() / math.sqrt(sums.rows)
    log_score = {"observed": sums.mean_log_score(), "lower": expected - reach, "upper": expected + reach}
    return OutcomeFigures(
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
