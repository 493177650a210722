"""Measure one chain on one thread and on several, which share its passes over rows.

    python -m lab chain_threads [--sizes 1e5 1e6 1e7] [--threads 1 2] [--rounds 5] [--seconds 2]
                                [--weights] [--patient]

Friedman's function, p = 20, m = 200, 101 codes a column, default moves. The chain starts from trees grown by
300 iterations on the first 20,000 rows. Numbers of threads take turns in rounds of as many iterations as take
--seconds on one thread, at least one: on a busy machine many short rounds find its quiet moments. Printed are
seconds per 100 iterations, best and median of the rounds, their shares of one thread's, how long a pass
waited for the other threads, in the best round and in the median, and whether all numbers of threads lead
to the same bits. `--weights`: rows have weights; `--patient`: no round goes on alone, however long waiting
takes.
"""

import os
import time
from dataclasses import replace

import numpy as np

from lab import command

COLUMNS, CODES, SOME_ROWS, TREES = 20, 101, 20_000, 200


def training_of(num_rows, *, weighted):
    """Simulate codes [20, n] and y [n] of Friedman's function, noise sd 1."""
    from sampler.bart.prior import calibrate
    from sampler.settings import Settings
    from sampler.training import Training

    rng = np.random.default_rng(1)
    codes = rng.integers(0, CODES, (COLUMNS, num_rows), np.uint8)
    x = [column.astype(np.float32) / CODES for column in codes[:5]]
    y = 10 * np.sin(np.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4]
    y = y.astype(float) + rng.normal(size=num_rows)
    weights = rng.uniform(0.5, 4, num_rows) if weighted else None
    settings = Settings.resolve(num_trees=TREES, num_burnin=0, num_draws=1_000_000, thin=10_000)
    constants = calibrate(y, codes[:, :1], weights, settings, {"k": 2.0}, noise=1.0)
    return Training(codes, np.full(COLUMNS, CODES), y, weights, constants, settings)


def burnt_in(training):
    """Return a checkpoint of a chain of the first rows, rewritten for all rows."""
    from sampler.bart.chain import Chain
    from sampler.bart.checkpoint import read_checkpoint, write_checkpoint

    codes = np.ascontiguousarray(training.codes[:, :SOME_ROWS])
    weights = None if training.weights is None else training.weights[:SOME_ROWS]
    small = Chain.start(replace(training, codes=codes, y=training.y[:SOME_ROWS], weights=weights), 0)
    small.run(300)
    return write_checkpoint(training, *read_checkpoint(small.checkpoint(), small.training))


def measure(num_rows, options):
    """Print a line for each number of threads."""
    from sampler.bart.chain import Chain
    from sampler.bart.shared import threads

    threads.MOST_LOSS = 10**18 if options.patient else threads.MOST_LOSS
    training = training_of(num_rows, weighted=options.weights)
    chain = Chain.resume(training, burnt_in(training))
    chain.run(1)
    began = time.perf_counter()
    chain.run(1)
    iterations = max(1, int(options.seconds / (time.perf_counter() - began)))
    figures = {count: [] for count in options.threads}
    for _ in range(options.rounds):
        for count in options.threads:
            chain.threads, chain.team = count, None
            began = time.perf_counter()
            chain.run(iterations)
            seconds = time.perf_counter() - began
            passes, wait = (chain.team.passes, chain.team.mean_wait) if chain.team else (0, 0.0)
            figures[count].append((100 / iterations * seconds, wait, passes / iterations / TREES))
    start, ends = chain.checkpoint(), []
    for count in options.threads:
        chain = None  # its memory is needed
        chain = Chain.resume(training, start)
        chain.threads = count
        chain.run(min(iterations, 20))
        ends.append(chain.checkpoint())
    load, leaves = ", ".join(f"{each:.1f}" for each in os.getloadavg()), float(np.mean(chain.leaf_counts))
    rounds = f"{options.rounds} rounds of {iterations} iterations"
    print(f"n = {num_rows:,}: {rounds}, {leaves:.2f} leaves, load {load}", flush=True)
    best_of_one, median_of_one = min(figures[1])[0], np.median(figures[1], axis=0)[0]
    for count, rounds in figures.items():
        (best, quickest, shared), (median, usual, _) = min(rounds), np.median(rounds, axis=0)
        line = f"  {count} threads: {best:8.2f} s at best ({best / best_of_one:.2f}), "
        line += f"{median:8.2f} s in the median ({median / median_of_one:.2f})"
        if count > 1:
            line += f"; {shared:.2f} passes shared an update, which waited {quickest:.1f} us, {usual:.1f} us"
        print(line, flush=True)
    print(f"  the bits are {'the same' if len(set(ends)) == 1 else 'DIFFERENT'}", flush=True)


def main():
    parser = command(__doc__)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e5, 1e6, 1e7])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a round on one thread")
    parser.add_argument("--weights", action="store_true", help="rows with weights")
    parser.add_argument("--patient", action="store_true", help="no round goes on alone")
    options = parser.parse_args()
    for size in map(int, options.sizes):
        measure(size, options)
