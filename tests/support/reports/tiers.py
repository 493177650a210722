"""Test tiers: `make test` runs the quick tier, `make test-slow` the slow one.

A test is slow by its marker, or because it repeats a quick test at length: a further case of a statistical
test, whose others are long, and the API and workers on the second database. Where the same is asked of many
cases, the marker `sampled(quick=.., slow=..)` says how many of them each tier runs, evenly spread in their
order, and a further case on the second database is long. Every test without another marker keeps at least one
quick case, so every claim of the documents is always tested. Long tests run only on request.
"""

import random
from collections import defaultdict
from collections.abc import Iterable

import pytest

QUICK = "not slow and not long"  # the expression of `make test`
ONE_CASE = ("tests/statistical/",)  # here only the first case of each test is quick
BOTH_DATABASES = ("tests/contract/store/", "tests/chaos/")  # here both are quick
SHARED_SERVICE = "tests/e2e/"
SECOND = {"dialect": "postgres", "service": "team"}


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark slow tests by their place and parameters."""
    seen: set[str] = set()
    items = list(items)
    on_first = {name_of(item) for item in items if not is_second(item)}
    sample(items, on_first)
    for item in items:
        if is_marked(item):
            continue
        test = name_of(item)
        again = item.nodeid.startswith(ONE_CASE) and test in seen
        second = is_second(item) and test in on_first and not item.nodeid.startswith(BOTH_DATABASES)
        if again or (second and item.get_closest_marker("both_databases") is None):
            item.add_marker("slow")
        seen.add(test)


def sample(items: list[pytest.Item], on_first: set[str]) -> None:
    """Mark what is beyond the sample of a test of many cases, and further cases on the second database."""
    cases: dict[tuple[str, bool], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("long") is None:
            test = name_of(item)
            cases[test, is_second(item) and test in on_first].append(item)
    for (_, second), group in cases.items():
        marker = group[0].get_closest_marker("sampled")
        again = second and not group[0].nodeid.startswith(BOTH_DATABASES)
        again = again and group[0].get_closest_marker("both_databases") is None
        statistical = group[0].nodeid.startswith(ONE_CASE)
        if marker is None and not again and not statistical:
            continue
        asked = marker.kwargs if marker else {"quick": 1, "slow": 1} if statistical else {}
        free = [item for item in group if not is_marked(item)]
        quick = spread(free, asked.get("quick", 1 if again else len(free)))
        rest = [item for item in group if item not in quick]
        slow = spread(rest, 0 if again and quick else asked.get("slow", 1 if again else len(rest)))
        for item in rest:
            item.add_marker("slow" if item in slow else "long")


def spread(items: list[pytest.Item], number: int) -> list[pytest.Item]:
    """Return so many of the items, evenly spread, the first among them and the last of two or more."""
    last, steps = len(items) - 1, max(1, number - 1)
    return [items[round(place * last / steps)] for place in range(min(number, len(items)))]


def sort(items: list[pytest.Item]) -> None:
    """Put first the tests that share one `bartserve up`.

    Test processes begin with parts of the list one after the other, and take tests from the ends of others'
    parts: so one process runs most of these tests, and others seldom start a service of their own.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(SHARED_SERVICE))


def shuffle(items: list[pytest.Item], seed: int) -> None:
    """Put modules, and the tests within each, into a random order."""
    generator = random.Random(seed)
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.nodeid.partition("::")[0], []).append(item)
    order = list(modules.values())
    generator.shuffle(order)
    for group in order:
        generator.shuffle(group)
    items[:] = [item for group in order for item in group]


def name_of(item: pytest.Item) -> str:
    """Return the test's name without its parameters."""
    return item.nodeid.partition("[")[0]


def is_marked(item: pytest.Item) -> bool:
    """Return whether a marker says that the test isn't quick."""
    return any(item.get_closest_marker(name) for name in ("slow", "long"))


def is_second(item: pytest.Item) -> bool:
    """Return whether a test runs on the database, or in the form, that usually comes second."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return any(parameters.get(name) == value for name, value in SECOND.items())
