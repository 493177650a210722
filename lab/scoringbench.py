"""Score predictive distributions by the protocol of ScoringBench (arXiv 2603.29928), beside other packages.

    python -m lab scoringbench [--methods ours stochtree ..] [--tables Boston ..] [--folds 5]
                               [--keep scores.json]

The tables are the twenty or so of `make bakeoff`, which served to choose our defaults, and those of the board
that packages of registries ship (common_tables.py). Each has at most 3,000 rows, in five folds with seed 42
(--folds takes the first ones alone); every method, with its defaults on one core,
predicts the quantiles at .01, .02, .., .99 of the held-out fold. They are read as the density that is
constant between neighbours, with exponential tails. Printed are, by method, means over folds and tables of
the scores relative to ours, coverages, and mean ranks over tables, 1 is the best, over all and over those of
the board alone; with --keep scores are read
from and added to that file, so that a run can be resumed. Methods that can't be imported, or whose
environment isn't there, are left out.

Scores are means over rows: MAE of the medians, RMSE and R2 of the means, CRPS, the same weighted to the
centre and to each tail (Gneiting and Ranjan 2011), CRLS, the log score (minus the log density), CDE loss,
energy scores with powers .5 and 1.5, and interval scores, coverages and widths of central intervals of 90%
and 95%; sharpness and dispersion are the mean and the deviation over rows of the distributions' deviations.

treeffuser (NumPy 1, scikit-learn 1.5) and AutoGluon (pandas 2) need other versions than the rest and run in
environments of their own (other_environments.py); their seconds include the start of a process. Our method in
the board's own interface is in scoringbench_wrapper.py.
"""

import importlib.util
import json
import os
from pathlib import Path

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import KFold

from lab import (
    bakeoff,
    command,
    common_tables,
    other_environments,
    real_tables,
)

TABLES = (*real_tables.TABLES, *common_tables.TABLES)
LEVELS = np.round(np.arange(0.01, 0.995, 0.01), 2)
STEP = 0.01
FOLDS, SEED, MOST = 5, 42, 3000
NARROW = 1e-4  # least distance of neighbouring quantiles, in standard deviations of the training outcomes
LOSSES = (
    "mae", "rmse", "crps", "crps_left", "crps_center", "crps_right", "crls", "log", "cde", "energy_0.5",
    "energy_1.5", "interval_90", "interval_95",
)  # fmt: skip
SHOWN = ("crps", "log", "interval_90", "interval_95", "rmse", "crls")
bakeoff.LEVELS = LEVELS  # of all methods that it has


def lightgbm(X, y, new, seed):
    """Predict by a LightGBM model of each quantile."""
    X, new = bakeoff.coded(X, new)
    return averaged(
        np.stack([bakeoff.lightgbm(level, seed).fit(X, y).predict(new) for level in LEVELS], axis=1)
    )


def catboost(X, y, new, seed):
    """Predict by one model with CatBoost's loss of several quantiles."""
    from catboost import CatBoostRegressor

    X, new = bakeoff.coded(X, new)
    loss = "MultiQuantile:alpha=" + ",".join(map(str, LEVELS))
    options = {"thread_count": 1, "random_seed": seed, "verbose": False, "allow_writing_files": False}
    return averaged(CatBoostRegressor(loss_function=loss, **options).fit(X, y).predict(new))


def xgboost(X, y, new, seed):
    """Predict by XGBoost's loss of several quantiles."""
    from xgboost import XGBRegressor

    X, new = bakeoff.coded(X, new)
    model = XGBRegressor(objective="reg:quantileerror", quantile_alpha=LEVELS, n_jobs=1, random_state=seed)
    return averaged(model.fit(X, y).predict(new))


def gpboost(X, y, new, seed):
    """Predict by GPBoost's trees with a Gaussian process of the standardised features, normal."""
    import gpboost as gpb
    from sklearn.preprocessing import StandardScaler

    X, new = bakeoff.coded(X, new)
    scale = StandardScaler().fit(X)
    process = gpb.GPModel(
        gp_coords=scale.transform(X),
        cov_function="matern",
        cov_fct_shape=1.5,
        gp_approx="vecchia",
        likelihood="gaussian",
        num_parallel_threads=1,
        seed=seed,
    )
    data = gpb.Dataset(X, y)
    options = {"verbose": -1, "num_threads": 1, "seed": seed}
    model = gpb.train(params=options, train_set=data, gp_model=process, num_boost_round=100)
    found = model.predict(data=new, gp_coords_pred=scale.transform(new), predict_var=True, pred_latent=False)
    return found["response_mean"], bakeoff.normal(found["response_mean"], np.sqrt(found["response_var"]))


def explainable_boosting(X, y, new, seed):
    """Predict by an explainable boosting machine, with the residuals of a quarter held out."""
    from interpret.glassbox import ExplainableBoostingRegressor

    X, new = bakeoff.coded(X, new)
    order = np.random.default_rng(seed).permutation(len(y))
    held, train = order[: len(y) // 4], order[len(y) // 4 :]
    model = ExplainableBoostingRegressor(random_state=seed, n_jobs=1).fit(X[train], y[train])
    mean = model.predict(new)
    return mean, mean + np.quantile(y[held] - model.predict(X[held]), LEVELS)[:, None]


def averaged(by_row):
    """Return the means of the quantiles [row, level], in order, and these [level, row]."""
    quantiles = np.sort(np.asarray(by_row, float), axis=1).T
    return quantiles.mean(axis=0), quantiles


METHODS = {
    "ours": bakeoff.METHODS["ours"],
    "stochtree": bakeoff.METHODS["stochtree"],
    "stochtree, variance forest": bakeoff.METHODS["stochtree, variance forest"],
    "bartz": bakeoff.METHODS["bartz"],
    "lightgbm quantiles": ("lightgbm", lightgbm),
    "catboost quantiles": ("catboost", catboost),
    "xgboost quantiles": ("xgboost", xgboost),
    "gpboost": ("gpboost", gpboost),
    "explainable boosting": ("interpret", explainable_boosting),
    "ngboost": bakeoff.METHODS["ngboost"],
    "quantile forest": bakeoff.METHODS["quantile forest"],
    "random forest": bakeoff.METHODS["random forest"],
    "gaussian process": bakeoff.METHODS["gaussian process"],
    "ridge": bakeoff.METHODS["ridge"],
} | other_environments.METHODS


class Distributions:
    """Distributions of rows from their quantiles [level, row]: linear between them, exponential beyond."""

    def __init__(self, quantiles, narrow):
        gaps = np.maximum(np.diff(np.sort(quantiles, axis=0), axis=0), narrow)
        steps = np.vstack([np.zeros(quantiles.shape[1]), np.cumsum(gaps, axis=0)])
        self.nodes = quantiles.min(axis=0) + steps
        self.density = np.diff(LEVELS)[:, None] / gaps
        # scales of the tails, whose densities begin with that of the neighbouring interval
        self.scales = LEVELS[0] / self.density[0], (1 - LEVELS[-1]) / self.density[-1]

    def log_density(self, y):
        place = np.clip(np.sum(self.nodes <= y, axis=0) - 1, 0, len(self.density) - 1)
        inside = np.log(np.take_along_axis(self.density, place[None], axis=0)[0])
        below = np.maximum(self.nodes[0] - y, 0) / self.scales[0]
        above = np.maximum(y - self.nodes[-1], 0) / self.scales[1]
        return inside - below - above

    def squared_density(self):
        """Integrate the squared density."""
        tails = LEVELS[0] ** 2 / (2 * self.scales[0]) + (1 - LEVELS[-1]) ** 2 / (2 * self.scales[1])
        return np.sum(np.diff(LEVELS)[:, None] * self.density, axis=0) + tails

    def sd(self):
        """Compute the standard deviations."""
        gaps, centres = np.diff(self.nodes, axis=0), (self.nodes[1:] + self.nodes[:-1]) / 2
        shares = np.concatenate([[LEVELS[0]], np.diff(LEVELS), [1 - LEVELS[-1]]])[:, None]
        means = np.vstack([self.nodes[0] - self.scales[0], centres, self.nodes[-1] + self.scales[1]])
        variances = np.vstack([self.scales[0] ** 2, gaps**2 / 12, self.scales[1] ** 2])
        mean = np.sum(shares * means, axis=0)
        return np.sqrt(np.sum(shares * (variances + (means - mean) ** 2), axis=0))

    def interval(self, level):
        shares = (1 - level) / 2, (1 + level) / 2
        return np.array([np.interp(shares, LEVELS, row) for row in self.nodes.T]).T

    def ranked_log(self, y):
        """Integrate the log loss of "at most t" over t (CRLS), inside the outer quantiles."""
        middle = (self.nodes[1:] + self.nodes[:-1]) / 2
        share = ((LEVELS[1:] + LEVELS[:-1]) / 2)[:, None]
        loss = -np.where(middle >= y, np.log(share), np.log1p(-share))
        outside = np.maximum(self.nodes[0] - y, 0) + np.maximum(y - self.nodes[-1], 0)
        return np.sum(loss * np.diff(self.nodes, axis=0), axis=0) - np.log(LEVELS[0]) * outside

    def energy(self, y, power):
        """Compute the energy score by the quantiles as equally likely outcomes."""
        apart = np.zeros(len(y))
        for row in self.nodes:
            apart += np.mean(np.abs(self.nodes - row) ** power, axis=0) / len(self.nodes)
        return np.mean(np.abs(self.nodes - y) ** power, axis=0) - apart / 2


def figures(y, mean, quantiles, sd):
    """Return the scores of held-out outcomes, `sd` being that of the training ones."""
    given = Distributions(quantiles, NARROW * sd)
    pinball = STEP * 2 * (y - given.nodes) * (LEVELS[:, None] - (y < given.nodes))
    log_density = given.log_density(y)
    found = {
        "mae": np.mean(np.abs(y - given.nodes[len(LEVELS) // 2])),
        "rmse": np.sqrt(np.mean((y - mean) ** 2)),
        "r2": 1 - np.mean((y - mean) ** 2) / np.var(y),
        "crps": np.mean(pinball.sum(axis=0)),
        "crps_left": np.mean(np.sum(pinball * (1 - LEVELS[:, None]) ** 2, axis=0)),
        "crps_center": np.mean(np.sum(pinball * (LEVELS * (1 - LEVELS))[:, None], axis=0)),
        "crps_right": np.mean(np.sum(pinball * LEVELS[:, None] ** 2, axis=0)),
        "crls": np.mean(given.ranked_log(y)),
        "log": -np.mean(log_density),
        "cde": np.mean(given.squared_density() - 2 * np.exp(log_density)),
        "energy_0.5": np.mean(given.energy(y, 0.5)),
        "energy_1.5": np.mean(given.energy(y, 1.5)),
        "sharpness": np.mean(given.sd()),
        "dispersion": np.std(given.sd()),
    }
    for level in (0.9, 0.95):
        low, high = given.interval(level)
        outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
        name = f"{100 * level:.0f}"
        found[f"interval_{name}"] = np.mean(high - low + 2 / (1 - level) * outside)
        found[f"coverage_{name}"] = np.mean(outside == 0)
        found[f"width_{name}"] = np.mean(high - low)
    return {name: float(value) for name, value in found.items()}


def lacking(name):
    """Return what a method needs and isn't there, in words, or an empty string."""
    if name in other_environments.METHODS:
        return other_environments.lacking(name)
    package = METHODS[name][0]
    return "" if importlib.util.find_spec(package) else f"the package {package} is not installed"


def load(table):
    """Return a table's features and outcome."""
    return (common_tables if table in common_tables.TABLES else real_tables).load(table, MOST)


def fold_scores(table, method, fold):
    """Return a method's scores on a fold of a table, and its processor seconds."""
    X, y = load(table)
    train, held = list(KFold(FOLDS, shuffle=True, random_state=SEED).split(X))[fold]
    truth, known = y.iloc[held].to_numpy(), y.iloc[train].to_numpy(copy=True)
    start = sum(os.times()[:4])  # of this process and of those that it waited for
    mean, quantiles = method(X.iloc[train], known, X.iloc[held], SEED)
    seconds = sum(os.times()[:4]) - start
    return figures(truth, mean, np.asarray(quantiles), known.std()) | {"seconds": seconds}


def summary(by_table):
    """Return by method its mean ranks by loss, its CRPS relative to ours, coverages and seconds."""
    names = list(next(iter(by_table.values())))
    tables = list(by_table.values())
    rows = {}
    for place, name in enumerate(names):
        ranks = {
            loss: np.mean([rankdata([scores[each][loss] for each in names])[place] for scores in tables])
            for loss in LOSSES
        }
        means = {
            figure: np.mean([scores[name][figure] for scores in tables])
            for figure in ("coverage_90", "coverage_95", "seconds")
        }
        relative = np.mean([np.log(scores[name]["crps"] / scores["ours"]["crps"]) for scores in tables])
        rows[name] = ranks | means | {"relative": np.exp(relative)}
    return rows


def main():
    parser = command(__doc__)
    parser.add_argument("--methods", nargs="+", default=[*METHODS], choices=[*METHODS])
    parser.add_argument("--tables", nargs="+", default=[*TABLES], choices=[*TABLES])
    parser.add_argument("--folds", type=int, default=FOLDS, help="of the five, the first so many")
    parser.add_argument("--keep", type=Path, default=Path("build/scoringbench.json"))
    args = parser.parse_args()
    methods = []
    for name in dict.fromkeys(["ours", *args.methods]):
        if reason := lacking(name):
            print(f"{name}: left out, {reason}")
        else:
            methods.append(name)
    kept = json.loads(args.keep.read_text()) if args.keep.exists() else {}
    args.keep.parent.mkdir(parents=True, exist_ok=True)
    by_table = {}
    for table in args.tables:
        for name in methods:
            for fold in range(args.folds):
                key = f"{table} | {name} | {fold}"
                if key not in kept:
                    kept[key] = fold_scores(table, METHODS[name][1], fold)
                    args.keep.write_text(json.dumps(kept))
        folds = {name: [kept[f"{table} | {name} | {fold}"] for fold in range(args.folds)] for name in methods}
        by_table[table] = {
            name: {figure: float(np.mean([fold[figure] for fold in each])) for figure in each[0]}
            for name, each in folds.items()
        }
        for name, scores in by_table[table].items():
            shown = "  ".join(f"{loss} {scores[loss]:.4g}" for loss in SHOWN)
            facts = f"coverage {scores['coverage_90']:.3f}  seconds {scores['seconds']:.1f}"
            print(f"{table:20} {name:26} {shown}  {facts}", flush=True)
    show(by_table)
    if (
        0
        < len(board := {name: by_table[name] for name in by_table if name in common_tables.TABLES})
        < len(by_table)
    ):
        show(board)


def show(by_table):
    """Print the mean ranks of the methods over tables."""
    print(f"\nMean ranks over {len(by_table)} tables; CRPS relative to ours; coverages; seconds of a fold")
    for name, row in sorted(summary(by_table).items(), key=lambda item: item[1]["crps"]):
        ranks = "  ".join(f"{loss} {row[loss]:.2f}" for loss in LOSSES)
        coverages = f"{row['coverage_90']:.3f} {row['coverage_95']:.3f}"
        print(f"{name:26} {ranks}  x {row['relative']:.3f}  {coverages}  {row['seconds']:.1f} s")
