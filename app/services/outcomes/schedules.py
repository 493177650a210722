"""Retraining as a habit: the model of a name is fitted again every so often, or at the outcomes' alarm."""

import logging
import math
import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services import health
from app.services.access import audit
from app.services.datasets import get as get_dataset
from app.services.errors import ConflictError, Fault, InvalidRequestError, NotFoundError, ServiceError
from app.services.fair_line import OwnerTurns
from app.services.fits import creation, models
from app.services.fits.requests import request_like
from app.services.outcomes import refit
from app.services.request_context import Actor, acting
from app.settings import Settings
from app.store import models as model_store
from app.store.clock import utc_now
from app.store.engine import session_scope
from app.store.errors import StoreError
from app.store.outcomes import schedules as store
from app.store.tables import OPEN_STATES, Dataset, Model, RefitSchedule

log = logging.getLogger(__name__)

MOST_SCHEDULES = 100  # of an owner
UNITS = {"h": 3600, "d": 86_400}
LONGEST = 366 * UNITS["d"]
SCHEDULE = "schedule"  # the actor in the audit log


class ScheduleBody(BaseModel):
    """When the model of a name is fitted again."""

    model_config = ConfigDict(extra="forbid")

    every: str | None = Field(
        None, pattern=r"^[1-9]\d{0,3}[hd]$", description="How often: hours or days, such as 12h or 7d."
    )
    on_alarm: bool = Field(
        False, description="Also when the outcomes' alarm sounds: the intervals no longer hold."
    )
    promote: Literal["auto", "always", "never"] = Field(
        "auto", description="Whether the name moves to the new model, as of a refit."
    )
    holdout: float | None = Field(
        None, ge=0, le=0.9, description="The fraction of rows held out; default: as of the model before."
    )
    dataset: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="The name of the datasets whose newest is fitted to; default: that of the model's own.",
    )


@dataclass(frozen=True, kw_only=True)
class ScheduleView:
    """The schedule of a name, and what came of the last time."""

    model_id: Annotated[str, Field(description="The model that was asked about.")]
    name: str
    every: str | None
    on_alarm: bool
    promote: Literal["auto", "always", "never"]
    holdout: float | None
    dataset: Annotated[str, Field(description="The name of the datasets whose newest is fitted to.")]
    due_at: Annotated[datetime | None, Field(description="When it is due next; null: at an alarm.")]
    last_at: datetime | None
    last_model_id: Annotated[str | None, Field(description="The newest model that it has fitted.")]
    text: Annotated[str | None, Field(description="What came of the last time, in a sentence.")]


def put(session: Session, owner: str, model_id: str, asked: ScheduleBody) -> ScheduleView:
    """Store the schedule of a model's name, in place of one that it has.

    Raises
    ------
    NotFoundError
        The model doesn't exist.
    ConflictError
        It has no name or no dataset, or the owner has the most schedules allowed.
    InvalidRequestError
        It would never be due, or too seldom, or has no held-out rows for its gate.
    """
    model = models.get(session, owner, model_id)
    if model.name is None or model.dataset_id is None:
        what = "name" if model.name is None else "dataset, as it was imported"
        raise ConflictError(f"The model has no {what}: it can't be fitted again by itself.")
    every = None if asked.every is None else _seconds(asked.every)
    if every is None and not asked.on_alarm:
        raise _refused("every", "say how often, or on_alarm: it would never be due")
    held = model.settings.get("holdout") if asked.holdout is None else asked.holdout
    if model.settings.get("time"):
        if asked.holdout:
            raise _refused(
                "holdout", "forecasters are compared by what came, and hold no rows out: leave it out"
            )
    elif asked.promote == "auto" and not held:
        detail = "promote=auto compares held-out rows, and this model has none: give a fraction"
        raise _refused("holdout", detail)
    if store.get(session, owner, model.name) is None and store.count(session, owner) >= MOST_SCHEDULES:
        raise ConflictError(f"You have {MOST_SCHEDULES} schedules, the most allowed: delete one.")
    schedule = store.put(
        session,
        owner,
        model.name,
        dataset_name=asked.dataset or get_dataset(session, owner, model.dataset_id).name,
        every=every,
        on_alarm=asked.on_alarm,
        request={"promote": asked.promote, "holdout": asked.holdout},
        due_at=None if every is None else utc_now() + timedelta(seconds=every),
    )
    audit.record(session, owner, "schedule.set", model.id)
    return _view(schedule, model.id)


def get(session: Session, owner: str, model_id: str) -> ScheduleView:
    """Return the schedule of a model's name; raises NotFoundError."""
    model, schedule = _found(session, owner, model_id)
    return _view(schedule, model)


def of_model(session: Session, owner: str, model: models.ModelView) -> ScheduleView | None:
    """Return the schedule of a model's name, or None."""
    schedule = None if model.name is None else store.get(session, owner, model.name)
    return None if schedule is None else _view(schedule, model.id)


def delete(session: Session, owner: str, model_id: str) -> None:
    """Delete the schedule of a model's name; raises NotFoundError."""
    model, schedule = _found(session, owner, model_id)
    store.remove(session, owner, schedule.name)
    audit.record(session, owner, "schedule.deleted", model)


def run_due(engine: Engine, settings: Settings, seconds: float = math.inf) -> int:
    """Fit again what is due, in turns of owners; return the number of schedules that had their turn.

    A fit waits in the queue like every other, and counts against the quotas of its owner.
    """
    turns, count, until = OwnerTurns(), 0, time.monotonic() + seconds
    while time.monotonic() < until and (taken := _next(engine, turns)) is not None:
        count += 1
        limits = health.limits(engine, settings)
        with turns.turn(taken.owner), acting(Actor(SCHEDULE, owner=taken.owner, limits=limits)):
            _take_turn(engine, settings, taken)
    return count


def _next(engine: Engine, turns: OwnerTurns) -> RefitSchedule | None:
    with session_scope(engine) as session:
        for owner in turns.order(store.owners_due(session)):
            if (taken := store.take(session, owner)) is not None:
                session.expunge(taken)
                return taken
    return None


def _take_turn(engine: Engine, settings: Settings, taken: RefitSchedule) -> None:
    try:
        told = _fit(engine, settings, taken)
    except NotFoundError:
        with session_scope(engine) as session:
            store.remove(session, taken.owner, taken.name)  # no model has the name any more
        return
    except (ServiceError, StoreError) as error:
        told = f"It was refused: {error}"
    except Exception:
        log.exception("The refit of a schedule failed")
        told = "It failed by a mistake of the service, which its log has."
    if told is not None:
        with session_scope(engine) as session:
            store.ended(session, taken, told, None)


def _fit(engine: Engine, settings: Settings, taken: RefitSchedule) -> str | None:
    """Queue a fit to the newest data, and note it with the schedule; return why there is none, else None."""
    owner, name, asked = taken.owner, taken.name, taken.request
    with session_scope(engine, read_only=True) as session:
        if any(m.state in OPEN_STATES for m in model_store.list_page(session, owner, 1, name=name)):
            return "The last fit under this name hasn't ended."
        model = models.get(session, owner, name)
        if model.dataset_id is None:
            return "The model that the name means was imported: it has no dataset."
        known = get_dataset(session, owner, model.dataset_id)
        newest, aside = _newest(session, owner, taken.dataset_name, known, _outcomes(model))
        last = None if taken.last_model_id is None else model_store.get(session, owner, taken.last_model_id)
        is_new = newest is not None and (last is None or newest.id != last.dataset_id)
        reported = store.has_reports(session, model.id, taken.last_at)
    if not is_new and not reported:
        return f"There were no new data: no newer dataset of this name, and no outcomes.{aside}"
    with ExitStack() as stack:
        if is_new:
            assert newest is not None
            request = request_like(
                engine,
                owner,
                model.id,
                holdout=asked["holdout"],
                dataset_id=newest.id,
                promote=asked["promote"],
            )
            told = f"It was fitted again to {_in_short(newest)}.{aside}"
        else:
            grown = stack.enter_context(
                refit.grown(
                    engine,
                    owner,
                    model.id,
                    holdout=asked["holdout"],
                    promote=asked["promote"],
                    max_bytes=settings.max_body_bytes,
                )
            )
            told = f"It was fitted again with {grown.rows:,} reported outcomes.{aside}"
            request = grown.request
        plan = creation.plan(engine, owner, request, slots=health.slots_now(engine, settings))
        with session_scope(engine) as session:  # one for both: killed between them, it would fit twice
            store.ended(session, taken, told, creation.accept(session, owner, plan).id)
    return None


def _newest(
    session: Session, owner: str, name: str, known: Dataset, outcomes: Sequence[Sequence[str]]
) -> tuple[Dataset | None, str]:
    """Return the newest dataset of a name, newer than a known one, that has outcomes, and what was set aside.

    One without any, such as a plan of later rows, is none to fit to.
    """
    aside = ""
    for dataset in store.newer_datasets(session, owner, name, known):
        if not (lacking := _lacking(dataset, outcomes)):
            return dataset, aside
        aside = aside or f" {_in_short(dataset)} isn't newer data: it has no outcomes in {lacking}."
    return None, aside


def _lacking(dataset: Dataset, outcomes: Sequence[Sequence[str]]) -> str:
    """Return the outcomes of which a dataset has no value, or no column, in words; "" if it has all."""
    present = {each["name"] for each in dataset.columns if each.get("missing", 0) < dataset.num_rows}
    return ", ".join(columns[0] for columns in outcomes if present.isdisjoint(columns))


def _outcomes(model: Model) -> list[list[str]]:
    """Return the columns that tell each outcome: its own, and those of its bounds where it is in between."""
    bounds = [str(model.settings[role]) for role in ("lower", "upper") if model.settings.get(role)]
    return [[name, *bounds] for name in model.settings.get("outcomes", (model.target,))]


def _in_short(dataset: Dataset) -> str:
    return f"{dataset.name} of {dataset.created_at:%Y-%m-%d %H:%M} UTC"


def _found(session: Session, owner: str, model_id: str) -> tuple[str, RefitSchedule]:
    model = models.get(session, owner, model_id)
    schedule = None if model.name is None else store.get(session, owner, model.name)
    if schedule is None:
        raise NotFoundError("This name has no schedule: PUT /models/{id}/schedule sets one.")
    return model.id, schedule


def _view(schedule: RefitSchedule, model_id: str) -> ScheduleView:
    return ScheduleView(
        model_id=model_id,
        name=schedule.name,
        every=None if schedule.every is None else _in_words(schedule.every),
        on_alarm=schedule.on_alarm,
        promote=schedule.request["promote"],
        holdout=schedule.request["holdout"],
        dataset=schedule.dataset_name,
        due_at=schedule.due_at,
        last_at=schedule.last_at,
        last_model_id=schedule.last_model_id,
        text=schedule.told,
    )


def _seconds(every: str) -> int:
    found = re.fullmatch(r"([1-9]\d{0,3})([hd])", every)
    seconds = 0 if found is None else int(found[1]) * UNITS[found[2]]
    if not 0 < seconds <= LONGEST:
        raise _refused("every", "hours or days, a year at most, such as 12h or 7d")
    return seconds


def _in_words(seconds: int) -> str:
    return f"{seconds // UNITS['d']}d" if seconds % UNITS["d"] == 0 else f"{seconds // UNITS['h']}h"


def _refused(field: str, detail: str) -> InvalidRequestError:
    return InvalidRequestError(errors=[Fault(field, None, detail)])
