"""Room for request bodies, shared among owners."""

import pytest

from app.services.access.quotas import SharedRoom
from app.services.errors import BusyError, QuotaError
from app.services.request_context import Actor, OwnerLimits, acting


def take(room: SharedRoom, owner: str, more: int, *, shared: bool = True) -> None:
    with acting(Actor("key", owner, limits=OwnerLimits(shared=shared))):
        room.take(more)


def test_an_owner_holds_at_most_as_much_as_is_left():
    """So there is room for the next owner, for whom the same holds; room comes back when requests end."""
    room = SharedRoom("memory", lambda held: 1000 - held)
    take(room, "ann", 400)
    take(room, "ann", 100)
    with pytest.raises(QuotaError, match="500 bytes of memory"):
        take(room, "ann", 1)
    take(room, "bob", 250)
    with pytest.raises(QuotaError):
        take(room, "bob", 1)
    with pytest.raises(BusyError):
        take(room, "cat", 126)
    take(room, "cat", 125)
    room.free("ann", 500)
    take(room, "bob", 62)
    assert room._held == {"bob": 312, "cat": 125}
    room.free("bob", 312)
    room.free("cat", 125)
    assert room._held == {}


def test_where_one_owner_is_alone_it_may_take_all():
    room = SharedRoom("memory", lambda held: 1000 - held)
    take(room, "", 5000, shared=False)
    room.free("", 5000)
    assert room._held == {}
