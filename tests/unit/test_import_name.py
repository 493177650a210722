"""`bartserve`, the import name: thin, lazy, clear errors for missing parts."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import app.client
import bartserve
import sampler
import sampler.sklearn

ROOT = Path(__file__).parents[2]
NAMES = [
    "BARTClassifier",
    "BARTRegressor",
    "BARTSurvival",
    "Client",
    "Forecaster",
    "Sampler",
    "SeveralPosterior",
    "fit",
    "fit_many",
    "holdout_rows",
    "inclusion_by_trees",
    "load",
    "load_many",
    "make_long",
    "select_features",
    "tune",
]


def python(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the installed bartserve in a fresh interpreter in a folder, ignoring PYTHONPATH."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": ""} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_names_are_the_packages_own():
    """Exported names are the packages' own objects."""
    assert bartserve.fit is sampler.fit
    assert bartserve.load is sampler.load
    assert bartserve.holdout_rows is sampler.holdout_rows
    assert bartserve.Client is app.client.Client
    assert bartserve.Sampler is sampler.Sampler
    assert bartserve.BARTRegressor is sampler.sklearn.BARTRegressor
    assert bartserve.BARTClassifier is sampler.sklearn.BARTClassifier
    assert bartserve.__all__ == NAMES
    assert set(NAMES) <= set(dir(bartserve))
    assert bartserve.__version__ == importlib.metadata.version("bartserve")
    for package in (bartserve, app, sampler):  # all that its names come from
        assert (Path(package.__file__).parent / "py.typed").exists()
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        bartserve.fitt  # noqa: B018


def test_importing_it_imports_nothing_else(tmp_path):
    """Importing the package loads nothing else; using a name loads only what it needs."""
    code = "import sys, bartserve\nprint(*sorted({name.partition('.')[0] for name in sys.modules}))\n"
    modules = python("-c", code, cwd=tmp_path).stdout.split()
    assert "bartserve" in modules
    assert not {"app", "sampler", "worker", "numpy", "httpx"} & set(modules)


@pytest.mark.parametrize("shape", ["package", "module"])
@pytest.mark.parametrize(("package", "name"), [("app", "Client"), ("sampler", "fit")])
@pytest.mark.sampled(quick=1)
def test_a_package_of_the_same_name_is_named(tmp_path, package, name, shape):
    """A package that shadows ours is named in one sentence; other names keep working."""
    file = tmp_path / (f"{package}/__init__.py" if shape == "package" else f"{package}.py")
    file.parent.mkdir(exist_ok=True)
    file.touch()
    ran = python("-c", f"from bartserve import {name}", cwd=tmp_path)
    last = ran.stderr.strip().splitlines()[-1]
    assert last.startswith(
        f"ImportError: bartserve needs its own package '{package}', but Python finds {file}"
    )
    assert python("-P", "-c", f"from bartserve import {name}", cwd=tmp_path).returncode == 0

    command = python("-m", "bartserve", "--help", cwd=tmp_path)
    assert command.returncode == 1
    assert command.stderr.startswith(f"bartserve needs its own package '{package}'")
    assert len(command.stderr.splitlines()) == 1


def test_a_mere_folder_hides_nothing(tmp_path):
    """A folder without `__init__.py` shadows no package."""
    (tmp_path / "app").mkdir()
    assert python("-c", "from bartserve import Client", cwd=tmp_path).returncode == 0


# What `bartserve[service]` adds to `bartserve`: the import names of its packages.
BLOCKER = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
"""


def distribution(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def brought(names: set[str]) -> set[str]:
    """Return the distributions that some require, themselves included."""
    imports, open_ = set(), set(names)
    while open_:
        name = open_.pop()
        imports.add(name)
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system
        open_ |= {distribution(need) for need in needs if "extra ==" not in need} - imports
    return imports


def of_the_service() -> list[str]:
    """Return the import names that only the service needs."""
    needs = importlib.metadata.requires("bartserve") or []
    plain = {distribution(need) for need in needs if "extra ==" not in need}
    service = {distribution(need) for need in needs if re.search(r"extra == .service.", need)}
    only = service - brought(plain)  # nutpie requires pyarrow and matplotlib in a notebook too
    homes = importlib.metadata.packages_distributions()
    return sorted(name for name, by in homes.items() if {distribution(one) for one in by} & only)


@pytest.mark.slow
def test_a_notebook_needs_nothing_of_the_service(tmp_path):
    """Every name for notebooks imports without the service's packages."""
    blocked = of_the_service()
    assert {"fastapi", "sqlalchemy", "celery", "typer", "pydantic_settings"} <= set(blocked)
    code = BLOCKER.format(blocked=blocked) + (
        "from bartserve import BARTClassifier, BARTRegressor, Client, fit, load\n"
        "import sampler\n"
        "for name in sampler.__all__: getattr(sampler, name)\n"
        "import sampler.posterior.charts.arviz, sampler.posterior.assessment.diagnostics\n"
        "import sampler.posterior.explanations.inclusion, sampler.posterior.explanations.partial_dependence\n"
        "Client('http://127.0.0.1:1').close()\n"
    )
    ran = python("-c", code, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("missing", ["typer", "sqlalchemy"])
def test_the_command_without_the_service_says_one_sentence(tmp_path, missing):
    """`bartserve up` after a plain `pip install bartserve` fails with one sentence."""
    code = BLOCKER.format(blocked=[missing]) + (
        "import runpy\n"
        "sys.argv = ['bartserve', 'migrate']\nrunpy.run_module('bartserve', run_name='__main__')\n"
    )
    ran = python("-c", code, cwd=tmp_path)
    assert ran.returncode == 1
    assert ran.stderr == (
        f"The command bartserve needs the packages of the service, and {missing} is not installed: "
        "pip install 'bartserve[service]'\n"
    )


@pytest.mark.parametrize("package", ["app", "sampler", "worker"])
def test_no_process_imports_from_the_working_folder(package):
    """Every start of Python uses -P or -I, since the working folder may contain its own `app/`."""
    sources = [path.read_text() for path in (ROOT / package).rglob("*.py")]
    starts = [start for text in sources for start in re.findall(r"sys\.executable,\s*(\S+)", text)]
    assert package == "worker" or starts
    assert all(re.match(r'"-[PI]"', start) for start in starts), starts


@pytest.mark.long
def test_a_plain_install_fits_and_predicts(tmp_path):
    """`pip install bartserve` in an empty environment has what a notebook needs and no service."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True, timeout=120)
    interpreter = tmp_path / "venv" / "bin" / "python"
    subprocess.run([interpreter, "-m", "pip", "install", "--quiet", str(ROOT)], check=True, timeout=900)
    code = (
        "import numpy as np\n"
        "from bartserve import Client, fit\n"
        "X = np.random.default_rng(0).uniform(size=(50, 2))\n"
        "print(fit(X, X[:, 0], num_draws=20, burn_in=20, num_chains=2).predict(X[:3]).mean.shape)\n"
    )
    ran = subprocess.run(
        [interpreter, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.stdout == "(3,)\n", ran.stderr
    command = subprocess.run(
        [tmp_path / "venv" / "bin" / "bartserve", "up"], capture_output=True, text=True, check=False
    )
    assert command.returncode == 1
    assert command.stderr.endswith("is not installed: pip install 'bartserve[service]'\n")
