"""docs/promises.md and docs/verification.md name existing tests, one of each in `make test`."""

import ast
import re
from pathlib import Path

import pytest

from tests.support.source import parsed

ROOT = Path(__file__).parents[2]
NOT_QUICK = {"slow", "long"}
ONLY_LONG = "`make statistical` alone"  # the word for a claim without a quick test, followed by the reason


def test_every_promise_has_a_quick_test():
    """Each of the 16 promises names existing tests, at least one of them in `make test`."""
    page = (ROOT / "docs" / "promises.md").read_text()
    promises = re.split(r"\n(?=\d+\. )", page)[1:]

    assert [int(promise.partition(".")[0]) for promise in promises] == [*range(1, 17)]
    for promise in promises:
        assert check_tests_exist(promise), f"`make test` runs none of the tests of: {promise}"


def test_every_claim_of_the_sampler_has_a_quick_test():
    """Each claim of verification names existing tests, at least one of them in `make test`."""
    page = (ROOT / "docs" / "verification.md").read_text()
    rows = re.findall(r"^\| (?!claim|---)(.*) \|$", page, re.MULTILINE)

    assert len(rows) > 15
    for row in rows:
        claim, _, tests = row.rpartition(" | ")
        assert check_tests_exist(tests) or ONLY_LONG in claim, (
            f"`make test` runs none of the tests of: {claim}"
        )
    assert sum(ONLY_LONG in row for row in rows) <= 1


def check_tests_exist(text):
    """Return the quick tests that a text names; all tests named must exist."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert named, text
    return [f"{file}::{name}" for file, name in named if is_quick(file, name)]


def is_quick(file, name):
    """Return whether neither a test nor its file, which must exist, is marked slow or long."""
    tree = parsed(ROOT / file)
    tests = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name in tests, f"{file} has no {name}"
    marks = [node.value for node in tree.body if isinstance(node, ast.Assign) and names(node) == "pytestmark"]
    marks += [mark for mark in tests[name].decorator_list if not is_parametrize(mark)]
    return not any(node.attr in NOT_QUICK for mark in marks for node in ast.walk(mark) if is_attribute(node))


def names(node):
    return node.targets[0].id if isinstance(node.targets[0], ast.Name) else None


def is_attribute(node):
    return isinstance(node, ast.Attribute)


def is_parametrize(mark):
    """Return whether a decorator parametrizes; its first case is quick whatever the others' marks."""
    return isinstance(mark, ast.Call) and is_attribute(mark.func) and mark.func.attr == "parametrize"


@pytest.mark.parametrize(
    ("code", "quick"),
    [
        ("def test_a(): pass", True),
        ("@pytest.mark.slow\ndef test_a(): pass", False),
        ("@pytest.mark.timeout(9)\n@pytest.mark.long\ndef test_a(): pass", False),
        ("pytestmark = [pytest.mark.slow]\ndef test_a(): pass", False),
        (
            "@pytest.mark.parametrize('x', [pytest.param(2, marks=pytest.mark.slow)])\ndef test_a(x): pass",
            True,
        ),
    ],
    ids=["bare", "slow", "long", "slow file", "slow case"],
)
def test_a_marked_test_is_not_quick(tmp_path, code, quick):
    """A marked test doesn't count as quick."""
    file = tmp_path / "test_it.py"
    file.write_text(code)

    assert is_quick(file, "test_a") == quick
