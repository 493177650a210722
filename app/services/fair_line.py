"""Queues for places that owners share: decide whose turn is next."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Turn(Protocol):
    """Event that is set when work gets its place."""

    def is_set(self) -> bool:
        """Tell whether the turn has come."""

    def set(self) -> None:
        """Let whoever waits for the turn go on."""


E = TypeVar("E", bound=Turn)


@dataclass(eq=False)
class Waiting(Generic[E]):
    """Work that waits for a place or has one."""

    owner: str
    most: int  # places that its owner may have
    turn: E
    of_page: bool = False  # which a person looks at: the page asked for last is the one that is wanted


class FairLine(Generic[E]):
    """Places, and the work that waits for one; the caller sees to it that one call at a time is made.

    A free place goes to the owner with the fewest; among equals, to the one whose last turn was longest ago.
    Of an owner's work the oldest comes first, but what is for pages in the reverse order.

    Attributes
    ----------
    waiting
        Work without a place, in this order.
    taken
        Number of places by owner.
    """

    def __init__(self, places: int) -> None:
        self.waiting: deque[Waiting[E]] = deque()
        self.taken: Counter[str] = Counter()
        self._places = places
        self._turned: dict[str, int] = {}  # the number of each active owner's last turn
        self._number = 0

    def join(self, work: Waiting[E]) -> None:
        """Add work; its turn has come at once if there is a place for its owner."""
        place = len(self.waiting)
        if work.of_page:
            earlier = (i for i, each in enumerate(self.waiting) if each.of_page and each.owner == work.owner)
            place = next(earlier, place)
        self.waiting.insert(place, work)
        self._admit()

    def leave(self, work: Waiting[E]) -> None:
        """Free the place of work, or remove it from the line."""
        if work.turn.is_set():
            self.taken[work.owner] -= 1
        else:
            self.waiting.remove(work)
        self._admit()
        if not self.taken[work.owner]:
            del self.taken[work.owner]  # keep no entries of idle owners
            if all(each.owner != work.owner for each in self.waiting):
                self._turned.pop(work.owner, None)

    def _admit(self) -> None:
        while self.taken.total() < self._places:
            may = [each for each in self.waiting if self.taken[each.owner] < each.most]
            if not may:
                return
            chosen = min(may, key=lambda each: (self.taken[each.owner], self._turned.get(each.owner, 0)))
            self.waiting.remove(chosen)
            self.taken[chosen.owner] += 1
            self._number += 1
            self._turned[chosen.owner] = self._number
            chosen.turn.set()


class OwnerTurns:
    """Turns of owners whose work waits in the database, by the rule of `FairLine`; not for several threads.

    So one owner's backlog delays another's first piece by the pieces at most that are at work.
    """

    def __init__(self) -> None:
        self.at_work: Counter[str] = Counter()
        self._turned: dict[str, int] = {}
        self._number = 0

    def order(self, owners: Iterable[str], most: int = 1) -> list[str]:
        """Order owners with work, of those with equal claims the first first; leave out those with `most`."""
        waiting = [owner for owner in owners if self.at_work[owner] < most]
        return sorted(waiting, key=lambda owner: (self.at_work[owner], self._turned.get(owner, 0)))

    def begin(self, owner: str) -> None:
        """Count a piece of an owner as at work."""
        self._number += 1
        self.at_work[owner] += 1
        self._turned[owner] = self._number

    def end(self, owner: str) -> None:
        """Count a piece as done."""
        self.at_work[owner] -= 1

    @contextmanager
    def turn(self, owner: str) -> Iterator[None]:
        """Do a piece of an owner."""
        self.begin(owner)
        try:
            yield
        finally:
            self.end(owner)
