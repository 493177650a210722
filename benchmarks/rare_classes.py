"""Compare cut points where one class is rare: errors of the probabilities of probit.

    python benchmarks/rare_classes.py [--data rare-1 rare-3 rare-10 outlier skewed heavy middle cancer-3
                                      digits] [--seeds 3] [--cuts quantile uniform mixed]

Simulated: P = Phi(a + x1 + (x2 > 0) / 2) with a share of about 1, 4 and 11% positives, five normal columns;
`skewed` has log-normal columns, `heavy` Student's t with 3 degrees of freedom, `outlier` a row of 10,000 in
each column, and in `middle` P is high in a narrow band of many rows. Figures on 2,000 new rows: the root
mean square error of P, and the expected log loss. Tables: breast cancer with malignant rows thinned to 3%,
and digits as 8 or not (10%), with half of the rows held out: the log loss alone.
"""

import argparse
import warnings

import numpy as np
from scipy.special import ndtr

from sampler import fit

NEW_ROWS = 2000
INTERCEPTS = {"rare-1": -3.5, "rare-3": -2.8, "rare-10": -2.0, "outlier": -2.8}
ROWS = {"rare-1": 3000}
CUTS = ("quantile", "uniform", "mixed")


def simulated(name, rng, rows):
    """Return columns, and probabilities of the second class."""
    z = rng.normal(size=(rows, 5))
    if name == "skewed":
        X = np.exp(z)
        return X, ndtr(-2.9 + 0.8 * z[:, 0] + 0.3 * np.minimum(X[:, 1], 5))
    if name == "heavy":
        X = rng.standard_t(3, size=(rows, 5))
        return X, ndtr(-2.6 + 0.7 * np.clip(X[:, 0], -4, 4) + 0.5 * (X[:, 1] > 0))
    if name == "middle":
        return z, ndtr(-2.5 + 2.5 * (np.abs(z[:, 0] - 0.2) < 0.06) + 0.5 * z[:, 1])
    p = ndtr(INTERCEPTS[name] + z[:, 0] + 0.5 * (z[:, 1] > 0))
    if name == "outlier":
        z[0], p[0] = 1e4, 0.5
    return z, p


def table(name, rng):
    """Return a real table's columns and classes, with rows shuffled."""
    from sklearn.datasets import load_breast_cancer, load_digits  # for tables only

    if name == "digits":
        X, digit = load_digits(return_X_y=True)
        y = (digit == 8).astype(float)
    else:
        X, benign = load_breast_cancer(return_X_y=True)
        y = 1.0 - benign
        malignant = np.flatnonzero(y == 1)
        kept = np.sort(np.r_[np.flatnonzero(y == 0), rng.choice(malignant, 12, replace=False)])
        X, y = X[kept], y[kept]
    order = rng.permutation(len(y))
    return X[order], y[order]


def problem(name, seed):
    """Return training columns and classes, new columns and the truth there, and whether it is P."""
    rng = np.random.default_rng([77, seed])
    if name in ("cancer-3", "digits"):
        X, y = table(name, rng)
        half = len(y) // 2
        return X[:half], y[:half], X[half:], y[half:], False
    X, p = simulated(name, rng, ROWS.get(name, 2000))
    new, truth = simulated(name, rng, NEW_ROWS)
    if name == "outlier":
        new, truth = new[1:], truth[1:]
    return X, (rng.uniform(size=len(p)) < p).astype(float), new, truth, True


def figures(name, seed, cuts):
    """Compute the root mean square error of P (NaN for tables) and the log loss."""
    X, y, new, truth, known = problem(name, seed)
    posterior = fit(
        X, y, family="probit", prior={"cuts": cuts}, seed=seed, num_chains=2, num_draws=125, progress=False
    )
    p = np.clip(posterior.predict(new, level=None).mean, 1e-9, 1 - 1e-9)
    loss = -np.mean(truth * np.log(p) + (1 - truth) * np.log(1 - p))
    return np.sqrt(np.mean((p - truth) ** 2)) if known else np.nan, loss


def main():
    """Print a line for each data set, with means over seeds for each kind of cuts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--data", nargs="+", default=[*INTERCEPTS, "skewed", "heavy", "middle", "cancer-3", "digits"]
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cuts", nargs="+", default=CUTS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print("data     ", *(f"{cuts:>16}" for cuts in given.cuts), "  (rmse of P, log loss)")
    for name in given.data:
        found = [
            np.mean([figures(name, seed, cuts) for seed in range(1, given.seeds + 1)], axis=0)
            for cuts in given.cuts
        ]
        print(f"{name:<9}", *(f"{rmse:8.4f} {loss:7.4f}" for rmse, loss in found), flush=True)


if __name__ == "__main__":
    main()
