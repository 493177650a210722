"""Measure how often the verdict is wrong: default fits against much longer ones, and against each other.

    python -m lab verdict [--data 0 1 .. 19] [--tables Auto Credit] [--times 50] [--fits 2]

Simulated data sets are fitted with 50 trees, real tables (of lab/real_tables.py) by default settings.
The verdict `converged` promises chains that agree and Monte Carlo errors of the mean below a tenth of the
posterior sd. It is wrong when, at more than 5% of the reference rows, the mean differs from that of the
pooled long run by more than three such errors: |mean - long mean| > 0.3 posterior sd. For `approximate` the
bound is 0.6. A `not_converged` fit that stays within 0.3 sd was judged too strictly. The last columns compare
fits with each other: the root mean square, over rows, of the difference of two fits' means over the root of
two, in posterior sds, and what `precision.reproducibility` expected.
"""

import numpy as np

from lab import command, real_tables
from sampler import fit
from sampler.methods import METHODS

BOUND = {"converged": 0.3, "approximate": 0.6, "not_converged": 0.3}


def data_set(number):
    """Simulate X and y of one of twenty kinds.

    The kinds are Friedman's function, steps, additive, linear and no effects; few and many rows; less and
    more noise.
    """
    rng = np.random.default_rng(1000 + number)
    num_rows = [100, 300, 800, 2000][number % 4]
    num_columns = [3, 10, 6, 20, 8][number % 5]
    X = rng.uniform(size=(num_rows, num_columns))
    kind = number % 5
    if kind == 0:
        f = 4 * (X[:, 0] > 0.5) * (X[:, 1] > 0.3) - 2 * X[:, 2]
    elif kind == 1:
        f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    elif kind == 2:
        f = X @ rng.normal(size=num_columns)
    elif kind == 3:
        f = np.sin(6 * X[:, 0]) + np.abs(X[:, 1] - 0.5) * 3
    else:
        f = np.zeros(num_rows)
    noise = [0.2, 1.0, 3.0][number % 3]
    return X, f + noise * max(f.std(), 0.3) * rng.normal(size=num_rows)


def load(name):
    """Return X, y and settings of a simulated data set, by its number, or of a table."""
    if name.isdigit():
        return *data_set(int(name)), {"num_trees": 50}
    return *real_tables.load(name), {}


def compare(name, times, fits):
    """Fit once for long and several times as by default.

    Returns the default fits' verdicts, their shares of rows that are off by more than the verdict's bound,
    and median distances in sds; the long run's verdict; and how far fits are apart, seen and expected.
    """
    X, y, settings = load(name)
    at = np.unique(np.linspace(0, len(X) - 1, 200).astype(int))
    rows = X.iloc[at] if hasattr(X, "iloc") else X[at]
    method = METHODS["bart"]
    long = fit(
        X, y, progress=False, seed=10_000, num_burnin=10_000, num_draws=method.num_draws,
        thin=method.thin * times, **settings,
    )  # fmt: skip
    draws = long.sample(rows).reshape(-1, len(rows))
    mean, sd = draws.mean(0), draws.std(0)
    verdicts, means, expected = [], [], []
    for seed in range(fits):
        short = fit(X, y, progress=False, seed=seed, **settings)
        summary = short.summary()
        means.append(short.sample(rows).reshape(-1, len(rows)).mean(0))
        distance = np.abs(means[-1] - mean) / sd
        off = float((distance > BOUND[summary.verdict]).mean())
        verdicts.append((summary.verdict, off, float(np.median(distance))))
        expected.append(summary.precision.reproducibility)
    apart = np.sqrt(np.mean(np.var(means, axis=0, ddof=1) / sd**2)) if fits > 1 else np.nan
    return verdicts, long.summary().verdict, float(apart), float(np.sqrt(np.mean(np.square(expected))))


def main():
    parser = command(__doc__)
    parser.add_argument("--data", nargs="*", default=[str(number) for number in range(20)])
    parser.add_argument("--tables", nargs="*", default=[], choices=[*real_tables.TABLES])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--fits", type=int, default=2)
    arguments = parser.parse_args()
    wrong = {name: [0, 0] for name in BOUND}
    print(
        f"{'data':<12} {'verdict':<14} {'rows off':>9} {'median off':>11}  {'long run':<14} apart, expected"
    )
    for name in (*arguments.data, *arguments.tables):
        verdicts, long, apart, expected = compare(name, arguments.times, arguments.fits)
        for verdict, off, median in verdicts:
            mistaken = off <= 0.05 if verdict == "not_converged" else off > 0.05
            wrong[verdict][0] += mistaken
            wrong[verdict][1] += 1
            note = "  <- wrong" if mistaken else ""
            print(
                f"{name:<12} {verdict:<14} {off:>9.3f} {median:>11.3f}  {long:<14} "
                f"{apart:.3f} {expected:.3f}{note}",
                flush=True,
            )
    for name, (mistaken, number) in wrong.items():
        what = "too strict" if name == "not_converged" else "wrong"
        print(f"{name}: {mistaken} of {number} {what}")
