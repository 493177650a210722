"""Dependencies of the routes. Only the write session commits, and it does so before the response is sent.

Simple lookups are `async`, since FastAPI runs every other dependency in a thread.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Annotated, Protocol

from fastapi import Depends, Query, Request
from fastapi.concurrency import contextmanager_in_threadpool, run_in_threadpool
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services.doorbell import Bell
from app.services.health import Readiness
from app.services.predictions.predict_rows import Predictor
from app.services.request_bodies import MAX_NAME
from app.settings import Settings as ServiceSettings
from app.store import reserve
from app.store.engine import session_scope
from app.web.middleware.concurrency import GateOf
from app.web.scopes import KEY, holds_place, place

_in_thread = contextmanager_in_threadpool


async def engine_of(request: Request) -> Engine:
    """Return the process's engine."""
    engine: Engine = request.app.state.engine
    return engine


class Transactions(Protocol):
    """Factory of transactions, for routes that need steps before or after theirs."""

    def __call__(self, *, read_only: bool = False) -> AbstractContextManager[Session]: ...


async def transactions_of(request: Request) -> Transactions:
    """Return the process's transactions."""
    return partial(session_scope, request.app.state.engine)


async def settings_of(request: Request) -> ServiceSettings:
    """Return the process's settings."""
    settings: ServiceSettings = request.app.state.settings
    return settings


async def readiness_of(request: Request) -> Readiness:
    """Return the process's readiness check."""
    readiness: Readiness = request.app.state.readiness
    return readiness


async def bell_of(request: Request) -> Bell:
    """Return the workers' doorbell."""
    bell: Bell = request.app.state.bell
    return bell


async def predictor_of(request: Request) -> Predictor:
    """Return the process's predictor, with its cache."""
    predictor: Predictor = request.app.state.predictor
    return predictor


async def predictor_of_outcome(
    request: Request,
    outcome: Annotated[
        str | None,
        Query(max_length=MAX_NAME, description="Which of a model's several outcomes; default: the first."),
    ] = None,
) -> Predictor:
    """Return the process's predictor, for the outcome in the query."""
    predictor: Predictor = request.app.state.predictor
    return predictor.of_outcome(outcome)


async def gate_of(request: Request) -> GateOf:
    """Return the gate to the process's cores, for the work of this request."""
    return GateOf(request.app.state.gate, request)


async def owner_of(request: Request) -> str:
    """Return the owner that the request acts for, as `Access` determined."""
    owner: str = request.scope[KEY].owner
    return owner


@holds_place
async def _reading(request: Request) -> AsyncIterator[Session]:
    async with place(), _in_thread(session_scope(request.app.state.engine, read_only=True)) as session:
        yield session


@holds_place
async def _writing(request: Request) -> AsyncIterator[Session]:
    async with place(), _in_thread(session_scope(request.app.state.engine)) as session:
        yield session


@holds_place
async def _deleting(request: Request) -> AsyncIterator[Session]:
    engine = request.app.state.engine
    async with place(), _in_thread(session_scope(engine)) as session:
        await run_in_threadpool(session.connection)  # has the write lock: nobody else can use the freed room
        await run_in_threadpool(reserve.release_if_full, engine)
        yield session


# scope="function": the commit precedes the response, which reports a failed commit.
Reading = Annotated[Session, Depends(_reading, scope="function")]
Writing = Annotated[Session, Depends(_writing, scope="function")]
Deleting = Annotated[Session, Depends(_deleting, scope="function")]  # works on a full disk
TheTransactions = Annotated[Transactions, Depends(transactions_of)]
TheEngine = Annotated[Engine, Depends(engine_of)]
TheSettings = Annotated[ServiceSettings, Depends(settings_of)]
TheReadiness = Annotated[Readiness, Depends(readiness_of)]
TheBell = Annotated[Bell, Depends(bell_of)]
ThePredictor = Annotated[Predictor, Depends(predictor_of)]
OutcomePredictor = Annotated[Predictor, Depends(predictor_of_outcome)]
TheGate = Annotated[GateOf, Depends(gate_of)]
Owner = Annotated[str, Depends(owner_of)]
