"""Reports of outcomes: scoring them by the model, storing them, and judging its intervals by all so far."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from itertools import repeat
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sqlalchemy.orm import Session

from app.services.access import audit, quotas
from app.services.errors import ConflictError, Fault, NotFoundError, enough
from app.services.fits import models
from app.services.metrics import reported_outcomes
from app.services.outcomes import rows as reported
from app.services.outcomes import weekly
from app.services.outcomes.counted_once import column_of, counted_once, units_of
from app.services.outcomes.rows import OutcomeOptions, Repeated
from app.services.predictions.file_rows import RowsReadAsView
from app.services.predictions.options import PredictionOptions
from app.services.predictions.predict_rows import Predictor, translating_sampler_errors
from app.services.predictions.rows import SentRows
from app.store import events
from app.store.access.quotas import OUTCOME_BYTES
from app.store.engine import session_scope
from app.store.errors import ModelGoneError
from app.store.outcomes import reports as store
from app.store.outcomes import schedules, watches
from app.store.predictions import encode
from app.store.tables import Json, KnownOutcome, Model, OutcomeWatch, new_id
from sampler import DataError, Posterior
from sampler.host.assessment import OUTCOME_LEVELS as LEVELS
from sampler.host.assessment import (
    LabelledRows,
    OutcomeScores,
    OutcomeSums,
    WatchedIntervals,
    WatchReport,
    WatchVerdict,
    monday_of,
    score_outcomes,
    watch,
    week_of,
)
from sampler.host.settings import FAMILIES

MAX_OUTCOMES = 200_000  # most outcomes that a model may have
ALERT = "intervals_no_longer_hold"  # the event of a model whose watch begins to alarm


class RepeatedKeyError(ConflictError):
    """An outcome of a row was reported before."""

    slug, title = "outcome-repeated", "An outcome of this row was reported before"


@dataclass(frozen=True)
class ScoredReport:
    """A report of outcomes with the model's scores, ready to be stored."""

    id: str
    model_id: str
    era: int
    draws: int
    repeated: Repeated
    keys: list[str] | None
    key_column: str | None
    scores: OutcomeScores
    weeks: list[int]
    rows: list[Json]  # columns of `KnownOutcome`
    data: bytes
    warnings: list[str]
    read_as: RowsReadAsView | None


@dataclass(frozen=True, kw_only=True)
class AcceptedReportView:
    """Result of a report, and the verdict on the model's intervals with it."""

    id: Annotated[str | None, Field(description="Null if all rows were skipped.")]
    model_id: str
    rows: Annotated[int, Field(description="Outcomes stored.")]
    replaced: int
    skipped: int
    verdict: WatchVerdict
    text: str
    since: Annotated[date | None, Field(description="The week since which the intervals no longer hold.")]
    warnings: list[str]
    read_as: Annotated[
        RowsReadAsView | None, Field(description="How a file was read; null for JSON rows.")
    ] = None


def scored(
    predictor: Predictor, owner: str, model: str, request: OutcomeOptions, sent: SentRows
) -> ScoredReport:
    """Read the rows of a report and score their outcomes; writes nothing.

    Raises
    ------
    NotFoundError, NotFinishedError
        The model doesn't exist, or can't answer.
    InvalidRequestError, UnusableDataError, TooLargeError, ConflictError
        As `app.services.outcomes.rows.read`; or a row isn't one of the model's, or there are too many.
    """
    head, posterior, _ = predictor.lookup(owner, model)
    with session_scope(predictor.engine, read_only=True) as session:
        begun = watches.get(session, head.id)
        era = 0 if begun is None else begun.era
    reported_rows = reported.read(predictor.engine, owner, head, posterior, request, sent, predictor.max_rows)
    with translating_sampler_errors():
        column = column_of(head.settings)
        labelled = _labelled(posterior, reported_rows, head.settings.get("weights"), column)
        figures = PredictionOptions(
            level=list(LEVELS), interval=_interval(posterior), draws=posterior.num_draws
        )
        predictor.check_work(posterior, labelled.coded, figures)
        report_id = new_id("out")
        rng = np.random.default_rng(int(report_id.removeprefix("out_"), 16))
        scores = score_outcomes(posterior.law, labelled, rng.uniform(size=len(labelled.y)))
    with session_scope(predictor.engine, read_only=True) as session:
        scores = weekly.judged_in_time(session, head.id, begun, scores, reported_rows.at)
    weeks = [week_of(at) for at in reported_rows.at]
    columns = {name: getattr(scores, name).tolist() for name in STORED}
    columns["error"] = [None if np.isnan(error) else error for error in columns["error"]]
    notes = list[str]()
    if column is not None:
        columns["unit"], notes = units_of(column, reported_rows.X, len(weeks))
    columns |= {"at": reported_rows.at, "week": weeks, "key": reported_rows.keys or repeat(None, len(weeks))}
    return ScoredReport(
        id=report_id,
        model_id=head.id,
        era=era,
        draws=posterior.num_draws,
        repeated=request.repeated,
        keys=reported_rows.keys,
        key_column=request.key or request.row,
        scores=scores,
        weeks=weeks,
        rows=[dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        data=encode(reported_rows.values),
        warnings=[*reported_rows.notes, *notes, *labelled.coded.warnings],
        read_as=reported_rows.read_as,
    )


STORED = ("pit", "score", "log_score", "error", "inside_50", "inside_90", "above")


def accept(session: Session, owner: str, report: ScoredReport) -> AcceptedReportView:
    """Store a scored report, and judge the model's intervals by all its outcomes.

    Raises
    ------
    NotFoundError
        The model was deleted meanwhile.
    RepeatedKeyError
        Rows have outcomes already, and the request neither replaces nor skips them.
    ConflictError
        The model would have too many outcomes.
    QuotaError
        The owner's quota of stored bytes is exhausted.
    """
    quotas.hold(session, owner)
    begun = _locked(session, owner, report.model_id)
    model = session.get_one(Model, report.model_id)
    old = {} if report.keys is None else store.keyed(session, report.model_id, report.keys)
    is_stored = _rows_to_store(report, old)
    if not is_stored.any():
        return _answer(report, 0, 0, judged(session, model, begun))
    gone = len(old) if report.repeated == "replace" else 0
    more = int(is_stored.sum()) - gone
    has = 0 if begun is None else begun.num_rows
    if has + more > MAX_OUTCOMES:
        raise ConflictError(
            f"The model has {has} outcomes, and {MAX_OUTCOMES} are the most: fit again with them "
            "(POST /models/{id}/outcomes/refit), then report to the new model."
        )
    quotas.check_stored(session, owner, len(report.data) + OUTCOME_BYTES * len(is_stored))
    if begun is None:
        begun = watches.begin(session, report.model_id, min(report.weeks), "too_few")
    elif not watches.weeks(session, report.model_id).get(begun.era):
        begun.first_week = min(report.weeks)
    sums: dict[tuple[int, int], OutcomeSums] = defaultdict(OutcomeSums)
    eras = [(old[key].era if key in old else report.era) for key in report.keys or [""] * len(is_stored)]
    if gone:
        for each in old.values():
            sums[each.era, each.week] = sums[each.era, each.week].plus(_sums_of(each), -1)
        store.remove(session, report.model_id, list(old))
    audit.record(session, owner, f"outcomes.{'replaced' if gone else 'reported'}", report.model_id)
    before = [old.get(key) for key in report.keys or [""] * len(is_stored)]
    counted = [
        None if each is None else each.counted for each in before
    ]  # a correction counts no second time
    rows = [
        row | {"era": era, "counted": number}
        for row, era, number in zip(report.rows, eras, counted, strict=True)
    ]
    places: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i in np.flatnonzero(is_stored).tolist():
        places[eras[i], report.weeks[i]].append(i)
    for place, mine in places.items():
        sums[place] = sums[place].plus(OutcomeSums.of(report.scores.part(np.array(mine))))
    stored = store.new_report(report.id, report.model_id, len(is_stored), report.draws, report.data)
    store.add(session, stored, [(i, rows[i]) for i in np.flatnonzero(is_stored).tolist()])
    _add_sums(session, report.model_id, sums)
    begun.num_rows = has + more
    reported_outcomes.inc(int(is_stored.sum()))
    weekly.move(session, model, begun)
    judgement = judged(session, model, begun)
    if watches.judge(session, begun, judgement.verdict, alarm=judgement.verdict == "no_longer_hold"):
        events.append(session, report.model_id, ALERT, {"text": judgement.text})
        schedules.sound(session, model.owner, model.name)
    return _answer(report, int(is_stored.sum()), gone, judgement)


def judged(session: Session, model: Model, begun: OutcomeWatch | None) -> WatchReport:
    """Judge a model's intervals by the outcomes of the present era."""
    if begun is None:
        return watch({}, 0)
    calibration = model.calibration or {}
    rows = calibration.get("counted", calibration.get("rows"))
    weeks = watches.weeks(session, model.id).get(begun.era, {})
    sums = {week: OutcomeSums.from_json(values) for week, values in weeks.items()}
    noun = "rows" if rows == calibration.get("rows") else "groups"
    intervals = WatchedIntervals(has_classes(model), rows, begun.era, noun)
    report = watch(sums, begun.first_week, intervals, counted_once(session, model, begun.era, sums))
    if report.verdict == "no_longer_hold" and weekly.has_adapted(session, model.id, begun):
        return replace(report, text=report.text + weekly.ADVICE)
    return report


def has_classes(model: Model) -> bool:
    """Tell whether a model's outcomes are classes."""
    return FAMILIES[str(model.settings.get("family", "gaussian"))].has_classes


def delete(session: Session, owner: str, model: str) -> int:
    """Delete the outcomes of a model; return their number. Raises NotFoundError."""
    model_id = models.get(session, owner, model).id
    _locked(session, owner, model_id)
    removed = store.delete_all(session, model_id)
    if removed:
        audit.record(session, owner, "outcomes.deleted", model_id)
    return removed


def _locked(session: Session, owner: str, model_id: str) -> OutcomeWatch | None:
    try:
        return watches.lock(session, owner, model_id)
    except ModelGoneError as error:
        raise NotFoundError(str(error)) from None


def _labelled(
    posterior: Posterior, reported_rows: reported.ReportedRows, weights: str | None, groups: str | None
) -> LabelledRows:
    """Encode the rows; problems with outcomes and weights have the names of their columns."""
    names = {"y": posterior.schema.target.name, "weights": weights}
    X = reported_rows.X
    # columns that predictions don't use, but scores or the watch do
    scored_by = {weights, groups, *posterior.censoring.values()} - {
        each.name for each in posterior.schema.inputs
    }
    try:
        coded = posterior.encode({name: values for name, values in X.items() if name not in scored_by})
        return LabelledRows.read(posterior.law, X, reported_rows.y, reported_rows.weights, coded)
    except DataError as error:
        problems = [
            type(each)(names.get(each.column or "") or each.column, each.row, each.detail)
            for each in error.problems
        ]
        raise DataError(problems) from None


def _interval(posterior: Posterior) -> Literal["predictive", "credible"]:
    return "predictive" if posterior.classes is None else "credible"


def _rows_to_store(report: ScoredReport, old: Mapping[str, KnownOutcome]) -> NDArray[np.bool_]:
    """Mark the rows to store; raise for repeated ones that are refused."""
    is_stored = np.ones(len(report.rows), bool)
    if not old or report.repeated == "replace":
        return is_stored
    again = [i for i, key in enumerate(report.keys or ()) if key in old]
    if report.repeated == "refuse":
        message = 'its outcome was reported before: set repeated to "replace" or "skip"'
        raise RepeatedKeyError(errors=enough(Fault(report.key_column, i + 1, message) for i in again))
    is_stored[again] = False
    return is_stored


def _sums_of(each: KnownOutcome) -> OutcomeSums:
    error = np.nan if each.error is None else each.error
    numbers = (np.array([value]) for value in (each.pit, each.score, each.log_score, error))
    marks = (np.array([value]) for value in (each.inside_50, each.inside_90, each.above))
    return OutcomeSums.of(OutcomeScores(*numbers, *marks))


def _add_sums(session: Session, model_id: str, sums: Mapping[tuple[int, int], OutcomeSums]) -> None:
    stored = watches.weeks(session, model_id)
    by_era: dict[int, dict[int, Json]] = defaultdict(dict)
    for (era, week), more in sums.items():
        values = stored.get(era, {}).get(week)
        has = OutcomeSums() if values is None else OutcomeSums.from_json(values)
        by_era[era][week] = has.plus(more).to_json()
    for era, weeks in by_era.items():
        watches.save_weeks(session, model_id, era, weeks)


def _answer(report: ScoredReport, stored: int, replaced: int, judgement: WatchReport) -> AcceptedReportView:
    return AcceptedReportView(
        id=report.id if stored else None,
        model_id=report.model_id,
        rows=stored,
        replaced=replaced,
        skipped=len(report.rows) - stored,
        verdict=judgement.verdict,
        text=judgement.text,
        since=None if judgement.since is None else monday_of(judgement.since),
        warnings=report.warnings,
        read_as=report.read_as,
    )
