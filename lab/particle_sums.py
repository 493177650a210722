"""Compare particle Gibbs and local moves for sums of 200 trees with the PG-BART paper's Tables 4 and 5.

    python -m lab particle_sums [--tables houses year slices] [--seeds 3] [--iterations 2000]
                                [--samplers growprune cgm pg default] [--folder build/pg-bart]
    python -m lab particle_sums --iterations 200 --seeds 1    # the short form: about two minutes

The paper (Lakshminarayanan, Roy and Teh 2015) has 2,000 training rows of CaliforniaHouses (6 columns),
YearPredictionMSD (90) and CTslices (384), which no package registry offers: `houses`, `year` and `slices` are
simulated tables with as many rows and columns, like them in correlation and in the share of noise. With
--folder they are read from its files, named and laid out as StatLib and UCI have them: cal_housing.data
(longitude and latitude left out, which leaves six), YearPredictionMSD.txt (its last 51,630 rows are the test
rows) and slice_localization_data.csv; tables without a file are left out. Settings
are the paper's: 200 trees, alpha .95, beta 2, k 2, uniform cuts, 10 particles; our default moves are added.
Each data seed is a new table, or new training rows, and a chain. The first half of the iterations is
discarded; ESS is coda's, of the training log-likelihood. A chain that still climbs has a small ESS, one that
is stuck a large one, so the final log-likelihood, leaves a tree and the error on the paper's number of test
rows are printed too: medians over seeds. ESS/s is processor time on this machine; compare its ratios.
"""

import time
from functools import cache
from pathlib import Path

import numpy as np

from lab import command
from lab.cgm10 import PLAIN
from lab.hypercube import coda_ess
from sampler.bart.chain import Chain
from sampler.posterior.core.ensemble import Ensemble
from sampler.preparation import prepare

ROWS, THIN = 2000, 10
PAPER = {  # ESS, and 1,000 times ESS/s, of GrowPrune, CGM and PG
    "houses": ((34.849, 18.956, 76.819), (48.799, 1.967, 16.743)),
    "year": ((21.656, 29.215, 76.766), (7.029, 2.018, 14.070)),
    "slices": ((5.025, 2.511, 11.838), (0.615, 0.080, 2.115)),
}
SAMPLERS = ("growprune", "cgm", "pg", "default")


def houses(rows, rng):
    """Simulate house prices by place, income, age and size: 6 columns, an eighth of the variance is noise."""
    place = rng.uniform(size=(rows, 2))
    income, age = rng.lognormal(1.2, 0.45, rows), rng.uniform(1, 52, rows)
    rooms = np.exp(1.6 + 0.15 * np.log(income) + 0.2 * rng.normal(size=rows))
    people = rng.lognormal(1.0, 0.25, rows)
    coast = np.exp(-8 * np.abs(place[:, 0] - 0.3 - 0.4 * place[:, 1] ** 2))
    cities = sum(np.exp(-40 * ((place - at) ** 2).sum(axis=1)) for at in ((0.35, 0.3), (0.6, 0.75)))
    f = 0.45 * np.log(income) * (1 + coast) + 0.5 * coast + 0.6 * cities - 0.15 * np.log(people) * rooms / 5
    f += 0.002 * age
    X = np.column_stack([place, income, age, rooms, people])
    return X, f + noise(f, 7, rng)


def year(rows, rng):
    """Simulate years by 12 means and 78 covariances of timbre: 90 columns, three quarters are noise."""
    mixing = rng.normal(size=(12, 12)) / np.sqrt(12)
    timbre = rng.normal(size=(rows, 12)) @ mixing
    pairs = np.triu_indices(12)
    covariances = timbre[:, pairs[0]] * timbre[:, pairs[1]] + rng.gamma(2, 1, (rows, len(pairs[0])))
    f = timbre[:, 0] - 0.8 * np.maximum(timbre[:, 1], 0) + 0.5 * timbre[:, 2] * timbre[:, 5]
    f += 0.3 * np.log1p(np.abs(covariances[:, 0])) - 0.2 * np.tanh(covariances[:, 20])
    return np.column_stack([timbre, covariances]), f + noise(f, 1 / 3, rng)


def slices(rows, rng):
    """Simulate positions of slices by two histograms of images: 384 columns, nearly no noise in y."""
    height = rng.uniform(0, 1, rows)
    body = 0.15 * rng.normal(size=rows)
    bins = np.linspace(-0.2, 1.2, 384)
    width = 0.05 + 0.1 * rng.uniform(size=384)
    bone = np.exp(-0.5 * ((height[:, None] + body[:, None] * np.sin(7 * bins) - bins) / width) ** 2)
    X = np.maximum(0, bone + 0.1 * rng.normal(size=bone.shape))
    X[rng.uniform(size=X.shape) < 0.1] = 0  # empty bins
    f = 100 * height + 10 * np.sin(6 * height)
    return X, f + noise(f, 1000, rng)


def noise(f, ratio, rng):
    """Draw normal noise such that the variance of f is `ratio` times its own."""
    return rng.normal(0, np.sqrt(np.var(f) / ratio), len(f))


TABLES = {"houses": (houses, 5000), "year": (year, 51_630), "slices": (slices, 24_564)}
COLUMNS = {"houses": 6, "year": 90, "slices": 384}


def simulated(table, seed):
    """Return features and outcomes of a simulated table, the training rows first."""
    simulate, num_test = TABLES[table]
    return simulate(ROWS + num_test, np.random.default_rng(seed))


def houses_of(file):
    """Read StatLib's California houses: columns 3 to 8, and the value."""
    cells = np.loadtxt(file, delimiter=",", ndmin=2)
    return cells[:, 2:8], cells[:, 8]


def year_of(file):
    """Read UCI's songs: the year comes first."""
    import pandas as pd

    cells = pd.read_csv(file, header=None, dtype=np.float32).to_numpy(np.float64)
    return cells[:, 1:], cells[:, 0]


def slices_of(file):
    """Read UCI's slices: the patient comes first, the place last."""
    cells = np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2)
    return cells[:, 1:-1], cells[:, -1]


FILES = {
    "houses": ("cal_housing.data", houses_of),
    "year": ("YearPredictionMSD.txt", year_of),
    "slices": ("slice_localization_data.csv", slices_of),
}


@cache
def table_of(folder, table):
    """Read a table of a folder, in an order in which the test rows come last.

    Raises ValueError for a file with other columns than the paper has, or too few rows.
    """
    name, read = FILES[table]
    X, y = read(folder / name)
    columns = COLUMNS[table]
    if X.shape[1] != columns or len(y) <= ROWS:
        raise ValueError(
            f"{folder / name} has {len(y):,} rows with {X.shape[1]} features: the paper's table has "
            f"{columns} features, and {ROWS:,} rows train"
        )
    order = np.arange(len(y)) if table == "year" else np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def read_rows(folder, table, seed):
    """Return 2,000 training rows of a folder's table, others for each seed, then its test rows."""
    X, y = table_of(folder, table)
    known = len(y) - min(TABLES[table][1], len(y) - ROWS)
    train = np.random.default_rng(seed).permutation(known)[:ROWS]
    rows = np.concatenate([train, np.arange(known, len(y))])
    return X[rows], y[rows]


def one(data, seed, moves, iterations):
    """Return ESS, ESS/s, final log-likelihood, leaves a tree and test RMSE / sd(y) of one chain.

    `data` is the features and outcomes, 2,000 training rows first.
    """
    X, y = data
    num_test = len(y) - ROWS
    half = iterations // 2
    problem = prepare(
        X[:ROWS], y[:ROWS], num_trees=200, num_chains=1, num_burnin=iterations - half,
        num_draws=half // THIN, thin=THIN, moves=moves, seed=seed,
        prior={"cuts": "uniform", "alpha": 0.95, "beta": 2, "k": 2}, **PLAIN,
    )  # fmt: skip
    chain, loglik, seconds = Chain.start(problem.training, 0), [], 0.0
    for i in range(iterations):
        start = time.process_time()
        chain.run(1)
        seconds += (time.process_time() - start) * (i >= iterations - half)
        sse = np.sum((chain.residual() * chain.training.constants.step) ** 2)
        loglik.append(-0.5 * ROWS * np.log(2 * np.pi * chain.sigma**2) - sse / (2 * chain.sigma**2))
    draws, constants = chain.take(), chain.training.constants
    codes = np.stack([problem.grid.encode(j, X[ROWS:, j]) for j in range(X.shape[1])])
    ensemble = Ensemble([draws], X.shape[1])
    blocks = np.array_split(np.arange(num_test), -(-num_test // 1000))
    mean = np.concatenate([ensemble.sums(codes[:, rows]).mean(axis=0) for rows in blocks])
    error = constants.offset + constants.step * mean - y[ROWS:]
    ess = coda_ess(loglik[iterations - half :])
    return [
        ess,
        1000 * ess / seconds,
        loglik[-1],
        chain.leaf_counts.mean(),
        np.sqrt(np.mean(error**2)) / y[ROWS:].std(),
    ]


def main():
    parser = command(__doc__)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    names = ("ESS", "1,000 ESS/s", "log-likelihood", "leaves", "RMSE / sd(y)")
    for table in options.tables:
        if options.folder and not (options.folder / FILES[table][0]).exists():
            print(f"\n{table}: left out, {options.folder / FILES[table][0]} is not there")
            continue
        ess, rate = PAPER[table]
        print(f"\n{table}   (the paper's table: ESS of GrowPrune, CGM, PG {ess}; 1,000 ESS/s {rate})")
        print(f"{'':10}" + "".join(f"{name:>16}" for name in names))
        for moves in options.samplers:
            results = []
            for seed in range(1, options.seeds + 1):
                data = read_rows(options.folder, table, seed) if options.folder else simulated(table, seed)
                results.append(one(data, seed, moves, options.iterations))
            print(f"{moves:10}" + "".join(f"{m:16.4g}" for m in np.median(results, axis=0)), flush=True)
