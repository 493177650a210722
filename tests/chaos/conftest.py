"""Report of the chaos suite at the end of the session."""

from tests.support.reports import chaos_report as report


def pytest_terminal_summary(terminalreporter):
    """Print kills by kind, checked invariants and digests; nothing if the tests ran in other processes."""
    if report.ENTRIES:
        terminalreporter.section("chaos")
        for line in report.lines():
            terminalreporter.write_line(line)
