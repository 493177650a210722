"""Measure how often the verdict is wrong: default fits against runs fifty times as long, on twenty data sets.

    python benchmarks/verdict.py [--data 20] [--times 50] [--num-trees 50]

The verdict `converged` promises chains that agree and Monte Carlo errors of the mean below a tenth of the
posterior sd. It is wrong when, at more than 5% of the reference rows, the mean differs from that of the
pooled long run by more than three such errors: |mean - long mean| > 0.3 posterior sd. For `approximate` the
bound is 0.6. A `not_converged` fit that stays within 0.3 sd was judged too strictly.
"""

import argparse

import numpy as np

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


def judge(number, times, **settings):
    """Return verdict, share of rows off by more than its bound, median distance in sds, long run's one."""
    X, y = data_set(number)
    rows = X[: min(len(X), 200)]
    short = fit(X, y, progress=False, seed=number, **settings)
    long = fit(
        X,
        y,
        progress=False,
        seed=10_000 + number,
        num_burnin=10_000,
        num_draws=METHODS["bart"].num_draws,
        thin=METHODS["bart"].thin * times,
        **settings,
    )
    verdict = short.summary().verdict
    long_draws = long.sample(rows).reshape(-1, len(rows))
    short_mean = short.sample(rows).reshape(-1, len(rows)).mean(0)
    distance = np.abs(short_mean - long_draws.mean(0)) / long_draws.std(0)
    return (
        verdict,
        float((distance > BOUND[verdict]).mean()),
        float(np.median(distance)),
        long.summary().verdict,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=int, default=20)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--num-trees", type=int, default=50)
    arguments = parser.parse_args()
    wrong = {name: [0, 0] for name in BOUND}
    print(f"{'data':>4}  {'verdict':<14} {'rows off':>9} {'median off':>11}  long run")
    for number in range(arguments.data):
        verdict, off, median, long = judge(number, arguments.times, num_trees=arguments.num_trees)
        mistaken = off <= 0.05 if verdict == "not_converged" else off > 0.05
        wrong[verdict][0] += mistaken
        wrong[verdict][1] += 1
        note = "  <- wrong" if mistaken else ""
        print(f"{number:>4}  {verdict:<14} {off:>9.3f} {median:>11.3f}  {long}{note}", flush=True)
    for name, (mistaken, number) in wrong.items():
        what = "too strict" if name == "not_converged" else "wrong"
        print(f"{name}: {mistaken} of {number} {what}")


if __name__ == "__main__":
    main()
