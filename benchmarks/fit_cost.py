"""What a fit takes of a worker's process, measured, beside the formula by which the service refuses.

    python benchmarks/fit_cost.py [--quick]

Every unit of a fit is done by a process of its own, as a worker does it, on a database of its own; its peak
memory is the kernel's count (VmHWM). The largest of a chain's and the finish's is set beside the estimate. It
is right when no fit takes more than was estimated, and those that take a lot take most of it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))
from app.services.costs import FORMULA, MIB, estimate
from app.services.fits import FitRequest, create
from app.settings import Settings
from app.store import schema
from app.store.engine import make_engine
from benchmarks.service import store
from sampler import warm
from worker.context import Context
from worker.units import run_one

# rows, columns, trees, chains, draws, burn-in, holdout
QUICK = [
    (1_000, 10, 200, 1, 10, 10, 0.0),
    (300_000, 10, 200, 1, 3, 3, 0.0),
    (300_000, 30, 10, 1, 3, 3, 0.0),
    (300_000, 30, 10, 1, 3, 3, 0.3),
    (1_000, 10, 200, 2, 2_000, 10, 0.0),
]
MORE = [
    (1_000, 10, 200, 4, 250, 1000, 0.2),
    (1_000, 10, 10, 1, 20_000, 10, 0.0),
    (1_000, 10, 1_000, 2, 1_000, 10, 0.0),
    (1_000_000, 10, 200, 1, 3, 3, 0.0),
    (1_000_000, 50, 50, 1, 3, 3, 0.0),
    (500_000, 60, 50, 1, 3, 3, 0.5),
    (20_000, 1_000, 200, 1, 10, 10, 0.0),
]


def peak():
    """The most memory this process ever had, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def work(url):
    """In a process of its own: one unit."""
    warm()
    context = Context(Settings(database_url=url, data_dir=tempfile.gettempdir()), "benchmark")
    began = time.perf_counter()
    assert run_one(context)
    print(json.dumps([peak(), time.perf_counter() - began]))
    context.close()


def measure(rows, columns, trees, chains, draws, burnin, holdout):
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(rows, columns))
    y = 10 * np.sin(3 * x[:, 0] * x[:, 1]) + 5 * x[:, 2] + generator.normal(size=rows)
    table = pa.table({f"x{j}": x[:, j] for j in range(columns)} | {"y": y})
    given = {"num_trees": trees, "num_chains": chains, "num_draws": draws, "num_burnin": burnin, "thin": 1}
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/fit.db"
        schema.migrate(url)
        engine = make_engine(url)
        request = FitRequest(store(url, table, "data"), "y", holdout=holdout, settings=given)
        create(engine, "local", request)
        engine.dispose()
        done = []
        for _ in range(chains + 1):
            command = [sys.executable, __file__, "--work", url]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stderr
            done.append(json.loads(ran.stdout))
    cost = estimate(given | {"holdout": holdout}, rows, columns)
    return max(bytes_ for bytes_, _ in done), cost.bytes, sum(seconds for _, seconds in done), cost.seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work(asked.work)
        return
    print(f"estimate: {FORMULA}; on {os.cpu_count()} cores, seconds of one slot\n")
    print("    rows  columns  trees  chains   draws  holdout   peak MiB  estimate   ratio  seconds  estimate")
    ratios = []
    for case in QUICK if asked.quick else QUICK + MORE:
        rows, columns, trees, chains, draws, _, holdout = case
        found, expected, seconds, guessed = measure(*case)
        ratios.append(expected / found)
        print(
            f"{rows:8d} {columns:8d} {trees:6d} {chains:7d} {draws:7d} {holdout:8.1f} {found / MIB:10.0f} "
            f"{expected / MIB:9.0f} {ratios[-1]:7.2f} {seconds:8.1f} {guessed:9.1f}",
            flush=True,
        )
    right = min(ratios) >= 1
    print(f"\n{'RIGHT' if right else 'WRONG'}: estimate / peak is {min(ratios):.2f} to {max(ratios):.2f}")
    sys.exit(not right)


if __name__ == "__main__":
    main()
