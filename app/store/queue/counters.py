"""Counters of the workers: their names, and their storage in shared memory and in the database.

Child processes of a worker may be killed at any moment, and the API must see their counts without asking
them. So each child adds to its own numbers in memory shared with the worker's main process, which writes the
sums to the worker's row with each heartbeat.
"""

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from app.store.tables import CHAIN, FINISH, PREDICTION, STUDY, TOTALS, Json

LABELS_JOINED = ","
UNIT_KINDS = (CHAIN, FINISH, PREDICTION, STUDY, TOTALS)
ENDS = ("done", "cancelled", "released", "gave_way", "failed", "lost")


@dataclass(frozen=True)
class Tally:
    """A counter, or with `buckets` a histogram; all values of its labels are known in advance."""

    name: str
    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    buckets: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """Numbers stored per combination of labels:

        one count, or all buckets, the overflow bucket and the sum.
        """
        return len(self.buckets) + 2 if self.buckets else 1

    def combinations(self) -> list[tuple[str, ...]]:
        """Return all combinations of label values, in order."""
        return list(product(*self.labels.values()))


ITERATIONS = Tally("bart_chain_iterations", "Completed iterations of chains.")
SLICES = Tally(
    "bart_chain_slice_duration_seconds",
    "Sampling time between two commits of a chain.",
    buckets=(0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0),
)
LOST = Tally("bart_lease_lost", "Units taken over by another worker while this one still worked on them.")
RESUMED = Tally(
    "bart_chain_resumed",
    "Chains continued from a checkpoint.",
    {"reason": ("lost", "released")},
)
BELLS = Tally("bart_doorbells", "Doorbells sent by dispatchers.", {"result": ("rung", "failed")})
JOBS = Tally(
    "bart_job_duration_seconds",
    "Duration of units of work, from claim to end.",
    {"kind": UNIT_KINDS, "outcome": ENDS},
    buckets=(0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0),
)
TALLIES = (ITERATIONS, SLICES, LOST, RESUMED, BELLS, JOBS)
_PLACES: dict[tuple[str, tuple[str, ...]], int] = {}
_size = 0
for _tally in TALLIES:
    for _labels in _tally.combinations():
        _PLACES[_tally.name, _labels] = _size
        _size += _tally.width
SIZE = _size
_WIDTHS = {tally.name: tally.width for tally in TALLIES}


class Counts:
    """Counters shared with child processes; each process adds only to its own part.

    Parameters
    ----------
    parts
        Number of counting processes; part 0 belongs to the process that created this object.
    """

    def __init__(self, parts: int) -> None:
        self._memory = memoryview(mmap.mmap(-1, parts * SIZE * 8)).cast("d")
        self._parts = parts
        self.part = 0

    def add(self, tally: Tally, *labels: str, amount: float = 1.0) -> None:
        """Increase a counter."""
        self._memory[self._place(tally, labels)] += amount

    def observe(self, tally: Tally, value: float, *labels: str) -> None:
        """Add a value to a histogram."""
        place = self._place(tally, labels)
        bucket = sum(value > bound for bound in tally.buckets)
        self._memory[place + bucket] += 1
        self._memory[place + tally.width - 1] += value

    def sums(self) -> Json:
        """Return counters summed over processes, {name: {labels: values}}; zeros omitted."""
        sums: Json = {}
        for (name, labels), place in _PLACES.items():
            starts = [part * SIZE + place for part in range(self._parts)]
            cells = [sum(self._memory[start + k] for start in starts) for k in range(_WIDTHS[name])]
            if any(cells):
                sums.setdefault(name, {})[LABELS_JOINED.join(labels)] = cells
        return sums

    def _place(self, tally: Tally, labels: tuple[str, ...]) -> int:
        return self.part % self._parts * SIZE + _PLACES[tally.name, labels]


def cells_of(counts: Json, tally: Tally) -> Iterator[tuple[tuple[str, ...], list[float]]]:
    """Yield a tally's (labels, numbers) from a worker's row; skip entries that another version wrote."""
    for joined, cells in (counts.get(tally.name) or {}).items():
        labels = tuple(joined.split(LABELS_JOINED)) if tally.labels else ()
        if len(labels) == len(tally.labels) and len(cells) == tally.width:
            yield labels, cells
