"""Measure how long kernels compile.

Each kind of fit is made in a process of its own with an empty kernel cache: 400 rows of five columns, twice,
and a prediction. Compiling is the first fit less the second (it includes loading what was compiled); asked
are 15 s for a default fit on two quiet cores. Beside it are the processor seconds of the first fit and of the
process that helps it compile, and the first fit of another process, which loads the kernels from the cache.
Python's own compiling of the packages' modules, once after an installation, is done before and not counted.
`--alone`: no second process helps.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from lab import command

ASKED = 15.0  # seconds of compiling a default fit
ROWS, COLUMNS = 400, 5
FITS = {
    "default": {},  # chooses a logarithm and a line
    "no line": {"linear": False},
    "transform": {"transform": "log"},
    "line": {"linear": True},
    "transform and line": {"transform": "log", "linear": True},
    "noise by row": {"noise": "forest"},
    "groups": {"groups": "x4"},
    "two classes": {"family": "probit"},
    "classes": {"family": "categorical"},
    "counts": {"family": "poisson"},
}


def data(kind: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return X by column and outcomes above 0 of that kind."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(ROWS, COLUMNS))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3]
    if kind == "groups":
        X[:, 4] = np.floor(20 * X[:, 4])
    y = np.exp(f / 10 + 0.2 * rng.normal(size=ROWS))
    if kind in ("two classes", "classes", "counts"):
        y = np.digitize(y, [3.0] if kind == "two classes" else [2.0, 4.0]).astype(float)
    return {f"x{j}": X[:, j] for j in range(COLUMNS)}, y


def now() -> float:
    """Return seconds of processor time, of this process and those that it started and that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def child(kind: str) -> None:
    """Fit twice and predict; print the wall seconds of each, and the processor seconds of the first fit."""
    from sampler import fit

    X, y = data(kind)
    walls, processors, posterior = [], [], None
    for _ in range(2):
        start, began = time.perf_counter(), now()
        posterior = fit(X, y, progress=False, **FITS[kind])
        walls.append(time.perf_counter() - start)
        processors.append(now() - began)
    start = time.perf_counter()
    posterior.predict(X, ignore_extra=True)
    print(json.dumps([*walls, time.perf_counter() - start, processors[0]]))


def run(kind: str, cache: str, modules: str, *, alone: bool) -> list[float]:
    """Run a child process with that kernel cache and that folder of modules; return what it prints."""
    above = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]
    environment = os.environ | {
        "XDG_CACHE_HOME": cache,
        "PYTHONPATH": os.pathsep.join(filter(None, above)),
        "PYTHONPYCACHEPREFIX": modules,
        "PYTHONDONTWRITEBYTECODE": "",
    }
    if alone:
        environment |= {"BARTSERVE_COMPILE_ALONE": "1"}
    command = [sys.executable, "-m", "lab", "cold_start", "--child", kind]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def main() -> None:
    """Print a line for each kind of fit."""
    parser = command(__doc__)
    parser.add_argument("--fits", nargs="+", default=[*FITS][:5], choices=[*FITS])
    parser.add_argument("--alone", action="store_true", help="compile in one process")
    parser.add_argument("--child", choices=[*FITS], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    with tempfile.TemporaryDirectory() as modules:
        with tempfile.TemporaryDirectory() as cache:
            run("default", cache, modules, alone=options.alone)  # compiles the modules
        print(f"{'':20}compiling  (asked)  processor  first fit  second  first prediction  first fit, cached")
        for kind in options.fits:
            load = os.getloadavg()[0]
            with tempfile.TemporaryDirectory() as cache:
                first, second, predicted, processor = run(kind, cache, modules, alone=options.alone)
                cached = run(kind, cache, modules, alone=options.alone)[0]
            goal = f"({ASKED:.0f})" if kind == "default" else ""
            print(
                f"{kind:20}{first - second:9.1f}{goal:>9}{processor:11.1f}{first:11.1f}{second:8.2f}"
                f"{predicted:18.2f}{cached:19.2f}   [load {load:.1f}]",
                flush=True,
            )
