"""Measure the coverage of intervals: Friedman's function, new data per seed, the service's defaults.

    python -m lab interval_coverage [--sizes 500 1000] [--seeds 10] [--sigma-estimate linear naive]

Prints, per size and sigma estimate, the mean over the data seeds and its standard error; seconds are
processor time.
"""

import time

import numpy as np
from scipy.special import logsumexp

from lab import command
from sampler import fit

NEW_ROWS = 1000
COLUMNS = [
    "predictive 90", "predictive 95", "f 90 (new)", "f 90 (training)", "rmse to f", "sigma", "log score",
    "verdict ok", "seconds",
]  # fmt: skip


def friedman(num_rows, seed, num_columns=10):
    """Simulate X, f and y of Friedman (1991): ten uniform columns, five of them used, noise sd 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(num_rows, num_columns))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, f, f + rng.normal(size=num_rows)


def covered(truth, interval):
    """Return the share of truths inside (level, lower, upper)."""
    _, lower, upper = interval
    return np.mean((lower <= truth) & (truth <= upper))


def one(num_rows, seed, **settings):
    """Return the figures of one data set, in the order of COLUMNS."""
    X, f, y = friedman(num_rows + NEW_ROWS, seed)
    train, new = slice(0, num_rows), slice(num_rows, None)
    start = time.process_time()
    posterior = fit(X[train], y[train], progress=False, seed=seed, **settings)
    seconds = time.process_time() - start
    outcome = posterior.predict(X[new], level=[0.9, 0.95], interval="predictive")
    ahead = posterior.predict(X[new], level=[0.9])
    behind = posterior.predict(X[train][:NEW_ROWS], level=[0.9])
    draws = posterior.sample(X[new]).reshape(-1, NEW_ROWS)
    sigma = posterior.sigma.reshape(-1, 1)
    density = -0.5 * ((y[new] - draws) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
    return [
        covered(y[new], outcome.intervals[0]),
        covered(y[new], outcome.intervals[1]),
        covered(f[new], ahead.intervals[0]),
        covered(f[train][:NEW_ROWS], behind.intervals[0]),
        np.sqrt(np.mean((ahead.mean - f[new]) ** 2)),
        sigma.mean(),
        np.mean(logsumexp(density, axis=0) - np.log(len(draws))),
        posterior.summary().verdict != "not_converged",
        seconds,
    ]


def table(num_rows, num_seeds, **settings):
    """Return the figures [seed, column]."""
    return np.array([one(num_rows, seed, **settings) for seed in range(num_seeds)], float)


def show(size, figures, name):
    """Print a line of means and standard errors of figures [seed, column]."""
    error = figures.std(0, ddof=1) / np.sqrt(len(figures)) if len(figures) > 1 else 0 * figures[0]
    cells = (f"{m:.4g} ({e:.2g})" for m, e in zip(figures.mean(0), error, strict=True))
    print(f"{size:>7}  " + "  ".join(f"{cell:>16}" for cell in cells) + f"  {name}", flush=True)


def main():
    parser = command(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 10000])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--moves", default="default")
    parser.add_argument("--sigma-estimate", nargs="+", default=["linear"], choices=["linear", "naive"])
    arguments = parser.parse_args()
    print(f"Friedman, p = 10, noise sd 1, {arguments.seeds} data seeds, {NEW_ROWS} new rows each")
    print(f"moves {arguments.moves!r}, all else the defaults; mean (standard error)\n")
    print(f"{'n':>7}  " + "  ".join(f"{name:>16}" for name in COLUMNS))
    for size in arguments.sizes:
        coverages = {}
        for estimate in arguments.sigma_estimate:
            prior = {"sigma_estimate": estimate}
            coverages[estimate] = table(size, arguments.seeds, moves=arguments.moves, prior=prior)
            show(size, coverages[estimate], estimate)
        if set(coverages) == {
            "linear",
            "naive",
        }:  # on the same data, so that their difference is more precise than either
            show(size, coverages["naive"] - coverages["linear"], "naive - linear")
