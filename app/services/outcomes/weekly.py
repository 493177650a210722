"""Weekly recalibration: tables that move with the outcomes of ended weeks (docs/maths.md#outcomes)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sqlalchemy.orm import Session

from app.services.access import audit
from app.services.errors import ConflictError, NotFoundError
from app.services.explanations.guard import check_succeeded
from app.services.fits import models
from app.services.predictions.earlier_tables import table_of
from app.services.predictions.predict_rows import translating_sampler_errors
from app.store import events
from app.store import models as model_store
from app.store.clock import utc_now
from app.store.column_codec import checksum
from app.store.errors import ModelGoneError
from app.store.outcomes import watches
from app.store.outcomes import weekly as store
from app.store.tables import Model, OutcomeWatch, WeeklyTable
from sampler.host.assessment import OutcomeScores, week_of
from sampler.host.forecasts import intervals_of, with_adapted
from sampler.host.storage import (
    NEWEST_SCORES,
    SUMMARY_LEVELS,
    USUAL_LEVEL,
    ConformalTable,
    Header,
    counts_groups,
    ends_in_force,
    first_tails,
    most_outside,
    most_pending,
    moved_tails,
    rows_needed,
    statement_of,
    table_of_newest,
    weights_of,
    with_calibration,
)

MOVED = "recalibrated_weekly"  # the event of a table that weekly recalibration put in force
SHOWN = 104  # tables in a view, the newest
ADVICE = " They are adapted each week and fail even so: fit again with the outcomes."
Policy = Literal["weekly", "off"]


@dataclass(frozen=True, kw_only=True)
class AdaptedEndsView:
    """Predictive probabilities of the ends of the intervals of a level; 0 and 1 mean no end."""

    level: float
    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class WeeklyTableView:
    """A calibration that was, or is, in force."""

    calibration: Annotated[str, Field(description="Its checksum, as answers name it.")]
    since: datetime
    outcomes: Annotated[int, Field(description="Outcomes counted at its making.")]
    outside: Annotated[int, Field(description="Of these, outside the 90% intervals in force at their time.")]
    ends: list[AdaptedEndsView]


@dataclass(frozen=True, kw_only=True)
class PolicyView:
    """Policy for reported outcomes, and its promise."""

    recalibrate: Policy
    since: datetime | None
    outcomes: Annotated[int, Field(description="Outcomes counted since, those of ended weeks.")]
    counted_once: Annotated[
        int | None, Field(description="Values of the column of new groups, each counted once a week, if so.")
    ] = None
    waiting: Annotated[int, Field(description="Outcomes that count later.")]
    pending: Annotated[int, Field(description="The most that were predicted and not yet counted, at a time.")]
    outside: Annotated[
        float | None,
        Field(description="Share of what counts, by its rows, outside the 90% intervals of their time."),
    ]
    at_most: Annotated[float | None, Field(description="What that share can be at most, whatever the data.")]
    endless: Annotated[int, Field(description="Weekly tables with 90% intervals that lack an end.")]
    text: str
    tables: Annotated[list[WeeklyTableView], Field(description="The newest 104, in the order of time.")]


OFF = PolicyView(
    recalibrate="off",
    since=None,
    outcomes=0,
    waiting=0,
    pending=0,
    outside=None,
    at_most=None,
    endless=0,
    text="Intervals stay as they are calibrated until somebody recalibrates them.",
    tables=[],
)


@dataclass(frozen=True, kw_only=True)
class ModelPolicyView:
    """A model's policy for reported outcomes."""

    model_id: str
    policy: PolicyView


def set_policy(session: Session, owner: str, name: str, policy: Policy) -> ModelPolicyView:
    """Begin or end weekly recalibration of a model; where it is on, count at once what waits.

    Raises
    ------
    NotFoundError
        The model doesn't exist.
    ConflictError
        It hasn't succeeded, has no calibrated intervals, or too few rows calibrated them.
    InvalidRequestError
        Its outcomes are classes, or its calibration is by subgroups.
    """
    model = models.get(session, owner, name)
    check_succeeded(model)
    try:
        begun = watches.lock(session, owner, model.id)
    except ModelGoneError as error:
        raise NotFoundError(str(error)) from None
    if policy == "weekly":
        if begun is None:
            begun = watches.begin(session, model.id, week_of(utc_now()), "too_few")
        if begun.weekly_from is None:
            _begin(session, model, begun)
        move(session, model, begun, at_once=True)
    elif begun is not None:
        begun.weekly_from = None
    session.flush()
    audit.record(session, owner, "model.policy", model.id)
    return ModelPolicyView(model_id=model.id, policy=policy_of(session, model, begun))


def _begin(session: Session, model: Model, begun: OutcomeWatch) -> None:
    table, of_forecasts = _present(session, model), bool(model.settings.get("time"))
    if table is None and of_forecasts:
        raise ConflictError("No rehearsal was made, so there are no intervals that could move.")
    if table is None:
        raise ConflictError(
            "The model has no calibrated intervals that could move: recalibrate it by outcomes "
            '(POST /models/{id}/outcomes/recalibrate), or by folds (a study of kind "calibration").'
        )
    with translating_sampler_errors():
        table_of_newest(table, np.zeros(0), first_tails())
    if table.rows < (least := rows_needed(max(SUMMARY_LEVELS))) and not of_forecasts:
        raise ConflictError(
            f"{table.rows} rows calibrated the intervals, and weekly recalibration takes {least}, for its "
            f"levels up to {max(SUMMARY_LEVELS):.0%}: calibrate by folds or by more outcomes first."
        )
    if of_forecasts:  # whose intervals were those of rehearsals, which outcomes don't judge
        _put_in_force(session, model, table, 0)
    begun.weekly_from = _stored(session, model.id, table, 0, _Once())
    store.count(session, model.id, begun.weekly_from)


def move(session: Session, model: Model, begun: OutcomeWatch, *, at_once: bool = False) -> None:
    """Put a table in force that has counted the outcomes of ended weeks, where the policy is weekly.

    With the first report of a week, so that the posterior in memory is made anew once a week; `at_once`:
    whenever outcomes wait. Raises ConflictError where the model has changed meanwhile.
    """
    if begun.weekly_from is None:
        return
    made = store.tables(session, model.id, begun.weekly_from)
    before, draws = week_of(utc_now()), model_store.common_draws(session, model.id) or 0
    if not at_once and week_of(made[-1].at) >= before:
        return
    (first,) = store.with_scores(session, model.id, WeeklyTable.number == begun.weekly_from)
    original = table_of(first)
    of_groups = counts_groups(original)
    counted = store.waiting(session, model.id, draws, before, of_groups=of_groups)
    if not counted and (
        len(made) > 1 or not store.newest_counted(session, model.id, draws, 1, of_groups=of_groups)
    ):
        return
    newest = made[-1].number + 1
    store.count(session, model.id, newest, before)
    known = store.newest_counted(session, model.id, draws, NEWEST_SCORES, of_groups=of_groups)
    tails, once = _moved(session, model.id, made, counted, of_groups=of_groups)
    units = _units(known, of_groups=of_groups)
    table = table_of_newest(original, np.array([each.score for each in known]), tails, units)
    _put_in_force(session, model, table, draws)
    _stored(session, model.id, table, len(counted), once, newest)
    events.append(session, model.id, MOVED, {"outcomes": len(counted), "calibration": table.checksum})


def _put_in_force(session: Session, model: Model, table: ConformalTable, draws: int) -> None:
    """Store the table in the model's header; raises ConflictError where the model has changed meanwhile."""
    header, summary = _header(session, model.id), table.summary()
    if not model.settings.get("time"):
        done = model_store.calibrate(session, model.id, draws, with_calibration(header, table), summary)
    else:
        header, told = with_adapted(header, table), model.diagnostics or {}
        new = told | {"checksum": checksum(header), "claim": table.at(USUAL_LEVEL).text}
        done = model_store.rewrite(session, model.id, told.get("checksum", ""), header, new, summary)
    if not done:
        raise ConflictError("The model has changed meanwhile: repeat the request.")


class _Once(NamedTuple):
    """Outcomes outside 90% intervals; where groups count once, these and the sum of their shares."""

    outside: int = 0
    groups: int = 0
    shares: float = 0.0


def _units(scores: Sequence[store.ScoreInTime], *, of_groups: bool) -> NDArray[np.int64] | None:
    """Return the numbers of the outcomes' groups, int64 [row], where these count once."""
    names = [each.unit or b"" for each in scores]
    return np.unique(np.array(names), return_inverse=True)[1] if of_groups else None


def _moved(
    session: Session,
    model_id: str,
    made: Sequence[WeeklyTable],
    counted: Sequence[store.ScoreInTime],
    *,
    of_groups: bool,
) -> tuple[Mapping[float, tuple[float, float]], _Once]:
    """Return the shares of the tails after outcomes, and what was outside 90% intervals."""
    tails, once = first_tails(), _Once()
    if len(made) > 1:
        tails = {level: (lower, upper) for level, lower, upper in made[-1].made["tails"]}
    at, scores = [each.at for each in counted], np.array([each.score for each in counted])
    places, units = in_force(made, at), _units(counted, of_groups=of_groups)
    wanted = [made[i].number for i in np.unique(places)]
    for each in store.with_scores(session, model_id, WeeklyTable.number.in_(wanted)):
        these = places == each.number - made[0].number
        own, unit = scores[these], None if units is None else units[these]
        table = table_of(each)
        low, high = ends_in_force(table, USUAL_LEVEL)
        is_outside = (own < low) | (own > high)
        groups = 0 if unit is None else len(np.unique(unit))
        shares = float(weights_of(unit, len(own))[is_outside].sum())
        once = _Once(
            once.outside + int(np.count_nonzero(is_outside)), once.groups + groups, once.shares + shares
        )
        tails = moved_tails(tails, table, own, unit)
    return tails, once


def in_force(made: Sequence[WeeklyTable], at: Sequence[datetime]) -> NDArray[np.int64]:
    """Return the position of the table in force at each time: the first one also before it was."""
    since = np.array([each.at.timestamp() for each in made])
    times = np.array([each.timestamp() for each in at])
    return np.maximum(np.searchsorted(since, times, side="right") - 1, 0)


def has_adapted(session: Session, model_id: str, begun: OutcomeWatch) -> bool:
    """Tell whether weekly recalibration is on, and has counted outcomes."""
    on = begun.weekly_from
    return on is not None and any(each.counted for each in store.tables(session, model_id, on))


def judged_in_time(
    session: Session, model_id: str, begun: OutcomeWatch | None, scores: OutcomeScores, at: Sequence[datetime]
) -> OutcomeScores:
    """Return the scores with the marks of the intervals that were in force at the rows' times."""
    if begun is None or begun.weekly_from is None:
        return scores
    made = store.tables(session, model_id, begun.weekly_from)
    places = in_force(made, at)
    ends = {level: np.array([_ends(each)[level] for each in made])[places] for level in (0.5, 0.9)}
    half, most = ((scores.score >= ends[v][:, 0]) & (scores.score <= ends[v][:, 1]) for v in (0.5, 0.9))
    return replace(scores, inside_50=half, inside_90=most)


def policy_of(session: Session, model: Model, begun: OutcomeWatch | None) -> PolicyView:
    """Return a model's policy, and what it promises."""
    if begun is None or begun.weekly_from is None:
        return OFF
    made = store.tables(session, model.id, begun.weekly_from)
    outcomes = sum(each.counted for each in made)
    groups: str | None = made[0].made.get("once")
    counted, outside = outcomes, float(sum(each.outside for each in made))
    if groups is not None:
        counted, outside = (sum(each.made.get(name, 0) for each in made) for name in ("groups", "shares"))
    share = outside / counted if counted else None
    pending = _pending(session, model.id, made, of_groups=groups is not None)
    return PolicyView(
        recalibrate="weekly",
        since=made[0].at,
        outcomes=outcomes,
        counted_once=None if groups is None else counted,
        waiting=store.num_waiting(session, model.id, of_groups=groups is not None),
        pending=pending,
        outside=share,
        at_most=most_outside(USUAL_LEVEL, counted, pending) if counted else None,
        endless=sum(0.0 in _ends(each)[0.9] or 1.0 in _ends(each)[0.9] for each in made[1:]),
        text=_words(counted, share, pending, groups),
        tables=[_view(each) for each in made[-SHOWN:]],
    )


def _pending(session: Session, model_id: str, made: Sequence[WeeklyTable], *, of_groups: bool) -> int:
    """Return the most outcomes that were predicted and not yet counted, or groups of a week, at a time."""
    times = store.times_counted(session, model_id, made[0].number)
    closes = {each.number: each.at.timestamp() for each in made}
    if of_groups:  # from the first of the rows that count together
        places = in_force(made, [at for at, _, _ in times]).tolist()
        first: dict[tuple[bytes | None, int, int], datetime] = {}
        for (at, unit, number), place in zip(times, places, strict=True):
            if unit is not None:
                first[unit, number, place] = min(at, first.get((unit, number, place), at))
        times = [(at, unit, number) for (unit, number, _), at in first.items()]
    return most_pending(
        np.array([at.timestamp() for at, _, _ in times]), np.array([closes[number] for _, _, number in times])
    )


def _words(counted: int, outside: float | None, pending: int, groups: str | None) -> str:
    if outside is None:
        return "Intervals move at the end of each week with outcomes; none was counted yet."
    promised = statement_of(USUAL_LEVEL, counted, pending, groups)
    return f"{promised} {outside:.1%} lay outside the intervals of their time."


def _view(each: WeeklyTable) -> WeeklyTableView:
    return WeeklyTableView(
        calibration=each.checksum,
        since=each.at,
        outcomes=each.counted,
        outside=each.outside,
        ends=[AdaptedEndsView(level=v, lower=low, upper=high) for v, (low, high) in _ends(each).items()],
    )


def _ends(each: WeeklyTable) -> dict[float, tuple[float, float]]:
    return {level: (low, high) for level, low, high in each.made["ends"]}


def _present(session: Session, model: Model) -> ConformalTable | None:
    header = _header(session, model.id)
    if model.settings.get("time"):
        return intervals_of(header, model_store.common_draws(session, model.id) or 1)
    return Header.from_bytes(header).calibration


def _header(session: Session, model_id: str) -> bytes:
    header = model_store.header(session, model_id)
    assert header is not None, "a model that has succeeded has its header"
    return header


def _stored(
    session: Session,
    model_id: str,
    table: ConformalTable,
    counted: int,
    once: _Once,
    number: int | None = None,
) -> int:
    """Store a table that is in force from now on; return its number."""
    if number is None:
        number = store.last_number(session, model_id) + 1
    ends = [[level, *ends_in_force(table, level)] for level in SUMMARY_LEVELS]
    unit = {} if table.unit is None else {"unit": table.unit.tolist()}
    if counts_groups(table):
        unit |= {"once": table.new_rows.groups, "groups": once.groups, "shares": once.shares}
    store.add(
        session,
        WeeklyTable(
            model_id=model_id,
            number=number,
            at=utc_now(),
            checksum=table.checksum,
            counted=counted,
            outside=once.outside,
            made=table.to_json() | {"ends": ends} | unit,
            scores=table.scores.astype("<f8").tobytes(),
        ),
    )
    return number
