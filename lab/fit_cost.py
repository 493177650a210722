"""Compare memory and time of fits in a worker's process with the formulas of the service.

    python -m lab fit_cost [--quick | --time]

One process does the chains of a fit, another its finish, as in a worker, on a separate database. Peak memory
is the kernel's count (VmHWM); the larger of the two is compared with the estimate, which is right when no fit
takes more. Time is processor time on one thread, which a slot with its own core takes if it has done a fit of
that kind before (the first one loads kernels and libraries, about a second); the estimate is right when
within a factor of 1.5 for fits of half a second and more. `--time` prints only the second table.
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
import pyarrow.compute as pc

from app.services.fits.creation import accept, plan
from app.services.fits.requests import FitRequest
from app.settings import Settings
from app.store import schema
from app.store.engine import make_engine, session_scope
from lab import command
from lab.service import store
from sampler import warm
from sampler.costs.memory import FORMULA, MIB, estimate
from sampler.definitions.data import ROLES
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
# rows, columns, holdout, and settings: the factors of the time, varied one by one
ONE = {"num_chains": 1}
FEW = ONE | {"num_burnin": 1_000, "num_draws": 20}
TIMED = [
    (400, 7, 0.25, {}),
    (1_000, 10, 0.0, {}),
    (10_000, 10, 0.2, ONE | {"num_burnin": 300, "num_draws": 100}),
    (100_000, 10, 0.0, ONE | {"num_burnin": 40, "num_draws": 10}),
    (1_000_000, 10, 0.0, ONE | {"num_burnin": 8, "num_draws": 2}),
    (3_000, 10, 0.0, ONE | {"num_trees": 800, "num_burnin": 200, "num_draws": 50}),
    (3_000, 300, 0.0, ONE | {"num_burnin": 300, "num_draws": 75}),
    (20_000, 500, 0.0, ONE | {"num_burnin": 10, "num_draws": 10}),
    (1_000, 10, 0.0, {"num_chains": 8, "num_draws": 1_000, "thin": 1, "num_burnin": 50, "num_trees": 50}),
    (10_000, 10, 0.2, {"num_chains": 2, "thin": 1, "num_burnin": 10, "num_trees": 50}),
    (100_000, 50, 0.2, ONE | {"num_draws": 20, "thin": 1, "num_burnin": 5, "num_trees": 10}),
    (10_000, 10, 0.0, ONE | {"moves": "growprune", "num_burnin": 600, "num_draws": 150}),
    (10_000, 10, 0.0, ONE | {"moves": "growprunechange", "num_burnin": 600, "num_draws": 150}),
    (3_000, 10, 0.0, ONE | {"moves": "cgm", "num_burnin": 100, "num_draws": 25}),
    (10_000, 10, 0.0, ONE | {"moves": "pg", "num_burnin": 20, "num_draws": 10, "thin": 2, "num_trees": 50}),
    (10_000, 10, 0.0, ONE | {"weights": "w", "num_burnin": 200, "num_draws": 50}),
    (10_000, 10, 0.0, ONE | {"weights": "w", "moves": "growprune", "num_burnin": 600, "num_draws": 150}),
    (10_000, 10, 0.0, ONE | {"family": "probit", "num_burnin": 200, "num_draws": 50}),
    (1_000, 10, 0.0, FEW | {"linear": True}),
    (20_000, 10, 0.0, FEW | {"linear": True, "num_burnin": 100}),
    (20_000, 100, 0.0, FEW | {"linear": True, "num_burnin": 50, "num_trees": 20}),
    (1_000, 10, 0.0, FEW | {"noise": "t"}),
    (20_000, 10, 0.0, FEW | {"noise": "t", "num_burnin": 100}),
    (20_000, 10, 0.0, FEW | {"noise": "t", "num_burnin": 100, "num_trees": 20}),
    (1_000, 10, 0.0, FEW | {"noise": "forest"}),
    (20_000, 10, 0.0, FEW | {"noise": "forest", "num_burnin": 100}),
    (1_000, 10, 0.0, FEW | {"noise": "t-forest"}),
    (20_000, 10, 0.0, FEW | {"noise": "t-forest", "num_burnin": 100}),
    (1_000, 10, 0.0, FEW | {"family": "categorical"}),
    (20_000, 10, 0.0, FEW | {"family": "categorical", "num_burnin": 100}),
    (1_000, 10, 0.0, FEW | {"family": "poisson"}),
    (20_000, 10, 0.0, FEW | {"family": "poisson", "num_burnin": 100}),
    (1_000, 10, 0.0, FEW | {"family": "zero-inflated-negative-binomial"}),
    (20_000, 10, 0.0, FEW | {"family": "zero-inflated-negative-binomial", "num_burnin": 100}),
    (1_000, 10, 0.25, {"family": "categorical"}),
    (1_000, 10, 0.25, {"family": "negative-binomial"}),
    (1_000, 10, 0.25, {"event": "seen"}),
    (20_000, 10, 0.0, FEW | {"event": "seen", "num_burnin": 100}),
    (1_000, 10, 0.25, {"groups": ["group"]}),
    (20_000, 10, 0.0, FEW | {"groups": ["group"], "slopes": ["x0"], "num_burnin": 100}),
    (3_000, 10, 0.0, {"method": "bcart", "num_chains": 4}),
    (3_000, 10, 0.0, ONE | {"method": "bcart-wu", "num_burnin": 2_000, "num_draws": 50}),
    (3_000, 10, 0.0, ONE | {"method": "smc", "num_draws": 300}),
    (1_000, 10, 0.0, ONE | {"method": "rjhmc-df"}),
    (1_000, 10, 0.0, ONE | {"method": "rjhmc-dfi"}),
    (300, 5, 0.0, ONE | {"method": "dcc-tree", "search": {"iterations": 20, "chains": 4}}),
]
WITHIN, WORTH = 1.5, 0.5  # the required factor, for fits of at least so many seconds
ALONE = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def peak():
    """Return the peak memory of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def work(count, *urls):
    """Do a number of units of each database in a new process; return the seconds of the last."""
    warm()
    for url in urls:
        context = Context(Settings(database_url=url, data_dir=tempfile.gettempdir()), "benchmark")
        began = time.process_time()
        for _ in range(count):
            assert run_one(context)
        seconds = time.process_time() - began
        context.close()
    print(json.dumps([peak(), seconds]))


def friedman(rows, columns, family="gaussian"):
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(rows, columns))
    f = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    y = f + generator.normal(size=rows)
    if family == "probit":
        y = 1.0 * (y > 14)
    elif family == "categorical":
        y = np.digitize(y, [12.0, 17.0]).astype(float)
    elif family != "gaussian":
        y = generator.poisson(np.exp((y - 14) / 5)).astype(float)
    others = {"w": generator.uniform(0.5, 2.0, rows), "group": generator.integers(0, 200, rows)}
    others |= {"seen": (generator.uniform(size=rows) < 0.6).astype(int)}
    return pa.table({f"x{j}": x[:, j] for j in range(columns)} | others | {"y": y})


def prepare(url, rows, columns, holdout, fit_settings):
    """Create a database with a queued fit; return it with the resolved settings."""
    schema.migrate(url)
    engine = make_engine(url)
    table = friedman(rows, columns, fit_settings.get("family", "gaussian"))
    if "event" in fit_settings:
        table = table.set_column(table.num_columns - 1, "y", pc.exp(pc.divide(table["y"], 10)))
    settings = dict(fit_settings)
    data = {role: settings.pop(role) for role in ROLES if role in settings}
    data["features"] = [f"x{j}" for j in range(columns)]
    dataset = store(url, table, "data")
    request = FitRequest(
        dataset,
        "y",
        data=data,
        holdout=holdout,
        settings=settings,
    )
    planned = plan(engine, "local", request)
    with session_scope(engine) as session:
        model = accept(session, "local", planned)
    engine.dispose()
    return model.settings


def measure(rows, columns, holdout, fit_settings):
    """Return peak bytes, estimated bytes, seconds and estimated seconds."""
    with tempfile.TemporaryDirectory() as folder:
        first, url = f"sqlite:///{folder}/first.db", f"sqlite:///{folder}/fit.db"
        settings = prepare(url, rows, columns, holdout, fit_settings)
        few = {"num_draws": 4, "num_burnin": 2} if fit_settings.get("method") != "smc" else {"num_draws": 100}
        prepare(first, 60, 5, holdout, fit_settings | few)
        done = []
        for count in (settings["num_chains"], 1):
            command = [sys.executable, "-m", "lab", "fit_cost", "--work", str(count), first, url]
            ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | ALONE)
            assert ran.returncode == 0, ran.stderr
            done.append(json.loads(ran.stdout))
    cost = estimate(settings, rows, columns)
    return max(bytes_ for bytes_, _ in done), cost.bytes, sum(seconds for _, seconds in done), cost.seconds


def memory(cases):
    print(f"memory: {FORMULA}\n")
    print("    rows  columns  trees  chains   draws  holdout   peak MiB  estimate   ratio")
    ratios = []
    for rows, columns, trees, chains, draws, burnin, holdout in cases:
        settings = {
            "num_trees": trees,
            "num_chains": chains,
            "num_draws": draws,
            "num_burnin": burnin,
            "thin": 1,
        }
        measured, expected, *_ = measure(rows, columns, holdout, settings)
        ratios.append(expected / measured)
        print(
            f"{rows:8d} {columns:8d} {trees:6d} {chains:7d} {draws:7d} {holdout:8.1f} {measured / MIB:10.0f} "
            f"{expected / MIB:9.0f} {ratios[-1]:7.2f}",
            flush=True,
        )
    right = min(ratios) >= 1
    print(f"\n{'RIGHT' if right else 'WRONG'}: estimate / peak is {min(ratios):.2f} to {max(ratios):.2f}\n")
    return right


def timed(cases):
    print(f"seconds of one slot with a core of its own; on {os.cpu_count()} cores\n")
    print("    rows  columns  holdout  seconds  estimate   ratio  settings")
    ratios = []
    for rows, columns, holdout, settings in cases:
        *_, seconds, guessed = measure(rows, columns, holdout, settings)
        ratio = guessed / seconds
        ratios += [ratio] * (seconds >= WORTH)
        description = ", ".join(f"{name} {value}" for name, value in settings.items()) or "the defaults"
        print(
            f"{rows:8d} {columns:8d} {holdout:8.2f} {seconds:8.2f} {guessed:9.2f} {ratio:7.2f}  "
            f"{description}",
            flush=True,
        )
    right = min(ratios) >= 1 / WITHIN and max(ratios) <= WITHIN
    print(f"\n{'RIGHT' if right else 'WRONG'}: estimate / seconds is {min(ratios):.2f} to {max(ratios):.2f}")
    return right


def main():
    parser = command(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer cases of memory, none of time")
    parser.add_argument("--time", action="store_true", help="time alone")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(int(arguments.work[0]), *arguments.work[1:])
        return
    right = arguments.time or memory(QUICK if arguments.quick else QUICK + MORE)
    right = (arguments.quick or timed(TIMED)) and right
    sys.exit(not right)
