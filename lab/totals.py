"""Measure totals of many rows.

Seconds of `aggregate` beside those of `predict`, 1,000 draws of 200 trees, and the share of totals of a new
group inside 90% intervals, with the mean width of these (41 groups of 10 rows, which differ by .7 of the
standard deviation of the noise).
"""

import time

import numpy as np

from lab import command

GROUPS, EACH, SPREAD = 40, 10, 0.7
SHORT = {"num_trees": 20, "num_chains": 2, "num_burnin": 100, "num_draws": 100, "thin": 1, "progress": False}


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def speed(rows):
    """Print seconds of predictions and totals of the same rows."""
    from sampler import fit

    rng = np.random.default_rng(0)
    X, new = (rng.uniform(size=(n, 5)) for n in (500, rows))
    y = 3 * X[:, 0] + np.sin(6 * X[:, 1]) + 0.5 * rng.normal(size=500)
    length = {"num_trees": 200, "num_chains": 4, "num_burnin": 100, "num_draws": 250, "thin": 1}
    posterior = fit(X, y, progress=False, **length)
    columns = {f"x{j + 1}": new[:, j] for j in range(5)}
    for run in (lambda: posterior.predict(new[:100]), lambda: posterior.aggregate(new[:100])):
        run()  # loads what is loaded once
    columns["set"] = np.arange(rows) % 50
    for name, run in {
        "predict": lambda: posterior.predict(new),
        "aggregate, all rows": lambda: posterior.aggregate(new),
        "aggregate, by 50 sets": lambda: posterior.aggregate(columns, "set"),
    }.items():
        print(f"{name:28}{min(seconds(run) for _ in range(3)):.2f} s")


def simulate(rng):
    """Draw a table of groups, and the rows of a new one."""
    unit = np.repeat(np.arange(GROUPS + 1), EACH)
    x = rng.uniform(size=(len(unit), 2))
    y = 2 * x[:, 0] - x[:, 1] + SPREAD * rng.normal(size=GROUPS + 1)[unit] + rng.normal(size=len(unit))
    table = {"x1": x[:, 0], "x2": x[:, 1], "group": np.array([f"g{k}" for k in unit])}
    new = unit == GROUPS
    return ({name: v[~new] for name, v in table.items()}, y[~new]), (
        {name: v[new] for name, v in table.items()},
        y[new],
    )


def intervals(train, X):
    """Return by method the ends of the interval of a new group's total."""
    from sampler import fit

    columns, y = train
    declared = {"new_rows": {"groups": "group"}, "calibrate": "folds"}
    apart = fit(columns, y, **SHORT, **declared)
    joint = fit(columns, y, groups="group", **SHORT)
    rows = joint.predict(X)
    found = {
        "row bounds added up": (rows.lower.sum(), rows.upper.sum()),
        "without groups": apart.aggregate(X, ignore_extra=True),
        "with intercepts": joint.aggregate(X),
        "calibrated, without groups": apart.aggregate(X, "group", interval="calibrated"),
    }
    mean, sd = rows.mean.sum(), np.sqrt(np.sum(apart.predict(X).sd ** 2))
    found["rows as independent"] = (mean - 1.645 * sd, mean + 1.645 * sd)
    return {
        name: each if isinstance(each, tuple) else (each.lower[0], each.upper[0])
        for name, each in found.items()
    }


def coverage(runs):
    """Print the share of new groups' totals inside, and the mean width, by method."""
    rng = np.random.default_rng(1)
    inside, width = {}, {}
    for _ in range(runs):
        train, (X, y) = simulate(rng)
        for name, (lower, upper) in intervals(train, X).items():
            inside.setdefault(name, []).append(lower <= y.sum() <= upper)
            width.setdefault(name, []).append(upper - lower)
    for name, hits in inside.items():
        error = np.std(hits) / np.sqrt(runs)
        print(f"{name:28}{np.mean(hits):.3f} ({error:.3f}){np.mean(width[name]):8.1f} wide")


def main():
    parser = command(__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=150)
    arguments = parser.parse_args()
    speed(arguments.rows)
    coverage(arguments.runs)
