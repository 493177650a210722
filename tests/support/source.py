"""Sources of the repository as syntax trees."""

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Parse a file, once per test process; callers must not change the tree."""
    return ast.parse(path.read_text())
