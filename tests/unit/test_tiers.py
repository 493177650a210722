"""Tiers of tests and the detection of expensive tests."""

import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.reports import tiers
from tests.support.reports.cpu_time import BUSY, CpuTime


class Item:
    """A collected test, reduced to what the tiers use."""

    def __init__(self, nodeid, *marks, **params):
        self.nodeid, self.marks = nodeid, set(marks)
        self.callspec = SimpleNamespace(params=params)
        self.asked = {}

    def get_closest_marker(self, name):
        if name == "sampled":
            return SimpleNamespace(kwargs=self.asked) if self.asked else None
        return name if name in self.marks else None

    def add_marker(self, name):
        self.marks.add(name)


def test_repetition_is_slow_and_every_test_keeps_a_quick_case():
    """Further cases and the second database are slow, and every test keeps a quick case."""
    api, store, law = (
        "tests/contract/api/t.py::a",
        "tests/contract/store/t.py::a",
        "tests/statistical/t.py::a",
    )
    items = [
        Item(f"{api}[postgres]", dialect="postgres"),
        Item(f"{api}[sqlite]", dialect="sqlite"),
        Item(f"{api}_alone[postgres]", dialect="postgres"),
        Item(f"{api}_both[sqlite]", "both_databases", dialect="sqlite"),
        Item(f"{api}_both[postgres]", "both_databases", dialect="postgres"),
        Item(f"{store}[sqlite]", dialect="sqlite"),
        Item(f"{store}[postgres]", dialect="postgres"),
        Item(f"{law}[0]", "long"),
        Item(f"{law}[1]"),
        Item(f"{law}[2]"),
        Item("tests/service/t.py::a[embedded]", service="embedded"),
        Item("tests/service/t.py::a[team]", service="team"),
    ]
    tiers.mark(items)

    slow = [item.nodeid for item in items if "slow" in item.marks]
    assert slow == [f"{api}[postgres]", f"{law}[2]", "tests/service/t.py::a[team]"]


def test_many_cases_are_sampled():
    """Each tier has as many cases as were asked for, evenly spread; the second database one or the quick."""

    def of_tiers(second="sqlite", marked=(), **asked):
        items = [
            Item(f"tests/contract/t.py::a[{case}-{dialect}]", *marked[case : case + 1], dialect=dialect)
            for case in range(7)
            for dialect in dict.fromkeys(["sqlite", second])
        ]
        for item in items:
            item.asked = asked
        tiers.mark(items)
        found = {tier: [] for tier in ("quick", "slow", "long")}
        for item in items:
            tier = next(name for name in ("long", "slow", "quick") if name in {*item.marks, "quick"})
            found[tier].append(
                item.nodeid.partition("[")[2].removesuffix("-sqlite]").removesuffix("ostgres]")
            )
        return [" ".join(cases) for cases in found.values()]

    assert of_tiers() == ["0 1 2 3 4 5 6", "", ""]
    assert of_tiers(quick=3, slow=2) == ["0 3 6", "1 5", "2 4"]
    assert of_tiers(quick=1) == ["0", "1 2 3 4 5 6", ""]
    assert of_tiers(slow=2, marked=["slow"] * 7) == ["", "0 6", "1 2 3 4 5"]
    assert of_tiers(quick=1, slow=1, marked=["long", "slow"]) == ["2", "1", "0 3 4 5 6"]
    assert of_tiers("postgres") == ["0 1 2 3 4 5 6", "0-p", "1-p 2-p 3-p 4-p 5-p 6-p"]
    assert of_tiers("postgres", quick=2, slow=0) == ["0 6", "0-p 6-p", "1 1-p 2 2-p 3 3-p 4 4-p 5 5-p"]


def test_a_shuffle_keeps_modules_together_and_follows_its_seed():
    """Equal seeds give equal orders, different seeds different ones, and no test is lost."""
    nodes = [f"tests/{module}.py::{test}" for module in "abcdef" for test in range(6)]

    def order(seed):
        items = [Item(node) for node in nodes]
        tiers.shuffle(items, seed)
        return [item.nodeid for item in items]

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == sorted(nodes)
    modules = [node.partition("::")[0] for node in order(1)]
    assert sum(a != b for a, b in pairwise(modules)) == 5


@pytest.mark.parametrize(("place", "limit"), [("tests/unit/a.py::t", 2.0), ("tests/e2e/a.py::t", 10.0)])
def test_a_test_above_its_limit_is_named(pytestconfig, place, limit):
    """A test above its limit, scaled for a busy machine, is named; setup and teardown count."""
    plugin = CpuTime(pytestconfig)
    plugin.costs = None
    for seconds, test in ((0.6, "dear"), (0.4, "cheap")):
        for when in ("setup", "call"):
            cost = seconds * BUSY * limit
            report = SimpleNamespace(nodeid=f"{place}_{test}", when=when, cpu_seconds=cost, cpu_limited=True)
            plugin.pytest_runtest_logreport(report)

    assert [line.rpartition(": ")[2] for line in plugin.too_dear()] == [f"{place}_dear"]


def test_tests_of_one_service_come_first():
    """The tests that share a service are one part at the start; the others keep their order."""
    nodes = [f"tests/{place}/t.py::a" for place in ("contract", "e2e", "reference", "e2e/more", "unit")]
    items = [Item(node) for node in nodes]
    tiers.sort(items)
    assert [item.nodeid for item in items] == [nodes[k] for k in (1, 3, 0, 2, 4)]


def test_the_clock_is_replaced_in_one_module_alone():
    """No test changes `time` itself: servers in the same process would wait for hours."""
    changed = re.compile(r"setattr\([\w.]*\btime, ")
    tests = [path for path in Path(__file__).parents[1].rglob("*.py") if path != Path(__file__)]
    assert [path.name for path in tests if changed.search(path.read_text())] == []
