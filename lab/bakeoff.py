"""Compare our predictive distributions with those of other packages on real tables.

    python -m lab bakeoff [--methods ours lightgbm ..] [--tables Boston Auto ..] [--splits 1]
                          [--keep scores.json] [--picture bakeoff.svg]

Every method is fitted to 70% of a table's rows with its defaults, on one core, and predicts the other 30%.
Printed per table and method are the pinball loss over seven levels, the root mean square error, the CRPS
(from the quantiles at .05, .1, .., .95), the interval score of 90% intervals, the coverage of 50% and 90%
intervals, that of 90% in the lowest and highest of the quarters of the prediction, and processor seconds;
then, per method, means over tables of the logarithm of its loss divided by ours, with 95% bootstrap
intervals, and the quartiles of relative RMSE: that divided by the smallest of any method (Chipman, George and
McCulloch 2010). With --keep scores are read from and added to that file, so that a run can be resumed.
Methods that can't be imported are reported and left out.

Boosted trees predict the quantiles at .05, .25, .5, .75 and .95, conformalised on a quarter of the training
rows (Romano, Patterson and Candes 2019); other levels are interpolated. Forests give quantiles of the
outcomes in the leaves; the Gaussian process, ridge regression, NGBoost and bartz normal ones
or those of draws.
"""

import importlib.util
import json
import time
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from lab import command
from lab.real_tables import TABLES, bootstrap, load, split

LEVELS = np.round(np.arange(0.05, 0.951, 0.05), 2)
SEVEN = np.isin(LEVELS, (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95))
CORE = (0.05, 0.25, 0.5, 0.75, 0.95)


def ours(settings):
    """Return a method: fit with these settings, and predict by means and exact predictive quantiles."""

    def run(X, y, new, seed):
        from sampler import fit

        posterior = fit(X, y, seed=seed, progress=False, **settings)
        prediction = posterior.predict(new, level=None, quantiles=LEVELS.tolist())
        return prediction.mean, np.array([values for _, values in prediction.quantiles])

    return run


def coded(X, new):
    """Return both tables as numbers: indicators of categories, medians for missing values."""
    import pandas as pd

    both = pd.concat([X, new])
    for name in both.columns:
        if both[name].dtype.kind not in "biuf":
            both[name] = both[name].astype(object).where(both[name].notna(), "missing").astype(str)
    both = pd.get_dummies(both, dtype=float).astype(float)
    both = both.fillna(both.iloc[: len(X)].median()).fillna(0.0)
    return both.iloc[: len(X)].to_numpy(copy=True), both.iloc[len(X) :].to_numpy(copy=True)


def normal(mean, sd):
    """Return quantiles [level, row] of normal distributions."""
    return mean + ndtri(LEVELS)[:, None] * np.asarray(sd)


def conformalised(make):
    """Return a method: quantiles by `make(level)`, an estimator, widened on held-out training rows."""

    def run(X, y, new, seed):
        X, new = coded(X, new)
        order = np.random.default_rng(seed).permutation(len(y))
        held, train = order[: len(y) // 4], order[len(y) // 4 :]
        models = {q: make(q, seed).fit(X[train], y[train]) for q in CORE}
        known = {q: np.asarray(models[q].predict(X[held])) for q in CORE}
        predicted = {q: np.asarray(models[q].predict(new)) for q in CORE}
        for low, high in ((0.05, 0.95), (0.25, 0.75)):
            short = np.maximum(known[low] - y[held], y[held] - known[high])
            level = min(1.0, (high - low) * (1 + 1 / len(held)))
            widen = np.quantile(short, level, method="higher")
            predicted[low], predicted[high] = predicted[low] - widen, predicted[high] + widen
        values = np.sort(np.array([predicted[q] for q in CORE]), axis=0)
        quantiles = np.array([np.interp(LEVELS, CORE, row) for row in values.T]).T
        return make(None, seed).fit(X[train], y[train]).predict(new), quantiles

    return run


def lightgbm(level, seed, trees=100):
    from lightgbm import LGBMRegressor

    objective = {} if level is None else {"objective": "quantile", "alpha": level}
    return LGBMRegressor(n_estimators=trees, **objective, n_jobs=1, random_state=seed, verbose=-1)


def catboost(level, seed, trees=1000):
    from catboost import CatBoostRegressor

    loss = "RMSE" if level is None else f"Quantile:alpha={level}"
    return CatBoostRegressor(
        iterations=trees,
        loss_function=loss,
        thread_count=1,
        random_seed=seed,
        verbose=False,
        allow_writing_files=False,
    )


def xgboost(level, seed):
    from xgboost import XGBRegressor

    objective = {} if level is None else {"objective": "reg:quantileerror", "quantile_alpha": level}
    return XGBRegressor(**objective, n_jobs=1, random_state=seed)


def histogram_boosting(level, seed):
    from sklearn.ensemble import HistGradientBoostingRegressor

    loss = {} if level is None else {"loss": "quantile", "quantile": level}
    return HistGradientBoostingRegressor(**loss, random_state=seed)


def quantile_forest(X, y, new, seed):
    from quantile_forest import RandomForestQuantileRegressor

    X, new = coded(X, new)
    forest = RandomForestQuantileRegressor(500, min_samples_leaf=5, n_jobs=1, random_state=seed).fit(X, y)
    return forest.predict(new, quantiles="mean"), np.asarray(forest.predict(new, quantiles=LEVELS.tolist())).T


def random_forest(X, y, new, seed):
    """Predict by scikit-learn's forest, with the quantiles of its out-of-bag residuals."""
    from sklearn.ensemble import RandomForestRegressor

    X, new = coded(X, new)
    forest = RandomForestRegressor(500, oob_score=True, n_jobs=1, random_state=seed).fit(X, y)
    mean = forest.predict(new)
    return mean, mean + np.quantile(y - forest.oob_prediction_, LEVELS)[:, None]


def ngboost(X, y, new, seed):
    from ngboost import NGBRegressor

    X, new = coded(X, new)
    distribution = NGBRegressor(verbose=False, random_state=seed).fit(X, y).pred_dist(new)
    return distribution.loc, normal(distribution.loc, distribution.scale)


def ridge(X, y, new, _seed):
    from sklearn.linear_model import RidgeCV
    from sklearn.preprocessing import StandardScaler

    X, new = coded(X, new)
    scale = StandardScaler().fit(X)
    model = RidgeCV(np.logspace(-4, 4, 33)).fit(scale.transform(X), y)
    mean = model.predict(scale.transform(new))
    sd = np.std(y - model.predict(scale.transform(X)), ddof=min(len(y) - 1, X.shape[1] + 1))
    return mean, normal(mean, sd)


def gaussian_process(rows=1000):
    """Return a method: a Gaussian process with a length scale for each column, on at most so many rows."""

    def run(X, y, new, seed):
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
        from sklearn.preprocessing import StandardScaler

        X, new = coded(X, new)
        some = np.random.default_rng(seed).permutation(len(y))[:rows]
        scale = StandardScaler().fit(X[some])
        kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel()
        model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=0, random_state=seed)
        model.fit(scale.transform(X[some]), y[some])
        mean, sd = model.predict(scale.transform(new), return_std=True)
        return mean, normal(mean, sd)

    return run


def bartz(draws=1000):
    """Return a method: bartz with its defaults, and so many iterations before and after the burn-in's end."""

    def run(X, y, new, seed):
        from bartz.BART import gbart

        X, new = coded(X, new)
        y = y.astype(np.float32)
        model = gbart(X, y, x_test=new, seed=seed, ndpost=draws, nskip=draws, printevery=None)
        f, sigma = np.asarray(model.yhat_test, float), np.asarray(model.sigma, float).reshape(-1)[-draws:]
        rng = np.random.default_rng(seed)
        outcomes = f + sigma[:, None] * rng.normal(size=f.shape)
        return f.mean(axis=0), np.quantile(outcomes, LEVELS, axis=0)

    return run


def stochtree(variance_trees, draws=1000):
    """Return a method: stochtree's defaults, with a variance forest of so many trees if any.

    `draws` are kept, half as many are burn-in.
    """

    def run(X, y, new, seed):
        from stochtree import BARTModel

        X, new = coded(X, new)
        model = BARTModel()
        model.sample(
            X_train=X,
            y_train=y,
            X_test=new,
            num_gfr=10,
            num_burnin=draws // 2,
            num_mcmc=draws,
            general_params={
                "num_threads": 1,
                "random_seed": seed,
                "sample_sigma2_global": not variance_trees,
            },
            variance_forest_params={"num_trees": variance_trees},
        )
        f = np.asarray(model.y_hat_test).T  # [draw, row]
        if variance_trees:
            variance = np.asarray(model.sigma2_x_test).T
        else:
            variance = np.asarray(model.global_var_samples).reshape(-1, 1)[-len(f) :]
        rng = np.random.default_rng(seed)
        outcomes = f + np.sqrt(variance) * rng.normal(size=f.shape)
        return f.mean(axis=0), np.quantile(outcomes, LEVELS, axis=0)

    return run


METHODS = {  # the package that it needs, and the method
    "ours": ("sampler", ours({})),
    "ours, noise by row": ("sampler", ours({"noise": "forest"})),
    "ours, linear part": ("sampler", ours({"linear": True})),
    "ours, before": ("sampler", ours({"transform": "none", "prior": {"k": 2.0}})),
    "stochtree": ("stochtree", stochtree(0)),
    "stochtree, variance forest": ("stochtree", stochtree(20)),
    "bartz": ("bartz", bartz()),
    "lightgbm": ("lightgbm", conformalised(lightgbm)),
    "catboost": ("catboost", conformalised(catboost)),
    "xgboost": ("xgboost", conformalised(xgboost)),
    "histogram boosting": ("sklearn", conformalised(histogram_boosting)),
    "ngboost": ("ngboost", ngboost),
    "quantile forest": ("quantile_forest", quantile_forest),
    "random forest": ("sklearn", random_forest),
    "gaussian process": ("sklearn", gaussian_process()),
    "ridge": ("sklearn", ridge),
}


def scores(table, method, seed):
    """Return the scores of a method, one of those of `METHODS`, on one split of a table."""
    X, y = load(table)
    train, held = split(len(y), seed)
    truth = y.iloc[held].to_numpy()
    start = time.process_time()
    mean, quantiles = method(X.iloc[train], y.iloc[train].to_numpy(copy=True), X.iloc[held], seed)
    seconds = time.process_time() - start
    losses = np.mean((truth - quantiles) * (LEVELS[:, None] - (truth < quantiles)), axis=1)
    ends = {q: quantiles[np.searchsorted(LEVELS, q - 1e-9)] for q in CORE}
    inside50 = (ends[0.25] <= truth) & (truth <= ends[0.75])
    inside90 = (ends[0.05] <= truth) & (truth <= ends[0.95])
    outside = np.maximum(ends[0.05] - truth, 0) + np.maximum(truth - ends[0.95], 0)
    quarter = np.argsort(np.argsort(mean)) * 4 // len(mean)
    by_quarter = [float(inside90[quarter == k].mean()) for k in range(4)]
    return {
        "pinball": float(losses[SEVEN].mean()),
        "crps": float(2 * losses.mean()),
        "rmse": float(np.sqrt(np.mean((truth - mean) ** 2))),
        "interval": float(np.mean(ends[0.95] - ends[0.05] + 2 / 0.1 * outside)),
        "cover50": float(inside50.mean()),
        "cover90": float(inside90.mean()),
        "lowest": min(by_quarter),
        "highest": max(by_quarter),
        "seconds": seconds,
    }


def installed(names):
    """Return those of the methods whose package is there, and print the others."""
    found = [name for name in names if importlib.util.find_spec(METHODS[name][0])]
    for name in names:
        if name not in found:
            print(f"{name}: left out, the package {METHODS[name][0]} is not installed")
    return found


def kept_scores(kept, path, table, name, seed):
    """Return a method's scores on a split of a table: those kept, or new ones, which are written down."""
    key = f"{table} | {name} | {seed}"
    if key not in kept:
        try:
            kept[key] = scores(table, METHODS[name][1], seed)
        except Exception as error:  # noqa: BLE001  a peer's failure is a result
            kept[key] = {"failed": f"{type(error).__name__}: {error}"[:200]}
        if path:
            path.write_text(json.dumps(kept, indent=1))
    return kept[key]


def picture(path, ratios):
    """Draw each method's mean relative loss with its interval, as SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bartserve"})  # text stays text
    figure = Figure(figsize=(6.4, 0.6 + 0.3 * len(ratios)), layout="constrained")
    axes = figure.subplots()
    for place, (low, middle, high) in enumerate(reversed(list(ratios.values()))):
        axes.plot([low, high], [place, place], color="#9fc9c8", lw=5, solid_capstyle="butt")
        axes.plot(middle, place, "o", color="#0b6b72")
    axes.axvline(1, color="#566169", lw=1, ls=":")
    axes.set_yticks(range(len(ratios)), list(reversed(ratios)))
    axes.set_xlabel("pinball loss divided by ours (95% interval over tables)")
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = command(__doc__)
    parser.add_argument("--methods", nargs="+", default=[*METHODS], choices=[*METHODS])
    parser.add_argument("--tables", nargs="+", default=[*TABLES], choices=[*TABLES])
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    methods = installed(dict.fromkeys(["ours", *args.methods]))
    kept = json.loads(args.keep.read_text()) if args.keep and args.keep.exists() else {}
    tables = {}
    for table in args.tables:
        for name in methods:
            splits = [kept_scores(kept, args.keep, table, name, seed) for seed in range(args.splits)]
            if any("failed" in results for results in splits):
                print(f"{table:12} {name:26} failed: {splits[0].get('failed')}", flush=True)
                continue
            mean = {figure: float(np.mean([results[figure] for results in splits])) for figure in splits[0]}
            tables.setdefault(table, {})[name] = mean
            base = tables[table].get("ours", mean)
            print(
                f"{table:12} {name:26} "
                f"pinball {mean['pinball']:.4g} ({mean['pinball'] / base['pinball']:.3f})"
                f"  rmse {mean['rmse']:.4g} ({mean['rmse'] / base['rmse']:.3f})  crps {mean['crps']:.4g}"
                f"  interval {mean['interval']:.4g}  coverage {mean['cover50']:.2f} {mean['cover90']:.2f}"
                f" ({mean['lowest']:.2f} to {mean['highest']:.2f})  seconds {mean['seconds']:.1f}",
                flush=True,
            )
    ratios = {}
    print("\nloss divided by ours: mean over tables (95% bootstrap interval); quartiles of relative RMSE")
    for name in methods:
        both = [results for results in tables.values() if name in results and "ours" in results]
        if not both:
            continue
        logs = np.log([results[name]["pinball"] / results["ours"]["pinball"] for results in both])
        middle, low, high = np.exp(bootstrap(logs))
        best = [results[name]["rmse"] / min(other["rmse"] for other in results.values()) for results in both]
        quartiles = " ".join(f"{value:.3f}" for value in np.quantile(best, [0.25, 0.5, 0.75]))
        ratios[name] = (low, middle, high)
        print(f"{name:26} {middle:.3f} ({low:.3f} to {high:.3f}), {len(both)} tables; {quartiles}")
    if args.picture:
        picture(args.picture, {name: ratio for name, ratio in ratios.items() if name != "ours"})
