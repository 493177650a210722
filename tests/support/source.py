"""Sources of the repository as syntax trees."""

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Parse a file, once per test process; callers must not change the tree."""
    try:
        return ast.parse(path.read_text())
    except SystemError:  # Python 3.11, where a thread meanwhile formats a traceback, which parses too
        return ast.parse(path.read_text())
