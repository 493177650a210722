"""Commands, links, settings, measurements and formulas that the documents name exist and are as stated."""

import ast
import pkgutil
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.settings import Settings
from lab.__main__ import measurements
from sampler import Settings as Defaults
from sampler.costs import durations as d
from sampler.costs import memory
from sampler.noise import FOREST_ROWS, NOISE_TREES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
OURS = {"app", "bartserve", "sampler", "worker"}


@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")]), ids=lambda path: path.name
)
def test_every_command_and_link_exists(path):
    """Every `bartserve` and `make` command, measurement, setting and link of a document exists."""
    text = path.read_text()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for target in re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE):
        assert target in targets, target
    for command in set(re.findall(r"(?:^|`|exec api )bartserve ((?:[a-z]+ ?){1,2})", text, re.MULTILINE)):
        words = command.split()
        words = words[: 2 if words[0] in {"keys", "models", "datasets", "outcomes", "check"} else 1]
        assert _is_command(*words), command
    for name in re.findall(r"BARTSERVE_([A-Z_]+)\b", text):
        variables = {field.upper() for field in Settings.model_fields} | {"URL", "KEY"}
        assert name.removesuffix("_FILE").rstrip("_") in variables or name.startswith("TEST_"), name
    for script in re.findall(r"\blab/(\w+\.py)", text):
        assert (ROOT / "lab" / script).exists(), script
    assert set(re.findall(r"-m lab (\w+)", text)) <= {*measurements(), "NAME"}
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in link:
            assert (path.parent / link).exists(), link


@cache
def _is_command(*words):
    return CliRunner().invoke(app, [*words, "--help"]).exit_code == 0


def test_every_measurement_is_in_the_list():
    """docs/benchmarks.md names every measurement's command, whose first line says what it is."""
    assert all(measurements().values())
    missing = set(measurements()) - _measured((DOCS / "benchmarks.md").read_text())
    assert not missing, f"say in docs/benchmarks.md what {missing} measure"


def test_every_measurement_has_its_figures():
    """Each measurement is named again outside the table, beside its figures, on that page or another."""
    _, below = (DOCS / "benchmarks.md").read_text().split("`python -m lab NAME --help` says")
    others = [path.read_text() for path in DOCS.rglob("*.md") if path.name != "benchmarks.md"]
    lacking = set(measurements()) - _measured("\n".join([below, *others]))
    assert not lacking, f"say in docs/benchmarks.md what {lacking} print"


@pytest.mark.parametrize(
    "script", sorted([*(ROOT / "lab").glob("*.py"), *DOCS.glob("*.py")]), ids=lambda path: path.name
)
def test_every_name_that_a_script_uses_exists(script):
    """Every name that scripts outside the packages import, or use as a module's attribute, exists."""
    places: dict[str, str] = {}  # of a local name: the dotted name that it stands for
    tree = ast.parse(script.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            places |= {each.asname: each.name for each in node.names if each.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            places |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    ours = {local: place for local, place in places.items() if place.split(".")[0] in OURS}
    for place in ours.values():
        pkgutil.resolve_name(place)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ours:
            owner = pkgutil.resolve_name(ours[node.value.id])
            assert not isinstance(owner, ModuleType) or hasattr(owner, node.attr), ast.unparse(node)


def test_the_formula_of_the_documents_is_the_service_s():
    """The formula of docs/deploy.md has the figures by which fits are refused."""
    text = " ".join((DOCS / "deploy.md").read_text().split())
    update, of_row = d.update_seconds(Defaults.resolve().to_json())
    for figure in (
        f"{memory.PROCESS // memory.MIB} MiB + the larger of rows",
        f"rows x ({memory.CELL} x (columns + 1) + {memory.ROW} + trees)",
        f"({memory.CELL_SCORED} instead of {memory.CELL} with a holdout)",
        f"chains x draws x ({memory.DRAW:,} + {memory.TREE} x trees)",
        f"iterations x trees x ({_plain(update)} + {_plain(of_row)} x rows) + {_plain(d.KEEP)} x draws",
        f"rows x ({_plain(d.PREPARE)} x (columns + 1) + {_plain(d.GRAM)} x columns^2)",
        f"with {_plain(d.PREPARE_LARGE)} instead of {_plain(d.PREPARE)} beyond",
        f"{memory.NOISE_ROW} more a row",
        f"{NOISE_TREES} trees more of {_plain(d.LOG_LINEAR[0])} + {_plain(d.LOG_LINEAR[1])} x rows, longer",
        f"for {FOREST_ROWS} rows or more",
        f"x ({_plain(d.JUDGE)} + {_plain(d.JUDGE_TREE)} x trees)",
        f"held rows x ({_plain(d.SCORE)} + {_plain(d.SCORE_TREE)} x trees) + up to {d.CHECKED:,} of them x "
        f"({_plain(d.CHECK)} + {_plain(d.CHECK_TREE)} x trees)",
    ):
        assert figure in text, figure


def _measured(text: str) -> set[str]:
    """Return the measurements that a text names, by command or file."""
    return {command or file for command, file in re.findall(r"-m lab (\w+)|\blab/(\w+)\.py", text)}


def _plain(value: float) -> str:
    """Format a number as the documents do: 2.2e-6."""
    digits, _, power = f"{value:.1e}".partition("e")
    return f"{digits.removesuffix('.0')}e{int(power)}"
