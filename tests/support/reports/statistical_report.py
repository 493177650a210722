"""Report of the statistical suites: tests, number of p-values, and the smallest."""

import ast
from collections import defaultdict
from pathlib import Path

from tests.support.reports.p_values import ALARM
from tests.support.source import parsed


def report_lines(calls):
    """Return the report of finished tests (with `nodeid`, `passed` and `user_properties`) as lines."""
    files, records = defaultdict(list), []
    for call in calls:
        files[call.nodeid.partition("::")[0]].append(call)
        values = dict(call.user_properties).get("p", [])
        records += [(p, len(values), call.nodeid) for p in values]
    yield "Statistical report"
    for file, tests in sorted(files.items()):
        values = sum(len(dict(call.user_properties).get("p", [])) for call in tests)
        failed = sum(not call.passed for call in tests)
        yield f"  {file}: {len(tests)} tests, {failed} failed, {values} p-values. {_about(file)}"
    records.sort()
    least = 1 / max(len(records), 1)
    yield f"  Smallest of {len(records)} p-values (of as many independent ones about {least:.2g}):"
    for p, number, nodeid in records[:10]:
        yield f"    {p:.3g}   {nodeid} (one of {number})"
    low = sum(p < 0.01 for p, _, _ in records)
    yield f"  Below .01: {low}; expected, were all exact and independent: {len(records) / 100:.0f}"
    yield (
        f"  A test fails below {ALARM:g} in all (each of its p-values below its share, or each below "
        f"{ALARM:g}); with fixed seeds a right sampler fails one of these {len(calls)} tests with "
        f"probability {min(1.0, ALARM * max(len(records), len(calls))):.2g} at most."
    )


def _about(file):
    """Return the first line of a test file's docstring."""
    path = Path(__file__).parents[3] / file
    text = ast.get_docstring(parsed(path)) if path.exists() else ""
    return (text or "").partition("\n")[0]
