"""Processor seconds of every test and of every shared fixture, with all processes that they start.

Wall-clock durations say little on a busy machine; processor time says what a test costs wherever it runs.
Fixtures of a wider scope, which the first test that asks happens to set up, are listed apart from the tests.
Limits on what a test may cost are the lint of the suite: where one is dearer, the quick tier fails.
"""

import os
import resource
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tiers import QUICK, is_marked

LIMITS = {"tests/unit/": 2.0, "tests/": 10.0}  # seconds; the first that fits holds
BUSY = 2.0  # times the seconds, where the cores are shared: what a busy machine may add
TICKS = os.sysconf("SC_CLK_TCK")
SLOWEST = 20


class CpuTime:
    """A pytest plugin that measures; its limits hold for tests that aren't marked `slow` or `long`."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.shared: list[float] = []  # seconds of the shared fixtures set up in the present phase
        self.inside = 0
        self.tests: dict[str, float] = defaultdict(float)
        self.fixtures: dict[str, list[float]] = defaultdict(list)
        self.limited: set[str] = set()
        path = os.environ.get("BARTSERVE_TEST_COSTS")  # a file to which what each test took is added
        self.costs = None if path is None or hasattr(config, "workerinput") else Path(path)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest):
        """Keep the seconds of fixtures that tests share apart."""
        if fixturedef.scope == "function" or self.inside:
            return (yield)
        self.inside += 1
        before = spent()
        try:
            return (yield)
        finally:
            self.inside -= 1
            self.shared.append(seconds := max(0.0, spent() - before))
            request.node.config.stash.setdefault(FIXTURES, []).append((fixturedef.argname, seconds))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        item.stash[BEFORE] = spent()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]):
        report = yield
        now = spent()
        report.cpu_seconds = max(0.0, now - item.stash[BEFORE] - sum(self.shared))
        report.cpu_fixtures = item.config.stash.get(FIXTURES, [])
        report.cpu_limited = not is_marked(item)
        item.config.stash[FIXTURES] = []
        self.shared.clear()
        item.stash[BEFORE] = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather what the processes of the tests measured, in the process that reports."""
        self.tests[report.nodeid] += getattr(report, "cpu_seconds", 0.0)
        for name, seconds in getattr(report, "cpu_fixtures", []):
            self.fixtures[name].append(seconds)
        if getattr(report, "cpu_limited", False):
            self.limited.add(report.nodeid)
        if self.costs and report.when == "teardown":
            with self.costs.open("a") as file:
                file.write(f"{self.tests[report.nodeid]:.3f}\t{report.nodeid}\n")

    def too_dear(self) -> list[str]:
        """The tests above their limit, with their seconds."""
        return [
            f"{seconds:.1f} s of {limit:g} s: {test}"
            for test, seconds in self.tests.items()
            if test in self.limited and seconds > BUSY * (limit := limit_of(test))
        ]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a session that passed but for its cost."""
        quick = self.config.option.markexpr == QUICK and not hasattr(self.config, "workerinput")
        if quick and session.exitstatus == 0 and self.too_dear():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"slowest {SLOWEST} by processor time")
        dearest = sorted(self.tests.items(), key=lambda test: -test[1])
        for test, seconds in dearest[:SLOWEST]:
            terminalreporter.write_line(f"{seconds:8.2f} s  {test}")
        shared = sorted(
            ((sum(times), len(times), name) for name, times in self.fixtures.items()), reverse=True
        )
        for seconds, times, name in shared[: SLOWEST // 2]:
            terminalreporter.write_line(f"{seconds:8.2f} s  shared fixture {name}, set up {times} times")
        total = sum(self.tests.values()) + sum(seconds for seconds, _, _ in shared)
        terminalreporter.write_line(f"{total / 60:.1f} minutes of one processor in all, importing left out")
        for line in self.too_dear():
            terminalreporter.write_line(
                f"too dear for `make test` (mark it slow, or make it cheaper): {line}"
            )


BEFORE = pytest.StashKey[float]()
FIXTURES = pytest.StashKey[list[tuple[str, float]]]()


def limit_of(test: str) -> float:
    """The seconds that a test may take, by where it is."""
    return next(limit for place, limit in LIMITS.items() if test.startswith(place))


def spent() -> float:
    """Processor seconds of this process and of all below it, ended or running."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        own.ru_utime
        + own.ru_stime
        + ended.ru_utime
        + ended.ru_stime
        + sum(map(_below, _children(os.getpid())))
    )


def _below(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS + sum(map(_below, _children(pid)))


def _children(pid: int) -> list[int]:
    try:
        lists = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for child in " ".join(lists).split()]
