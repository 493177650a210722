"""The page of promises names tests that exist."""

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
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", promise)
        assert named, promise
        for file, name in named:
            tree = ast.parse((ROOT / file).read_text())
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name
