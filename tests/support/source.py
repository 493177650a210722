"""Sources of the repository as syntax trees."""

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Parse a file, once per test process; callers must not change the tree."""
    gc.disable()  # a tree has no cycles: to look for some takes three times as long as to parse
    try:
        return ast.parse(path.read_text())
    except SystemError:  # Python 3.11, where a thread meanwhile formats a traceback, which parses too
        return ast.parse(path.read_text())
    finally:
        gc.freeze()
        gc.enable()
