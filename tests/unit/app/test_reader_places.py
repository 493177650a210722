"""Places for readers of files, shared among owners."""

import threading
from contextlib import ExitStack

import pytest

from app.services.errors import BusyError
from app.services.readers.process.places import ReaderPlaces
from app.services.request_context import Actor, OwnerLimits, acting

SHARED = OwnerLimits(shared=True)
SOON = 20.0


def hold(places: ReaderPlaces, owner: str, seconds: float = 0.0, limits: OwnerLimits = SHARED) -> ExitStack:
    """Take a place for an owner; closing the stack leaves it."""
    stack = ExitStack()
    with acting(Actor("key", owner, limits=limits)):
        stack.enter_context(places.place(seconds))
    return stack


def waiting(places: ReaderPlaces, owner: str, order: list[str]) -> threading.Thread:
    """Begin to wait in a thread, which notes its turn and leaves at once."""
    before = len(places._line.waiting)

    def wait() -> None:
        with hold(places, owner, SOON):
            order.append(owner)

    thread = threading.Thread(target=wait)
    thread.start()
    while len(places._line.waiting) == before:
        pass
    return thread


def test_one_owner_never_holds_all_places():
    """The last place is another owner's where owners share a process; on one's own machine, anybody's."""
    places = ReaderPlaces(2, 4)
    with hold(places, "ann"), pytest.raises(BusyError):
        hold(places, "ann")
    with hold(places, "ann"), hold(places, "bob"), pytest.raises(BusyError):
        hold(places, "cat")
    own = OwnerLimits()
    with hold(places, "", limits=own), hold(places, "", limits=own), pytest.raises(BusyError):
        hold(places, "", limits=own)
    assert (len(places._line.waiting), places._line.taken.total(), places._line._turned) == (0, 0, {})


def test_waiting_owners_take_turns():
    """A free place goes to the owner whose last turn is longest ago, however many files others queue."""
    places, order = ReaderPlaces(1, 8), []
    held = hold(places, "ann")
    threads = [waiting(places, owner, order) for owner in ("ann", "ann", "ann", "bob")]
    held.close()
    for thread in threads:
        thread.join(SOON)
    assert order == ["bob", "ann", "ann", "ann"]
    assert (len(places._line.waiting), places._line.taken.total(), places._line._turned) == (0, 0, {})


def test_one_owner_never_fills_the_line():
    """Half of the line is left for others."""
    places, order = ReaderPlaces(1, 4), []
    held = hold(places, "ann")
    threads = [waiting(places, "ann", order) for _ in range(2)]
    with pytest.raises(BusyError):
        hold(places, "ann", SOON)
    threads.append(waiting(places, "bob", order))
    held.close()
    for thread in threads:
        thread.join(SOON)
    assert sorted(order) == ["ann", "ann", "bob"]
