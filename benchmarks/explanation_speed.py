"""Seconds of SHAP values beside those of predictions of the same rows, on Friedman's function."""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from sampler import fit


def main() -> None:
    """Print medians and the ratio by number of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.random((1000 + max(options.rows), 10))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    y = f + rng.normal(size=len(X))
    posterior = fit(X[:1000], y[:1000], num_burnin=300, num_draws=250, progress=False)
    posterior.shap(X[:2])  # compiled before it is timed
    print(f"{'rows':>8}{'predict s':>12}{'shap s':>12}{'ratio':>8}")
    for num_rows in options.rows:
        rows = X[1000 : 1000 + num_rows]
        predicting, explaining = [], []
        for _ in range(options.rounds):
            start = time.process_time()
            posterior.predict(rows)
            between = time.process_time()
            posterior.shap(rows)
            predicting.append(between - start)
            explaining.append(time.process_time() - between)
        a, b = statistics.median(predicting), statistics.median(explaining)
        print(f"{num_rows:>8}{a:>12.4f}{b:>12.4f}{b / a:>8.1f}")


if __name__ == "__main__":
    main()
