"""Measure what encoding text of many levels by cross-fitted means gains, beside leaving the column out.

    python -m lab wide_text [--levels 60 150 400] [--rows 15] [--seeds 2] [--draws 125]

Simulated tables have five numbers and text whose levels' means differ by half the noise, or not at all, so
many rows to each level (at least 1,200 in all); a third are held out. With the package `dmba`, the prices of
its Toyota cars by Model follow, the numbers beside it all columns but price and Id. A line has the RMSE and
the pinball loss over seven levels on held-out rows, and the processor time, relative to the fit without the
column. They are to be at most .96 where levels matter, never above 1.01, at most 1.2 times the time.
"""

import importlib.util
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from lab import command
from sampler import fit
from sampler.errors import DataWarning

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
FEWEST = 1200


def simulated(levels, rows, spread, seed):
    """Return features, whose text has that many levels, and outcomes."""
    rng = np.random.default_rng([seed, levels])
    n = max(FEWEST, rows * levels)
    level = rng.integers(0, levels, n)
    X = pd.DataFrame(rng.uniform(size=(n, 5)), columns=list("abcde"))
    f = 2 * np.sin(3 * X.a) + 2 * X.b + X.c * X.d
    X["text"] = [f"level {each}" for each in level]
    return X, (f + spread * rng.normal(size=levels)[level] + rng.normal(size=n)).to_numpy()


def toyota():
    """Return Toyota cars and their prices, or None where the package isn't there."""
    package = importlib.util.find_spec("dmba")
    if package is None or package.origin is None:
        return None
    cars = pd.read_csv(Path(package.origin).parent / "csvFiles" / "ToyotaCorolla.csv.gz")
    return cars.drop(columns=["Price", "Id"]), cars["Price"].to_numpy(float)


def scores(X, y, seed, draws):
    """Return RMSE, pinball loss and processor seconds of a fit to two thirds of the rows."""
    held = np.random.default_rng(seed).permutation(len(y)) % 3 == 0
    start = time.process_time()
    posterior = fit(X[~held], y[~held], seed=seed, progress=False, num_draws=draws)
    seconds = time.process_time() - start
    answer = posterior.predict(X[held], quantiles=LEVELS)
    pinball = [np.mean((y[held] - at) * (q - (y[held] < at))) for q, at in answer.quantiles]
    return np.array([np.sqrt(np.mean((y[held] - answer.mean) ** 2)), np.mean(pinball), seconds])


def compared(name, X, y, text, asked):
    """Print a line of what the text gains over the seeds; both fits of a seed have the same rows."""
    with_it, without = np.zeros((2, 3))
    for seed in range(asked.seeds):
        if seed == 0:  # compiles what is still to be compiled
            fit(X, y, seed=0, progress=False, num_draws=5, num_burnin=5)
        with_it += scores(X, y, seed, asked.draws)
        without += scores(X.drop(columns=text), y, seed, asked.draws)
    rmse, pinball, seconds = with_it / without
    print(f"{name:32} RMSE {rmse:.3f}  pinball {pinball:.3f}  time {seconds:.2f}", flush=True)


def main():
    parser = command(__doc__)
    parser.add_argument("--levels", type=int, nargs="+", default=[60, 150, 400])
    parser.add_argument("--rows", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--draws", type=int, default=125)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    for levels in asked.levels:
        for spread in (0.5, 0.0):
            X, y = simulated(levels, asked.rows, spread, 0)
            compared(f"{levels} levels, sd of means {spread}", X, y, "text", asked)
    if (cars := toyota()) is not None:
        compared("Toyota, Model", *cars, "Model", asked)
