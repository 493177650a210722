"""Time an iteration of single-tree chains.

Friedman's function, ten columns, after a burn-in of 20,000 iterations. The promise is at most 3 microseconds
of processor time for an iteration of grow and prune at 1,000 rows.
"""

from __future__ import annotations

import time

import numpy as np

from lab import command
from sampler import prepare, start_chain, warm

CASES = (
    ("bcart", "growprune"),
    ("bcart", "default"),
    ("bcart-wu", "default"),
    ("bcart-mean-variance", "growprune"),
)
BURN_IN = 20_000


def microseconds(num_rows: int, method: str, moves: str, seconds: float) -> tuple[float, float]:
    """Return the processor time of an iteration, and the number of leaves at the end."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(num_rows, 10))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    problem = prepare(
        X, f + rng.normal(size=num_rows), method=method, moves=moves, num_draws=1_000_000, thin=100
    )
    chain = start_chain(problem.training, 0)
    chain.run(BURN_IN)
    done, began = 0, time.process_time()
    while time.process_time() - began < seconds:
        done += chain.run(2_000)
    elapsed = time.process_time() - began
    draws = chain.take()
    assert draws is not None
    return 1e6 * elapsed / done, float(draws.leaf_counts[-50:].mean())


def main() -> None:
    """Print a line for each size and case."""
    parser = command(__doc__)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e3, 1e4])
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    warm()
    print(f"{'rows':>8}  {'method':20}{'moves':12}{'us/iteration':>14}{'leaves':>8}")
    for size in arguments.sizes:
        for method, moves in CASES:
            spent, leaves = microseconds(int(size), method, moves, arguments.seconds)
            print(f"{int(size):8}  {method:20}{moves:12}{spent:14.2f}{leaves:8.1f}", flush=True)
