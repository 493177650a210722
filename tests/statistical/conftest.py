"""The report of the long form of statistical tests."""

import pytest

from tests.support.reports.p_values import noted
from tests.support.reports.statistical_report import report_lines


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Attach a test's p-values to its report, whichever process it ran in."""
    noted.clear()
    try:
        return (yield)
    finally:
        item.user_properties.append(("p", list(noted)))


def pytest_terminal_summary(terminalreporter):
    """Print the tests, the smallest p-values, and the rate at which a correct sampler would fail."""
    calls = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if getattr(report, "when", "") == "call"
    ]
    if not any("long" in report.keywords for report in calls):
        return
    for line in report_lines(calls):
        terminalreporter.write_line(line)
