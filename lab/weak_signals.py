"""Measure the error of f on simulated tables of 200 rows, most of whose signals are weak, beside stochtree.

    python -m lab weak_signals [--seeds 10] [--priors default df-1.25 df-3] [--peer] [--quick]

Prints, per process, the RMSE of f at new rows under each prior, relative to the first, with 95% intervals of
the ratio over the data seeds. "df-V" draws k as 2 chi(V) / root of V, so that E k^2 is 4; "chi-V-S" as S
chi(V). Fits have the default schedule, with --quick a chain of 500 + 1,200 iterations.
"""

import numpy as np
import pandas as pd

from lab import command
from sampler import fit

ROWS, NEW = 200, 500
EFFECTS = np.random.default_rng(0).normal(size=30)  # of the categories
QUICK = {"num_chains": 1, "num_burnin": 500, "num_draws": 300, "thin": 4}

PROCESSES = {
    "pure noise": lambda X: (0 * X[:, 0], 1 + 0 * X[:, 0], "normal"),
    "noise by row": lambda X: (X[:, 0] + X[:, 1], 0.2 + 2 * X[:, 0] ** 2, "normal"),
    "t3": lambda X: (2 * np.sin(3 * X[:, 0]) + X[:, 1], 1 + 0 * X[:, 0], "t"),
    "linear": lambda X: (X[:, 0] - X[:, 1] + 0.5 * X[:, 2], 1 + 0 * X[:, 0], "normal"),
    "skew": lambda X: (np.sin(3 * X[:, 0]) + X[:, 1], 1 + 0 * X[:, 0], "skew"),
    "friedman": lambda X: (
        10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4],
        1 + 0 * X[:, 0],
        "normal",
    ),
    "interactions": lambda X: (8 * (X[:, 0] > 0.5) * (X[:, 1] > 0.5) * X[:, 2], 1 + 0 * X[:, 0], "normal"),
    "30 categories": lambda X: (EFFECTS[np.int64(30 * X[:, 0])] + X[:, 1], 0.5 + 0 * X[:, 0], "normal"),
}


def simulate(process, seed):
    """Return a table, f and y of training and new rows: ten uniform columns, or a category first."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(ROWS + NEW, 10))
    f, sd, law = PROCESSES[process](X)
    noise = {
        "normal": lambda: rng.normal(size=len(X)),
        "t": lambda: rng.standard_t(3, size=len(X)),
        "skew": lambda: rng.exponential(size=len(X)) - 1,
    }[law]()
    table = pd.DataFrame(X, columns=[f"x{k + 1}" for k in range(10)])
    if process == "30 categories":
        table["x1"] = pd.Categorical([f"level {int(30 * x)}" for x in X[:, 0]])
    return table, f, f + sd * noise


def prior_of(name):
    """Return the prior entries that a name stands for."""
    if name == "default":
        return {}
    kind, degrees, *scale = name.split("-")
    return {"k_df": float(degrees)} | ({"k_scale": float(scale[0])} if kind == "chi" else {})


def error(name, process, seed, lengths):
    """Return the RMSE of f at new rows."""
    X, f, y = simulate(process, seed)
    if name == "stochtree":
        from stochtree import BARTModel

        model = BARTModel()
        model.sample(
            X_train=X[:ROWS], y_train=y[:ROWS], X_test=X[ROWS:], num_gfr=10, num_burnin=100, num_mcmc=400,
            general_params={"random_seed": seed},
        )  # fmt: skip
        estimate = model.y_hat_test.mean(axis=1)
    else:
        posterior = fit(X[:ROWS], y[:ROWS], seed=seed, prior=prior_of(name), progress=False, **lengths)
        estimate = posterior.predict(X[ROWS:]).mean
    return np.sqrt(np.mean((estimate - f[ROWS:]) ** 2))


def main():
    parser = command(__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--priors", nargs="+", default=["default", "df-1.25", "df-3", "chi-1.25-20"])
    parser.add_argument("--processes", nargs="+", default=[*PROCESSES], choices=[*PROCESSES])
    parser.add_argument("--peer", action="store_true", help="also stochtree's defaults")
    parser.add_argument("--quick", action="store_true", help="one short chain")
    args = parser.parse_args()
    names, lengths = [*args.priors, *(["stochtree"] if args.peer else [])], QUICK if args.quick else {}
    for process in args.processes:
        errors = np.array(
            [[error(name, process, seed, lengths) for seed in range(args.seeds)] for name in names]
        )
        ratio = np.log(errors / errors[0])
        spread = 1.96 * ratio.std(axis=1, ddof=1) / np.sqrt(args.seeds) if args.seeds > 1 else 0 * ratio[:, 0]
        cells = [
            f"{name} {np.exp(middle):.3f} ({np.exp(middle - half):.2f} to {np.exp(middle + half):.2f})"
            for name, middle, half in zip(names, ratio.mean(axis=1), spread, strict=True)
        ]
        print(f"{process:13} {errors[0].mean():.3f}  " + "  ".join(cells), flush=True)
