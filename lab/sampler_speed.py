"""Measure nanoseconds per row and tree of whole iterations, by move set and for peers, in one run.

    python -m lab sampler_speed [--sizes 1000 10000 100000 1000000] [--rounds 5] [--seconds 2]
                                [--moves growprune default] [--weights] [--alone]

Friedman's function, p = 10, m = 200, the prior of Chipman, George and McCulloch (2010; alpha .95, beta 2, k
2), 100 cuts by quantiles, one chain on one thread. bartz and stochtree are measured where they can be
imported (the bench group), dbarts where an R with it is on the path; absent peers are reported. Rounds
alternate between packages, so that a busy machine slows all equally, and every package's take --seconds;
compilation and burn-in are not counted (of bartz and stochtree the first fifth of a fit's iterations, as the
difference of two fits). Printed are medians over rounds, in brackets the best, of processor and of wall time,
medians of each round's ratios to our moves, and first the processor, its load, and the versions. Beyond
20,000 rows our chains start from trees grown by 1,000 iterations on the first 20,000 rows (a chain of a
million rows would burn in for a minute), then do 20 iterations on all of them; the number of leaves is
printed. A size's figures are printed when all its rounds are done; at a million rows that takes about ten
minutes, so progress goes to standard error. `--weights`: each move set also with weights of rows; `--alone`:
without the peers.

ours:      100 cuts, leaf minimum 1 row, any depth; prior with the valid-split factor
bartz:     100 cuts, its default leaf minimum (5 rows), depth at most 6
stochtree: every distinct value a cut, leaf minimum 1 row, depth unbounded (max_depth -1)
dbarts:    100 cuts, its own defaults
"""

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from lab import command

TREES, COLUMNS, CUTS = 200, 10, 100
SOME_ROWS = 20_000  # used in burn-in
MOVE_SETS = ("growprune", "default", "growprunechange", "cgm")


def friedman(num_rows, seed=1):
    """Simulate X [n, 10] and y [n]: Friedman's function, noise sd 1."""
    rng = np.random.default_rng(seed)
    X = rng.random((num_rows, COLUMNS))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, f + rng.normal(size=num_rows)


class Ours:
    """Chain of this project, continued without end."""

    def __init__(self, X, y, moves, *, weighted=False):
        from sampler.bart.chain import Chain
        from sampler.bart.prior import calibrate
        from sampler.settings import Settings
        from sampler.training import Training

        settings = Settings.resolve(
            num_trees=TREES, moves=moves, num_burnin=0, num_draws=1_000_000, thin=10_000
        )
        inner = np.arange(1, CUTS + 1) / (CUTS + 1)
        codes = np.stack([np.searchsorted(np.quantile(x, inner), x) for x in X.T]).astype(np.uint8)
        weights = np.random.default_rng(3).uniform(0.5, 4, len(y)) if weighted else None
        constants = calibrate(y, X.T, weights, settings, {"k": 2.0})
        training = Training(codes, codes.max(1).astype(np.int64) + 1, y, weights, constants, settings)
        state = self.burnt_in(training)
        _ = training.padded_codes, training.grid_y, training.examples
        before = peak_memory()
        self.chain = Chain.start(training, 0) if state is None else Chain.resume(training, state)
        self.chain.run(1)
        self.megabytes = peak_memory() - before

    @staticmethod
    def burnt_in(training):
        """Return a checkpoint of a chain of the first rows, rewritten for all rows; None if there are few."""
        from sampler.bart.chain import Chain
        from sampler.bart.checkpoint import read_checkpoint, write_checkpoint

        if len(training.y) <= SOME_ROWS:
            return None
        codes = np.ascontiguousarray(training.codes[:, :SOME_ROWS])
        weights = None if training.weights is None else training.weights[:SOME_ROWS]
        small = Chain.start(replace(training, codes=codes, y=training.y[:SOME_ROWS], weights=weights), 0)
        small.run(1000)
        return write_checkpoint(training, *read_checkpoint(small.checkpoint(), small.training))

    def run(self, iterations):
        start = now()
        self.chain.run(iterations)
        return now() - start

    def about(self):
        leaves = float(np.mean(self.chain.leaf_counts))
        return (
            f"leaves {leaves:.2f}, sigma {self.chain.sigma:.3f}, {self.megabytes:.0f} MB above the coded data"
        )


class Peer:
    """Fits of another package: a longer one less a shorter one gives the time of late iterations."""

    def run(self, iterations):
        first = max(2, iterations // 4)
        shorter = self.seconds(first)
        return self.seconds(first + iterations) - shorter

    def about(self):
        return "late iterations: the difference of two whole fits"


class Bartz(Peer):
    """Fits by bartz."""

    def __init__(self, X, y):
        from bartz.BART import gbart

        self.fit = lambda draws: gbart(
            X,
            y.astype(np.float32),
            ntree=TREES,
            ndpost=draws,
            nskip=0,
            numcut=CUTS,
            usequants=True,
            printevery=None,
        )  # fmt: skip
        self.compiled = set()

    def seconds(self, draws):
        if draws not in self.compiled:
            np.asarray(self.fit(draws).sigma)  # compiles for this length
            self.compiled.add(draws)
        start = now()
        np.asarray(self.fit(draws).sigma)
        return now() - start


class Stochtree(Peer):
    """Fits by stochtree."""

    def __init__(self, X, y):
        from stochtree import BARTModel

        self.make, self.X, self.y = BARTModel, X, y

    def seconds(self, draws):
        model = self.make()
        mean = {"num_trees": TREES, "min_samples_leaf": 1, "max_depth": -1}
        start = now()
        model.sample(
            X_train=self.X, y_train=self.y, num_gfr=0, num_burnin=0, num_mcmc=draws, mean_forest_params=mean,
            general_params={"num_threads": 1},
        )  # fmt: skip
        return now() - start


class Dbarts(Peer):
    """A sampler of dbarts in an R process, timed inside it after a quarter of the iterations."""

    SCRIPT = """
    library(dbarts); a <- commandArgs(TRUE); d <- matrix(scan(a[1], quiet = TRUE), ncol = 11, byrow = TRUE)
    s <- dbarts(d[, 1:10], d[, 11], control = dbartsControl(n.trees = 200L, n.chains = 1L, n.threads = 1L,
      n.burn = 0L, n.samples = 1L, updateState = FALSE, verbose = FALSE))
    k <- as.integer(a[2]); s$run(0L, max(2L, k %/% 4L)); t <- system.time(s$run(0L, k))
    cat(t[["user.self"]] + t[["sys.self"]], t[["elapsed"]])
    """

    def __init__(self, X, y):
        if not shutil.which("Rscript"):
            raise ImportError("no R")
        if subprocess.run(["Rscript", "-e", "library(dbarts)"], capture_output=True, check=False).returncode:
            raise ImportError("an R without dbarts")
        self.table = Path(tempfile.mkdtemp()) / "friedman.txt"
        np.savetxt(self.table, np.column_stack([X, y]))

    def run(self, iterations):
        command = ["Rscript", "-e", self.SCRIPT, str(self.table), str(iterations)]
        out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        return np.array([float(word) for word in out.split()])

    def about(self):
        return "timed inside R"


def now():
    """Return this process's processor time and the wall time, in seconds."""
    return np.array([time.process_time(), time.perf_counter()])


def peak_memory():
    """Return the peak resident memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


STARTED = time.monotonic()


def tell(what):
    """Print a line of progress to standard error."""
    seconds, memory = time.monotonic() - STARTED, peak_memory()
    print(f"[{seconds:6.0f} s, peak {memory:6.0f} MB] {what}", file=sys.stderr, flush=True)


def contestants(X, y, moves, options):
    """Map names to the available runners; report the absent ones."""
    runners = {}
    for name in moves:
        tell(f"ours {name}: burn-in")
        try:
            runners[f"ours {name}"] = Ours(X, y, name)
            if options.weights:
                runners[f"ours {name}, weights"] = Ours(X, y, name, weighted=True)
        except ValueError as error:
            print(f"  ours {name}: {error}", flush=True)
    if options.alone:
        return runners
    for name, kind in (("bartz", Bartz), ("stochtree", Stochtree), ("dbarts", Dbarts)):
        try:
            runners[name] = kind(X, y)
        except ImportError as error:
            print(f"  {name} is absent ({error})", flush=True)
    return runners


def measure(num_rows, moves, options):
    """Print nanoseconds per row and tree of every runner; all take turns in rounds of equal length."""
    X, y = friedman(num_rows)
    runners = contestants(X, y, moves, options)
    iterations, cell = {}, TREES * num_rows * 1e-9
    for name, runner in runners.items():
        tell(f"{name}: how many iterations take {options.seconds:g} s")
        if name.startswith("ours"):
            settled = max(20, int(options.seconds / (0.5 * cell)))
            runner.run(min(settled, 1000) if num_rows <= SOME_ROWS else 20)
        guess = 20 if num_rows < 100_000 else 4
        # No peer is faster than .5 ns: a difference lost in noise would otherwise lead to an endless fit.
        fastest = 0.05 if name.startswith("ours") else 0.5
        seconds_taken = max(runner.run(guess)[0], guess * fastest * cell)
        iterations[name] = max(guess, int(guess * options.seconds / seconds_taken))
    figures = {name: [] for name in runners}
    for number in range(options.rounds):
        for name, runner in runners.items():
            tell(f"round {number + 1} of {options.rounds}: {name}, {iterations[name]} iterations")
            figures[name].append(runner.run(iterations[name]) / (iterations[name] * cell))
    print(f"  {'':28}{'processor ns':>18}{'wall ns':>18}   times growprune, default", flush=True)
    for name, runner in runners.items():
        cpu, wall = np.array(figures[name]).T
        beside = [each for each in ("ours growprune", "ours default") if each in figures]
        ratios = [np.median(cpu / np.array(figures[each])[:, 0]) for each in beside]
        print(
            f"  {name:28}"
            + "".join(f"{np.median(t):9.3f} ({min(t):.3f})" for t in (cpu, wall))
            + "   "
            + ", ".join(f"{ratio:.2f}" for ratio in ratios)
            + f"   [{iterations[name]} iterations a round; {runner.about()}]",
            flush=True,
        )


def about_machine():
    """Return processor, threads, load and the versions of every package that is compared."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
    facts = [f"Python {sys.version.split()[0]}"]
    for package in ("numpy", "numba", "bartz", "jax", "stochtree"):
        with contextlib.suppress(PackageNotFoundError):
            facts.append(f"{package} {version(package)}")
    if shutil.which("Rscript"):
        code = 'cat(R.version.string); cat(", dbarts", as.character(packageVersion("dbarts")))'
        out = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=False)
        facts.append(out.stdout)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    return f"{model}, {os.cpu_count()} cores, one thread for each package; load {load}\n{', '.join(facts)}"


def main():
    parser = command(__doc__)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e3, 1e4, 1e5, 1e6])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each round, of every package")
    parser.add_argument("--moves", nargs="+", default=list(MOVE_SETS))
    parser.add_argument("--weights", action="store_true", help="each move set also with weights of rows")
    parser.add_argument("--alone", action="store_true", help="without the peers")
    options = parser.parse_args()
    print(__doc__.split("\n\n")[-1], flush=True)
    print(about_machine(), flush=True)
    for size in map(int, options.sizes):
        print(f"n = {size:,}", flush=True)
        measure(size, list(dict.fromkeys(["growprune", *options.moves])), options)
