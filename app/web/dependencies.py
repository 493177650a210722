"""What routes depend on. Only the write session commits, and it does before the answer goes out.

What only looks something up is `async`, since FastAPI takes a thread for every other dependency.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Annotated, Protocol

from fastapi import Depends, Request
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services.doorbell import Bell
from app.services.health import Readiness
from app.services.predictions.predict_rows import Predictor
from app.settings import Settings as ServiceSettings
from app.store import reserve
from app.store.engine import session_scope
from app.web.middleware.concurrency import GateOf
from app.web.scopes import KEY


async def engine_of(request: Request) -> Engine:
    """The process's engine."""
    engine: Engine = request.app.state.engine
    return engine


class Transactions(Protocol):
    """Begins transactions: for routes that must do something before theirs, or after it."""

    def __call__(self, *, read_only: bool = False) -> AbstractContextManager[Session]: ...


async def transactions_of(request: Request) -> Transactions:
    """The process's transactions."""
    return partial(session_scope, request.app.state.engine)


async def settings_of(request: Request) -> ServiceSettings:
    """The process's settings."""
    settings: ServiceSettings = request.app.state.settings
    return settings


async def readiness_of(request: Request) -> Readiness:
    """The process's knowledge of whether it can work."""
    readiness: Readiness = request.app.state.readiness
    return readiness


async def bell_of(request: Request) -> Bell:
    """The workers' bell."""
    bell: Bell = request.app.state.bell
    return bell


async def predictor_of(request: Request) -> Predictor:
    """The process's predictor, with its cache."""
    predictor: Predictor = request.app.state.predictor
    return predictor


async def gate_of(request: Request) -> GateOf:
    """The gate before the process's cores, for the work of this request."""
    return GateOf(request.app.state.gate, request)


async def owner_of(request: Request) -> str:
    """Whom the request acts for, as `Access` found."""
    owner: str = request.scope[KEY].owner
    return owner


def _reading(request: Request) -> Iterator[Session]:
    with session_scope(request.app.state.engine, read_only=True) as session:
        yield session


def _writing(request: Request) -> Iterator[Session]:
    with session_scope(request.app.state.engine) as session:
        yield session


def _deleting(request: Request) -> Iterator[Session]:
    with session_scope(request.app.state.engine) as session:
        session.connection()  # nobody else writes now: what is let go is ours
        reserve.let_go_if_full(request.app.state.engine)
        yield session


# scope="function": the commit comes before the answer, and when it fails the answer says so.
Reading = Annotated[Session, Depends(_reading, scope="function")]
Writing = Annotated[Session, Depends(_writing, scope="function")]
Deleting = Annotated[Session, Depends(_deleting, scope="function")]  # works on a full disk
TheTransactions = Annotated[Transactions, Depends(transactions_of)]
TheEngine = Annotated[Engine, Depends(engine_of)]
TheSettings = Annotated[ServiceSettings, Depends(settings_of)]
TheReadiness = Annotated[Readiness, Depends(readiness_of)]
TheBell = Annotated[Bell, Depends(bell_of)]
ThePredictor = Annotated[Predictor, Depends(predictor_of)]
TheGate = Annotated[GateOf, Depends(gate_of)]
Owner = Annotated[str, Depends(owner_of)]
