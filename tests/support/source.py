"""Sources of the repository as syntax trees."""

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


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


def definitions(
    tree: ast.Module,
) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield a module and the classes and functions in it, without a look at expressions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Definition):
            yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, part, ())
