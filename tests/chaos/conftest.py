"""The long form stays out unless asked for, as the statistical suites have it; at the end, what was done."""

from tests.chaos import report
from tests.statistical.conftest import pytest_collection_modifyitems  # noqa: F401


def pytest_terminal_summary(terminalreporter):
    """Kills by kind, invariants, digests; nothing where the tests ran in other processes."""
    if report.ENTRIES:
        terminalreporter.section("chaos")
        for line in report.lines():
            terminalreporter.write_line(line)
