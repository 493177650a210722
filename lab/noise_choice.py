"""Compare noise="auto" with constant noise on held-out rows of real tables.

    python -m lab noise_choice [--tables meats Credit] [--csv charges.csv:charges]
        [--rows 1500] [--splits 2]
    python -m lab noise_choice --zeros 20

Prints, per table, the choice of each split, the pinball loss over seven levels and the RMSE relative to
those of constant noise (geometric means over splits), the coverage of 50% and 90% intervals with constant
noise and with the chosen one, and the processor time of the fit, preparation included, relative to that of
constant noise; then, over the tables where 50% intervals of constant noise hold above .6 and over the
others, the geometric mean of both ratios, mean coverages, and the median and the largest ratio of processor
time. Tables are those of `real_tables.py`, and files with a header: their path and the name of the target.

With --zeros, outcomes nine tenths of which are 0 are simulated so many times, 400 rows: printed are in how
many the mean of 200 new rows is within 35% of the training mean, and in how many their total is inside its
90% interval, of default fits with a quarter held out as by a service, of such to all rows, and of fits with
settings for such outcomes; then the largest sd of a row of
Affairs in units of that of the outcomes.
"""

import time
import warnings

import numpy as np
import pandas as pd

from lab import command
from lab.real_tables import LEVELS, TABLES, load, split
from sampler import DataWarning, fit

WIDE = 0.6  # coverage of 50% intervals above which constant noise is wrong


def rows_of(table, rows):
    """Return at most `rows` rows of a table's features and outcome."""
    if ":" in table:
        path, target = table.rsplit(":", 1)
        frame = pd.read_csv(path)
        X, y = frame.drop(columns=target), frame[target].astype(float)
    else:
        X, y = load(table)
    few = np.sort(np.random.default_rng(0).permutation(len(y))[:rows])
    return X.iloc[few].reset_index(drop=True), y.iloc[few].reset_index(drop=True)


def scores(X, y, seed, noise):
    """Return the pinball loss, RMSE, coverages of 50% and 90% intervals, processor seconds, and the noise."""
    train, held = split(len(y), seed)
    start = time.process_time()
    posterior = fit(X.iloc[train], y.iloc[train], seed=seed, noise=noise, progress=False)
    seconds = time.process_time() - start
    truth = y.iloc[held].to_numpy()
    prediction = posterior.predict(X.iloc[held], level=[0.5, 0.9], quantiles=LEVELS)
    pinball = np.mean(
        [np.mean((truth - values) * (q - (truth < values))) for q, values in prediction.quantiles]
    )
    inside = [np.mean((low <= truth) & (truth <= high)) for _, low, high in prediction.intervals]
    rmse = np.sqrt(np.mean((truth - prediction.mean) ** 2))
    return [pinball, rmse, *inside, seconds], posterior.settings.get("noise", "constant")


HELD_OUT = {"calibrate": "holdout", "holdout": 0.25}
FOR_ZEROS = {
    "default of a service": HELD_OUT,  # whose law 100 held-out rows recalibrate
    "all rows": {},
    "no transform": HELD_OUT | {"transform": "none"},
    "hurdle": {"family": "hurdle"},
}


def zeros(seeds):
    """Print how outcomes nine tenths of which are 0 are predicted, and how uncertain a row of Affairs is."""
    warnings.simplefilter("ignore", DataWarning)  # which names the hurdle
    found = {name: [] for name in FOR_ZEROS}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(600, 2))
        y = np.where(rng.uniform(size=600) < 0.9, 0, np.exp(X[:, 0] + 2))
        for name, settings in FOR_ZEROS.items():
            posterior = fit(X[:400], y[:400], seed=seed, progress=False, **settings)
            total = posterior.aggregate(X[400:], interval="predictive")
            near = abs(total.mean[0] / 200 / y[:400].mean() - 1) < 0.35
            found[name].append((near, total.lower[0] <= y[400:].sum() <= total.upper[0]))
    for name, each in found.items():
        near, inside = np.sum(each, axis=0)
        print(f"{name:20} mean within 35% in {near} of {seeds}, total inside in {inside}", flush=True)
    X, y = load("Affairs")
    train, held = split(len(y), 0)
    posterior = fit(X.iloc[train], y.iloc[train], seed=0, progress=False)
    print(f"Affairs: largest sd of a row {posterior.predict(X.iloc[held]).sd.max() / y.std():.2f} sd(y)")


def main():
    parser = command(__doc__)
    parser.add_argument("--tables", nargs="*", default=[*TABLES], choices=[*TABLES])
    parser.add_argument("--csv", nargs="*", default=[], help="path:target")
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--zeros", type=int, default=0)
    args = parser.parse_args()
    if args.zeros:
        zeros(args.zeros)
        return
    tables = [*args.tables, *args.csv]
    for noise in ("constant", "mixture", "forest", "t-forest"):  # compiles
        X, y = load("diabetes")
        fit(X, y, noise=noise, num_chains=1, num_draws=1, num_burnin=1, progress=False)
    found, chosen = [], []
    for table in tables:
        X, y = rows_of(table, args.rows)
        base, own, kinds = [], [], []
        for seed in range(args.splits):
            figures, _ = scores(X, y, seed, "constant")
            base.append(figures)
            figures, kind = scores(X, y, seed, "auto")
            own.append(figures)
            kinds.append(kind)
        base, own = np.array(base), np.array(own)
        ratio, rmse = np.exp(np.mean(np.log(own[:, :2] / base[:, :2]), axis=0))
        times = own[:, 4].sum() / base[:, 4].sum()
        found.append([ratio, *base[:, 2:4].mean(axis=0), *own[:, 2:4].mean(axis=0), rmse, times])
        chosen.append(any(kind != "constant" for kind in kinds))
        before, now = found[-1][1:3], found[-1][3:5]
        print(
            f"{table.rsplit('/', 1)[-1]:24} {', '.join(kinds):20} pinball {ratio:.3f}  RMSE {rmse:.3f}  "
            f"50% intervals {before[0]:.3f}, {now[0]:.3f}  90% {before[1]:.3f}, {now[1]:.3f}  "
            f"time {times:.2f}",
            flush=True,
        )
    found, chosen = np.array(found), np.array(chosen)
    wide = found[:, 1] > WIDE
    for name, part in (
        ("50% intervals above .6", wide),
        ("others", ~wide),
        ("another noise", chosen),
        ("constant", ~chosen),
        ("all", wide | ~wide),
    ):
        if part.any():
            ratio, *_, rmse, times = found[part].T
            held = found[part].mean(axis=0)
            means = [np.exp(np.mean(np.log(each))) for each in (ratio, rmse)]
            print(
                f"{name:24} {part.sum()} tables: pinball {means[0]:.3f}, RMSE {means[1]:.3f}, 50% intervals "
                f"{held[1]:.3f} -> {held[3]:.3f}, 90% {held[2]:.3f} -> {held[4]:.3f}, time: median "
                f"{np.median(times):.2f}, most {times.max():.2f}"
            )
