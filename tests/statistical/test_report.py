"""The report of `make statistical` lists the tests and the smallest p-values."""

from types import SimpleNamespace

import pytest

from tests.support.reports.p_values import ALARM, all_above, holds, noted
from tests.support.reports.statistical_report import report_lines


def test_report():
    """The report lists files with tests, failures and p-values, and the smallest with its test."""
    calls = [
        SimpleNamespace(
            nodeid=f"tests/statistical/test_random.py::test_{k}",
            passed=k != 3,
            user_properties=[("p", [0.5, 0.2 + k / 10, 0.004 * k])],
        )
        for k in range(1, 5)
    ]
    text = list(report_lines(calls))
    assert "test_random.py: 4 tests, 1 failed, 12 p-values. The engine's random numbers" in text[1]
    assert text[2].startswith("  Smallest of 12 p-values")
    assert text[3].split() == ["0.004", "tests/statistical/test_random.py::test_1", "(one", "of", "3)"]
    assert "Below .01: 2;" in text[-2]
    assert f"below {ALARM:g}" in text[-1]


def test_noted():
    """A compared p-value is recorded, and fails below its alarm."""
    before = len(noted)
    holds(0.3)
    all_above({"a": 0.2, "b": 0.9})
    assert noted[before:] == [0.3, 0.2, 0.9]
    with pytest.raises(AssertionError, match="p 1e-05"):
        holds(1e-5)
    with pytest.raises(AssertionError, match="b: p 4e-05"):
        all_above({"a": 0.2, "b": 4e-5})
    all_above({"a": 6e-5, "b": 0.1})  # at its share of the alarm
    del noted[before:]
