"""Structure of the source: no circular imports, one meaning per public class, SQL in the store alone."""

import ast
import re
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.source import parsed

ROOT = Path(__file__).parents[2]
PACKAGES = ("app", "worker", "sampler", "migrations")
# Names of SQLAlchemy allowed outside the store: none builds or runs a statement.
NO_SQL = {
    "sqlalchemy": {"Engine", "event"},
    "sqlalchemy.orm": {"Session"},
    "sqlalchemy.pool": {"QueuePool"},
}

# Classes and types that share a name on purpose, such as a client's document and its source.
SHARED = {
    "Bools": "an array of bool",
    "Chain": "of the engine, and as the client shows it",
    "Dataset": "a row of the store, and as the client shows it",
    "Floats": "an array of float64",
    "Interval": "of a prediction, and as the client shows it",
    "IntervalKind": "credible or predictive, in the sampler and in the client",
    "Json": "a JSON object",
    "Limit": "items on a page, as an option of the command line and as a query parameter",
    "Longs": "an array of int64",
    "Model": "a row of the store, as the client shows it, and in kernels the leaf model",
    "ModelSet": "a row of the store, and as the client shows it",
    "Part": "beside the mean's trees, and a process that the service consists of",
    "Prediction": "of a posterior, and as the client shows it",
    "Settings": "of a fit, and of the service",
    "Study": "a row of the store, and as the client shows it",
    "Words": "an array of uint64",
}

# Functions of services that return a dict on purpose: its keys are names of columns or settings, or it is a
# document as stored or sent.
DICTS = {
    "app.services.datasets.kinds_of": "kinds by column",
    "app.services.datasets.preview": "rows of a dataset",
    "app.services.errors.Fault.to_json": "a document",
    "app.services.fits.creation.PlannedModel.at_most": "settings",
    "app.services.fits.creation.PlannedModel.stored_settings": "settings",
    "app.services.fits.fit_request.CandidateSettings.given": "settings",
    "app.services.fits.request_checks.own_columns": "kinds by column, and settings",
    "app.services.fits.request_checks.plan_others": "plans by outcome",
    "app.services.fits.requests.FitRequest.roles": "columns by role",
    "app.services.fits.stop_rules.resolve": "settings",
    "app.services.model_sets.predicting.RoutedAnswer.to_json": "a document",
    "app.services.webhook_sending.signed": "headers by name",
    "app.services.predictions.answers.PredictionAnswer.facts": "metadata of a table",
    "app.services.predictions.answers.PredictionAnswer.to_json": "a document",
    "app.services.predictions.row_form.RowForm.row_of": "a row",
    "app.services.explanations.diagnostics.topologies": "as stored",
    "app.services.explanations.diagnostics.DiagnosticsQuery.facts": "facts by name",
    "app.services.explanations.guard.Answering.facts": "facts by name",
    "app.services.explanations.guard.Question.facts": "facts by name",
    "app.services.explanations.importance.ImportanceQuery.facts": "facts by name",
    "app.services.explanations.shap_values.ShapBody.facts": "facts by name",
    "app.services.studies.inclusion_by_trees.result": "shares by outcome",
}


def modules():
    """Return every module of the source by name."""
    named = {}
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return named


def imported(tree, known):
    """Return the modules that a module imports, late or not, for types alone or not."""
    waiting, imports = [tree], set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                imports.add(full if full in known else str(node.module))
        waiting += ast.iter_child_nodes(node)
    return imports & known.keys()


@cache
def graph():
    """Return each module's imports within the source."""
    known = modules()
    return {name: imported(parsed(file), known) - {name} for name, file in known.items()}


@pytest.fixture(scope="module", autouse=True)
def _parsed():
    """Parse the sources for all tests of this file, whichever comes first."""
    graph()


def circle(arrows):
    """Return a cycle, or None."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def test_no_circle_of_modules():
    """No module imports itself through others."""
    assert circle(graph()) is None


def test_no_circle_of_packages():
    """No folder of the sampler, store or services imports itself through others."""
    known = modules()
    arrows = defaultdict(set)
    for name, targets in graph().items():
        here = known[name].parent.relative_to(ROOT)
        for target in targets:
            there = known[target].parent.relative_to(ROOT)
            inside = here in there.parents or there in here.parents
            if here != there and not inside:
                arrows[str(here)].add(str(there))
    assert circle(arrows) is None


def defined_types(node):
    """Names of a class, or of types like ``Floats = NDArray[np.float64]``, that a statement defines."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    names = [node.name] if isinstance(node, ast.ClassDef) else [getattr(x, "id", "") for x in targets]
    return [name for name in names if re.match("[A-Z][A-Za-z]*[a-z]", name)]


def test_no_page_shows_the_name_of_a_class():
    """Texts of templates have words of the field; a class that was renamed must not rename them."""
    named = {
        name for file in modules().values() for node in parsed(file).body for name in defined_types(node)
    }
    named = {name for name in named if re.fullmatch(r"(?:[A-Z][a-z]+){2,}", name)}
    assert len(named) > 300
    for template in (ROOT / "app" / "dashboard" / "templates").glob("*.html"):
        texts = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}|<[^>]*>", " ", template.read_text(), flags=re.DOTALL)
        assert not named & {*re.findall(r"\w+", texts)}, template.name


def test_a_public_class_or_type_has_one_meaning():
    """No two modules define a public class or type of the same name, but for those that say why."""
    homes = defaultdict(list)
    for name, file in modules().items():
        for node in parsed(file).body:
            for defined in defined_types(node):
                homes[defined].append(name)
    assert {name for name, where in homes.items() if len(where) > 1} == SHARED.keys()


def test_only_the_store_speaks_sql():
    """Outside the store no SQLAlchemy query builder is imported."""
    for name, path in modules().items():
        if name.startswith(("app.store", "migrations")):
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("sqlalchemy") for alias in node.names), name
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sqlalchemy"):
                names = {alias.name for alias in node.names}
                assert node.module == "sqlalchemy.exc" or names <= NO_SQL.get(node.module, set()), name


def test_parts_are_asked_rather_than_tested_for():
    """No more tests of a part for None are written: the part, or a loop over parts, has the answer."""
    asked = re.compile(
        r"(intercepts|slopes|effects|groupings|linear|arms|point|others|several|censored|transform)"
        r"\b[a-z_.()]* is (not )?None"
    )
    lines = (
        line
        for name, file in modules().items()
        if name.startswith("sampler.")
        for line in file.read_text().splitlines()
    )
    assert sum(bool(asked.search(line)) for line in lines) <= 118


def public_functions(tree, prefix):
    """Yield name and node of every public function and method of a module."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
            yield f"{prefix}.{node.name}", node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node, f"{prefix}.{node.name}")


def test_services_return_dataclasses():
    """No public function of the services returns a dict, apart from listed ones and the confined readers."""
    returned = {
        place
        for name, path in modules().items()
        if name.startswith("app.services") and not name.startswith("app.services.readers")
        for place, node in public_functions(parsed(path), name)
        if node.returns and re.search(r"\bdict\[|\bJson\b|\bMapping\[", ast.unparse(node.returns))
    }
    assert returned <= DICTS.keys()


def plain_imports(tree):
    """Return the names that a module imports as it is loaded, with the packages that they are in."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {".".join(name.split(".")[:k]) for name in names for k in range(1, name.count(".") + 2)}


def test_types_are_imported_plainly():
    """Imports for types alone are of what would load the compiler, in modules that don't load it."""
    loads = {
        name: plain_imports(parsed(file)) for name, file in modules().items() if name.startswith("sampler")
    }
    slow, more = set(), {"numba", "rich"}
    while more:
        slow |= more
        more = {name for name, names in loads.items() if names & slow} - slow
    for name, file in modules().items():
        for node in parsed(file).body if name.startswith("sampler.") else ():
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                assert name not in slow, name
                needless = [
                    ast.unparse(each)
                    for each in node.body
                    if not plain_imports(ast.Module([each], [])) & slow
                ]
                assert needless == [], name
