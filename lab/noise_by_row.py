"""Measure noise by row: its cost, its loss where the noise is constant, its coverage where it grows.

    python -m lab noise_by_row [--studies cost constant growing] [--tables 20] [--rows 500]

cost: processor time of an iteration with weights, noise="t" and noise="forest" divided by that of a plain
one, in turns, by number of rows (at most 2.5 is asked for). constant: Friedman's function, linear and step
functions with constant noise; RMSE of f and pinball loss over seven levels at new rows divided by those with
constant noise, means of logarithms over the tables with 95% intervals (at most 1.01). growing: y = 4 x^2 +
e^(2x) / 5 e with 10,000 rows; coverage of 90% intervals in every fifth of x at 20,000 new rows (.88 to .92),
with the outcome as it is and with the default's transform.
"""

import time

import numpy as np
from scipy.special import ndtr, ndtri

from lab import command
from sampler import fit
from sampler.chains import start_chain
from sampler.preparation import prepare

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
PLAIN = {"transform": "none", "linear": False, "progress": False}
FUNCTIONS = (
    lambda X: 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4],
    lambda X: X[:, 0] - X[:, 1] + 0.5 * X[:, 2],
    lambda X: 8 * (X[:, 0] > 0.5) * (X[:, 1] > 0.5) * X[:, 2],
    lambda X: 2 * np.sin(3 * X[:, 0]) + X[:, 1],
)


def simulate(number, rows):
    """Return X, f and y of one table, whose noise has sd 1: the functions take turns."""
    rng = np.random.default_rng([number, rows])
    X = rng.uniform(size=(rows, 10))
    f = FUNCTIONS[number % len(FUNCTIONS)](X)
    return X, f, f + rng.normal(size=rows)


def running(X, y, **settings):
    """Return a chain after its first 150 iterations, which grow the trees."""
    lengths = {"num_chains": 1, "num_burnin": 1_000_000, "num_draws": 1, "thin": 1}
    plain = {"noise": "constant", "transform": "none", "linear": False}
    chain = start_chain(prepare(X, y, **plain | lengths | settings).training, 0)
    chain.run(150)
    return chain


def cost(sizes, rounds):
    """Print processor time of an iteration relative to a plain one, least of rounds in turns."""
    for rows in sizes:
        X, _, y = simulate(0, rows)
        weights = np.random.default_rng(0).choice([0.5, 1.0, 1.37, 2.0], rows)
        chains = {
            "plain": running(X, y),
            "weights": running(X, y, weights=weights),
            "t": running(X, y, noise="t"),
            "forest": running(X, y, noise="forest"),
        }
        iterations = max(60, 400_000 // rows)
        spent = {name: [] for name in chains}
        for _ in range(rounds):
            for name, chain in chains.items():
                start = time.process_time()
                chain.run(iterations)
                spent[name].append(time.process_time() - start)
        plain = min(spent["plain"])
        ratios = ", ".join(f"{name} {min(each) / plain:.2f}" for name, each in spent.items())
        print(f"n = {rows:>6}: plain {1e3 * plain / iterations:.3f} ms an iteration; {ratios}", flush=True)


def losses(X, f, y, train, noise):
    """Return RMSE of f and the expected pinball loss of new outcomes, whose law is known."""
    posterior = fit(X[:train], y[:train], noise=noise, **PLAIN)
    prediction = posterior.predict(X[train:], level=None, quantiles=LEVELS)
    pinball = []
    for level, values in prediction.quantiles:
        z = values - f[train:]  # the outcome is f + a standard normal
        density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        pinball.append(np.mean(z * (ndtr(z) - level) + density))
    return np.sqrt(np.mean((prediction.mean - f[train:]) ** 2)), np.mean(pinball)


def constant(tables, rows):
    """Print the ratios of losses, noise by row divided by constant noise."""
    logs = []
    least = np.mean([np.exp(-(ndtri(q) ** 2) / 2) / np.sqrt(2 * np.pi) for q in LEVELS])
    for number in range(tables):
        X, f, y = simulate(number, rows + 1000)
        losses_of = {noise: losses(X, f, y, rows, noise) for noise in ("constant", "forest")}
        logs.append(np.log(np.array(losses_of["forest"]) / np.array(losses_of["constant"])))
        print(
            f"table {number:2}: RMSE {losses_of['constant'][0]:.3f}, by row {np.exp(logs[-1][0]):.3f} times; "
            f"pinball {losses_of['constant'][1]:.4f} (least {least:.4f}), {np.exp(logs[-1][1]):.4f} times",
            flush=True,
        )
    logs = np.array(logs)
    half = 1.96 * logs.std(axis=0, ddof=1) / np.sqrt(tables)
    for name, middle, width in zip(("RMSE of f", "pinball"), logs.mean(axis=0), half, strict=True):
        low, high = np.exp(middle - width), np.exp(middle + width)
        print(
            f"{name:10} {np.exp(middle):.4f} ({low:.4f} to {high:.4f}) times, {tables} tables of {rows} rows"
        )


def growing(rows, new=20_000):
    """Print the coverage of 90% intervals in every fifth of x, with noise by row and with constant noise."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(rows + new, 1))
    y = 4 * X[:, 0] ** 2 + np.exp(2 * X[:, 0]) / 5 * rng.normal(size=len(X))
    fifths = np.array_split(np.argsort(X[rows:, 0]), 5)
    for noise, transform in (("forest", "none"), ("forest", "auto"), ("constant", "auto")):
        prediction = fit(X[:rows], y[:rows], noise=noise, transform=transform, progress=False).predict(
            X[rows:]
        )
        inside = (prediction.lower <= y[rows:]) & (y[rows:] <= prediction.upper)
        held = " ".join(f"{inside[part].mean():.3f}" for part in fifths)
        text = f"coverage of 90% intervals by fifth of x {held}; in all {inside.mean():.3f}"
        print(f"noise {noise:8}, transform {transform}: {text}", flush=True)


def main():
    parser = command(__doc__)
    studies = ("cost", "constant", "growing")
    parser.add_argument("--studies", nargs="+", default=studies, choices=studies)
    parser.add_argument("--sizes", nargs="+", type=int, default=[500, 1000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--rows", type=int, default=500)
    arguments = parser.parse_args()
    if "cost" in arguments.studies:
        cost(arguments.sizes, arguments.rounds)
    if "constant" in arguments.studies:
        constant(arguments.tables, arguments.rows)
    if "growing" in arguments.studies:
        growing(10_000)
