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
    """The process answers."""

    status: Literal["alive"] = "alive"


class Ready(BaseModel):
    """The database is at head and a worker beats."""

    status: Literal["ready"] = "ready"


@router.get("/health/live", responses=responses())
@keyless
async def get_live() -> Alive:
    """Whether this process answers; asks nothing else."""
    return Alive()


@router.get("/health/ready", responses=responses())
@keyless
def get_ready(readiness: TheReadiness) -> Ready:
    """Whether work is taken: the database is at head and a worker beats. 503 says what is missing."""
    if missing := readiness.missing():
        raise UnavailableError(errors=missing, retry_after=RETRY_SECONDS)
    return Ready()
