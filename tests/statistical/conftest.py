"""Compiled kernels for every statistical test; the long form stays out unless asked for, and has a report."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from sampler.compile import warm
from tests.statistical.evidence import ALARM, noted


@pytest.fixture(scope="session", autouse=True)
def compiled():
    """All kernels, once, so that no test pays for compiling."""
    warm()


def pytest_collection_modifyitems(config, items):
    """Without an expression in `-m`, leave the `long` tests to `make statistical`."""
    if config.option.markexpr:
        return
    kept = [item for item in items if "long" not in item.keywords]
    config.hook.pytest_deselected(items=[item for item in items if "long" in item.keywords])
    items[:] = kept


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
    if not terminalreporter.config.option.markexpr:
        return
    calls = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if getattr(report, "when", "") == "call"
    ]
    for line in report_lines(calls):
        terminalreporter.write_line(line)


def report_lines(calls):
    """The report of finished tests (with `nodeid`, `passed` and `user_properties`), as lines."""
    files, found = defaultdict(list), []
    for call in calls:
        files[call.nodeid.partition("::")[0]].append(call)
        values = dict(call.user_properties).get("p", [])
        found += [(p, len(values), call.nodeid) for p in values]
    yield "Statistical report"
    for file, tests in sorted(files.items()):
        values = sum(len(dict(call.user_properties).get("p", [])) for call in tests)
        failed = sum(not call.passed for call in tests)
        yield f"  {file}: {len(tests)} tests, {failed} failed, {values} p-values. {_about(file)}"
    found.sort()
    least = 1 / max(len(found), 1)
    yield f"  Smallest of {len(found)} p-values (of as many independent ones about {least:.2g}):"
    for p, number, nodeid in found[:10]:
        yield f"    {p:.3g}   {nodeid} (one of {number})"
    low = sum(p < 0.01 for p, _, _ in found)
    yield f"  Below .01: {low}; expected, were all exact and independent: {len(found) / 100:.0f}"
    yield (
        f"  A test fails below {ALARM:g} in all (each of its p-values below its share, or each below "
        f"{ALARM:g}); with fixed seeds a right sampler fails one of these {len(calls)} tests with "
        f"probability {min(1.0, ALARM * max(len(found), len(calls))):.2g} at most."
    )


def _about(file):
    """The first line of a test file's docstring."""
    path = Path(__file__).parents[2] / file
    text = ast.get_docstring(ast.parse(path.read_text())) if path.exists() else ""
    return (text or "").partition("\n")[0]
