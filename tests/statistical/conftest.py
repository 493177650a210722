"""Compiled kernels for every statistical test; the long form ends with a report."""

import pytest

from sampler.kernels.jit import warm
from tests.support.p_values import noted
from tests.support.statistical_report import report_lines


@pytest.fixture(scope="session", autouse=True)
def compiled():
    """All kernels, once, so that no test pays for compiling."""
    warm()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A test's p-values go with its report, from whatever process it ran in."""
    noted.clear()
    try:
        return (yield)
    finally:
        item.user_properties.append(("p", list(noted)))


def pytest_terminal_summary(terminalreporter):
    """What was tested, the smallest p-values, and how often a right sampler would fail."""
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
