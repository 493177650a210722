"""Run a measurement, `python -m lab NAME [options]`; without a name, say what there is.

A measurement is a module, or the `__main__` of a package, with a function `main` that reads its options by
`lab.command`. The first line of its docstring describes it. Numerical libraries, which read their number of
threads when they are imported, use one core unless the environment says otherwise.
"""

import ast
import importlib
import os
import sys
from functools import cache
from pathlib import Path

ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1") | {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
}


@cache
def measurements() -> dict[str, str]:
    """Return the names of what can be run, each with its description, without importing them."""
    here = Path(__file__).parent
    places = {path.stem: path for path in here.glob("[!_]*.py")}
    places |= {path.parent.name: path for path in here.glob("*/__main__.py")}
    return {
        name: (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]
        for name, path in sorted(places.items())
        if "command(__doc__)" in (text := path.read_text())
    }


def main() -> None:
    """Run what the first argument names."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    known = measurements()
    if name not in known:
        listed = "\n".join(f"  {each:20s} {described}" for each, described in known.items())
        print(f"usage: python -m lab NAME [options]\n\n{listed}")
        sys.exit(f"no measurement is named {name}" if name and not name.startswith("-") else 0)
    for variable, value in ONE_CORE.items():
        os.environ.setdefault(variable, value)
    sys.argv[:2] = [f"python -m lab {name}"]
    place = f"lab.{name}.__main__" if (Path(__file__).parent / name).is_dir() else f"lab.{name}"
    importlib.import_module(place).main()


if __name__ == "__main__":
    main()
