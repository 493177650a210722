"""The report of what was done to a service, at the end."""

from tests.support import chaos_report as report


def pytest_terminal_summary(terminalreporter):
    """Kills by kind, invariants, digests; nothing where the tests ran in other processes."""
    if report.ENTRIES:
        terminalreporter.section("chaos")
        for line in report.lines():
            terminalreporter.write_line(line)
