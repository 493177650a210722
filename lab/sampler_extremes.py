"""Measure the sampler in extreme cases: many columns, deep trees, a million rows; for each move set.

    python -m lab sampler_extremes [--cases wide deep long] [--moves growprune default cgm]

wide: n = 10,000, p = 1,000, m = 200. deep: n = 100,000, p = 10, m = 20, split probability
.95 (1 + depth)^-.5. long: n = 1,000,000, p = 10, m = 200. Friedman's function of the first five columns.
Each case runs in a new process for `--seconds` of processor time, after an equal burn-in. Printed are
nanoseconds per row and tree (processor time), mean and largest number of leaves, and the peak of memory above
the encoded data.
"""

import argparse
import json
import subprocess
import sys
import time

import numpy as np

from lab import command
from lab.sampler_speed import friedman, peak_memory

CASES = {
    "wide": {"rows": 10_000, "columns": 1_000, "trees": 200, "prior": {}},
    "deep": {"rows": 100_000, "columns": 10, "trees": 20, "prior": {"beta": 0.5}},
    "long": {"rows": 1_000_000, "columns": 10, "trees": 200, "prior": {}},
}
MOVE_SETS = ("growprune", "default", "growprunechange", "cgm")


def training_of(case, moves):
    from sampler.bart.prior import calibrate
    from sampler.settings import Settings
    from sampler.training import Training

    first, y = friedman(case["rows"])
    inner = np.arange(1, 101) / 101
    rng = np.random.default_rng(2)
    codes = np.empty((case["columns"], case["rows"]), np.uint8)
    for j in range(case["columns"]):
        x = first[:, j] if j < 10 else rng.random(case["rows"])
        codes[j] = np.searchsorted(np.quantile(x[:100_000], inner), x)
    settings = Settings.resolve(
        num_trees=case["trees"], moves=moves, num_burnin=0, num_draws=1_000_000, thin=10_000
    )
    constants = calibrate(y, first.T, None, settings, case["prior"])
    return Training(codes, np.full(case["columns"], 101), y, None, constants, settings)


def run_one(name, moves, seconds):
    from sampler import warm
    from sampler.bart.chain import Chain

    case = CASES[name]
    training = training_of(case, moves)
    warm(training.settings)
    _ = training.padded_codes, training.grid_y
    before = peak_memory()
    chain = Chain.start(training, 0)
    chain.run(1)
    until = time.process_time() + seconds
    while time.process_time() < until:
        chain.run(2)
    start, done = time.process_time(), 0
    while time.process_time() - start < seconds:
        done += chain.run(2)
    spent = time.process_time() - start
    leaves = np.asarray(chain.leaf_counts)
    print(
        json.dumps(
            {
                "ns": spent / done / case["rows"] / case["trees"] * 1e9,
                "leaves": float(leaves.mean()),
                "largest": int(leaves.max()),
                "megabytes": peak_memory() - before,
                "iterations": chain.iteration,
            }
        )
    )


def main():
    parser = command(__doc__)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--moves", nargs="+", default=list(MOVE_SETS))
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_one(*options.one, options.seconds)
        return
    print(__doc__.split("\n\n")[-1], flush=True)
    for name in options.cases:
        for moves in options.moves:
            asked = ["--one", name, moves, "--seconds", str(options.seconds)]
            child = [sys.executable, "-m", "lab", "sampler_extremes", *asked]
            result = json.loads(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
            print(
                f"{name:5s} {moves:16s} {result['ns']:8.3f} ns   {result['leaves']:6.2f} leaves a tree, "
                f"largest {result['largest']:4d}   {result['megabytes']:6.0f} MB   "
                f"{result['iterations']} iterations",
                flush=True,
            )
