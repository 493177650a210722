"""Docstrings stand alone and name existing parameters and attributes."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.source import definitions, parsed

ROOT = Path(__file__).parents[2]
PACKAGES = ("app", "bartserve", "lab", "sampler", "worker")
OTHERS = ("migrations", "tests")
RIDDLES = re.compile(r"(What|Who|Which|How|Where|Why|As|Of|So many|The same)\b")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def documented(packages=PACKAGES):
    """Return the place, node and docstring of every documented module, class and function."""
    return [
        (f"{file.relative_to(ROOT)}:{getattr(node, 'name', '')}", node, text)
        for package in packages
        for file in sorted((ROOT / package).rglob("*.py"))
        for node in definitions(parsed(file))
        if (text := ast.get_docstring(node))
    ]


@pytest.fixture(scope="module", autouse=True)
def _parsed():
    """Parse the sources for all tests of this file, whichever comes first."""
    documented()


def section(text, title):
    """Return the names that a numpy-style section describes, or None without such a section."""
    match = re.search(rf"^{title}\n-+\n(.*?)(?=\n[^\n]+\n---|\Z)", text, re.MULTILINE | re.DOTALL)
    if match is None:
        return None
    heads = [line.partition(":")[0] for line in match[1].splitlines() if line and not line.startswith(" ")]
    return [name.strip(" *`") for head in heads for name in head.split(",")]


def parameters(function):
    """Return a function's parameters without self and cls."""
    arguments = function.args
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        arguments.vararg,
        *arguments.kwonlyargs,
        arguments.kwarg,
    ]
    return [each.arg for each in every if each is not None and each.arg not in {"self", "cls"}]


def attributes(owner):
    """Return the names that a class or its methods assign or define."""
    names = {node.name for node in owner.body if isinstance(node, FUNCTIONS)}
    for node in ast.walk(owner):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


@pytest.mark.parametrize("packages", [PACKAGES, OTHERS])
def test_docstrings_begin_with_an_imperative_or_a_noun(packages):
    """A docstring begins with an imperative or a noun phrase."""
    assert [
        f"{place}: {text.splitlines()[0]}" for place, _, text in documented(packages) if RIDDLES.match(text)
    ] == []


def test_parameters_sections_name_the_parameters():
    """A Parameters section names existing parameters; in the sampler every public one, once."""
    wrong = []
    for place, node, text in documented():
        named = section(text, "Parameters")
        if named is None or not isinstance(node, FUNCTIONS):
            continue
        public = sorted(name for name in parameters(node) if not name.startswith("_"))
        complete = sorted(named) == public or not place.startswith("sampler/")
        if not complete or not set(named) <= set(parameters(node)):
            wrong.append(f"{place}: {named}")
    assert wrong == []


def test_attributes_sections_name_attributes():
    """An Attributes section names existing attributes."""
    wrong = []
    for place, node, text in documented():
        named = section(text, "Attributes")
        if isinstance(node, ast.ClassDef) and named is not None and not attributes(node).issuperset(named):
            wrong.append(f"{place}: {sorted({*named} - attributes(node))}")
    assert wrong == []


def test_sections_of_docstrings_are_found():
    """The reader of sections finds names, and None without a section."""
    entries = "x, y\n    Numbers.\n*rest\n    More."
    text = f"Sum.\n\nParameters\n----------\n{entries}\n\nReturns\n-------\nfloat\n    The sum."
    function = ast.parse("def f(self, x, /, y, *rest, z=1, **more): ...").body[0]

    assert section(text, "Parameters") == ["x", "y", "rest"]
    assert section(text, "Returns") == ["float"]
    assert section(text, "Raises") is None
    assert parameters(function) == ["x", "y", "rest", "z", "more"]


def own_nodes(function):
    """Yield the nodes of a function, but not those of functions inside it."""
    waiting = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def returns_a_value(node):
    """Tell whether a node is a return of something."""
    return isinstance(node, ast.Return) and node.value is not None


def test_returns_and_yields_sections_describe_a_result():
    """Functions with a Returns section return a value, and functions with a Yields section yield one."""
    wrong = []
    for place, node, text in documented():
        if not isinstance(node, FUNCTIONS):
            continue
        if section(text, "Returns") and not any(map(returns_a_value, own_nodes(node))):
            wrong.append(place)
        if section(text, "Yields") and not any(
            isinstance(each, ast.Yield | ast.YieldFrom) for each in own_nodes(node)
        ):
            wrong.append(place)
    assert wrong == []


def test_results_of_the_sampler_are_described():
    """A docstring of the sampler with parameters says what is returned, in a section or in its text."""
    silent = []
    for place, node, text in documented():
        if (
            not isinstance(node, FUNCTIONS)
            or not place.startswith("sampler/")
            or not section(text, "Parameters")
        ):
            continue
        returns = any(map(returns_a_value, own_nodes(node)))
        opening = text.partition("\nParameters\n")[0]
        if returns and section(text, "Returns") is None and not re.search(r"\b[Rr]eturns?\b", opening):
            silent.append(place)
    assert silent == []


def raised(function):
    """Return the names of the exceptions that a function raises itself, outside of `try`."""
    waiting, names = list(function.body), set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Raise):
            name = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            names.add(ast.unparse(name).rpartition(".")[2] if name else "")
        elif isinstance(node, ast.Try):
            handlers = [part for handler in node.handlers for part in handler.body]
            waiting += [*handlers, *node.orelse, *node.finalbody]
        elif not isinstance(node, (*FUNCTIONS, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
    return {name for name in names if name.endswith(("Error", "Exit"))} - {"NotImplementedError"}


def test_docstrings_of_several_lines_name_the_exceptions():
    """A public function with more than a summary names what it raises itself, but for routes of HTTP."""
    silent = []
    for place, node, text in documented():
        if not isinstance(node, FUNCTIONS) or node.name.startswith("_") or "\n" not in text:
            continue
        missing = {name for name in raised(node) if name not in text}
        if missing and not place.startswith(("app/api/", "lab/")):
            silent.append(f"{place}: {', '.join(sorted(missing))}")
    assert silent == []
