"""Totals of the chaos suite over its tests, printed at the end (`conftest.py`)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

# The disturbances that end a process with SIGKILL.
KILLS = frozenset(
    {
        "child of a worker",
        "worker",
        "worker that slept past its lease, or its heir",
        "API",
        "database",
        "broker",
        "worker at a commit",
        "API at a commit",
        "database in mid-commit",
    }
)


@dataclass(frozen=True)
class Entry:
    """Contribution of one test."""

    what: str
    did: Mapping[str, int]
    checked: int  # models whose invariants were checked in the database
    compared: int  # models whose draws were compared with those of an undisturbed fit, byte for byte


ENTRIES: list[Entry] = []


def add(what: str, did: Mapping[str, int], *, checked: int, compared: int) -> None:
    """Record what a test did and checked, after all its checks have passed."""
    ENTRIES.append(Entry(what, did, checked, compared))


def lines() -> list[str]:
    """Return the lines of the report."""
    total: Counter[str] = Counter()
    rows = []
    for entry in ENTRIES:
        total.update(entry.did)
        acts = ", ".join(f"{count} {name}" for name, count in sorted(entry.did.items()))
        rows.append(f"{entry.what}: {acts}; {entry.checked} models checked, {entry.compared} compared")
    kills = {name: count for name, count in sorted(total.items()) if name in KILLS}
    others = {name: count for name, count in sorted(total.items()) if name not in KILLS}
    rows.append(f"{sum(kills.values())} kills: {_listed(kills)}")
    rows.append(f"{sum(others.values())} other disturbances: {_listed(others)}")
    checked, compared = sum(e.checked for e in ENTRIES), sum(e.compared for e in ENTRIES)
    rows.append(f"invariants held in {checked} of {checked} models; {compared} of {compared} digests equal")
    return rows


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"
