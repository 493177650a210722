"""Processor seconds of every test and shared fixture, including all child processes.

Wall-clock durations mean little on a busy machine; processor time is the cost of a test anywhere. Fixtures of
a wider scope, which happen to be set up by the first test that uses them, are listed separately. Tests above
their limit are named at the end, and fail nothing: another machine takes twice the time for the same work.
"""

import os
import resource
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.reports.tiers import is_marked

LIMITS = {"tests/unit/": 2.0, "tests/": 10.0}  # seconds; the first match applies
BUSY = 2.0  # factor on the limits for cores shared with other processes
TICKS = os.sysconf("SC_CLK_TCK")
SLOWEST = 20


class CpuTime:
    """Pytest plugin that measures tests and limits those not marked `slow` or `long`."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.shared: list[float] = []  # seconds of the shared fixtures set up in the current phase
        self.inside = 0
        self.latest = self.before = 0.0
        self.tests: dict[str, float] = defaultdict(float)
        self.fixtures: dict[str, list[float]] = defaultdict(list)
        self.limited: set[str] = set()
        path = os.environ.get("BARTSERVE_TEST_COSTS")  # file to which the cost of each test is appended
        self.costs = None if path is None or hasattr(config, "workerinput") else Path(path)

    def now(self) -> float:
        """Return the processor seconds so far; a reading that missed a process counts as the one before."""
        self.latest = max(self.latest, spent())
        return self.latest

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest):
        """Account for shared fixtures separately."""
        if fixturedef.scope == "function" or self.inside:
            return (yield)
        self.inside += 1
        before = self.now()
        try:
            return (yield)
        finally:
            self.inside -= 1
            self.shared.append(seconds := max(0.0, self.now() - before))
            request.node.config.stash.setdefault(FIXTURES, []).append((fixturedef.argname, seconds))

    def pytest_collection_finish(self) -> None:
        self.before = self.now()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]):
        """Measure a test once, after its teardown: each look asks every thread of every service."""
        report = yield
        if call.when == "teardown":
            now = self.now()
            report.cpu_seconds = max(0.0, now - self.before - sum(self.shared))
            report.cpu_fixtures = item.config.stash.get(FIXTURES, [])
            report.cpu_limited = not is_marked(item)
            item.config.stash[FIXTURES] = []
            self.shared.clear()
            self.before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect measurements of the test processes in the reporting process."""
        self.tests[report.nodeid] += getattr(report, "cpu_seconds", 0.0)
        for name, seconds in getattr(report, "cpu_fixtures", []):
            self.fixtures[name].append(seconds)
        if getattr(report, "cpu_limited", False):
            self.limited.add(report.nodeid)
        if self.costs and report.when == "teardown":
            with self.costs.open("a") as file:
                file.write(f"{self.tests[report.nodeid]:.3f}\t{report.nodeid}\n")

    def too_dear(self) -> list[str]:
        """Return the tests above their limit, with their seconds."""
        return [
            f"{seconds:.1f} s of {limit:g} s: {test}"
            for test, seconds in self.tests.items()
            if test in self.limited and seconds > BUSY * (limit := limit_of(test))
        ]

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


FIXTURES = pytest.StashKey[list[tuple[str, float]]]()


def limit_of(test: str) -> float:
    """Return a test's limit in seconds, by its folder."""
    return next(limit for place, limit in LIMITS.items() if test.startswith(place))


def spent() -> float:
    """Return the processor seconds of this process and all descendants, finished or running."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        own.ru_utime
        + own.ru_stime
        + ended.ru_utime
        + ended.ru_stime
        + sum(map(spent_by, _children(os.getpid())))
    )


def spent_by(pid: int) -> float:
    """Return the processor seconds of another process and its descendants; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS + sum(map(spent_by, _children(pid)))


def _children(pid: int) -> list[int]:
    children = b""
    try:
        with os.scandir(f"/proc/{pid}/task") as threads:  # of a server's dozens, at each step of each test
            for thread in threads:
                children += _children_of(thread.path)
    except OSError:
        pass  # the process is gone
    return [int(child) for child in children.split()]


def _children_of(thread: str) -> bytes:
    """Return the numbers of the processes that a thread started; none if it has ended meanwhile."""
    try:
        file = os.open(f"{thread}/children", os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(file, 1 << 16)
    except OSError:
        return b""
    finally:
        os.close(file)
