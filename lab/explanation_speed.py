"""Seconds of SHAP values beside predictions of the same rows, and of effects, on Friedman's function."""

from __future__ import annotations

import statistics
import time

import numpy as np

from lab import command
from sampler import fit


def main() -> None:
    """Print medians and the ratio by number of rows."""
    parser = command(__doc__)
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
    held = slice(1000, None)
    effects = {
        "partial dependence": lambda: posterior.partial_dependence("x4"),
        "the same with 50 curves": lambda: posterior.partial_dependence("x4", ice=50),
        "of two features": lambda: posterior.partial_dependence(["x4", "x1"]),
        "accumulated effects": lambda: posterior.accumulated_effects("x4"),
        "importance": lambda: posterior.importance(X[held], y[held]),
    }
    print(f"{'':>26}{'s':>10}")
    for name, effect in effects.items():
        seconds = []
        for _ in range(options.rounds):
            start = time.process_time()
            effect()
            seconds.append(time.process_time() - start)
        print(f"{name:>26}{statistics.median(seconds):>10.4f}")
