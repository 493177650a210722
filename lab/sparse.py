"""Measure how well the sparse prior (DART) finds the five columns that matter among 1,000.

    python -m lab sparse [--rows 250 100] [--seeds 10] [--columns 1000] [--priors sparse plain]

For each data seed, with chains pooled: whether the five columns of Friedman's function have the five largest
inclusion proportions, with the sparse prior and without.
"""

import time

import numpy as np

from lab import command
from sampler import fit


def friedman(num_rows, num_columns, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((num_rows, num_columns))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, y + rng.normal(size=num_rows)


def count_recovered(num_rows, num_columns, seed, num_trees, *, sparse):
    """Return the number of the five among the five largest proportions, and seconds."""
    X, y = friedman(num_rows, num_columns, seed)
    start = time.process_time()
    prior = {"sparse": sparse, "sigma_estimate": "naive"}
    posterior = fit(X, y, num_trees=num_trees, seed=seed, prior=prior, progress=False)
    mean = np.asarray(posterior.inclusion().mean)
    return np.count_nonzero(np.argsort(-mean)[:5] < 5), time.process_time() - start


def main():
    parser = command(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[250, 100])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--columns", type=int, default=1000)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--priors", nargs="+", default=["sparse", "plain"], choices=["sparse", "plain"])
    options = parser.parse_args()
    print(
        f"Friedman, p = {options.columns}, {options.trees} trees, four chains pooled, {options.seeds} seeds"
    )
    for num_rows in options.rows:
        for sparse in (name == "sparse" for name in options.priors):
            rows = [
                count_recovered(num_rows, options.columns, seed, options.trees, sparse=sparse)
                for seed in range(1, options.seeds + 1)
            ]
            hits, seconds = zip(*rows, strict=True)
            print(
                f"n = {num_rows}, {'sparse' if sparse else 'plain'}: all five on top in "
                f"{sum(h == 5 for h in hits)} of {len(hits)} seeds (found {[int(h) for h in hits]}), "
                f"{np.median(seconds):.1f} s a fit",
                flush=True,
            )
