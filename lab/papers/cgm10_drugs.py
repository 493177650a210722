"""Drug discovery, section 5.3 of Chipman, George and McCulloch (2010): figures 9 and 10, table 5.

Compounds are read from the one table of build/compounds (`lab.compounds`). Of a larger release of the
screen as many are drawn as the paper has.
"""

from __future__ import annotations

from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lab import compounds
from lab.papers.cgm10_fits import DARK, PALE, RED
from lab.papers.judges import Number, Order, Seen
from lab.papers.study import NOT_RUN, Claim, Figures, Parts, Study
from sampler import fit, tune

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]
    Predict = Callable[[Floats], Floats]

FOLDER = Path("build/compounds")
ACTIVE, INACTIVE, TRAINING = 542, 28_832, 1000  # the paper's numbers of compounds
FIRST = 20  # of figure 9
TREES = (5, 10, 20)  # of figure 10; the paper's are lost in the text
PAPER = {
    "forest": ("random forest", 0.7680),
    "boosting": ("boosting", 0.7543),
    "cv": ("BART-cv", 0.7483),
    "svm": ("support vector machine", 0.7417),
    "default": ("BART", 0.7245),
    "network": ("neural network", 0.7205),
}
PROBIT: dict[str, Any] = {"family": "probit", "moves": "cgm", "progress": False}
# as the paper's, of which every tenth draw is kept
LONG: dict[str, Any] = {"num_chains": 1, "num_burnin": 1000, "num_draws": 900, "thin": 10}
GRID = [
    {"num_trees": trees, "prior": {"k": k, "offset": 0.0}}
    for trees in (100, 200, 400, 800)
    for k in (0.25, 0.5, 1.0, 2.0, 3.0)
]
_ABSENT = "needs the table of compounds in build/compounds, which no registry has"


@cache
def compounds_of_folder() -> compounds.Compounds:
    """Draw the paper's numbers of compounds, or take all that there are of either kind, and describe them."""
    known = compounds.read(FOLDER)
    rng = np.random.default_rng(17)
    kinds = [np.flatnonzero([active == kind for _, active in known]) for kind in (True, False)]
    some = [rng.permutation(kind)[:most] for kind, most in zip(kinds, (ACTIVE, INACTIVE), strict=True)]
    return compounds.described([known[k] for k in np.sort(np.concatenate(some))])


def _parted(seed: int, inactive: int | None = None) -> tuple[Rows, Rows]:
    """Split rows at random: half of the active ones train, with half or so many of the inactive ones."""
    rng = np.random.default_rng([53, seed])
    active = compounds_of_folder().active
    train, test = [], []
    for kind, many in ((active, None), (~active, inactive)):
        order = rng.permutation(np.flatnonzero(kind))
        cut = len(order) // 2 if many is None else min(many, len(order) // 2)
        train.append(order[:cut])
        test.append(order[cut:])
    return rng.permutation(np.concatenate(train)), rng.permutation(np.concatenate(test))


# figure 9


def _first_of(seed: int) -> Figures:
    """Return the 20 largest probabilities at training and new compounds, with 90% intervals and activity."""
    data, rows = compounds_of_folder(), _parted(seed)
    lengths = {"num_chains": 4, "num_burnin": 500, "num_draws": 500}
    posterior = fit(
        data.X[rows[0]],
        data.active[rows[0]].astype(int),
        seed=seed,
        num_trees=200,
        prior={"k": 2.0, "offset": 0.0},
        **PROBIT | lengths,
    )
    found: Figures = {"compounds": len(data.active), "active": int(data.active.sum())}
    for part, some in zip(("training", "test"), rows, strict=True):
        mean = posterior.predict(data.X[some], level=None).mean
        first = np.argsort(-mean, kind="stable")[:FIRST]
        given = posterior.predict(data.X[some][first], level=0.9)
        found[part] = {
            "mean": given.mean,
            "low": given.lower,
            "high": given.upper,
            "active": data.active[some][first],
        }
    return found


def _run_9(parts: Parts, _count: int) -> Figures:
    return parts("first", partial(_first_of, 0)) if FOLDER.exists() else {}


def _true_positives(figures: Figures) -> Seen | str:
    if not figures:
        return _ABSENT
    found = [int(np.sum(figures[part]["active"])) for part in ("training", "test")]
    ours = f"{found[0]} of {FIRST}, {found[1]} of {FIRST}; {figures['active']:,} of {figures['compounds']:,}"
    return Seen(ours + " are active", found)


def _widths(figures: Figures) -> Seen | str:
    if not figures:
        return _ABSENT
    both = [
        float(np.mean(np.subtract(figures[part]["high"], figures[part]["low"])))
        for part in ("training", "test")
    ]
    return Seen(
        f"{both[0]:.2f}, {both[1]:.2f}",
        dict(zip(("training", "test"), both, strict=True)),
        unless="the compounds that are first at new rows have smaller probabilities here; another table",
    )


def _draw_9(figures: Figures, figure: Any) -> None:
    for axes, part in zip(figure.subplots(1, 2, sharey=True), ("training", "test"), strict=True):
        found = figures[part]
        places, active = np.arange(1, len(found["mean"]) + 1), np.array(found["active"])
        axes.vlines(places, found["low"], found["high"], color=PALE, lw=2)
        for kind, color, label in ((active, DARK, "active"), (~active, RED, "not")):
            axes.plot(places[kind], np.array(found["mean"])[kind], "o", ms=3, color=color, label=label)
        axes.set_title(f"{part} compounds", fontsize=8)
        axes.set_xlabel("rank")
    figure.axes[0].set_ylabel("P(active)")
    figure.axes[0].legend(frameon=False, fontsize=7)


# table 5


def _bart(X: Floats, y: Rows, seed: int, *, tuned: bool) -> Predict:
    settings = {"num_trees": 200, "prior": {"k": 2.0, "offset": 0.0}}
    if tuned:
        settings = tune(X, y, candidates=GRID, seed=seed, family="probit", moves="cgm").best
    posterior = fit(X, y, seed=seed, **PROBIT | LONG | settings)
    return lambda new: posterior.predict(new, level=None).mean


def _searched(model: Any, grid: Any, X: Floats, y: Rows, seed: int) -> Predict:
    """Choose of a grid by log loss over five folds, and return the chosen one's probabilities."""
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    chosen = GridSearchCV(model, grid, scoring="neg_log_loss", cv=folds).fit(X, y)
    return lambda new: np.asarray(chosen.predict_proba(new))[:, 1]


def _forest(X: Floats, y: Rows, seed: int) -> Predict:
    from sklearn.ensemble import RandomForestClassifier

    shares = {"max_features": [0.02, 0.1, 0.25, 0.5, 1.0]}
    return _searched(RandomForestClassifier(500, random_state=seed), shares, X, y, seed)


def _boosting(X: Floats, y: Rows, seed: int) -> Predict:
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(
        num_leaves=16,
        min_child_samples=10,
        subsample=0.5,
        subsample_freq=1,
        n_jobs=1,
        random_state=seed,
        verbose=-1,
    )
    grid = {
        "n_estimators": [50, 100, 200],
        "learning_rate": [0.01, 0.05, 0.1, 0.25],
        "max_depth": [1, 2, 3, 4],
    }
    return _searched(model, grid, X, y, seed)


def _svm(X: Floats, y: Rows, seed: int) -> Predict:
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    grid = {"svc__C": 2.0 ** np.arange(-4, 7, 2), "svc__gamma": 2.0 ** np.arange(-11, -4, 2)}
    model = make_pipeline(StandardScaler(), SVC(random_state=seed))
    return GridSearchCV(model, grid, scoring="roc_auc", cv=5).fit(X, y).decision_function


def _network(X: Floats, y: Rows, seed: int) -> Predict:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    decays = np.array([0.0001, 0.1, 0.5, 1, 2, 5, 10, 20, 50])
    model = make_pipeline(StandardScaler(), LogisticRegression())
    hidden = MLPClassifier(solver="lbfgs", max_iter=200, random_state=seed)
    grid = [
        {"logisticregression": [LogisticRegression(max_iter=500)], "logisticregression__C": 0.5 / decays},
        {
            "logisticregression": [hidden],
            "logisticregression__alpha": 2 * decays,
            "logisticregression__hidden_layer_sizes": [(1,), (2,)],
        },
    ]
    return _searched(model, grid, X, y, seed)


METHODS: dict[str, Callable[[Floats, Rows, int], Predict]] = {
    "forest": _forest,
    "boosting": _boosting,
    "cv": partial(_bart, tuned=True),
    "svm": _svm,
    "default": partial(_bart, tuned=False),
    "network": _network,
}


def area(method: str, seed: int) -> float:
    """Return the area under the curve of a method at the test compounds of a split."""
    import warnings

    from sklearn.metrics import roc_auc_score

    data = compounds_of_folder()
    train, test = _parted(seed, TRAINING - int(data.active.sum()) // 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networks that end at their iterations, names of columns
        predict = METHODS[method](data.X[train], data.active[train].astype(int), seed)
    return float(roc_auc_score(data.active[test], predict(data.X[test])))


def _run_5(parts: Parts, count: int) -> Figures:
    if not FOLDER.exists():
        return {}
    splits = product(METHODS, range(count))
    areas = {(m, s): parts(f"{m} {s}", partial(area, m, s)) for m, s in splits}
    return {method: [areas[method, seed] for seed in range(count)] for method in METHODS}


def _area_of(method: str, figures: Figures) -> Seen | str:
    if method not in figures:
        return NOT_RUN if figures else _ABSENT
    area = float(np.mean(figures[method]))
    spread = f" ({np.std(figures[method], ddof=1):.4f})" if len(figures[method]) > 1 else ""
    return Seen(f"{area:.4f}{spread}", [area])


def _competitive(figures: Figures) -> Seen | str:
    if len(figures) < len(METHODS):
        return NOT_RUN if figures else _ABSENT
    means = {method: float(np.mean(each)) for method, each in figures.items()}
    order = sorted(means, key=lambda method: -means[method])
    behind = max(means.values()) - means["default"]
    theirs = PAPER["forest"][1] - PAPER["default"][1]
    ours = f"the default is {behind:.4f} behind the first: " + ", ".join(PAPER[name][0] for name in order)
    return Seen(ours, [(behind, theirs)])


# figure 10


def _usage(trees: int) -> list[float]:
    """Return each descriptor's share of the rules, fitted to all active and as many inactive compounds."""
    data, rng = compounds_of_folder(), np.random.default_rng(10)
    active = np.flatnonzero(data.active)
    some = rng.choice(
        np.flatnonzero(~data.active), min(len(active), int((~data.active).sum())), replace=False
    )
    rows = rng.permutation(np.concatenate([active, some]))
    lengths = {"num_chains": 4, "num_burnin": 5000, "num_draws": 1000, "thin": 20}
    posterior = fit(
        data.X[rows],
        data.active[rows].astype(int),
        seed=trees,
        num_trees=trees,
        prior={"k": 2.0, "offset": 0.0},
        **PROBIT | lengths,
    )
    return list(posterior.inclusion().mean)


def _run_10(parts: Parts, _count: int) -> Figures:
    if not FOLDER.exists():
        return {}
    return {str(trees): parts(f"{trees} trees", partial(_usage, trees)) for trees in TREES}


def _same_three(figures: Figures) -> Seen | str:
    if not figures:
        return _ABSENT
    first = {trees: np.argsort(np.negative(usage))[:3] for trees, usage in figures.items()}
    ours = "; ".join(
        f"{trees}: " + ", ".join(f"{compounds.NAMES[k]} {figures[trees][k]:.3f}" for k in each)
        for trees, each in first.items()
    )
    kinds = len({frozenset(each.tolist()) for each in first.values()})
    return Seen(ours, [(kinds, 2)], unless="some 200 of the descriptors are of a few kinds, and alike")


def _concentrated(figures: Figures) -> Seen | str:
    if not figures:
        return _ABSENT
    top = [float(np.max(figures[str(trees)])) for trees in TREES]
    found = {str(trees): each for trees, each in zip(TREES, top, strict=True)}
    return Seen(", ".join(f"{trees}: {each:.3f}" for trees, each in found.items()), found)


def _draw_10(figures: Figures, figure: Any) -> None:
    axes = figure.subplots()
    order = np.argsort(-np.mean([figures[str(trees)] for trees in TREES], axis=0))[:25]
    for trees, color in zip(TREES, (DARK, RED, PALE), strict=True):
        usage = np.array(figures[str(trees)])[order]
        axes.plot(range(len(order)), usage, "o-", ms=3, lw=0.7, color=color, label=f"{trees} trees")
    names = [compounds.NAMES[k] for k in order]
    axes.set_xticks(range(len(order)), names, rotation=90, fontsize=6)
    axes.set_ylabel("share of the rules")
    axes.legend(frameon=False, fontsize=7)


FALL = Order(tuple((str(trees),) for trees in TREES))
_DATA = (
    "A stand-in: of the screen's later release, as MoleculeNet has it, as many compounds at random as the "
    f"paper has; {len(compounds.NAMES)} descriptors of RDKit."
)
STUDIES = (
    Study(
        "cgm10-fig9",
        "cgm10",
        "Figure 9: the 20 compounds most probably active",
        (
            Claim(
                "true positive rate, training and test rows",
                "16 of 20, 16 of 20; 542 of 29,374",
                _true_positives,
                Number((16, 16), (1.8, 1.8)),  # the standard error of 16 of 20
                other="another table, with other descriptors",
            ),
            Claim(
                "90% intervals are wider at test rows (mean widths, training and test rows)",
                ".47, .50",
                _widths,
                Order((("test",), ("training",))),
            ),
        ),
        f"{_DATA} Four chains of 1,000 iterations (theirs 250,000).",
        _run_9,
        unit="split",
        draw=_draw_9,
        see="Most of the first training compounds are active and half of the new ones; intervals are wide.",
        size=(6.4, 2.4),
        long=True,
    ),
    Study(
        "cgm10-table5",
        "cgm10",
        "Table 5: AUC of drug discovery",
        (
            *(
                Claim(
                    title,
                    f"{area:.4f}".lstrip("0"),
                    partial(_area_of, method),
                    Number((area,), unit=0.0001, good="more"),
                    other="another table, with other descriptors",
                )
                for method, (title, area) in PAPER.items()
            ),
            Claim(
                "BART is very competitive with all the methods (area behind the first)",
                "the default is .0435 behind",
                _competitive,
            ),
        ),
        f"{_DATA} 1,000 compounds train, half of the active ones among them. The values of the support "
        "vector machine are ours (the paper's are lost in the text), networks have no skip layer.",
        _run_5,
        count=10,
        of=20,
        unit="split",
        long=True,
    ),
    Study(
        "cgm10-fig10",
        "cgm10",
        "Figure 10: descriptors that matter",
        (
            Claim("the same three descriptors are first with every number of trees", "shown", _same_three),
            Claim("usage is most concentrated with few trees", "shown; .050 to .100", _concentrated, FALL),
        ),
        f"{_DATA} All active compounds and as many inactive ones; four chains of 25,000 iterations (theirs "
        "1,000,000). The paper's numbers of trees are lost in the text.",
        _run_10,
        draw=_draw_10,
        see="The 25 descriptors that are used most.",
        size=(6.4, 3.0),
        long=True,
    ),
)
