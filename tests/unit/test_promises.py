"""The pages of promises and of verification name tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_named_test_exists():
    """A promise whose test was renamed or removed is noticed; there are 13, each with a test."""
    page = (ROOT / "docs" / "promises.md").read_text()
    promises = re.split(r"\n(?=\d+\. )", page)[1:]

    assert [int(promise.partition(".")[0]) for promise in promises] == [*range(1, 14)]
    for promise in promises:
        check_tests_exist(promise)


def test_every_claim_of_the_sampler_has_a_test():
    """Each row of the table of verification names tests that are there."""
    page = (ROOT / "docs" / "verification.md").read_text()
    rows = re.findall(r"^\| (?!claim|---)(.*) \|$", page, re.MULTILINE)

    assert len(rows) > 15
    for row in rows:
        check_tests_exist(row.rpartition(" | ")[2])


def check_tests_exist(text):
    """A text names at least one test, and every one of them is there."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert named, text
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name
