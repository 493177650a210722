"""GET /health/live and /health/ready."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from app.services.errors import UnavailableError
from app.web.dependencies import TheReadiness
from app.web.errors import RETRY_SECONDS, responses
from app.web.scopes import GuardedRoute, keyless

router = APIRouter(tags=["health"], route_class=GuardedRoute)


class Alive(BaseModel):
    """The process responds."""

    status: Literal["alive"] = "alive"


class Ready(BaseModel):
    """The database schema is current and a worker sends heartbeats."""

    status: Literal["ready"] = "ready"


@router.get("/health/live", responses=responses())
@keyless
async def get_live() -> Alive:
    """Report that this process responds; nothing else is checked."""
    return Alive()


@router.get("/health/ready", responses=responses())
@keyless
def get_ready(readiness: TheReadiness) -> Ready:
    """Report whether work is accepted: the schema is current and a worker is alive.

    503 says what is missing.
    """
    if missing := readiness.missing():
        raise UnavailableError(errors=missing, retry_after=RETRY_SECONDS)
    return Ready()
